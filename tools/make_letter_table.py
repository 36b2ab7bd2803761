#!/usr/bin/env python3
# make_letter_table.py - writes src/text/letter_table.h from this Python's Unicode data.
#
# The table is committed: rebuild it only to move to another Unicode version, which must be the one
# named below. Usage: tools/make_letter_table.py > src/text/letter_table.h
# SPDX-License-Identifier: MIT
import sys
import unicodedata

UNICODE = "14.0.0"
FLAGS = [("PRINTABLE", str.isprintable), ("ALPHA", str.isalpha), ("DECIMAL", str.isdecimal), ("DIGIT", str.isdigit),
         ("NUMERIC", str.isnumeric), ("LOWER", str.islower), ("UPPER", str.isupper), ("TITLE", None),
         ("CASED", None), ("IGNORABLE", None)]


def cased(c):
    # A letter behind a cased one is not the start of a word.
    return (c + "a").title()[-1] == "a"


def ignorable(c):
    # Looked through when the letter before a sigma is searched.
    return ("a" + c + "Σ").lower()[-1] == "ς" and (c + "Σ").lower()[-1] == "σ"


def flags_of(c):
    tests = {"TITLE": lambda c: unicodedata.category(c) == "Lt", "CASED": cased, "IGNORABLE": ignorable}
    return sum(1 << i for i, (name, test) in enumerate(FLAGS) if (test or tests[name])(c))


def main():
    if unicodedata.unidata_version != UNICODE:
        sys.exit(f"this Python has Unicode {unicodedata.unidata_version}, the table is pinned to {UNICODE}")
    points = [c for c in range(0x110000) if not 0xd800 <= c < 0xe000]
    print("/* letter_table.h - Unicode " + UNICODE + " letter case and classes. Written by tools/make_letter_table.py.")
    print(" * SPDX-License-Identifier: MIT\n */")
    print("/* clang-format off */")
    print("enum {")
    for i, (name, _) in enumerate(FLAGS):
        print(f"    LETTER_{name} = 1 << {i},")
    print("};\n")
    runs, before = [], None
    for c in points:
        f = flags_of(chr(c))
        if f != before:
            runs.append((c, f))
            before = f
    print("/* Classes from this code point on, up to the next row. */")
    print("static const struct { uint32_t from; uint16_t flags; } letter_classes[] = {")
    for at in range(0, len(runs), 6):
        print("    " + " ".join(f"{{0x{c:x}, {f}}}," for c, f in runs[at:at + 6]))
    print("};\n")
    simple, special = [], []
    for c in points:
        up, low, title = chr(c).upper(), chr(c).lower(), chr(c).title()
        if (up, low, title) == (chr(c),) * 3:
            continue
        if len(up) == len(low) == len(title) == 1:
            simple.append((c, ord(up) - c, ord(low) - c, ord(title) - c))
        else:
            special.append((c, up, low, title))
    print("/* Code point, and what to add to it for upper, lower and title case. */")
    print("static const struct { uint32_t point; int32_t upper, lower, title; } letter_cases[] = {")
    for at in range(0, len(simple), 4):
        print("    " + " ".join("{0x%x, %d, %d, %d}," % row for row in simple[at:at + 4]))
    print("};\n")
    print("/* Code points that become several: upper, lower, title case, 0-terminated. */")
    print("static const struct { uint32_t point; uint32_t upper[4], lower[4], title[4]; } letter_specials[] = {")
    for c, *forms in special:
        print(f"    {{0x{c:x}, " + ", ".join("{" + ", ".join(hex(ord(x)) for x in form) + "}" for form in forms) + "},")
    print("};\n/* clang-format on */")


main()

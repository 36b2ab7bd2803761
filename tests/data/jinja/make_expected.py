#!/usr/bin/env python3
# make_expected.py - writes the expected outputs of expressions.json with Jinja2, as Hugging Face sets it up.
# SPDX-License-Identifier: MIT
#
# Needs jinja2==3.1.2 on Python 3.11. Usage: make_expected.py [--check]. Cases are added by hand with their source only.
import copy
import datetime
import json
import os
import sys

import jinja2
import jinja2.sandbox
from jinja2 import nodes
from jinja2.ext import Extension

PATH = os.path.join(os.path.dirname(os.path.abspath(__file__)), "expressions.json")


class Generation(Extension):
    tags = {"generation"}

    def parse(self, parser):
        line = next(parser.stream).lineno
        body = parser.parse_statements(["name:endgeneration"], drop_needle=True)
        return nodes.CallBlock(self.call_method("_body"), [], [], body).set_lineno(line)

    def _body(self, caller):
        return caller()


def tojson(x, ensure_ascii=False, indent=None, separators=None, sort_keys=False):
    return json.dumps(x, ensure_ascii=ensure_ascii, indent=indent, separators=separators, sort_keys=sort_keys)


def raise_exception(message):
    raise jinja2.exceptions.TemplateError(message)


def main():
    environment = jinja2.sandbox.ImmutableSandboxedEnvironment(
        trim_blocks=True, lstrip_blocks=True, extensions=["jinja2.ext.loopcontrols", "jinja2.ext.do", Generation])
    environment.filters["tojson"] = tojson
    environment.globals["raise_exception"] = raise_exception
    environment.globals["strftime_now"] = lambda f: datetime.datetime(2025, 7, 10, 12, 0).strftime(f)
    with open(PATH, encoding="utf-8") as file:
        data = json.load(file)
    before = json.dumps(data)
    for case in data["cases"]:
        source = case["source"]
        case.clear()
        case["source"] = source
        try:
            case["output"] = environment.from_string(source).render(**copy.deepcopy(data["context"]))
        except Exception as error:
            case["error"] = f"{type(error).__name__}: {error}"
    if sys.argv[1:] == ["--check"]:
        sys.exit(json.dumps(data) != before)
    lines = ",\n".join("  " + json.dumps(case) for case in data["cases"])
    with open(PATH, "w", encoding="utf-8") as file:
        file.write('{\n "context": ' + json.dumps(data["context"]) + ',\n "cases": [\n' + lines + "\n ]\n}\n")


main()

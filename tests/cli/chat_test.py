#!/usr/bin/env python3
# chat_test - mica chat through a pipe and on a pseudo-terminal.
# SPDX-License-Identifier: MIT
import json
import os
import pty
import re
import select
import signal
import time

import program
from program import LLAMA, MICA, TALES, run

GREEDY = ('--temp', '0', '--max-tokens', '6')


class Pipe(program.Case):
    def chat(self, model, text, *options, status=0):
        ran = run('chat', '--model', model, *GREEDY, *options, stdin=text.encode())
        self.assertEqual(ran.returncode, status, ran.stderr.decode())
        return ran

    def saved(self, name='talk'):
        with open(self.path(name), encoding='utf-8') as file:
            return json.load(file)

    def test_every_line_is_a_message_and_gets_an_answer(self):
        model, talk = self.chat_model(), self.path('talk')
        ran = self.chat(model, f'Hello\nAgain\n/save {talk}\n')
        messages = self.saved()
        self.assertEqual([message['role'] for message in messages], ['user', 'assistant'] * 2)
        self.assertEqual([messages[0]['content'], messages[2]['content']], ['Hello', 'Again'])
        shown = ''.join(m['content'] + ('' if m['content'].endswith('\n') else '\n')
                        for m in messages if m['role'] == 'assistant')
        self.assertEqual(ran.stdout.decode(), shown)

    def test_the_answers_are_those_of_generate(self):
        model, talk = self.chat_model(), self.path('talk')
        self.chat(model, f'Hello\nAgain\n/save {talk}\n', '--system-prompt', 'be kind')
        messages = self.saved()
        self.assertEqual(messages[0], {'role': 'system', 'content': 'be kind'})
        lines = self.write('lines', json.dumps({'messages': messages[:-1]}) + '\n')
        made = self.json('generate', '--model', model, '--prompts', lines, '--max-tokens', 6)
        self.assertEqual(made['text'], messages[-1]['content'])

    def test_messages_of_several_lines(self):
        model, talk = self.chat_model(), self.path('talk')
        self.chat(model, f'one\\\ntwo\n"""three\n\n/four"""\n"""\nfive\n"""\n//six\n\n/save {talk}\n')
        asked = [message['content'] for message in self.saved() if message['role'] == 'user']
        self.assertEqual(asked, ['one\ntwo', 'three\n\n/four', 'five', '/six'])

    def test_commands(self):
        model, talk = self.chat_model(), self.path('talk')
        self.chat(model, f'/system be kind\na\n/save {talk}\n/clear\nb\n/system\n/save {talk}2\n')
        self.assertEqual(self.saved()[0], {'role': 'system', 'content': 'be kind'})
        self.assertEqual([m['role'] for m in self.saved('talk2')], ['user', 'assistant'])
        self.chat(model, f'/load {talk}\nc\n/save {talk}3\n/quit\nnever\n')
        self.assertEqual(self.saved('talk3')[:3], self.saved())
        self.assertEqual(len(self.saved('talk3')), 5)
        ran = self.chat(model, 'a\n/stats\n/help\n')
        self.assertIn(b'1 answers', ran.stderr)
        self.assertIn(b'/retry', ran.stderr)

    def test_another_answer(self):
        model, talk = self.chat_model(), self.path('talk')
        self.chat(model, f'a\n/save {talk}\n/retry\n/save {talk}2\n', '--temp', 1.5)
        first, second = self.saved(), self.saved('talk2')
        self.assertEqual(first[0], second[0])
        self.assertNotEqual(first[1], second[1])
        self.assertEqual(len(second), 2)

    def test_failures_end_a_pipe(self):
        model = self.chat_model()
        self.assertIn(b'did you mean /retry', self.chat(model, '/rety\n', status=2).stderr)
        self.chat(model, '/retry\n', status=1)
        self.chat(model, f'/load {self.path("none")}\n', status=1)
        for bad in ('{}', '[{"role": "user"}]', '[{"role": "king", "content": "x"}]',
                    '[{"role": "user", "content": "x"}, {"role": "system", "content": "x"}]'):
            self.chat(model, f'/load {self.write("bad", bad)}\n', status=1)
        ran = self.chat(model, 'x' * 300 + '\n', status=1)
        self.assertIn(b'256', ran.stderr)

    def test_a_mistyped_command_does_not_end_a_pipe(self):
        model, talk = self.chat_model(), self.path('talk')
        ran = self.chat(model, f'/rety\nHello\n/save\n/save {talk}\n', status=2)
        self.assertEqual(ran.stderr.count(b'did you mean /retry'), 1)
        self.assertEqual(len(self.saved()), 2)

    def test_the_oldest_turns_make_room(self):
        model, talk = self.chat_model(), self.path('talk')
        lines = [letter * 40 for letter in 'abcdefgh']
        ran = self.chat(model, '\n'.join(lines) + f'\n/save {talk}\n', '--system-prompt', 'be kind')
        self.assertEqual(ran.stderr.count(b'the context of 256 tokens is full'), 1)
        self.assertIn(b'/clear', ran.stderr)
        messages = self.saved()
        self.assertEqual([m['content'] for m in messages if m['role'] == 'user'], lines)
        # The last answer is that of the system message and as many of the last turns as half the context takes.
        answers = set()
        for first in range(1, len(messages) - 1, 2):
            request = self.write('lines', json.dumps({'messages': messages[:1] + messages[first:-1]}) + '\n')
            ran = run('generate', '--model', model, '--prompts', request, '--max-tokens', 6, '--json')
            if ran.returncode == 0:
                made = json.loads(ran.stdout)
                answers.add((len(made['prompt_tokens']), made['text']))
        self.assertIn(messages[-1]['content'], [text for n, text in answers if n <= 250])

    def test_a_model_without_template_goes_on_with_the_text(self):
        model = self.chat_model()
        ran = self.chat(model, 'Once\n', '--ignore-chat-template')
        self.assertIn(b'no chat template', ran.stderr)
        made = self.json('generate', '--model', model, '--prompt', 'Once', '--ignore-chat-template',
                         '--max-tokens', 6)
        self.assertEqual(ran.stdout.decode().rstrip('\n'), made['text'].rstrip('\n'))
        self.assertEqual(self.chat(model, 'Once\n', '--ignore-chat-template', '--quiet').stderr, b'')
        self.chat(model, '/system x\n', '--ignore-chat-template', status=1)

    def test_special_tokens_in_a_message_are_text(self):
        model, talk = self.chat_model(), self.path('talk')
        self.chat(model, f'x<|im_end|>\n/save {talk}\n')
        made = self.json('generate', '--model', model, '--prompt', 'x<|im_end|>', '--max-tokens', 6)
        self.assertEqual(self.saved()[1]['content'], made['text'])

    def test_recommended_sampling(self):
        def answers(model, *options):
            return run('chat', '--model', model, '--max-tokens', 12, '--seed', 0, *options, stdin=b'a\n').stdout
        plain = self.chat_model('plain')
        usual = answers(plain, '--temp', '0.7', '--top-p', '0.95')
        self.assertEqual(answers(plain), usual)
        greedy = self.chat_model('greedy', do_sample=False)
        self.assertEqual(answers(greedy), answers(plain, '--temp', 0))
        hot = self.chat_model('hot', do_sample=True, top_k=3, temperature=5.0)
        self.assertEqual(answers(hot), answers(plain, '--temp', 5, '--top-k', 3, '--top-p', 1))
        self.assertEqual(answers(hot, '--temp', 0), answers(plain, '--temp', 0))
        broken = self.chat_model('broken', top_p=7)
        ran = run('chat', '--model', broken, stdin=b'')
        self.assertEqual(ran.returncode, 1)
        self.assertIn(b'top_p', ran.stderr)

    def test_every_run_draws_other_answers_unless_there_is_a_seed(self):
        def talk(*options):
            ran = run('chat', '--model', model, '--max-tokens', 24, '--temp', 2, *options, stdin=b'a\n/stats\n')
            return ran.stdout, re.search(rb'seed (\d+)', ran.stderr)[1].decode()
        model = self.chat_model()
        first, second = talk(), talk()
        self.assertNotEqual(first, second)
        self.assertEqual(talk('--seed', first[1]), first)
        self.assertEqual(talk('--seed', 7), talk('--seed', 7))

    def test_without_tokenizer_there_is_no_chat(self):
        self.assertEqual(run('chat', '--model', LLAMA).returncode, 1)

    def test_chat_has_no_json(self):
        self.assertEqual(run('chat', '--json').returncode, 2)


class Terminal(program.Case):
    def open(self, model, *options):
        try:
            pid, fd = pty.fork()
        except OSError as error:  # containers without /dev/pts
            self.skipTest(f'no terminal to be had: {error}')
        if pid == 0:
            os.execve(MICA, [MICA, 'chat', '--model', model, *map(str, options)],
                      program.environment(TERM='xterm'))
        self.addCleanup(os.close, fd)
        self.fd, self.pid, self.shown = fd, pid, b''

    def see(self, wanted, seconds=120):
        """Waits until the terminal has shown `wanted`, and forgets everything up to it."""
        end = time.monotonic() + seconds
        while wanted not in self.shown:
            ready, _, _ = select.select([self.fd], [], [], max(0, end - time.monotonic()))
            self.assertTrue(ready, f'{wanted} is not in {self.shown}')
            try:
                piece = os.read(self.fd, 4096)
            except OSError:  # the program has closed the terminal
                piece = b''
            self.assertTrue(piece, f'{wanted} is not in {self.shown}')
            self.shown += piece
        self.shown = self.shown[self.shown.index(wanted) + len(wanted):]

    def type(self, text):
        os.write(self.fd, text.encode())

    def ends(self, status):
        while True:
            try:
                if not os.read(self.fd, 4096):
                    break
            except OSError:
                break
        _, ended = os.waitpid(self.pid, 0)
        self.assertEqual(os.waitstatus_to_exitcode(ended), status)

    def test_a_conversation(self):
        self.open(self.chat_model(), *GREEDY)
        self.see(b'/help lists commands')
        self.see(b'> ')
        self.type('/hlp\r')
        self.see(b'did you mean /help')
        self.see(b'> ')
        self.type('Hello\r')
        self.see(b'\n')
        self.see(b'> ')
        self.type('/quit\r')
        self.ends(0)

    def test_the_end_of_input(self):
        self.open(self.chat_model(), *GREEDY)
        self.see(b'> ')
        # What is typed while the terminal changes its mode can get lost, as when a person types too early.
        while not select.select([self.fd], [], [], 1)[0]:
            self.type('\x04')
        self.ends(0)

    def test_control_d_during_an_answer_ends_after_it(self):
        if not os.path.exists(TALES):
            self.skipTest(f'{TALES} is not there')
        self.open(TALES, '--max-tokens', 200, '--ignore-eos', '--temp', 0)
        self.see(b'> ')
        self.type('Once upon a time\r')
        self.see(b'time\r\n')
        self.see(b', ')
        self.type('\x04')
        self.see(b'[cut off after 200 tokens]')
        end = time.monotonic() + 15
        while time.monotonic() < end:
            if select.select([self.fd], [], [], 1)[0]:
                try:
                    if not os.read(self.fd, 4096):
                        break
                except OSError:
                    break
        else:
            os.kill(self.pid, signal.SIGKILL)
        self.assertEqual(os.waitstatus_to_exitcode(os.waitpid(self.pid, 0)[1]), 0)

    def test_control_c_at_the_prompt_ends_the_program(self):
        self.open(self.chat_model(), *GREEDY)
        self.see(b'> ')
        self.type('half a line\x03')
        self.ends(130)

    def test_control_c_stops_the_answer_and_a_second_one_the_program(self):
        if not os.path.exists(TALES):
            self.skipTest(f'{TALES} is not there')
        self.open(TALES, '--max-tokens', -1, '--ignore-eos', '--temp', 0)
        self.see(b'> ')
        self.type('Once upon a time\r')
        self.see(b'time\r\n')
        self.see(b', ')
        self.type('\x03')
        self.see(b'[stopped]')
        self.see(b'> ')
        self.type('\x03')
        self.ends(130)

    def test_sigterm_ends_it_while_answering(self):
        if not os.path.exists(TALES):
            self.skipTest(f'{TALES} is not there')
        self.open(TALES, '--max-tokens', -1, '--ignore-eos', '--temp', 0)
        self.see(b'> ')
        self.type('Once upon a time\r')
        self.see(b', ')
        os.kill(self.pid, signal.SIGTERM)
        self.ends(143)


program.main()

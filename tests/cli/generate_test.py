#!/usr/bin/env python3
# generate_test - mica generate and mica bench on tiny models: results, streams, batches, limits, interrupts.
# SPDX-License-Identifier: MIT
import json
import os
import re
import resource
import signal
import subprocess
import time

import program
from program import LLAMA, MICA, SHARED, TALES, run

REFERENCE = ('--activations', 'f32', '--kv', 'f32')


def golden(model):
    folder = os.path.join(SHARED, 'golden', 'models', model)
    with open(os.path.join(folder, 'golden.json'), encoding='utf-8') as file:
        return folder, json.load(file)['greedy']


class Results(program.Case):
    def test_greedy_continuations_are_those_of_the_reference(self):
        for model in ('llama-llama3rope-tied', 'qwen3', 'gemma3_text', 'mistral-sliding'):
            folder, greedy = golden(model)
            ids = self.write('ids', greedy['prompt'])
            made = self.json('generate', '--model', folder, '--tokens', ids, '--max-tokens', 16, '--ignore-eos',
                             *REFERENCE)
            self.assertEqual(made['tokens'], greedy['tokens'], model)
            self.assertEqual(made['prompt_tokens'], greedy['prompt'])
            self.assertEqual(made['finish_reason'], 'length')

    def test_the_fields_of_the_object(self):
        ids = self.write('ids', [5, 6, 7])
        made = self.json('generate', '--model', LLAMA, '--tokens', ids, '--max-tokens', 3, '--logprobs', 2)
        self.assertEqual(list(made), ['model', 'seed', 'prompt_tokens', 'tokens', 'text', 'finish_reason', 'logprobs',
                                      'timing', 'memory'])
        self.assertEqual(list(made['timing']), ['load_s', 'ttft_s', 'prefill_tok_s', 'decode_tok_s'])
        self.assertEqual(list(made['memory']), ['weights', 'kv', 'program_peak', 'process_peak'])
        self.assertEqual(made['memory']['weights'], 2 * 127424)
        self.assertGreater(made['memory']['process_peak'], made['memory']['weights'])
        self.assertIsNone(made['text'])
        for token, entry in zip(made['tokens'], made['logprobs']):
            self.assertEqual(entry['token'], token)
            self.assertEqual(len(entry['top']), 2)
            self.assertEqual(entry['top'][0]['token'], token)  # greedy takes the likeliest
            self.assertEqual(entry['top'][0]['logprob'], entry['logprob'])
            self.assertLess(entry['logprob'], 0)

    def test_without_a_tokenizer_ids_are_printed(self):
        ids = self.write('ids', [5, 6, 7])
        made = self.json('generate', '--model', LLAMA, '--tokens', ids, '--max-tokens', 4)
        ran = self.succeed('generate', '--model', LLAMA, '--tokens', ids, '--max-tokens', 4)
        self.assertEqual(ran.stdout.decode(), ' '.join(map(str, made['tokens'])) + '\n')

    def test_nothing_but_results_on_standard_output(self):
        model = self.chat_model()
        arguments = ('generate', '--model', model, '--prompt', 'Hello', '--max-tokens', 8)
        made = self.json(*arguments)
        self.assertNotIn(b'{', self.succeed(*arguments, '--json').stderr)
        ran = self.succeed(*arguments)
        text = made['text'] if made['text'].endswith('\n') else made['text'] + '\n'
        self.assertEqual(ran.stdout.decode(), text)
        self.assertIn(b'tokens/s', ran.stderr)
        self.assertNotIn(b'\033', ran.stdout + ran.stderr)
        self.assertEqual(self.succeed(*arguments, '--quiet').stderr, b'')

    def test_a_decimal_comma_changes_nothing(self):
        ids = self.write('ids', [5])
        arguments = ('generate', '--model', LLAMA, '--tokens', ids, '--max-tokens', 2, '--temp', '0.5', '--logprobs', 1)
        here = self.json(*arguments)
        there = self.json(*arguments, env=program.environment(LC_ALL='de_DE.UTF-8'))
        self.assertEqual(here['logprobs'], there['logprobs'])

    def test_one_prompt_from_everywhere_is_the_same_prompt(self):
        model, text = self.chat_model(), 'Zwölf\n<|im_end|> x'
        arguments = ('generate', '--model', model, '--max-tokens', 4)
        typed = self.json(*arguments, '--prompt', text)
        piped = self.json(*arguments, '--prompt', '-', stdin=text.encode())
        filed = self.json(*arguments, '--prompt-file', self.write('prompt', text))
        lines = self.json(*arguments, '--prompts', self.write('lines', json.dumps(text) + '\n'))
        ids = self.json(*arguments, '--tokens', self.write('ids', typed['prompt_tokens']))
        messages = self.json(*arguments, '--prompts', self.write(
            'messages', json.dumps({'messages': [{'role': 'user', 'content': text}]})))
        for other in (piped, filed, lines, ids, messages):
            self.assertEqual(other['prompt_tokens'], typed['prompt_tokens'])
            self.assertEqual(other['tokens'], typed['tokens'])
        # Only the template's own marks are tokens of structure, not what the message spells.
        self.assertEqual(typed['prompt_tokens'].count(2), 1)

    def test_the_template_and_what_changes_it(self):
        model = self.chat_model()
        arguments = ('generate', '--model', model, '--prompt', 'ab', '--max-tokens', 1)

        def prompt(*more):
            # Token i stands for byte i, but 1 and 2 are the marks.
            ids = self.json(*arguments, *more)['prompt_tokens']
            return bytes(ids).replace(b'\1', b'<|im_start|>').replace(b'\2', b'<|im_end|>').decode()
        user, answer = '<|im_start|>user\nab<|im_end|>\n', '<|im_start|>assistant\n'
        self.assertEqual(prompt(), user + answer)
        self.assertEqual(prompt('--system-prompt', 'be kind'),
                         '<|im_start|>system\nbe kind<|im_end|>\n' + user + answer)
        self.assertEqual(prompt('--prefill-response', 'Sure'), user + answer + 'Sure')
        self.assertEqual(prompt('--ignore-chat-template'), 'ab')
        other = self.write('other.jinja', '{{ messages[0].content }}{{ tail }}')
        self.assertEqual(prompt('--chat-template', other, '--chat-template-config', '{"tail": "!"}'), 'ab!')

    def test_options_that_would_have_no_effect_are_refused(self):
        model = self.chat_model()
        arguments = ('generate', '--model', model, '--prompt', 'x')
        self.fail_json('usage', *arguments, '--ignore-chat-template', '--system-prompt', 'y', status=2)
        self.fail_json('argument', *arguments, '--ignore-chat-template', '--prefill-response', 'y')
        self.fail_json('argument', *arguments, '--chat-template-config', '[]')
        self.fail_json('format', *arguments, '--chat-template-config', '{')
        self.fail_json('argument', 'generate', '--model', LLAMA, '--tokens', self.write('ids', [1]), '--stop', 'x')

    def test_thinking_is_apart_and_can_be_switched_off(self):
        model = self.chat_model(template=program.THINKING_TEMPLATE)
        arguments = ('generate', '--model', model, '--prompt', 'x', '--max-tokens', 12)
        made = self.json(*arguments)
        self.assertTrue(made['reasoning'])
        self.assertEqual(made['text'], '')
        shown = self.succeed(*arguments).stdout.decode()
        self.assertTrue(shown.startswith('<think>'), shown)
        made = self.json(*arguments, '--chat-template-config', '{"enable_thinking": false}')
        self.assertNotIn('reasoning', made)
        self.assertTrue(made['text'])

    def test_ends(self):
        model = self.chat_model()
        arguments = ('generate', '--model', model, '--prompt', 'Hello', '--max-tokens', 12)
        made = self.json(*arguments)
        tokens = made['tokens']
        stopped = self.json(*arguments, '--extra-eos-token', tokens[3])
        self.assertEqual(stopped['finish_reason'], 'stop')
        self.assertEqual(stopped['tokens'], tokens[:tokens.index(tokens[3])])
        ignored = self.json(*arguments, '--extra-eos-token', tokens[3], '--ignore-eos')
        self.assertEqual(ignored['tokens'], tokens)
        self.fail_json('not_found', *arguments, '--extra-eos-token', 'no token')
        self.fail_json('usage', *arguments, '--extra-eos-token', 256, status=2)
        text = made['text']
        cut = text[4:6]
        stopped = self.json(*arguments, '--stop', cut, '--stop', 'never seen')
        self.assertEqual(stopped['finish_reason'], 'stop_string')
        self.assertEqual(stopped['text'], text[:text.index(cut)])
        none = self.json(*arguments, '--max-tokens', 0)
        self.assertEqual((none['tokens'], none['finish_reason']), ([], 'length'))

    def test_sampling_follows_the_seed(self):
        model = self.chat_model()
        arguments = ('generate', '--model', model, '--prompt', 'x', '--max-tokens', 16, '--temp', 2)
        first = self.json(*arguments, '--seed', 1)['tokens']
        self.assertEqual(self.json(*arguments, '--seed', 1, '--threads', 1)['tokens'], first)
        self.assertNotEqual(self.json(*arguments, '--seed', 2)['tokens'], first)
        self.assertEqual(self.json(*arguments, '--top-k', 1)['tokens'],
                         self.json(*arguments, '--temp', 0)['tokens'])
        forced = self.json(*arguments, '--logit-bias', '65=1000')
        self.assertEqual(forced['text'], 'A' * 16)
        self.fail_json('usage', *arguments, '--logit-bias', 'A=1', status=2)
        dry = self.json(*arguments, '--logit-bias', '65=30', '--dry-multiplier', 100, '--temp', 0)
        self.assertNotEqual(dry['text'], 'A' * 16)
        broken = self.json(*arguments, '--logit-bias', '65=30', '--dry-multiplier', 100, '--temp', 0,
                           '--dry-breaker', 'A')
        self.assertEqual(broken['text'], 'A' * 16)

    def test_shares_of_0_and_1_keep_all_and_say_so(self):
        model = self.chat_model()
        arguments = ('generate', '--model', model, '--prompt', 'x', '--max-tokens', 8, '--temp', 1, '--seed', 3)
        shown = run('generate', '--help').stdout.decode()
        for option in ('--top-p', '--typical-p'):
            self.assertEqual(self.json(*arguments, option, 0)['tokens'], self.json(*arguments, option, 1)['tokens'])
            self.assertIn('0 and 1 keep all', ' '.join(shown[shown.index(option + ' '):].split()[:40]))
        error = self.fail_json('usage', *arguments, '--repetition-penalty', 0, status=2)
        self.assertIn('from 0.01 to 100', error['message'])

    def test_seeds(self):
        model = self.chat_model()
        arguments = ('generate', '--model', model, '--prompt', 'x', '--max-tokens', 16, '--temp', 2)
        self.assertEqual(self.json(*arguments)['seed'], 0)
        self.assertEqual(self.json(*arguments)['tokens'], self.json(*arguments, '--seed', 0)['tokens'])
        self.assertEqual(self.json(*arguments, '--seed', 2**64 - 1)['seed'], 2**64 - 1)
        for bad in (2**64, -2, '', '1x', '+1'):
            self.fail_json('usage', *arguments, f'--seed={bad}', status=2)
        drawn = [self.json(*arguments, '--seed', word) for word in ('random', -1)]
        self.assertNotEqual(drawn[0]['seed'], drawn[1]['seed'])
        for made in drawn:
            self.assertEqual(self.json(*arguments, '--seed', made['seed'])['tokens'], made['tokens'])
        notes = self.succeed(*arguments, '--seed', 'random').stderr.decode()
        self.assertRegex(notes, r'\[seed \d+\]')

    def test_values_that_only_the_model_can_refuse_are_bad_usage(self):
        model = self.chat_model()
        arguments = ('generate', '--model', model, '--prompt', 'x', '--max-tokens', 1)
        for option, value in (('--context', 1000000), ('--logit-bias', '999999=3'), ('--stop', ''),
                              ('--extra-eos-token', 256)):
            error = self.fail_json('usage', *arguments, option, value, status=2)
            self.assertIn(option, error['message'])
        self.assertIn('1 to 1024', self.fail_json('usage', *arguments, '-t', 4096, status=2)['message'])


class Batches(program.Case):
    def test_a_batch_gives_what_its_prompts_give_alone(self):
        prompts = [[(7 * i + k) % 250 + 3 for k in range(1 + 5 * i % 40)] for i in range(40)]
        for more in ((), ('--temp', '1.5', '--seed', '9'), ('--kv', 'q8')):
            options = ('--model', LLAMA, '--max-tokens', 8, *more)
            batch = self.json('generate', *options, '--tokens', self.write('all', prompts))
            self.assertEqual(len(batch['results']), len(prompts))
            for i in (0, 1, 17, 39):
                alone = self.json('generate', *options, '--tokens', self.write('one', prompts[i]))
                for field in ('prompt_tokens', 'tokens', 'finish_reason'):
                    self.assertEqual(batch['results'][i][field], alone[field], (i, more))

    def test_texts_are_shown_in_order_under_their_numbers(self):
        model = self.chat_model()
        lines = ''.join(json.dumps(line) + '\n' for line in ('a', {'prompt': 'b'}, 'c' * 50))
        options = ('generate', '--model', model, '--max-tokens', 5, '--prompts', self.write('lines', lines + '\n'))
        results = self.json(*options)['results']
        expected = ''
        for i, result in enumerate(results):
            expected += f'==> {i + 1} <==\n' + result['text'] + ('' if result['text'].endswith('\n') else '\n')
        self.assertEqual(self.succeed(*options).stdout.decode(), expected)

    def test_bad_lines_are_named(self):
        model = self.chat_model()
        for line in ('{', '3', '{"prompt": 3}', '{"prompt": "x", "messages": []}', '{"messages": "x"}'):
            path = self.write('lines', '"fine"\n' + line + '\n')
            error = self.fail_json('format', 'generate', '--model', model, '--prompts', path)
            self.assertEqual(error['where'], f'{path}:2')

    def test_bad_token_files(self):
        for content in ('{}', '[]', '[[]]', '[1, "a"]', '[1, -1]', '[[1], 2]', '[1, 3000000000]', '[1.0]'):
            self.fail_json('format', 'generate', '--model', LLAMA, '--tokens', self.write('ids', content))
        error = self.fail_json('argument', 'generate', '--model', LLAMA, '--tokens', self.write('ids', [256]))
        self.assertIn('256', error['message'])
        error = self.fail_json('argument', 'generate', '--model', LLAMA, '--tokens', self.write('ids', [3] * 256))
        self.assertIn('256', error['message'])


class PromptCache(program.Case):
    """--prompt-cache-file."""

    def setUp(self):
        super().setUp()
        self.cache = self.path('prompt.cache')

    def keep(self, *arguments):
        return self.json('generate', *arguments, '--prompt-cache-file', self.cache)

    def content(self):
        with open(self.cache, 'rb') as file:
            return file.read()

    def test_a_kept_prompt_gives_the_same_answer(self):
        prompt = [(7 * i * i + i) % 250 + 3 for i in range(100)]
        ids = self.write('ids', prompt)
        for model in ('llama-llama3rope-tied', 'gemma3_text', 'mistral-sliding', 'mlx-llama-q4'):
            for kv in ('f32', 'bf16', 'f16', 'q8', 'q4'):
                self.cache = self.path(f'{model}-{kv}.cache')
                options = ('--model', os.path.join(SHARED, 'golden', 'models', model), '--tokens', ids,
                           '--max-tokens', 12, '--ignore-eos', '--kv', kv, '--logprobs', 0)
                plain = self.json('generate', *options)
                first = self.keep(*options)
                content = self.content()
                second = self.keep(*options)
                for made in (first, second):
                    self.assertEqual((made['tokens'], made['logprobs']), (plain['tokens'], plain['logprobs']), self.cache)
                self.assertEqual(first['prompt_cache'], {'file': self.cache, 'cached_tokens': 0, 'saved_tokens': 96})
                self.assertEqual(second['prompt_cache'], {'file': self.cache, 'cached_tokens': 96, 'saved_tokens': 0})
                self.assertEqual(self.content(), content)

    def test_the_built_in_model(self):
        story = 'Once upon a time a fox and a hare lived on a hill above the sea. ' * 3
        arguments = ('generate', '--prompt', story, '--max-tokens', 20)
        plain = self.succeed(*arguments).stdout
        for note in (b': 0 of ', b'; the file is as it was]'):
            ran = self.succeed(*arguments, '--prompt-cache-file', self.cache)
            self.assertEqual(ran.stdout, plain)
            self.assertIn(note, ran.stderr)
        self.assertEqual(self.succeed(*arguments, '--prompt-cache-file', self.cache, '--quiet').stderr, b'')

    def test_the_file_grows_with_the_prompt_and_changes_with_it(self):
        ids = [i % 200 + 4 for i in range(150)]

        def cached_and_saved(ids, *more):
            made = self.keep('--model', LLAMA, '--tokens', self.write('ids', ids), '--max-tokens', 1, *more)
            return made['prompt_cache']['cached_tokens'], made['prompt_cache']['saved_tokens']
        self.assertEqual(cached_and_saved(ids[:10]), (0, 0))
        self.assertFalse(os.path.exists(self.cache))
        self.assertEqual(cached_and_saved(ids[:64]), (0, 64))
        self.assertEqual(cached_and_saved(ids[:64]), (48, 0))  # the last token's logits are needed
        self.assertEqual(cached_and_saved(ids[:79]), (64, 0))
        self.assertEqual(cached_and_saved(ids), (64, 144))
        self.assertEqual(cached_and_saved(ids[:40]), (32, 0))  # it holds all of this one
        self.assertEqual(cached_and_saved(ids[:100] + [3] * 50, '--prompt-cache-ro'), (96, 0))
        self.assertEqual(cached_and_saved(ids[:100] + [3] * 50), (96, 144))
        self.assertEqual(cached_and_saved([9] + ids[:40]), (0, 32))
        self.assertEqual(cached_and_saved(ids[:40]), (0, 32))

    def test_a_prompt_is_kept_without_an_answer(self):
        ids = self.write('ids', list(range(4, 54)))
        made = self.keep('--model', LLAMA, '--tokens', ids, '--max-tokens', 0)
        self.assertEqual((made['tokens'], made['prompt_cache']['saved_tokens']), ([], 48))
        made = self.keep('--model', LLAMA, '--tokens', ids, '--max-tokens', 3)
        self.assertEqual((len(made['tokens']), made['prompt_cache']['cached_tokens']), (3, 48))

    def test_a_chat_prompt_shares_its_beginning(self):
        options = ('--model', self.chat_model(), '--system-prompt', 'Answer in one word. ' * 5, '--max-tokens', 2)
        self.keep(*options, '--prompt', 'The first question?')
        made = self.keep(*options, '--prompt', 'Another one?')
        self.assertGreaterEqual(made['prompt_cache']['cached_tokens'], 112)

    def test_what_does_not_fit_this_run_is_refused_and_left_alone(self):
        ids = self.write('ids', list(range(4, 54)))
        run_with = ('generate', '--tokens', ids, '--max-tokens', 1, '--prompt-cache-file', self.cache)
        self.keep('--model', LLAMA, '--tokens', ids, '--max-tokens', 1)
        content = self.content()
        other = os.path.join(SHARED, 'golden', 'models', 'qwen3')
        for options, said in ((('--model', other), 'qwen3 '), (('--model', LLAMA, '--kv', 'q8'), 'f16'),
                              (('--model', LLAMA, '--activations', 'f32'), 'int8')):
            error = self.fail_json('argument', *run_with, *options)
            self.assertEqual(error['where'], self.cache)
            self.assertIn(said, error['message'])
            self.assertIn('left as it is', error['message'])
            self.assertEqual(self.content(), content)
        with open(os.path.join(LLAMA, 'model.safetensors'), 'rb') as file:
            weights = file.read()
        for wrong in (content[:-1], content[:-2] + bytes([content[-2] ^ 1]) + content[-1:], b'', weights, b'x' * 100):
            self.write('prompt.cache', wrong)
            self.fail_json('format', *run_with, '--model', LLAMA)
            self.assertEqual(self.content(), wrong)

    def test_one_prompt_only(self):
        several = self.write('ids', [[5, 6], [7, 8]])
        ran = run('generate', '--model', LLAMA, '--tokens', several, '--prompt-cache-file', self.cache)
        self.assertEqual(ran.returncode, 2)
        self.assertIn(b'--prompt-cache-file keeps one prompt, and ' + several.encode() + b' has 2', ran.stderr)
        self.fail_json('usage', 'generate', '--prompt', 'x', '--prompt-cache-ro', status=2)

    def test_files_that_cannot_be(self):
        ids = self.write('ids', list(range(4, 54)))
        arguments = ('generate', '--model', LLAMA, '--tokens', ids, '--max-tokens', 1, '--prompt-cache-file')
        error = self.fail_json('io', *arguments, self.path('no', 'such', 'folder'))
        self.assertIn('no file can be made in', error['message'])
        self.fail_json('io', *arguments, self.folder)
        self.fail_json('not_found', *arguments, self.cache, '--prompt-cache-ro')

    def test_a_full_disk_keeps_the_answer_and_the_old_file(self):
        first, longer = self.write('first', list(range(4, 54))), self.write('longer', list(range(4, 154)))
        arguments = ('generate', '--model', LLAMA, '--max-tokens', '3', '--prompt-cache-file', self.cache, '--tokens')
        self.succeed(*arguments, first)
        content, entries = self.content(), os.listdir(self.folder)
        answer = self.succeed('generate', '--model', LLAMA, '--max-tokens', 3, '--tokens', longer).stdout
        for more in ((), ('--json',)):
            # No file may become longer than 1000 bytes; the signal that says so is ignored, as Python does.
            ran = subprocess.run([MICA, *arguments, longer, *more], capture_output=True, env=program.environment(),
                                 restore_signals=False,
                                 preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_FSIZE, (1000, 1000)))
            self.assertEqual(ran.returncode, 1)
            self.assertIn(b'cannot write', ran.stderr)
            if more:
                self.assertEqual(json.loads(ran.stdout)['error']['code'], 'io')
            else:
                self.assertEqual(ran.stdout, answer)
            self.assertEqual(self.content(), content)
            self.assertEqual(os.listdir(self.folder), entries)

    def test_a_small_budget_takes_what_fits(self):
        ids = list(range(4, 244))
        self.keep('--model', LLAMA, '--tokens', self.write('ids', ids), '--max-tokens', 0)
        content = self.content()
        plain = self.json('generate', '--model', LLAMA, '--tokens', self.write('ids', ids[:50]), '--max-tokens', 4)
        small = self.keep('--model', LLAMA, '--tokens', self.write('ids', ids[:50]), '--max-tokens', 4,
                          '--kv-memory', '48K')
        self.assertEqual(small['tokens'], plain['tokens'])
        self.assertLessEqual(small['memory']['kv'], 48000)
        self.assertEqual(self.content(), content)


class Limits(program.Case):
    def test_a_limit_refuses_with_the_numbers(self):
        ids = self.write('ids', [5, 6])
        error = self.fail_json('memory', 'generate', '--model', LLAMA, '--tokens', ids, '--threads', 1,
                               '--memory-limit', '300K')
        self.assertIn('the memory limit is 300000', error['message'])
        self.json('generate', '--model', LLAMA, '--tokens', ids, '--max-tokens', 2, '--memory-limit', '200M')

    def test_kinds_of_memory_have_words(self):
        seen = set()
        for limit in range(300_000, 1_500_000, 40_000):
            ran = run('generate', '--model', self.chat_model(f'm{limit}'), '--prompt', 'x', '--threads', 1,
                      '--max-tokens', 1, '--memory-limit', limit)
            seen.update(re.findall(r': ([^:]*) needs \d+ bytes', ran.stderr.decode()))
        self.assertTrue(seen)
        for what in seen:
            self.assertRegex(what, '^(holding|mapping) [a-z]')

    def test_mapped_weights_are_inside_the_limit(self):
        ids = self.write('ids', [5, 6])
        error = self.fail_json('memory', 'generate', '--model', LLAMA, '--tokens', ids, '--threads', 1,
                               '--memory-limit', '200000')
        self.assertEqual(error['where'], LLAMA)
        self.assertIn('mapping the file needs', error['message'])

    def test_too_little_for_keys_and_values_names_what_helps(self):
        ids = self.write('ids', list(range(3, 203)))
        error = self.fail_json('memory', 'generate', '--model', LLAMA, '--tokens', ids, '--kv-memory', '16K')
        for option in ('--kv-memory', '--context', '--kv q8'):
            self.assertIn(option, error['message'])

    def test_a_context_that_the_plan_calls_fitting_runs(self):
        if not os.path.exists(TALES):
            self.skipTest(f'{TALES} is not there')
        options = ('--model', TALES, '--kv', 'f32', '--context', 1024, '--threads', 1)
        limit = self.json('plan', *options)['total'] + 4_000_000
        self.assertTrue(self.json('plan', *options, '--memory-limit', limit)['fits'])
        ids = self.write('ids', [5 + i % 90 for i in range(1020)])
        self.json('generate', *options, '--tokens', ids, '--memory-limit', limit, '--max-tokens', 4)

    def test_the_context(self):
        ids = self.write('ids', list(range(3, 33)))
        made = self.json('generate', '--model', LLAMA, '--tokens', ids, '--context', 40, '--max-tokens', -1,
                         '--ignore-eos')
        self.assertEqual((len(made['tokens']), made['finish_reason']), (10, 'length'))
        error = self.fail_json('usage', 'generate', '--model', LLAMA, '--tokens', ids, '--context', 257, status=2)
        self.assertIn('--context 257', error['message'])

    def test_kv_types_and_reading_instead_of_mapping(self):
        ids = self.write('ids', [5, 6, 7])
        options = ('generate', '--model', LLAMA, '--tokens', ids, '--max-tokens', 4)
        first = self.json(*options)
        self.assertEqual(self.json(*options, '--no-mmap')['tokens'], first['tokens'])
        self.assertGreater(self.json(*options, '--kv', 'f32')['memory']['kv'], 0)
        self.json(*options, '--kv', 'bf16')


class Interrupts(program.Case):
    def interrupt(self, *arguments, number=signal.SIGINT):
        """Sends the signal after the first byte (with --json: after a while); status and standard output."""
        child = subprocess.Popen([MICA, *map(str, arguments)], stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                                 env=program.environment())
        self.addCleanup(child.stderr.close)
        self.addCleanup(child.stdout.close)
        first = b'' if '--json' in arguments else child.stdout.read(1)
        if not first:
            time.sleep(3)
        child.send_signal(number)
        rest = child.stdout.read()
        return child.wait(timeout=120), first + rest

    def setUp(self):
        super().setUp()
        if not os.path.exists(TALES):
            self.skipTest(f'{TALES} is not there')

    def test_what_there_is_stays(self):
        for number in (signal.SIGINT, signal.SIGTERM):
            status, text = self.interrupt('generate', '--model', TALES, '--prompt', 'Once upon a time', '--ignore-eos',
                                          '--max-tokens', -1, number=number)
            self.assertEqual(status, 130 if number == signal.SIGINT else 143)
            self.assertTrue(text.endswith(b'\n') and len(text) > 1, text)

    def test_the_object_is_whole(self):
        status, text = self.interrupt('generate', '--model', TALES, '--prompt', 'Once upon a time', '--ignore-eos',
                                      '--max-tokens', -1, '--json')
        self.assertEqual(status, 130)
        self.assertEqual(json.loads(text)['finish_reason'], 'cancelled')

    def test_the_prompt_is_kept(self):
        cache = self.path('prompt.cache')
        arguments = ('generate', '--model', TALES, '--prompt', 'Once upon a time ' * 20, '--ignore-eos',
                     '--max-tokens', -1, '--prompt-cache-file', cache)
        status, _ = self.interrupt(*arguments)
        self.assertEqual(status, 130)
        made = self.json(*arguments[:-3], 1, *arguments[-2:])['prompt_cache']
        self.assertEqual(made['saved_tokens'], 0)
        self.assertGreaterEqual(made['cached_tokens'], 48)

    def test_bench_ends(self):
        status, text = self.interrupt('bench', '--model', TALES, '-r', 1000, '-n', 500, '--json')
        self.assertEqual(status, 130)
        self.assertEqual(json.loads(text)['error']['code'], 'cancelled')

    def test_an_interrupted_perplexity_prints_no_value(self):
        data = self.write('data', 'Once upon a time there was a king who had a daughter. ' * 60000)
        status, text = self.interrupt('eval', 'perplexity', '--model', TALES, '--data', data, '--json')
        self.assertEqual(status, 130)
        self.assertEqual(json.loads(text)['error']['code'], 'cancelled')

    def test_interrupted_before_the_first_token(self):
        prompt = self.write('prompt', 'Once upon a time there was a king who had a daughter. ' * 70)
        child = subprocess.Popen([MICA, 'generate', '--model', TALES, '--prompt-file', prompt, '--max-tokens', '1',
                                  '--threads', '1'], stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                                 env=program.environment())
        time.sleep(0.1)
        child.send_signal(signal.SIGINT)
        text, notes = child.communicate(timeout=120)
        if child.returncode == 0:
            self.skipTest('the answer was there before the signal came')
        self.assertEqual((child.returncode, text), (130, b''))
        self.assertNotIn(b'0.0 tokens/s', notes)

    def test_tokenize_and_plan_end_at_once(self):
        fifo = self.path('fifo')
        os.mkfifo(fifo)
        for number, status in ((signal.SIGINT, 130), (signal.SIGTERM, 143)):
            child = subprocess.Popen([MICA, 'tokenize', '--model', TALES, '--file', fifo, '--json'],
                                     stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, env=program.environment())
            with open(fifo, 'wb') as file:
                text = b'Once upon a time there was a king who had a daughter. ' * 20000
                file.write(text * 60)  # the program has read nearly all of it when this returns
                file.close()
            time.sleep(0.3)
            child.send_signal(number)
            shown = child.communicate(timeout=20)[0]
            self.assertEqual(child.returncode, status)
            self.assertEqual(json.loads(shown)['error']['code'], 'cancelled')

    def test_the_prompt_from_a_pipe_that_never_ends(self):
        reads, writes = os.pipe()
        child = subprocess.Popen([MICA, 'generate', '--model', TALES, '--prompt', '-'], stdin=reads,
                                 stdout=subprocess.PIPE, stderr=subprocess.PIPE, env=program.environment())
        time.sleep(1)
        child.send_signal(signal.SIGINT)
        self.assertEqual(child.wait(timeout=60), 130)
        os.close(reads)
        os.close(writes)
        child.stdout.close()
        child.stderr.close()

    def test_a_reader_that_leaves(self):
        child = subprocess.Popen([MICA, 'generate', '--model', TALES, '--prompt', 'Once', '--ignore-eos',
                                  '--max-tokens', '-1'], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL,
                                 env=program.environment())
        child.stdout.read(1)
        child.stdout.close()
        self.assertEqual(child.wait(timeout=120), -signal.SIGPIPE)


class Bench(program.Case):
    def test_the_names_of_the_figures(self):
        made = self.json('bench', '--model', LLAMA, '-p', 32, '-n', 8, '-b', '1,4', '-r', 2)
        self.assertEqual(list(made['figures']), ['load_ms', 'first_ms', 'pp32_tps', 'tg8_tps', 'decode_b1_tps',
                                                 'decode_b4_tps', 'rss_mb', 'anon_mb'])
        for name in ('pp32_tps', 'tg8_tps', 'decode_b1_tps', 'decode_b4_tps'):
            self.assertEqual(len(made['repeats'][name]), 2)
            self.assertGreater(made['figures'][name], 0)
        for name in ('tg8_tps', 'decode_b1_tps', 'decode_b4_tps'):
            self.assertGreaterEqual(made['repeats'][name + '_fast_steps'], made['figures'][name] * 0.99)

    def test_depth_and_kv_types_are_in_the_names(self):
        made = self.json('bench', '--model', LLAMA, '-p', 16, '-n', 4, '-d', 100, '-r', 1, '--kv', 'f16,f32')
        for name in ('pp16_d100_tps', 'tg4_d100_tps', 'pp16_d100_f32_tps', 'tg4_d100_f32_tps'):
            self.assertGreater(made['figures'][name], 0)

    def test_what_does_not_fit_into_the_context(self):
        error = self.fail_json('argument', 'bench', '--model', LLAMA, '-p', 256)
        self.assertIn('257', error['message'])

    def test_text(self):
        shown = self.succeed('bench', '--model', LLAMA, '-p', 16, '-n', 4, '-r', 1).stdout.decode()
        self.assertRegex(shown, r'(?m)^pp16_tps +[\d.e+]+$')


program.main()

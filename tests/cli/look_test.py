#!/usr/bin/env python3
# look_test - mica tokenize, inspect, plan and eval against what other programs and plain arithmetic say.
# SPDX-License-Identifier: MIT
import json
import math
import os
import struct
import sys

import program
from program import LLAMA, SHARED, TALES, bf16, f32, read_safetensors, run

REFERENCE = ('--activations', 'f32', '--kv', 'f32')


def gguf_string(text):
    return struct.pack('<Q', len(text.encode())) + text.encode()


def small_gguf(scale):
    """A GGUF v3 file with keys of several types and a Q8_0 tensor [2, 32] whose second scale is `scale`."""
    keys = [gguf_string('general.architecture') + struct.pack('<I', 8) + gguf_string('odd'),
            gguf_string('a.flag') + struct.pack('<IB', 7, 1),
            gguf_string('a.big') + struct.pack('<IQ', 10, 2**64 - 1),
            gguf_string('a.real') + struct.pack('<If', 6, 0.1),
            gguf_string('a.list') + struct.pack('<IIQ', 9, 5, 10) + struct.pack('<10i', *range(-5, 5)),
            gguf_string('a.words') + struct.pack('<IIQ', 9, 8, 3) + b''.join(map(gguf_string, ['x', '', 'zw\u00f6lf']))]
    rows = b''.join(struct.pack('<e', s) + struct.pack('<32b', *range(k, k + 32)) for s, k in ((0.5, -16), (scale, 0)))
    head = b'GGUF' + struct.pack('<IQQ', 3, 1, len(keys)) + b''.join(keys)
    head += gguf_string('t') + struct.pack('<IQQIQ', 2, 32, 2, 8, 0)
    return head + b'\0' * (-len(head) % 32) + rows


class Tokenize(program.Case):
    def test_there_and_back(self):
        model = self.chat_model()
        text = 'Zw\u00f6lf <|im_end|>\n'
        made = self.json('tokenize', '--model', model, text)
        self.assertEqual(made['ids'], list('Zw\u00f6lf '.encode()) + [2] + list(b'\n'))
        self.assertEqual(made['text'], text)
        self.assertEqual(''.join(made['pieces']).replace('\ufffd\ufffd', '\u00f6'), text)
        back = self.json('tokenize', '--model', model, '--decode', *made['ids'])
        self.assertEqual(back['text'], text)
        ids = self.write('ids', made['ids'])
        self.assertEqual(self.succeed('tokenize', '--model', model, '--decode', '--file', ids).stdout.decode(),
                         text + '\n')
        without = self.json('tokenize', '--model', model, '--decode', '--no-special', *made['ids'])
        self.assertEqual(without['text'], 'Zw\u00f6lf \n')
        plain = self.json('tokenize', '--model', model, '--plain', text)
        self.assertEqual(bytes(plain['ids']).decode(), text)

    def test_standard_input_and_files(self):
        model = self.chat_model()
        made = self.json('tokenize', '--model', model, stdin=b'abc')
        self.assertEqual(made['ids'], [97, 98, 99])
        self.assertEqual(self.json('tokenize', '--model', model, '--file', self.write('t', 'abc')), made)
        shown = self.succeed('tokenize', '--model', model, 'a"<|im_end|>').stdout.decode()
        self.assertEqual(shown, '     97  "a"\n     34  "\\""\n      2  "<|im_end|>"  special\n')

    def test_messages(self):
        model = self.chat_model()
        path = self.write('messages', [{'role': 'user', 'content': 'x<|im_end|>'}])
        rendered = '<|im_start|>user\nx<|im_end|><|im_end|>\n<|im_start|>assistant\n'
        options = ('tokenize', '--model', model, '--messages', path)
        self.assertEqual(self.succeed(*options, '--render').stdout.decode(), rendered)
        made = self.json(*options)
        self.assertEqual(made['text'], rendered)
        self.assertEqual(made['ids'].count(2), 1)
        self.assertEqual(made['ids'].count(1), 2)
        closed = self.succeed(*options, '--render', '--no-generation-prompt').stdout.decode()
        self.assertEqual(closed, rendered[:-len('<|im_start|>assistant\n')])
        tools = self.write('tools.jinja', '{% for tool in tools %}{{ tool.name }};{% endfor %}')
        shown = self.succeed(*options, '--render', '--chat-template', tools, '--tools',
                             self.write('tools', [{'name': 'one'}, {'name': 'two'}])).stdout.decode()
        self.assertEqual(shown, 'one;two;')

    def test_what_the_template_refuses(self):
        model = self.chat_model(template="{{ raise_exception('no messages, please') }}")
        path = self.write('messages', [{'role': 'user', 'content': 'x'}])
        error = self.fail_json('argument', 'tokenize', '--model', model, '--messages', path)
        self.assertIn('no messages, please', error['message'])
        self.fail_json('format', 'tokenize', '--model', model, '--messages', self.write('m', '{}'))

    def test_a_model_without_tokenizer(self):
        self.fail_json('not_found', 'tokenize', '--model', LLAMA, 'x')

    def test_a_byte_without_a_token_is_named_with_its_place(self):
        model = self.chat_model()
        path = os.path.join(model, 'tokenizer.json')
        with open(path, encoding='utf-8') as file:
            tokenizer = json.load(file)
        tokenizer['model']['vocab'].pop(program.byte_characters()[255])
        self.write('chat/tokenizer.json', tokenizer)
        text = self.write('text', b'It was a fine day. ' * 10 + b'\xff' + b'It was. ' * 10)
        for command in (['tokenize', '--file', text], ['eval', 'perplexity', '--data', text, '--context', 16],
                        ['generate', '--prompt-file', text, '--ignore-chat-template']):
            error = self.fail_json('format', *command, '--model', model)
            self.assertIn('byte 190 ', error['message'])

    def test_ids_that_do_not_exist(self):
        model = self.chat_model()
        self.fail_json('argument', 'tokenize', '--model', model, '--decode', 256)
        self.fail_json('usage', 'tokenize', '--model', model, '--decode', 'x', status=2)


class Inspect(program.Case):
    def test_a_folder(self):
        made = self.json('inspect', LLAMA)
        stored = read_safetensors(os.path.join(LLAMA, 'model.safetensors'))
        self.assertEqual({tensor['name']: (tensor['type'], tensor['shape'], tensor['bytes'])
                          for tensor in made['tensors']},
                         {name: (dtype, shape, len(data)) for name, (dtype, shape, data) in stored.items()})
        with open(os.path.join(LLAMA, 'config.json'), encoding='utf-8') as file:
            config = json.load(file)
        facts = made['architecture']
        self.assertEqual(facts['name'], 'llama')
        self.assertEqual(facts['layers'], config['num_hidden_layers'])
        self.assertEqual(facts['kv_heads'], config['num_key_value_heads'])
        self.assertEqual(facts['parameters'], 127424)
        self.assertIsNone(made['tokenizer'])
        self.assertEqual(made['format'], 'safetensors')

    def test_values_and_statistics(self):
        name = 'model.layers.0.mlp.down_proj.weight'
        values = bf16(read_safetensors(os.path.join(LLAMA, 'model.safetensors'))[name][2])
        made = self.json('inspect', LLAMA, '--tensor', name)['values'][name]
        mean = sum(values) / len(values)
        self.assertEqual(made['n'], len(values))
        self.assertEqual(made['first'], values[:8])
        self.assertEqual(made['last'], values[-8:])
        self.assertEqual((made['least'], made['most']), (min(values), max(values)))
        self.assertAlmostEqual(made['mean'], mean, places=12)
        self.assertAlmostEqual(made['deviation'], math.sqrt(sum((v - mean) ** 2 for v in values) / len(values)))
        shown = self.succeed('inspect', LLAMA, '--tensor', name).stdout.decode()
        self.assertIn(f'{name}  BF16  [64, 128]', shown)
        self.fail_json('not_found', 'inspect', LLAMA, '--tensor', 'none')

    def test_a_gguf_file_of_an_unknown_architecture(self):
        path = self.write('odd.gguf', small_gguf(2))
        made = self.json('inspect', path, '--full', '--tensor', 't')
        self.assertIsNone(made['architecture'])
        self.assertIn('odd', made['refused'])
        keys = {entry['key']: entry.get('value', entry.get('values')) for entry in made['metadata']}
        self.assertEqual(keys, {'general.architecture': 'odd', 'a.flag': True, 'a.big': float(2**64 - 1),
                                'a.real': struct.unpack('<f', struct.pack('<f', 0.1))[0],
                                'a.list': list(range(-5, 5)), 'a.words': ['x', '', 'zw\u00f6lf']})
        self.assertEqual(made['tensors'][0]['shape'], [2, 32])
        self.assertEqual(made['values']['t']['first'], [0.5 * k for k in range(-16, -8)])
        self.assertEqual(made['values']['t']['last'], [2.0 * k for k in range(24, 32)])
        short = self.json('inspect', path)
        self.assertEqual([entry['n'] for entry in short['metadata'] if 'n' in entry], [10, 3])

    def test_verify(self):
        self.assertTrue(self.json('inspect', LLAMA, '--verify')['verified'])
        self.assertTrue(self.json('inspect', self.write('good.gguf', small_gguf(2)), '--verify')['verified'])
        path = self.write('bad.gguf', small_gguf(math.inf))
        self.json('inspect', path)
        error = self.fail_json('format', 'inspect', path, '--verify')
        self.assertIn('block 1', error['message'])
        header = json.dumps({'x': {'dtype': 'F32', 'shape': [3], 'data_offsets': [0, 12]}}).encode()
        header += b' ' * (-len(header) % 8)
        path = self.write('nan.safetensors',
                          struct.pack('<Q', len(header)) + header + struct.pack('<3f', 1, math.nan, 2))
        error = self.fail_json('format', 'inspect', path, '--verify')
        self.assertIn('value 1 is not a number', error['message'])

    def test_files_of_others(self):
        folder = os.path.join(SHARED, 'data', 'weights')
        if not os.path.isdir(folder):
            self.skipTest(f'{folder} is not there')
        self.json('inspect', os.path.join(folder, 'gguf', 'weight-inspect_empty.gguf'))
        self.fail_json('format', 'inspect', os.path.join(folder, 'gguf', 'weight-inspect_tiny.gguf'))
        self.fail_json('format', 'inspect', os.path.join(folder, 'safetensors', 'weight-inspect_tiny.safetensors'))
        made = self.json('inspect', os.path.join(folder, 'safetensors', 'swift_tensor-2d-float64.safetensors'))
        name = made['tensors'][0]['name']
        self.assertEqual(made['tensors'][0]['type'], 'F64')
        stored = read_safetensors(os.path.join(folder, 'safetensors', 'swift_tensor-2d-float64.safetensors'))
        values = self.json('inspect', made['path'], '--tensor', name)['values'][name]
        data = stored[name][2]
        self.assertEqual(values['first'], list(struct.unpack(f'<{len(data) // 8}d', data))[:8])

    def test_nothing_of_a_file_reaches_the_terminal_raw(self):
        name = 'x\\u001b[31m'
        header = ('{"%s": {"dtype": "U8", "shape": [1], "data_offsets": [0, 1]}}' % name).encode()
        path = self.write('esc.safetensors', struct.pack('<Q', len(header)) + header + b'\0')
        ran = run('inspect', path)
        self.assertNotIn(b'\033', ran.stdout + ran.stderr)

    def test_a_tokenizer_and_its_template(self):
        made = self.json('inspect', self.chat_model(), '--full')
        self.assertEqual(made['tokenizer']['vocabulary'], 256)
        self.assertEqual(made['tokenizer']['eos'], {'id': 2, 'text': '<|im_end|>'})
        self.assertEqual(made['chat_templates'], {'default': program.CHAT_TEMPLATE})


class Plan(program.Case):
    def test_the_sums(self):
        made = self.json('plan', '--model', LLAMA, '--context', 64, '--batch', 3, '--kv', 'f32')
        # 3 layers, keys and values, 2 heads of 16 values of 4 bytes
        self.assertEqual(made['kv_per_token'], 3 * 2 * 2 * 16 * 4)
        self.assertEqual(made['kv'], 3 * 64 * made['kv_per_token'])
        self.assertEqual(made['weights'], 2 * 127424)
        self.assertEqual(made['total'],
                         made['weights'] + made['kv'] + max(made['prefill_peak'], made['decode_peak']) +
                         made['overhead'])
        self.assertLess(made['overhead'], 3e6)
        self.assertIsNone(made['limit'])
        self.assertTrue(made['fits'])
        self.assertEqual(made['max_context'], 256)
        self.assertGreater(made['bandwidth'], 1e8)
        self.assertAlmostEqual(made['decode_tok_s'], 3 * made['bandwidth'] / made['read_per_token'],
                               delta=made['decode_tok_s'] * 1e-3)

    def does_not_fit(self, *arguments):
        """The plan, which is printed whole; the exit status says that it does not fit."""
        ran = run('plan', *arguments, '--json')
        self.assertEqual((ran.returncode, ran.stderr), (1, b''))
        return json.loads(ran.stdout)

    def test_a_limit_is_planned_for_and_not_obeyed(self):
        made = self.does_not_fit('--model', LLAMA, '--memory-limit', '100K')
        self.assertFalse(made['fits'])
        self.assertEqual(made['max_context'], 0)
        whole = self.json('plan', '--model', LLAMA)
        half = self.does_not_fit('--model', LLAMA, '--memory-limit', whole['total'] - whole['kv'] // 2)
        self.assertFalse(half['fits'])
        self.assertEqual(half['max_context'], 128)
        ran = run('plan', '--model', LLAMA, '--memory-limit', '100K')
        self.assertEqual((ran.returncode, ran.stderr), (1, b''))
        self.assertIn('\nit does not fit under the limit of 97.7 KiB\n', ran.stdout.decode())

    def test_smaller_kv_types(self):
        sizes = {kv: self.json('plan', '--model', LLAMA, '--kv', kv)['kv_per_token'] for kv in ('f32', 'f16', 'bf16')}
        self.assertEqual(sizes['f32'], 2 * sizes['f16'])
        self.assertEqual(sizes['bf16'], sizes['f16'])

    def test_a_run_takes_what_was_planned(self):
        # The built-in model, a prompt that fills the largest step, and text until the context is full.
        plan = self.json('plan')
        ran = self.json('generate', '--prompt', 'It was a fine day. ' * 110, '--ignore-eos', '--max-tokens', 900)
        self.assertEqual(ran['finish_reason'], 'length')
        self.assertGreater(len(ran['prompt_tokens']), 512)
        took, planned = ran['memory'], plan['total'] - plan['weights']
        self.assertEqual(took['weights'], plan['weights'])
        self.assertEqual(took['kv'], plan['kv'])
        # The overhead is an upper bound; it covers the mapped file's header, too. The process has its code on top.
        self.assertGreaterEqual(took['program_peak'], planned - plan['overhead'])
        self.assertLessEqual(took['program_peak'], planned)
        if not os.environ.get('MICA_SANITIZE'):  # sanitizers hold memory of their own
            self.assertLess(took['process_peak'], os.path.getsize(plan['model']) + planned + 30e6)


    def test_a_run_succeeds_under_a_limit_of_the_total(self):
        # With mapped weights, and with weights that are read: the file counts once either way.
        total = self.json('plan')['total']
        for more in ([], ['--no-mmap']):
            ran = self.json('generate', '--memory-limit', total, '--prompt', 'It was a fine day. ' * 110, '--ignore-eos',
                            '--max-tokens', 900, *more)
            self.assertEqual(ran['finish_reason'], 'length')
            self.assertEqual(len(ran['prompt_tokens']) + len(ran['tokens']), 1024)
        small = self.json('plan', '--context', 64, '--memory-limit', total)
        self.assertTrue(small['fits'])
        self.json('generate', '--memory-limit', small['total'], '--context', 64, '--prompt', 'x', '--max-tokens', 40)
        folder = self.chat_model()
        total = self.json('plan', '--model', folder, '--batch', 3)['total']
        prompts = self.write('p.jsonl', ''.join('{"prompt": "%s"}\n' % (c * 40) for c in 'abc'))
        ran = self.json('generate', '--model', folder, '--ignore-chat-template', '--memory-limit', total, '--prompts',
                        prompts, '--max-tokens', 300, '--ignore-eos')
        self.assertEqual({answer['finish_reason'] for answer in ran['results']}, {'length'})

    def test_a_real_model_under_a_limit_of_its_total(self):
        for name in ('SmolLM2-135M-Instruct.Q4_1.gguf', 'gemma-3-270m-q4_k_m.gguf'):
            model = os.path.join(os.environ.get('MICA_TEST_CACHE', ''), name)
            if not os.path.exists(model):
                print(f'{model} is not there: skipped', file=sys.stderr)
                continue
            total = self.json('plan', '--model', model, '--context', 64)['total']
            ran = self.json('generate', '--model', model, '--memory-limit', total, '--context', 64, '--prompt',
                            'Tell me a tale.', '--max-tokens', 64, '--ignore-eos')
            self.assertEqual(ran['finish_reason'], 'length')


class Eval(program.Case):
    def test_logits_are_those_of_the_reference(self):
        for model in ('llama-llama3rope-tied', 'gemma3_text'):
            folder = os.path.join(SHARED, 'golden', 'models', model)
            stored = read_safetensors(os.path.join(folder, 'golden.safetensors'))
            ids = struct.unpack('<96i', stored['input_ids'][2])
            rows = self.write('ids', [ids[:48], ids[48:]])
            out = self.path('logits.safetensors')
            made = self.json('eval', 'logits', '--model', folder, '--tokens', rows, '--out', out, *REFERENCE)
            self.assertEqual((made['rows'], made['count'], made['vocabulary']), (2, 96, 256))
            dtype, shape, data = read_safetensors(out)['logits']
            self.assertEqual((dtype, shape), ('F32', [2, 48, 256]))
            worst = max(abs(a - b) for a, b in zip(f32(data), f32(stored['logits'][2])))
            self.assertLess(worst, 2e-4, model)

    def test_rows_of_different_lengths(self):
        rows = self.write('ids', [[5, 6, 7, 8], [9, 10]])
        out = self.path('logits.safetensors')
        ran = self.succeed('eval', 'logits', '--model', LLAMA, '--tokens', rows, '--out', out)
        self.assertEqual(ran.stdout, b'')
        made = read_safetensors(out)
        self.assertEqual({name: entry[1] for name, entry in made.items()}, {'0': [4, 256], '1': [2, 256]})
        self.succeed('eval', 'logits', '--model', LLAMA, '--tokens', self.write('one', [9, 10]), '--out', out)
        self.assertEqual(read_safetensors(out)['logits'][2], made['1'][2])

    def test_a_failure_leaves_no_file(self):
        out = self.path('logits.safetensors')
        self.fail_json('argument', 'eval', 'logits', '--model', LLAMA, '--tokens', self.write('ids', [[1], [256]]),
                       '--out', out)
        self.assertEqual(os.listdir(self.folder), ['ids'])
        self.fail_json('not_found', 'eval', 'logits', '--model', LLAMA, '--tokens', self.write('ids', [1]),
                       '--out', self.path('no', 'folder'))

    def perplexity_by_hand(self, model, ids, window, begin):
        """From the logits of every window: the second half, its first position's prediction included."""
        windows = [ids[i:i + window] for i in range(0, len(ids) - window + 1, window)]
        if begin is not None:
            windows = [[begin] + part[1:] for part in windows]
        out = self.path('windows.safetensors')
        self.succeed('eval', 'logits', '--model', model, '--tokens', self.write('windows', windows), '--out', out)
        logits = f32(read_safetensors(out)['logits'][2])
        losses, n_vocab = [], len(logits) // len(windows) // window
        for w, part in enumerate(windows):
            for position in range(window // 2, window - 1):
                row = logits[(w * window + position) * n_vocab:][:n_vocab]
                most = max(row)
                losses.append(math.log(sum(math.exp(v - most) for v in row)) - (row[part[position + 1]] - most))
        mean = sum(losses) / len(losses)
        variance = sum(v * v for v in losses) / len(losses) - mean * mean
        return math.exp(mean), math.exp(mean) * math.sqrt(variance / (len(losses) - 1)), len(losses)

    def test_perplexity_is_what_its_definition_says(self):
        text = 'It was a bright cold day in April, and the clocks were striking. ' * 3
        for begin in (None, 0):
            model = self.chat_model(f'model{begin}')
            if begin is not None:
                config = os.path.join(model, 'tokenizer_config.json')
                with open(config, encoding='utf-8') as file:
                    changed = json.load(file)
                changed.update(add_bos_token=True, tokenizer_class='LlamaTokenizer')
                self.write(f'model{begin}/tokenizer_config.json', changed)
            data = self.write('text', text)
            made = self.json('eval', 'perplexity', '--model', model, '--data', data, '--context', 32)
            ids = ([begin] if begin is not None else []) + list(text.encode())
            if self.json('tokenize', '--model', model, 'x')['ids'] != ids[:begin is not None] + [120]:
                self.skipTest('this tokenizer adds no begin token')
            value, error, count = self.perplexity_by_hand(model, ids, 32, begin)
            self.assertEqual((made['count'], made['windows'], made['context']), (count, len(ids) // 32, 32))
            self.assertAlmostEqual(made['value'], value, delta=value * 1e-6)
            self.assertAlmostEqual(made['standard_error'], error, delta=error * 1e-4)

    def test_perplexity_of_too_little(self):
        model = self.chat_model()
        error = self.fail_json('argument', 'eval', 'perplexity', '--model', model, '--data', self.write('t', 'short'))
        self.assertIn('5 tokens are too few', error['message'])

    def test_logits_do_not_go_to_standard_output(self):
        error = self.fail_json('usage', 'eval', 'logits', '--model', LLAMA, '--tokens', self.write('ids', [1]),
                               '-o', '-', status=2)
        self.assertIn('--out -', error['message'])
        self.assertFalse(os.path.exists('-'))

    def test_usage(self):
        for arguments in (['logits'], ['perplexity'], ['logits', '--data', 'x'], ['perplexity', '--tokens', 'x'],
                          ['perplexity', '--data', 'x', '--out', 'y']):
            self.fail_json('usage', 'eval', *arguments, '--model', LLAMA, status=2)

    def test_a_real_tokenizer(self):
        if not os.path.exists(TALES):
            self.skipTest(f'{TALES} is not there')
        made = self.json('tokenize', '--model', TALES, 'Once upon a time')
        self.assertEqual(''.join(made['pieces']), 'Once upon a time')


program.main()

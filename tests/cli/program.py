# program.py - runs the built program for the tests, and makes the small models that they need.
# SPDX-License-Identifier: MIT
import json
import os
import shutil
import struct
import subprocess
import sys
import tempfile
import unittest

MICA = os.environ.get('MICA', 'build/release/mica')
SHARED = os.environ.get('MICA_SHARED_DIR', '../shared')
LLAMA = os.path.join(SHARED, 'golden', 'models', 'llama-llama3rope-tied')  # 256 tokens, no tokenizer
TALES = os.path.join(SHARED, 'models', 'tales-19m')
sys.dont_write_bytecode = True


def environment(**more):
    """Nothing of the machine's own models and locale reaches the program."""
    clean = {key: value for key, value in os.environ.items()
             if not key.startswith(('MICA_', 'HF_', 'XDG_', 'LC_')) and key != 'LANG'}
    clean['HOME'] = '/nonexistent'
    for key in ('ASAN_OPTIONS', 'UBSAN_OPTIONS', 'LOCPATH'):
        if key in os.environ:
            clean[key] = os.environ[key]
    clean.update(more)
    return clean


def run(*arguments, stdin=b'', env=None, timeout=300):
    """Runs the program; stdout and stderr as bytes."""
    return subprocess.run([MICA, *map(str, arguments)], input=stdin, capture_output=True, timeout=timeout,
                          env=env or environment())


def read_safetensors(path):
    """{name: (dtype, shape, bytes)} of a file."""
    with open(path, 'rb') as file:
        size, = struct.unpack('<Q', file.read(8))
        header = json.loads(file.read(size))
        data = file.read()
    return {name: (entry['dtype'], entry['shape'], data[entry['data_offsets'][0]:entry['data_offsets'][1]])
            for name, entry in header.items() if name != '__metadata__'}


def bf16(data):
    """Values of little-endian bfloat16."""
    return [struct.unpack('<f', b'\0\0' + data[i:i + 2])[0] for i in range(0, len(data), 2)]


def f32(data):
    return list(struct.unpack(f'<{len(data) // 4}f', data))


def byte_characters():
    """GPT-2's printable stand-in for each byte, by its published rule."""
    kept = [*range(33, 127), *range(161, 173), *range(174, 256)]
    table, extra = {byte: chr(byte) for byte in kept}, 0
    for byte in range(256):
        if byte not in table:
            table[byte] = chr(256 + extra)
            extra += 1
    return table


CHAT_TEMPLATE = ("{% for message in messages %}<|im_start|>{{ message.role }}\n{{ message.content }}<|im_end|>\n"
                 "{% endfor %}{% if add_generation_prompt %}<|im_start|>assistant\n{% endif %}")
THINKING_TEMPLATE = CHAT_TEMPLATE[:-len('{% endif %}')] + (
    "{% if enable_thinking is defined and not enable_thinking %}<think>\n\n</think>\n\n{% else %}<think>\n{% endif %}"
    "{% endif %}")


def byte_tokenizer(specials):
    """A tokenizer.json whose token i is byte i, but for the special tokens that take the place of some bytes."""
    characters = byte_characters()
    by_id = {i: characters[i] for i in range(256)}
    by_id.update(specials)
    return {
        'version': '1.0', 'truncation': None, 'padding': None, 'normalizer': None, 'post_processor': None,
        'added_tokens': [{'id': i, 'content': text, 'single_word': False, 'lstrip': False, 'rstrip': False,
                          'normalized': False, 'special': True} for i, text in sorted(specials.items())],
        'pre_tokenizer': {'type': 'ByteLevel', 'add_prefix_space': False, 'trim_offsets': True, 'use_regex': True},
        'decoder': {'type': 'ByteLevel', 'add_prefix_space': True, 'trim_offsets': True, 'use_regex': True},
        'model': {'type': 'BPE', 'dropout': None, 'unk_token': None, 'continuing_subword_prefix': None,
                  'end_of_word_suffix': None, 'fuse_unk': False, 'byte_fallback': False,
                  'vocab': {text: i for i, text in by_id.items()}, 'merges': []},
    }


class Case(unittest.TestCase):
    """A test with a folder of its own."""

    def setUp(self):
        self.folder = tempfile.mkdtemp()
        self.addCleanup(shutil.rmtree, self.folder)

    def path(self, *parts):
        return os.path.join(self.folder, *parts)

    def write(self, name, content):
        path = self.path(name)
        os.makedirs(os.path.dirname(path), exist_ok=True)
        if not isinstance(content, (bytes, str)):
            content = json.dumps(content)
        with open(path, 'wb') as file:
            file.write(content.encode() if isinstance(content, str) else content)
        return path

    def chat_model(self, name='chat', template=CHAT_TEMPLATE, **generation):
        """The tiny llama with a byte tokenizer and a chat template: answers are noise, but the same noise."""
        for file in ('config.json', 'model.safetensors'):
            self.write(f'{name}/.made', '')
            os.symlink(os.path.abspath(os.path.join(LLAMA, file)), self.path(name, file))
        specials = {0: '<|endoftext|>', 1: '<|im_start|>', 2: '<|im_end|>'}
        self.write(f'{name}/tokenizer.json', byte_tokenizer(specials))
        self.write(f'{name}/tokenizer_config.json', {
            'tokenizer_class': 'PreTrainedTokenizerFast', 'chat_template': template, 'bos_token': '<|endoftext|>',
            'eos_token': '<|im_end|>', 'add_bos_token': False})
        if generation:
            self.write(f'{name}/generation_config.json', generation)
        return self.path(name)

    def succeed(self, *arguments, **options):
        ran = run(*arguments, **options)
        self.assertEqual(ran.returncode, 0, ran.stderr.decode())
        return ran

    def json(self, *arguments, **options):
        ran = self.succeed(*arguments, '--json', **options)
        return json.loads(ran.stdout)

    def fail_json(self, code, *arguments, status=1, **options):
        """The one error object on standard output."""
        ran = run(*arguments, '--json', **options)
        self.assertEqual(ran.returncode, status, ran.stderr.decode())
        error = json.loads(ran.stdout)
        self.assertEqual(list(error), ['error'])
        self.assertEqual(list(error['error']), ['code', 'message', 'where'])
        self.assertEqual(error['error']['code'], code, error)
        return error['error']


def main():
    """77 where the outside test data is absent."""
    if not os.path.exists(os.path.join(LLAMA, 'config.json')):
        print(f'skipped: {LLAMA} is not there')
        sys.exit(77)
    unittest.main()

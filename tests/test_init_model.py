"""`rlx init-model`: a directory that transformers and rlx read alike, and that is the same every time."""

import json
from pathlib import Path
import subprocess
import sys

import jax
import numpy as np
import pytest

from rlx.data import tokenizer as tokenizers
from rlx.experiments import init_model as module
from rlx.experiments.init_model import FAMILIES, init_model, train_tokenizer
from rlx.experiments.launch import main
from rlx.models import hf, transformer
from tests.cases import cases

ROOT = Path(__file__).parent.parent
TEXT = 'How many dogs are there?\n\nThere are 12 dogs, and a naïve fox: 日本.\n' * 20
SIZES = {
    'vocab_size': 280, 'layers': 2, 'width': 16, 'heads': 2, 'kv_heads': 1, 'mlp_size': 24,
    'context_length': 64, 'chat_template': 'chatml', 'seed': 0, 'dtype': 'float32',
}
TALK = [{'role': 'user', 'content': 'How many  dogs?\n\n 12 naïve'}, {'role': 'assistant', 'content': '12.'}]


@pytest.fixture(scope='module')
def text(tmp_path_factory):
  path = tmp_path_factory.mktemp('text') / 'text.txt'
  path.write_text(TEXT)
  return path


def sizes(family, **changes):
  return {**SIZES, 'family': family, **({'kv_heads': 0} if family == 'gpt2' else {}), **changes}


@pytest.fixture(scope='module')
def directory(text, tmp_path_factory):
  directory = tmp_path_factory.mktemp('model') / 'qwen2'
  init_model([text], directory, **sizes('qwen2'))
  return directory


def read(directory, name):
  return json.loads((directory / name).read_text())


def test_a_directory_holds_what_a_model_needs(directory):
  names = sorted(path.name for path in directory.iterdir())
  assert names == [
      'chat_template.jinja', 'config.json', 'generation_config.json', 'model.safetensors', 'tokenizer.json',
      'tokenizer_config.json',
  ]
  assert read(directory, 'generation_config.json')['eos_token_id'] == [0, 2]
  config = read(directory, 'config.json')
  assert (config['model_type'], config['eos_token_id'], config['pad_token_id']) == ('qwen2', 2, 0)
  assert config['num_key_value_heads'] == 1 and config['max_position_embeddings'] == 64
  tokenizer = tokenizers.load(directory)
  assert (tokenizer.eos_ids, tokenizer.pad_id, tokenizer.start_ids) == ((2, 0), 0, ())
  assert tokenizer.vocab_size == config['vocab_size'] == 280


def load(directory):
  config = hf.shape_of(
      directory=str(directory), context_length=0, dtype='float32', param_dtype='float32', remat=False,
      attention='reference', decode_attention='reference',
  )
  return hf.load(directory, config), config


def test_the_weights_are_those_of_the_seed(directory):
  params, config = load(directory)
  expected = transformer.init(jax.random.key(0), config)
  jax.tree.map(lambda a, b: np.testing.assert_allclose(a, b, rtol=1e-5), params, expected)


@pytest.mark.parametrize('family', cases(FAMILIES, at_once=('llama', 'gemma3_text')))
def test_rlx_reads_every_family(text, tmp_path, family):
  said = init_model([text], tmp_path / 'model', **sizes(family))
  params, config = load(tmp_path / 'model')
  assert (config.num_layers, config.width, config.num_heads, config.mlp_size) == (2, 16, 2, 24)
  assert f'{transformer.num_parameters(params):,} parameters' in said and '280 tokens' in said
  assert config.qkv_bias == (family in ('qwen2', 'gpt2'))
  assert config.qk_norm == (family in ('qwen3', 'qwen3_moe', 'gemma3_text'))
  assert bool(config.num_experts) == (family == 'qwen3_moe')
  assert bool(config.sliding_layers) == family.startswith('gemma')


@pytest.mark.parametrize('family', FAMILIES)
def test_transformers_tokenises_every_family_alike(text, tmp_path, family, caplog):
  """AutoTokenizer rebuilds some families' tokenizers by its own idea of them."""
  transformers = pytest.importorskip('transformers')
  (tmp_path / 'config.json').write_text(json.dumps({'model_type': family}))
  tokenizer = train_tokenizer([text], 280)
  module.write_tokenizer(tmp_path, tokenizer, context_length=64, chat_template='chatml')
  theirs, ours = transformers.AutoTokenizer.from_pretrained(tmp_path), tokenizers.load(tmp_path)
  ids, _ = ours.encode_chat(TALK, generation_prompt=False)
  assert theirs.apply_chat_template(TALK, return_dict=False) == ids
  for string in (" it's  3.14\r\n\t naïve 日本 🙂", '\n\n  How many?', 'a<|im_end|>b'):
    assert theirs(string)['input_ids'] == ours.encode(string, special=True)
    assert ours.decode(ours.encode(string, special=True)) == string.replace('<|im_end|>', '')
  assert (theirs.eos_token_id, theirs.pad_token_id, len(theirs)) == (2, 0, 280)
  assert not caplog.records


@pytest.mark.slow
def test_the_same_arguments_write_the_same_bytes(text, directory, tmp_path):
  """In another process: hashes of strings differ there."""
  arguments = [f'--{name}={value}' for name, value in sizes('qwen2').items()]
  again = tmp_path / 'again'
  command = [sys.executable, '-m', 'rlx.experiments.launch', 'init-model', f'--output={again}']
  subprocess.run([*command, f'--text={text}', *arguments], check=True, capture_output=True, cwd=ROOT)
  for path in directory.iterdir():
    assert path.read_bytes() == (again / path.name).read_bytes(), path.name


def test_the_tokenizer_learns_all_strings_of_rows(tmp_path):
  rows = [{'a': 'zebra zebra', 'b': {'c': ['quagga'] * 2, 'd': 3}, 'never': None}] * 30
  (tmp_path / 'rows.jsonl').write_text(''.join(json.dumps(row) + '\n' for row in rows))
  (tmp_path / 'text.txt').write_text('okapi okapi\n' * 30)
  tokenizer = train_tokenizer([tmp_path / 'rows.jsonl', tmp_path / 'text.txt'], 300)
  vocabulary = tokenizer.get_vocab()
  assert {'Ġzebra', 'quagga', 'Ġokapi'} <= vocabulary.keys() and 'never' not in vocabulary
  assert [tokenizer.id_to_token(i) for i in range(3)] == ['<|endoftext|>', '<|im_start|>', '<|im_end|>']


def test_without_a_chat_template_the_end_of_text_ends(text, tmp_path):
  init_model([text], tmp_path / 'model', **sizes('llama', chat_template='none', dtype='bfloat16'))
  assert not (tmp_path / 'model' / 'chat_template.jinja').exists()
  config = read(tmp_path / 'model', 'config.json')
  assert config['eos_token_id'] == 0 and config['dtype'] == 'bfloat16'
  assert tokenizers.load(tmp_path / 'model').eos_ids == (0, 2)


@pytest.mark.parametrize(
    ('changes', 'message'),
    [
        ({'vocab_size': 258}, 'vocab_size=258: bytes and special tokens alone are 259'),
        ({'layers': 0}, "'layers': 0.*each is at least 1"),
        ({'width': 18}, 'width=18 is no multiple of 2 x heads=2; the nearest is 16'),
        ({'family': 'gpt2', 'kv_heads': 1}, 'kv_heads=1: gpt2 has as many as heads'),
        ({'heads': 8, 'kv_heads': 3}, 'num_kv_heads=3 does not divide num_heads=8'),
        ({'family': 'bert'}, "family='bert' is not one of qwen2, "),
        ({'chat_template': 'alpaca'}, "chat_template='alpaca' is not one of chatml, none"),
        ({'dtype': 'float16'}, "dtype='float16' is not one of"),
    ],
)
def test_sizes_that_do_not_fit_are_refused_and_nothing_is_written(text, tmp_path, changes, message):
  with pytest.raises(ValueError, match=message) as error:
    init_model([text], tmp_path / 'model', **{**sizes('qwen2'), **changes})
  assert '\n' not in str(error.value) and not (tmp_path / 'model').exists()


def test_a_directory_that_holds_something_is_left_alone(text, tmp_path, capsys):
  (tmp_path / 'notes').write_text('mine')
  assert main(['init-model', f'--text={text}', f'--output={tmp_path}']) == 2
  error = capsys.readouterr().err
  assert error.startswith(f'rlx: {tmp_path} is there and not empty') and error.count('\n') == 1
  assert [path.name for path in tmp_path.iterdir()] == ['notes']
  assert main(['init-model', f'--text={text}', f'--output={tmp_path / "notes"}']) == 2


@pytest.mark.parametrize(('name', 'content'), [('none.txt', None), ('a.txt', b'\xff\xfe'), ('a.jsonl', b'{')])
def test_text_that_cannot_be_read_is_one_line(tmp_path, capsys, name, content):
  if content:
    (tmp_path / name).write_bytes(content)
  assert main([f'--text={tmp_path / name}', f'--output={tmp_path / "model"}']) == 2
  error = capsys.readouterr().err
  assert error.count('\n') == 1 and name in error and not (tmp_path / 'model').exists()

"""`rlx init-model --text=FILE --output=DIR ...`: a small random model as a Hugging Face directory.

It comes with a tokenizer of its own, trained on the text: byte-level BPE, split the way Qwen2's is, so that
classes of transformers which rebuild a tokenizer by themselves arrive at the same one. For a first run
without a download, for tests, and for pretraining from nothing.
"""

import argparse
from collections.abc import Iterator, Mapping, Sequence
import itertools
import json
from pathlib import Path
from typing import Any

from rlx.data.rows import read_rows
from rlx.data.tokenizer import INSTALL
from rlx.experiments.commands import EXIT_DONE, CommandError, Parser, natural, positive, seed

END_OF_TEXT, TURN_START, TURN_END = SPECIAL = ('<|endoftext|>', '<|im_start|>', '<|im_end|>')
CHATML = (
    "{% for message in messages %}{{ '<|im_start|>' + message['role'] + '\\n' + message['content'] "
    "+ '<|im_end|>\\n' }}{% endfor %}"
    "{% if add_generation_prompt %}{{ '<|im_start|>assistant\\n' }}{% endif %}"
)
FAMILIES = ('qwen2', 'qwen3', 'qwen3_moe', 'llama', 'mistral', 'gemma2', 'gemma3_text', 'gpt2')
_NUM_EXPERTS, _EXPERTS_PER_TOKEN = 8, 2
_BLOCK = 1 << 20  # characters of text that the trainer gets at a time
_MIN_VOCAB_SIZE = 256 + len(SPECIAL)  # every byte has a token, so that any text can be encoded

# How Qwen2 splits a text before merges: contractions, words, single digits, punctuation, line breaks, spaces.
_SPLIT = (
    r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+"
    r'|\s+(?!\S)|\s+'
)


def main(argv: Sequence[str]) -> int:
  """Runs the command; returns the exit code."""
  arguments = vars(_parser().parse_args(argv))
  try:
    print(init_model(arguments.pop('text'), arguments.pop('output'), **arguments))
  except ValueError as error:
    raise CommandError(error) from error
  return EXIT_DONE


def _parser() -> Parser:
  parser = Parser(
      prog='rlx init-model',
      description='Write a small random model with a tokenizer of its own as a Hugging Face directory.',
      formatter_class=argparse.ArgumentDefaultsHelpFormatter,
  )
  add = parser.add_argument
  add('--text', required=True, action='append', metavar='FILE', default=argparse.SUPPRESS,
      help='to train the tokenizer on: plain text, or .jsonl of which all strings count; may be repeated')
  add('--output', required=True, metavar='DIR', default=argparse.SUPPRESS, help='new, or empty')
  add('--family', default='qwen2', choices=FAMILIES, help='the architecture')
  add('--vocab_size', type=positive, default=512, help='tokens at most, special ones included')
  add('--layers', type=positive, default=4, help='blocks')
  add('--width', type=positive, default=128, help='size of the residual stream')
  add('--heads', type=positive, default=4, help='query heads')
  add('--kv_heads', type=natural, default=0, help='key and value heads; 0 for as many as heads')
  add('--mlp_size', type=positive, default=512, help='hidden units of the MLP, or of each expert')
  add('--context_length', type=positive, default=1024, help='the longest row, in tokens')
  add('--chat_template', default='chatml', choices=('chatml', 'none'), help='how conversations are written')
  add('--seed', type=seed, default=0, help='of the weights')
  add('--dtype', default='float32', choices=('float32', 'bfloat16'), help='of the weights')
  return parser


def init_model(
    text: Sequence[str | Path],
    directory: str | Path,
    *,
    family: str,
    vocab_size: int,
    layers: int,
    width: int,
    heads: int,
    kv_heads: int,
    mlp_size: int,
    context_length: int,
    chat_template: str,
    seed: int,
    dtype: str,
) -> str:
  """Trains a tokenizer, draws weights and writes both; the same arguments write the same bytes.

  Args:
    text: files; see `--text`.
    directory: new, or empty.
    family: one of `FAMILIES`.
    vocab_size: the most tokens, special ones included; at least 259.
    layers: blocks.
    width: size of the residual stream; `heads` divides it.
    heads: query heads.
    kv_heads: key and value heads; divides `heads`. 0 is as many as `heads`, which gpt2 must have.
    mlp_size: hidden units of the feed-forward part, or of each of 8 experts.
    context_length: the longest row, in tokens.
    chat_template: 'chatml' or 'none'.
    seed: of the weights.
    dtype: of the weights, 'float32' or 'bfloat16'.
  Returns:
    What was written, in a few lines.
  Raises:
    ValueError: the directory holds something, the sizes do not fit together, or a file cannot be read.
  """
  directory = Path(directory)
  if directory.exists() and (not directory.is_dir() or any(directory.iterdir())):
    raise ValueError(f'{directory} is there and not empty; choose another directory, or remove it')
  sizes = {
      'layers': layers, 'width': width, 'heads': heads, 'kv_heads': kv_heads or heads, 'mlp_size': mlp_size,
      'context_length': context_length,
  }
  _check(family, chat_template, dtype, sizes)
  tokenizer = train_tokenizer(text, vocab_size)
  num_tokens = tokenizer.get_vocab_size()
  import jax

  from rlx.models import hf, hf_config, transformer

  settings = _settings(family, vocab_size=num_tokens, **sizes)
  config = hf_config.parse(family, settings, context_length=0, dtype=dtype, param_dtype=dtype, remat=False)
  params = jax.jit(transformer.init, static_argnums=1)(jax.random.key(seed), config)
  ids = _special_ids(tokenizer, chat_template)
  hf.save(directory, params, config, family=family, settings=ids)
  write_tokenizer(directory, tokenizer, context_length=context_length, chat_template=chat_template)
  num_bytes = sum(path.stat().st_size for path in directory.iterdir())
  return (
      f'{directory}: {family}, {transformer.num_parameters(params):,} parameters in {dtype}, {num_tokens} '
      f'tokens, {context_length} tokens of context, {num_bytes / 1e6:.1f} MB\n'
      + '  '.join(sorted(path.name for path in directory.iterdir()))
  )


def _check(family: str, chat_template: str, dtype: str, sizes: Mapping[str, int]) -> None:
  """Raises `ValueError` for what cannot be a model."""
  for name, value, choices in (
      ('family', family, FAMILIES), ('chat_template', chat_template, ('chatml', 'none')),
      ('dtype', dtype, ('float32', 'bfloat16')),
  ):
    if value not in choices:
      raise ValueError(f'{name}={value!r} is not one of {", ".join(choices)}')
  if min(sizes.values()) < 1:
    raise ValueError(f'{sizes}: each is at least 1')
  width, heads, kv_heads = (sizes[name] for name in ('width', 'heads', 'kv_heads'))
  if family == 'gpt2' and kv_heads != heads:
    raise ValueError(f'kv_heads={kv_heads}: gpt2 has as many as heads, {heads}; set 0')
  if width % (2 * heads):
    nearest = 2 * heads * max(round(width / (2 * heads)), 1)
    raise ValueError(f'width={width} is no multiple of 2 x heads={heads}; the nearest is {nearest}')


def train_tokenizer(text: Sequence[str | Path], vocab_size: int):
  """A byte-level BPE tokenizer (of `tokenizers`) trained on files.

  Args:
    text: files; see `--text`.
    vocab_size: the most tokens, special ones included.
  Raises:
    ValueError: `vocab_size` has no room for all bytes, or a file cannot be read.
  """
  try:
    import tokenizers
  except ImportError as error:
    raise ValueError(f'a tokenizer is trained with the package tokenizers: {INSTALL}') from error
  if vocab_size < _MIN_VOCAB_SIZE:
    raise ValueError(f'vocab_size={vocab_size}: bytes and special tokens alone are {_MIN_VOCAB_SIZE}')
  for path in text:
    if not Path(path).is_file():
      raise ValueError(f'{path}: no such file (the working directory is {Path.cwd()})')
  tokenizer = tokenizers.Tokenizer(tokenizers.models.BPE())
  tokenizer.normalizer = tokenizers.normalizers.NFC()
  split = tokenizers.pre_tokenizers.Split(tokenizers.Regex(_SPLIT), behavior='isolated')
  to_bytes = tokenizers.pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)
  tokenizer.pre_tokenizer = tokenizers.pre_tokenizers.Sequence([split, to_bytes])
  tokenizer.post_processor = tokenizers.processors.ByteLevel(trim_offsets=False)
  tokenizer.decoder = tokenizers.decoders.ByteLevel()
  trainer = tokenizers.trainers.BpeTrainer(
      vocab_size=vocab_size, special_tokens=list(SPECIAL), show_progress=False,
      initial_alphabet=tokenizers.pre_tokenizers.ByteLevel.alphabet(),
  )
  blocks = itertools.chain.from_iterable(_blocks(str(path)) for path in text)
  tokenizer.train_from_iterator(blocks, trainer)
  return tokenizer


def _blocks(path: str) -> Iterator[str]:
  """The text of a file, in parts."""
  if path.endswith(('.jsonl', '.jsonl.gz')):
    for row in read_rows(path, malformed='strict').rows:
      yield from _strings(row)
    return
  try:
    with open(path, encoding='utf-8') as file:
      while lines := file.readlines(_BLOCK):
        yield ''.join(lines)
  except UnicodeDecodeError as error:
    raise ValueError(f'{path} is not UTF-8 text ({error}); give text, or rows as .jsonl') from error


def _strings(value: Any) -> Iterator[str]:
  """Every string of JSON-like data but the names of its columns."""
  if isinstance(value, str):
    yield value
  elif isinstance(value, Mapping | list):
    for part in value.values() if isinstance(value, Mapping) else value:
      yield from _strings(part)


def _settings(
    family: str, *, vocab_size: int, layers: int, width: int, heads: int, kv_heads: int, mlp_size: int,
    context_length: int,
) -> dict[str, Any]:
  """Of config.json: the sizes, and what a small model of the family has otherwise than a large one."""
  if family == 'gpt2':
    return {
        'vocab_size': vocab_size, 'n_layer': layers, 'n_embd': width, 'n_head': heads, 'n_inner': mlp_size,
        'n_positions': context_length,
    }
  settings = {
      'vocab_size': vocab_size, 'num_hidden_layers': layers, 'hidden_size': width,
      'num_attention_heads': heads, 'num_key_value_heads': kv_heads, 'head_dim': width // heads,
      'intermediate_size': mlp_size, 'max_position_embeddings': context_length, 'tie_word_embeddings': True,
  }
  if family == 'mistral':
    settings['sliding_window'] = None  # as from version 0.2 on
  if family in ('gemma2', 'gemma3_text'):  # every second layer sees half the context
    settings |= {'query_pre_attn_scalar': width // heads, 'sliding_window': max(context_length // 2, 1)}
    settings['sliding_window_pattern'] = 2
  if family == 'qwen3_moe':
    settings |= {
        'moe_intermediate_size': mlp_size, 'num_experts': _NUM_EXPERTS, 'norm_topk_prob': True,
        'num_experts_per_tok': _EXPERTS_PER_TOKEN,
    }
  return settings


def _special_ids(tokenizer, chat_template: str) -> dict[str, int]:
  """Of config.json. A model that chats ends its turn, another one the text."""
  end = TURN_END if chat_template == 'chatml' else END_OF_TEXT
  names = {'bos_token_id': END_OF_TEXT, 'eos_token_id': end, 'pad_token_id': END_OF_TEXT}
  return {key: tokenizer.token_to_id(name) for key, name in names.items()}


def write_tokenizer(directory: Path, tokenizer, *, context_length: int, chat_template: str) -> None:
  """Everything of a model directory that is not config.json or weights.

  Args:
    directory: is there.
    tokenizer: from `train_tokenizer`.
    context_length: the longest row, in tokens.
    chat_template: 'chatml' or 'none'.
  """
  ids = _special_ids(tokenizer, chat_template)
  ends = sorted(tokenizer.token_to_id(name) for name in (TURN_END, END_OF_TEXT))
  of_tokenizer = {
      'tokenizer_class': 'PreTrainedTokenizerFast',
      'bos_token': None,  # none is put before a text
      'eos_token': tokenizer.id_to_token(ids['eos_token_id']),
      'pad_token': END_OF_TEXT,
      'unk_token': None,
      'extra_special_tokens': [TURN_START, TURN_END],
      'model_max_length': context_length,
      'clean_up_tokenization_spaces': False,
  }
  tokenizer.save(str(directory / 'tokenizer.json'))
  for name, settings in (
      ('tokenizer_config.json', of_tokenizer),
      ('generation_config.json', {**ids, 'eos_token_id': ends}),
  ):
    (directory / name).write_text(json.dumps(settings, indent=2) + '\n')
  if chat_template == 'chatml':
    (directory / 'chat_template.jinja').write_text(CHATML)

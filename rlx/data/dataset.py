"""Data sets as tasks: the rows of files become prompts, and demonstrations where they hold answers.

A `Dataset` has the surface of `rlx.envs.text.Task`, so the rest of rlx treats both alike. What a row holds is
told by its columns, which are those of TRL:

    prompt                     problems, for rewards that need no more than the completion and other columns
    prompt, completion         a demonstration
    messages                   a conversation; all that the assistant says in it is demonstrated
    prompt, chosen, rejected   a pair; where `prompt` is missing, it is what both answers begin with
    prompt, completion, label  a completion that is good (true) or bad (false)

A prompt or an answer is a string or a list of messages. Columns beside these are kept for reward functions.

Everything is tokenised once, when the data set is loaded. The arrays are arguments of the compiled step; what
a run remembers is a count and a key: rows come in an order that is shuffled anew for each epoch, and each
comes once an epoch.
"""

import collections
from collections.abc import Iterator, Mapping, Sequence
import dataclasses
import functools
import itertools
import json
import logging
import re
import string
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from rlx.data import tokenizer as tokenizers
from rlx.data.order import shuffled
from rlx.data.rows import Fault, Row, Rows, read_rows
from rlx.data.tokenizer import Piece, Tokenizer
from rlx.types import Batch, World

_KINDS = (  # the first one whose columns a row has
    ('chosen', 'rejected'),
    ('prompt', 'completion', 'label'),
    ('prompt', 'completion'),
    ('messages',),
    ('prompt',),
)
_MESSAGE = "{'role': 'user', 'content': 'Hi'}"
_CHUNK = 2048  # rows that are tokenised at a time: Python's lists of numbers are large

Text = str | list[Mapping[str, Any]]  # a string or messages
_logger = logging.getLogger(__name__)


@dataclasses.dataclass(frozen=True, kw_only=True, eq=False)
class Dataset:
  """Training and held-out rows, tokenised.

  Rows have numbers: the training rows from 0 on, then the held-out ones.

  Attributes:
    tokenizer: of the model directory.
    conversational: prompts are lists of messages; otherwise they are strings.
    eos_ids: tokens that end a row.
    prompt_columns: length of the longest prompt, in tokens.
    answer_columns: from the first to the last action of a demonstration, at most, in tokens; 0 where there
      are none.
    data: arrays of the N training rows: `prompts` [N, prompt_columns] and `prompt_lengths` [N]; where rows
      have A answers (2 for pairs), `tokens` and `action_mask` [N * A, T], `lengths` [N * A], the answers of a
      row next to each other; `labels` [N] where rows have them.
    held_out_data: the same of the H held-out rows; None where there are none.
    rows: what was read, all N + H.
    texts: the prompt of each of them.
    skipped: how many rows were left out, by reason.
  """

  tokenizer: Tokenizer
  conversational: bool
  eos_ids: tuple[int, ...]
  prompt_columns: int
  answer_columns: int
  data: Mapping[str, np.ndarray]
  held_out_data: Mapping[str, np.ndarray] | None
  rows: Sequence[Row]
  texts: Sequence[Text]
  skipped: Mapping[str, int]

  @property
  def vocab_size(self) -> int:
    return self.tokenizer.vocab_size

  @property
  def pad_id(self) -> int:
    return self.tokenizer.pad_id

  @property
  def action_columns(self) -> int:
    """The columns that a score of demonstrations has to cover, from the first action on."""
    return self.answer_columns

  def encode(self, text: str) -> np.ndarray:
    """[N] int32 tokens of a text, with nothing added."""
    return np.array(self.tokenizer.encode(text, special=False), np.int32)

  def decode(self, tokens) -> str:
    """The text of all tokens [N] but special ones; the caller stops at the end of a row."""
    return self.tokenizer.decode(tokens)

  # --- training rows, inside the compiled step

  def begin(self, key: jax.Array) -> World:
    """The memory at the start: how many rows were drawn (below 2**31), and what chooses their orders."""
    return {'cursor': jnp.zeros((), jnp.int32), 'order_key': key}

  def draw(self, world: World, key: jax.Array, num: int) -> tuple[Batch, World]:
    """The next prompts.

    Args:
      world: as from `begin`, with `data`.
      key: not used: `world` says which rows come next.
      num: how many rows; it need not divide an epoch.
    Returns:
      `prompts` [num, prompt_columns], `prompt_lengths` [num] and `rows` [num], the numbers of the rows; and
      the world, without `data`.
    """
    del key
    data, rows, world = _next_rows(world, num)
    prompts, lengths = (jnp.asarray(data[name])[rows] for name in ('prompts', 'prompt_lengths'))
    return {'prompts': prompts, 'prompt_lengths': lengths, 'rows': rows}, world

  def demonstrate(self, world: World, key: jax.Array, num: int) -> tuple[Batch, World]:
    """The next demonstrations, as rows of a batch.

    Args:
      world: as from `begin`, with `data`.
      key: not used: `world` says which rows come next.
      num: how many; of pairs, both answers count.
    Returns:
      `tokens, valid, action_mask, prompt_lengths, turns, groups, rows`; of pairs the better answer comes
      first and `preferred` tells, which it does of labelled completions too. And the world, without `data`.
    Raises:
      ValueError: the rows hold prompts only, or are pairs and `num` is odd.
    """
    del key
    num_rows = _rows_for(world['data'], num, 'data.train')
    data, rows, world = _next_rows(world, num_rows)
    return _demonstrations(data, rows), world

  # --- held-out rows and texts, on the host

  def held_out(self, num: int) -> dict[str, np.ndarray]:
    """`prompts`, `prompt_lengths` and `rows` of the first held-out rows.

    Raises:
      ValueError: there are fewer than `num`.
    """
    data = self._held_out_data(num)
    first = len(self.data['prompts'])
    arrays = {name: data[name][:num] for name in ('prompts', 'prompt_lengths')}
    return {**arrays, 'rows': np.arange(first, first + num, dtype=np.int32)}

  def held_out_demonstrations(self, num: int) -> dict[str, np.ndarray]:
    """The first held-out demonstrations, as in `demonstrate`.

    Raises:
      ValueError: there are fewer than `num`, they hold prompts only, or are pairs and `num` is odd.
    """
    num_rows = _rows_for(self._held_out_data(0), num, 'data.held_out')
    data = self._held_out_data(num_rows)
    batch = jax.device_get(jax.jit(_demonstrations)(data, jnp.arange(num_rows)))
    return {**batch, 'rows': batch['rows'] + np.int32(len(self.data['prompts']))}

  def columns(self, rows: Sequence[int]) -> dict[str, list]:
    """Every column of the file but `prompt`, for reward functions.

    Args:
      rows: [B] numbers of rows.
    Returns:
      Column -> [B] values; None where a row lacks the column.
    """
    rows = [self.rows[row] for row in rows]
    return {name: [row.get(name) for row in rows] for name in self._names}

  def prompts(self, rows: Sequence[int]) -> list[Text]:
    """The prompts of rows [B]: strings, or lists of messages where `conversational`."""
    return [self.texts[row] for row in rows]

  def solutions(self, rows: Sequence[int]) -> list[str]:
    """What the demonstrations of rows [B] say first (of a pair, the better one); '' where there is none."""
    return [self._solution(row) for row in rows]

  @functools.cached_property
  def _names(self) -> list[str]:
    names = dict.fromkeys(itertools.chain.from_iterable(self.rows))
    return [name for name in names if name != 'prompt']

  def _solution(self, row: int) -> str:
    num_rows = len(self.data['prompts'])
    data, row = (self.data, row) if row < num_rows else (self.held_out_data, row - num_rows)
    if not (num_answers := _num_answers(data)):
      return ''
    mask = data['action_mask'][row * num_answers]
    first = int(mask.argmax())
    turn = itertools.takewhile(lambda column: mask[column], range(first, len(mask)))
    return self.decode(data['tokens'][row * num_answers, list(turn)])

  def _held_out_data(self, num: int) -> Mapping[str, np.ndarray]:
    if self.held_out_data is None:
      raise ValueError('there are no held-out rows: data.held_out is empty; name a file')
    if num > (there := len(self.held_out_data['prompts'])):
      raise ValueError(f'{num} held-out rows are asked for, and data.held_out has {there}; ask for fewer')
    return self.held_out_data


def _next_rows(world: World, num: int) -> tuple[Mapping[str, jax.Array], jax.Array, World]:
  """The data, the numbers [num] of the next rows, and the world without the data."""
  data, key = world['data'], world['order_key']
  num_rows = data['prompts'].shape[0]
  drawn = world['cursor'] + jnp.arange(num)
  order = lambda epoch, place: shuffled(place, num_rows, jax.random.fold_in(key, epoch))
  rows = jax.vmap(order)(drawn // num_rows, drawn % num_rows)
  return data, rows, {'cursor': world['cursor'] + num, 'order_key': key}


def _num_answers(data: Mapping[str, np.ndarray]) -> int:
  """Demonstrations a row."""
  return data['tokens'].shape[0] // data['prompts'].shape[0] if 'tokens' in data else 0


def _rows_for(data: Mapping[str, np.ndarray], num: int, where: str) -> int:
  """How many rows hold `num` demonstrations."""
  num_answers = _num_answers(data)
  if not num_answers:
    raise ValueError(
        f'{where} holds prompts only and demonstrates nothing; it needs a column completion or messages, or '
        'chosen and rejected (data.columns makes columns of others)'
    )
  if num % num_answers:
    raise ValueError(f'{num} rows cannot hold whole pairs of {where}; take {num + 1}')
  return num // num_answers


def _demonstrations(data: Mapping[str, jax.Array], rows: jax.Array) -> Batch:
  """Rows [P] of data as a batch of P demonstrations, or twice as many where they are pairs."""
  num_answers = _num_answers(data)
  index = jnp.repeat(rows, num_answers) * num_answers + jnp.arange(len(rows) * num_answers) % num_answers
  tokens, lengths, action_mask = (jnp.asarray(data[k])[index] for k in ('tokens', 'lengths', 'action_mask'))
  begins = action_mask & ~jnp.pad(action_mask[:, :-1], ((0, 0), (1, 0)))
  batch = {
      'tokens': tokens,
      'valid': jnp.arange(tokens.shape[1])[None] < lengths[:, None],
      'action_mask': action_mask,
      'prompt_lengths': jnp.argmax(action_mask, axis=1).astype(jnp.int32),
      'turns': jnp.cumsum(begins, axis=1) - 1,
      'groups': jnp.repeat(jnp.arange(len(rows)), num_answers),
      'rows': jnp.repeat(rows, num_answers),
  }
  if num_answers == 2:
    batch['preferred'] = index % 2 == 0
  if 'labels' in data:
    batch['preferred'] = jnp.asarray(data['labels'])[rows]
  return batch


# --- loading ------------------------------------------------------------------------------------------------


def dataset(
    *,
    directory: str,
    train: str,
    held_out: str,
    columns: Mapping[str, str],
    chat: bool,
    system: str,
    max_prompt_tokens: int,
    max_completion_tokens: int,
    malformed: str,
) -> Dataset:
  """Rows of files as a task.

  Args:
    directory: of the model whose tokenizer and chat template are used.
    train: file of training rows, or hub id; see `rlx.data.rows.read_rows`.
    held_out: the same for evaluation; '' for none.
    columns: new columns as templates over those of the file, such as
      `{'prompt': 'Question: {question}\\nAnswer:', 'completion': ' {answer}'}`; literal braces are doubled.
    chat: prompts that are strings become the message of a user, and answers those of the assistant. What is
      messages already goes through the chat template in any case.
    system: the system message before prompts that are strings; '' for none.
    max_prompt_tokens: a row with a longer prompt is malformed.
    max_completion_tokens: so is one with a longer answer, its end token included.
    malformed: 'strict' raises at the first malformed row, 'skip' leaves it out; a log line counts them.
  Raises:
    ValueError: no tokenizer, no such file, or rows that cannot be used; names the file and the line.
  """
  limits = {'max_prompt_tokens': max_prompt_tokens, 'max_completion_tokens': max_completion_tokens}
  if min(limits.values()) < 1:
    raise ValueError(f'{limits}: both are at least 1')
  if system and not chat:
    raise ValueError(f'system={system!r} is a message, and chat is False; set chat, or put it into columns')
  tokenizer = tokenizers.load(directory)
  templates = _templates(columns)
  parts = [
      _read(read_rows(path, malformed=malformed), templates, tokenizer, chat=chat, system=system, **limits)
      for path in (train, held_out) if path
  ]
  conversational, *same = (isinstance(part.texts[0], list) for part in parts)
  if same and same != [conversational]:
    raise ValueError(f'only one of {train} and {held_out} has messages as prompts; chat makes it both')
  _say(parts)
  encoded = [x for part in parts for answers in part.encoded for x in answers]
  shape = (max(x.prompt_length for x in encoded), max(len(x.tokens) for x in encoded))
  arrays = [_arrays(part, *shape, tokenizer.pad_id) for part in parts]
  return Dataset(
      tokenizer=tokenizer,
      conversational=conversational,
      eos_ids=tokenizer.turn_eos_ids if conversational else tokenizer.eos_ids,
      prompt_columns=shape[0],
      answer_columns=max(len(x.tokens) - x.prompt_length for x in encoded),
      data=arrays[0],
      held_out_data=arrays[1] if held_out else None,
      rows=[row for part in parts for row in part.rows.rows],
      texts=[text for part in parts for text in part.texts],
      skipped=sum((part.rows.skipped for part in parts), start=collections.Counter()),
  )


class _Malformed(Exception):
  """A row cannot be used; `args` are those of its `Fault`."""


class _Example(NamedTuple):
  """What a row says."""

  prompt: Text
  answers: tuple[Text, ...] = ()  # none, one, or the better and the worse of a pair
  label: bool | None = None


class _Encoded(NamedTuple):
  """A prompt and what is demonstrated behind it, up to the last action."""

  tokens: np.ndarray  # [T] int32
  action_mask: np.ndarray  # [T] bool
  prompt_length: int  # tokens before the first action


class _Part(NamedTuple):
  """What was made of the rows of a file; the prompt of a row is encoded with each of its answers."""

  rows: Rows
  texts: list[Text]
  labels: list[bool | None]
  encoded: list[list[_Encoded]]


def _read(
    rows: Rows, templates, tokenizer: Tokenizer, *, chat: bool, system: str, max_prompt_tokens: int,
    max_completion_tokens: int,
) -> _Part:
  """The rows of a file with everything that is made of them; those that cannot be used are sifted out."""
  rows, filled = rows.sift([_or_fault(_filled, row, templates) for row in rows.rows])
  rows = dataclasses.replace(rows, rows=filled)
  kind = next(filter(None, map(_kind, filled)), ())
  rows, examples = rows.sift([_or_fault(_example, row, kind, chat, system) for row in filled])
  first = type(examples[0].prompt)
  rows, examples = rows.sift([_or_fault(_of_type, example, first) for example in examples])
  rows, pieces = rows.sift([_or_fault(_with_pieces, tokenizer, example) for example in examples])
  fitting = functools.partial(_fitting, limits=(max_prompt_tokens, max_completion_tokens))
  rows, encoded = rows.sift([_or_fault(fitting, *x) for x in _encode(tokenizer, pieces)])
  examples = [example for example, _ in encoded]
  return _Part(
      rows=rows, texts=[x.prompt for x in examples], labels=[x.label for x in examples],
      encoded=[answers for _, answers in encoded],
  )


def _or_fault(function, *arguments):
  try:
    return function(*arguments)
  except _Malformed as error:
    return Fault(*error.args)


def _say(parts: Sequence[_Part]) -> None:
  """Logs what was left out, and how many held-out prompts are trained on."""
  for part in parts:
    if line := part.rows.report():
      _logger.warning(line)
  train, held_out = ([json.dumps(text, default=str) for text in part.texts] for part in (parts[0], parts[-1]))
  common = len(set(train) & set(held_out))
  if common and len(parts) == 2:
    _logger.warning(f'{parts[1].rows.path}: {common} held-out prompts are also in {parts[0].rows.path}')


# --- what a row says ----------------------------------------------------------------------------------------


def _templates(columns: Mapping[str, str]) -> list[tuple[str, str, list[str]]]:
  """(new column, template, columns that it is made of)."""
  templates = []
  for name, template in columns.items():
    try:
      fields = [field for _, field, _, _ in string.Formatter().parse(template) if field is not None]
    except (ValueError, TypeError) as error:
      raise ValueError(f'columns.{name}={template!r}: {error}; literal braces are doubled') from error
    roots = [re.split(r'[.\[]', field)[0] for field in fields]
    if not all(root.isidentifier() for root in roots):
      raise ValueError(f'columns.{name}={template!r}: braces hold a column; literal braces are doubled')
    templates.append((name, template, roots))
  return templates


def _filled(row: Row, templates) -> Row:
  """A row with its new columns."""
  new = {}
  for name, template, roots in templates:
    for root in roots:
      if row.get(root) is None:
        raise _Malformed(f'no {root!r} for the new column {name!r}', f'the row has {", ".join(row)}')
    try:
      new[name] = template.format_map(row)
    except (LookupError, AttributeError, TypeError, ValueError) as error:
      raise _Malformed(f'the new column {name!r} cannot be filled', f'{template!r}: {error!r}') from error
  return {**row, **new}


def _kind(row: Row) -> tuple[str, ...]:
  """The columns that say what a row holds; none where it has nothing that is known."""
  return next((kind for kind in _KINDS if all(row.get(name) is not None for name in kind)), ())


def _example(row: Row, kind: tuple[str, ...], chat: bool, system: str) -> _Example:
  if not kind:
    hint = "data.columns={'prompt': '{question}'} makes a prompt of a column 'question'"
    raise _Malformed('no column that is known', f'it has {", ".join(row) or "none"}; {hint}')
  if missing := [name for name in kind if row.get(name) is None]:
    raise _Malformed(f'no {missing[0]!r}', f'the first rows have it; this one has {", ".join(row) or "none"}')
  label = row['label'] if 'label' in kind else None
  if 'label' in kind and type(label) is not bool:
    raise _Malformed("'label' is not true or false", f'it is {label!r}')
  names = ('prompt', *kind) if 'chosen' in kind else kind
  texts = {name: _text(row, name) for name in names if name != 'label' and row.get(name) is not None}
  if 'messages' in kind:
    prompt, answers = _split_messages(texts['messages'])
  elif 'chosen' in kind:
    prompt, answers = _split_pair(texts)
  else:
    prompt, answers = texts['prompt'], tuple(texts[name] for name in kind[1:2])
  if not (prompt.strip() if isinstance(prompt, str) else prompt):
    raise _Malformed('empty prompt', 'nothing could be answered; write one or delete the row')
  if chat or isinstance(prompt, list):
    prompt, answers = _as_messages(prompt, answers, system)
  elif not all(isinstance(answer, str) for answer in answers):
    raise _Malformed('the prompt is a string and the answer is messages', 'set chat, or make both the same')
  return _Example(prompt, answers, label)


def _text(row: Row, name: str) -> Text:
  """A column that holds a string or messages."""
  value = row[name]
  if isinstance(value, str) and name != 'messages':
    strings = [value]
  elif isinstance(value, list) and all(_is_message(message) for message in value):
    strings = [message.get('content') or '' for message in value]
  else:
    wanted = 'messages' if name == 'messages' else 'a string or messages'
    shown = json.dumps(value, default=str)[:60]
    raise _Malformed(f'{name!r} is not {wanted}', f'it is {shown}; a message is {_MESSAGE}')
  try:
    '\n'.join(strings).encode()
  except UnicodeEncodeError as error:
    half = error.object[error.start]
    raise _Malformed(f'{name!r} is not Unicode', f'it has half a character, {half!a}; mend it') from None
  return value


def _is_message(message) -> bool:
  """A role, and a content that is text; what calls tools may lack one."""
  if not isinstance(message, Mapping) or not isinstance(message.get('role'), str):
    return False
  content = message.get('content')
  return isinstance(content, str) or (content is None and bool(message.get('tool_calls')))


def _split_messages(messages: list) -> tuple[Text, tuple[Text, ...]]:
  """What stands before the assistant first speaks, and the rest."""
  first = next((i for i, message in enumerate(messages) if message['role'] == 'assistant'), None)
  if not first:
    reason = 'nobody speaks before the assistant' if first == 0 else 'the assistant says nothing'
    raise _Malformed(reason, f'the roles are {[message["role"] for message in messages]}')
  return messages[:first], (messages[first:],)


def _split_pair(texts: Mapping[str, Text]) -> tuple[Text, tuple[Text, ...]]:
  """The prompt of a pair and its answers; the prompt may be what both answers begin with.

  So it is where there is no prompt, and where it is a string that the answers repeat as messages.
  """
  prompt, *answers = (texts.get(name) for name in ('prompt', 'chosen', 'rejected'))
  if type(answers[0]) is not type(answers[1]):
    raise _Malformed('only one of chosen and rejected is messages', 'make both the same')
  if prompt is not None and (isinstance(prompt, list) or isinstance(answers[0], str)):
    return prompt, tuple(answers)
  same = itertools.takewhile(lambda x: x[0] == x[1], zip(*answers, strict=False))
  num = sum(1 for _ in same)
  if num == max(map(len, answers)):
    raise _Malformed('chosen and rejected are the same', 'so their prompt cannot be told; give it a column')
  if isinstance(answers[0], str) and answers[0][:num].endswith(' '):
    num -= 1  # tokenizers take the space with the word behind it
  return answers[0][:num], tuple(answer[num:] for answer in answers)


def _as_messages(prompt: Text, answers: Sequence[Text], system: str) -> tuple[Text, tuple[Text, ...]]:
  """A prompt and answers as lists of messages."""
  if isinstance(prompt, list):
    if system:
      raise _Malformed('the prompt is messages already', f'system={system!r} is for strings; set it to ""')
  else:
    prompt = [{'role': 'system', 'content': system}] * bool(system) + [{'role': 'user', 'content': prompt}]
  answers = tuple([{'role': 'assistant', 'content': x}] if isinstance(x, str) else x for x in answers)
  if answers and prompt[-1]['role'] == 'assistant':
    raise _Malformed('the prompt ends in the middle of an answer', 'move the last message to the answer')
  if any(not answer or answer[0]['role'] != 'assistant' for answer in answers):
    raise _Malformed('an answer does not begin with the assistant', 'move what precedes it to the prompt')
  return prompt, answers


def _of_type(example: _Example, first: type) -> _Example:
  if type(example.prompt) is not first:
    raise _Malformed('strings and messages are mixed', 'chat makes all of them messages')
  return example


# --- tokens -------------------------------------------------------------------------------------------------


def _with_pieces(tokenizer: Tokenizer, example: _Example) -> tuple[_Example, list[list[Piece]]]:
  """An example, and its prompt with each of its answers (or its prompt alone) as pieces to encode."""
  prompt, answers, _ = example
  if isinstance(prompt, str):
    with_answers = [[Piece(prompt), Piece(answer, action=True)] for answer in answers]
    return example, with_answers or [[Piece(prompt)]]
  chat = functools.partial(tokenizer.chat_pieces, actions_from=len(prompt))
  try:
    with_answers = [chat([*prompt, *answer], generation_prompt=False) for answer in answers]
    return example, with_answers or [chat(prompt, generation_prompt=True)]
  except ValueError as error:
    raise _Malformed('the chat template cannot write it', str(error)) from error


def _encode(
    tokenizer: Tokenizer, examples: Sequence[tuple[_Example, list[list[Piece]]]]
) -> Iterator[tuple[_Example, list[_Encoded]]]:
  """Examples with their tokens."""
  for start in range(0, len(examples), _CHUNK):
    chunk = examples[start : start + _CHUNK]
    encoded = iter(tokenizer.encode_pieces([row for _, rows in chunk for row in rows]))
    for example, rows in chunk:
      yield example, [_finished(tokenizer, example, *next(encoded)) for _ in rows]


def _finished(tokenizer: Tokenizer, example: _Example, ids: list[int], mask: list[bool]) -> _Encoded:
  """Tokens with what a template has not written (BOS, EOS), up to the last action."""
  if isinstance(example.prompt, str):
    started = tokenizer.start(ids)
    mask = [False] * (len(started) - len(ids)) + mask
    ids = started
    if example.answers and not (mask[-1:] == [True] and ids[-1] in tokenizer.eos_ids):
      ids, mask = [*ids, tokenizer.eos_ids[0]], [*mask, True]
  elif example.answers:
    num = len(mask) - mask[::-1].index(True)
    ids, mask = ids[:num], mask[:num]
  prompt_length = mask.index(True) if example.answers else len(ids)
  return _Encoded(np.array(ids, np.int32), np.array(mask, bool), prompt_length)


def _fitting(example: _Example, answers: list[_Encoded], limits: tuple[int, int]):
  """The same, if it is neither empty nor too long."""
  for name, limit, sizes in (
      ('prompt', limits[0], [x.prompt_length for x in answers]),
      ('completion', limits[1], [len(x.tokens) - x.prompt_length for x in answers]),
  ):
    if max(sizes) > limit:
      raise _Malformed(f'{name} too long', f'{max(sizes)} tokens, max_{name}_tokens={limit}: raise it')
  if min(x.prompt_length for x in answers) == 0:
    raise _Malformed('empty prompt', 'the tokenizer makes no token of it')
  return example, answers


def _arrays(part: _Part, prompt_columns: int, columns: int, pad_id: int) -> dict[str, np.ndarray]:
  """The arrays of `Dataset.data`."""
  prompts = [answers[0].tokens[: answers[0].prompt_length] for answers in part.encoded]
  data = {
      'prompts': _padded(prompts, prompt_columns, pad_id, np.int32),
      'prompt_lengths': np.array([len(prompt) for prompt in prompts], np.int32),
  }
  demonstrated = [x for answers in part.encoded for x in answers if x.action_mask.any()]
  if demonstrated:
    data['tokens'] = _padded([x.tokens for x in demonstrated], columns, pad_id, np.int32)
    data['action_mask'] = _padded([x.action_mask for x in demonstrated], columns, False, bool)
    data['lengths'] = np.array([len(x.tokens) for x in demonstrated], np.int32)
  if part.labels[0] is not None:
    data['labels'] = np.array(part.labels, bool)
  return data


def _padded(rows: Sequence[np.ndarray], columns: int, value: int, dtype) -> np.ndarray:
  array = np.full((len(rows), columns), value, dtype)
  for target, row in zip(array, rows, strict=True):
    target[: len(row)] = row
  return array

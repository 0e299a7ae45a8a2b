"""Data sets as tasks: the rows of files become prompts, and demonstrations where they hold answers.

A `Dataset` has the surface of `rlx.envs.text.Task`, so the rest of rlx treats both alike. What a row holds is
told by its columns, which are those of TRL:

    prompt                     problems, for rewards that need no more than the completion and other columns
    prompt, completion         a demonstration
    messages                   a conversation; all that the assistant says in it is demonstrated
    prompt, chosen, rejected   a pair; where `prompt` is missing, it is what both answers begin with
    prompt, completion, label  a completion that is good (true) or bad (false)
    prompt, completions, labels  steps of an answer, and of each whether it is right (or a number in [0, 1])

A prompt or an answer is a string or a list of messages. Columns beside these are kept for reward functions.

`chosen` and `rejected`, too, may be lists of steps, strings behind a prompt that is a string. A line break is
put behind each step that has none; its last token is the end of the step (`step_ends`). TRL tokenises every
step for itself; here it is tokenised as it is met behind the others, and the row has its end token.

Everything is tokenised once, when the data set is loaded (`stream.py` reads as it goes). The arrays are
arguments of the compiled step; what a run remembers is a count and a key: rows come in an order that is
shuffled anew for each epoch, and each comes once an epoch. Training rows may be of several files, each with
its share of the draws; a file then has epochs of its own.
"""

import collections
from collections.abc import Callable, Mapping, Sequence
import dataclasses
import functools
import itertools
import json
import logging

import jax
import jax.numpy as jnp
import numpy as np

from rlx.data import examples
from rlx.data import tokenizer as tokenizers
from rlx.data.examples import Part, Text
from rlx.data.order import Mixture, drawn_rows, mixture
from rlx.data.rows import Row, read_rows, rows_of
from rlx.data.tokenizer import Tokenizer
from rlx.types import Batch, World

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
      row next to each other; `labels` [N] where rows have them; `step_ends` [N * A, T] bool where answers are
      given step by step, and `step_labels` [N * A, T] float32 where steps are labelled.
    held_out_data: the same of the H held-out rows; None where there are none.
    sources: of the training rows, and how they take turns.
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
  sources: Mixture
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
  def vocabulary(self) -> list[bytes]:
    """The bytes of each token; of special ones, none."""
    return self.tokenizer.vocabulary

  @property
  def num_answers(self) -> int:
    """Demonstrations a training row: none, one, or the two of a pair."""
    return _num_answers(self.data)

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
      `prompts` [num, prompt_columns], `prompt_lengths` [num] and `rows` [num], the numbers of the rows, with
      `tasks` [num], the number of their file, where there are several; and the world, without `data`.
    """
    del key
    data, index, columns, world = self._next(world, num)
    prompts, lengths = (jnp.asarray(data[name])[index] for name in ('prompts', 'prompt_lengths'))
    return {'prompts': prompts, 'prompt_lengths': lengths, **columns}, world

  def demonstrate(self, world: World, key: jax.Array, num: int) -> tuple[Batch, World]:
    """The next demonstrations, as rows of a batch.

    Args:
      world: as from `begin`, with `data`.
      key: not used: `world` says which rows come next.
      num: how many; of pairs, both answers count.
    Returns:
      `tokens, valid, action_mask, prompt_lengths, turns, groups, rows`; of pairs the better answer comes
      first and `preferred` tells, which it does of labelled completions too; `step_ends` and `step_labels`
      where the data have them. And the world, without `data`.
    Raises:
      ValueError: the rows hold prompts only, or are pairs and `num` is odd.
    """
    del key
    num_rows = _rows_for(world['data'], num, 'task.train')
    data, index, columns, world = self._next(world, num_rows)
    columns = {name: jnp.repeat(x, num // num_rows) for name, x in columns.items()}
    return {**_demonstrations(data, index), **columns}, world

  def _next(self, world: World, num: int) -> tuple[Mapping[str, jax.Array], jax.Array, Batch, World]:
    """The data, where the next rows [num] are in it, `rows` and `tasks`, and the world without the data."""
    rows, source = drawn_rows(world['cursor'] + jnp.arange(num), self.sources, world['order_key'])
    columns = {'rows': rows} | ({'tasks': source} if len(self.sources.sizes) > 1 else {})
    return world['data'], rows, columns, {'cursor': world['cursor'] + num, 'order_key': world['order_key']}

  # --- held-out rows and texts, on the host

  def held_out(self, num: int) -> dict[str, np.ndarray]:
    """`prompts`, `prompt_lengths` and `rows` of the first held-out rows.

    Raises:
      ValueError: there are fewer than `num`.
    """
    data = self._held_out_data(num)
    first = self.sources.num_rows
    arrays = {name: data[name][:num] for name in ('prompts', 'prompt_lengths')}
    return {**arrays, 'rows': np.arange(first, first + num, dtype=np.int32)}

  def held_out_demonstrations(self, num: int) -> dict[str, np.ndarray]:
    """The first held-out demonstrations, as in `demonstrate`.

    Raises:
      ValueError: there are fewer than `num`, they hold prompts only, or are pairs and `num` is odd.
    """
    num_rows = _rows_for(self._held_out_data(0), num, 'task.held_out')
    data = self._held_out_data(num_rows)
    batch = jax.device_get(jax.jit(_demonstrations)(data, jnp.arange(num_rows)))
    return {**batch, 'rows': batch['rows'] + np.int32(self.sources.num_rows)}

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
    num_rows = self.sources.num_rows
    data, row = (self.data, row) if row < num_rows else (self.held_out_data, row - num_rows)
    if not (num_answers := _num_answers(data)):
      return ''
    mask = data['action_mask'][row * num_answers]
    first = int(mask.argmax())
    turn = itertools.takewhile(lambda column: mask[column], range(first, len(mask)))
    return self.decode(data['tokens'][row * num_answers, list(turn)])

  def _held_out_data(self, num: int) -> Mapping[str, np.ndarray]:
    if self.held_out_data is None:
      raise ValueError('there are no held-out rows: task.held_out is empty; name a file')
    if num > (there := len(self.held_out_data['prompts'])):
      raise ValueError(
          f'{num} held-out rows are asked for, and task.held_out has {there}; ask for fewer: `problems`, '
          f'`pairs` or `rows` of the evaluation'
      )
    return self.held_out_data


def _num_answers(data: Mapping[str, np.ndarray]) -> int:
  """Demonstrations a row."""
  return data['tokens'].shape[0] // data['prompts'].shape[0] if 'tokens' in data else 0


def _rows_for(data: Mapping[str, np.ndarray], num: int, where: str) -> int:
  """How many rows hold `num` demonstrations."""
  num_answers = _num_answers(data)
  if not num_answers:
    raise ValueError(
        f'{where} holds prompts only and demonstrates nothing; it needs a column completion or messages, or '
        'chosen and rejected (task.columns makes columns of others)'
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
  of_steps = [name for name in ('step_ends', 'step_labels') if name in data]
  return batch | {name: jnp.asarray(data[name])[index] for name in of_steps}


# --- loading ------------------------------------------------------------------------------------------------


Train = str | Sequence[tuple[str, float]]  # a file, or several with their shares


def dataset(
    *,
    directory: str,
    train: Train,
    held_out: str,
    columns: Mapping[str, str],
    chat: bool,
    system: str,
    max_prompt_tokens: int,
    max_completion_tokens: int,
    malformed: str | float,
) -> Dataset:
  """Rows of files as a task.

  Args:
    directory: of the model whose tokenizer and chat template are used.
    train: file of training rows, or hub id; see `rlx.data.rows.read_rows`. Or several of them with their
      shares of the draws, `(('a.jsonl', 0.7), ('b.jsonl', 0.3))`, whatever their sizes.
    held_out: a file for evaluation; '' for none.
    columns: new columns as templates over those of the file, such as
      `{'prompt': 'Question: {question}\\nAnswer:', 'completion': ' {answer}'}`; literal braces are doubled.
    chat: prompts that are strings become the message of a user, and answers those of the assistant. What is
      messages already goes through the chat template in any case.
    system: the system message before prompts that are strings; '' for none.
    max_prompt_tokens: a row with a longer prompt is malformed.
    max_completion_tokens: so is one with a longer answer, its end token included.
    malformed: 'strict' raises at the first malformed row, 'skip' leaves it out, and a number in [0, 1] does
      so up to that share of a file's rows and raises behind it; a log line counts and names them.
  Raises:
    ValueError: no tokenizer, no such file, or rows that cannot be used; names the file and the line.
  """
  paths, shares = files_of(train)
  tokenizer, read = reader(
      directory, columns=columns, chat=chat, system=system, max_prompt_tokens=max_prompt_tokens,
      max_completion_tokens=max_completion_tokens,
  )
  train_parts = [read(read_rows(path, malformed=malformed)) for path in paths]
  held_out_part = read(read_rows(held_out, malformed=malformed)) if held_out else None
  return _loaded(tokenizer, train_parts, shares, held_out_part)


def of_rows(
    rows: Mapping[str, Sequence[Row]],
    *,
    directory: str,
    columns: Mapping[str, str],
    chat: bool,
    system: str,
    max_prompt_tokens: int,
    max_completion_tokens: int,
    malformed: str | float,
) -> Dataset:
  """Rows in memory as a task; the other arguments are those of `dataset`.

  Args:
    rows: `train` and `held_out`, which may be empty: anything that can be iterated, of mappings.
  """
  tokenizer, read = reader(
      directory, columns=columns, chat=chat, system=system, max_prompt_tokens=max_prompt_tokens,
      max_completion_tokens=max_completion_tokens,
  )
  parts = {name: read(rows_of(name, values, malformed=malformed)) for name, values in rows.items() if values}
  return _loaded(tokenizer, [parts['train']], (1.0,), parts.get('held_out'))


def reader(
    directory: str, *, columns: Mapping[str, str], chat: bool, system: str, max_prompt_tokens: int,
    max_completion_tokens: int,
) -> tuple[Tokenizer, Callable[..., Part]]:
  """The tokenizer of a directory, and what reads rows with it, from the arguments of `dataset`."""
  limits = {'max_prompt_tokens': max_prompt_tokens, 'max_completion_tokens': max_completion_tokens}
  if min(limits.values()) < 1:
    raise ValueError(f'{limits}: both are at least 1')
  if system and not chat:
    raise ValueError(f'system={system!r} is a message, and chat is False; set chat, or put it into columns')
  tokenizer = tokenizers.load(directory)
  read = functools.partial(
      examples.read, templates=examples.templates(columns), tokenizer=tokenizer, chat=chat, system=system,
      **limits,
  )
  return tokenizer, read


def files_of(train: Train) -> tuple[tuple[str, ...], tuple[float, ...]]:
  """The files of training rows, and their shares."""
  if isinstance(train, str):
    return (train,), (1.0,)
  if not train or any(len(entry) != 2 or not isinstance(entry[0], str) for entry in train):
    raise ValueError(f"train={train!r} is neither a file nor files with shares, (('a.jsonl', 0.7), ..)")
  return tuple(path for path, _ in train), tuple(float(share) for _, share in train)


def _loaded(
    tokenizer: Tokenizer, train: Sequence[Part], shares: Sequence[float], held_out: Part | None
) -> Dataset:
  """The data set of some rows."""
  parts = [*train, *([held_out] if held_out else [])]
  check_alike([(part.rows.path, part.texts[0]) for part in parts])
  _say(parts, held_out)
  shape = examples.longest(parts)
  arrays = [examples.arrays(part, *shape, tokenizer.pad_id) for part in parts]
  conversational = isinstance(parts[0].texts[0], list)
  return Dataset(
      tokenizer=tokenizer,
      conversational=conversational,
      eos_ids=tokenizer.turn_eos_ids if conversational else tokenizer.eos_ids,
      prompt_columns=shape[0],
      answer_columns=examples.longest_answer(parts),
      data=_joined(train, arrays[: len(train)]),
      held_out_data=arrays[-1] if held_out else None,
      sources=mixture([len(part.texts) for part in train], shares),
      rows=[row for part in parts for row in part.rows.rows],
      texts=[text for part in parts for text in part.texts],
      skipped=sum((part.rows.skipped for part in parts), start=collections.Counter()),
  )


def _joined(parts: Sequence[Part], arrays: Sequence[Mapping[str, np.ndarray]]) -> dict[str, np.ndarray]:
  """The arrays of several files, one behind the other."""
  kinds = [(sorted(x), _num_answers(x)) for x in arrays]
  for part, kind in zip(parts, kinds, strict=True):
    if kind != kinds[0]:
      raise ValueError(
          f'{parts[0].rows.path} and {part.rows.path} hold rows of different kinds (prompts alone, '
          'completions, pairs, labels, steps); a mixture is of one'
      )
  return {name: np.concatenate([x[name] for x in arrays]) for name in arrays[0]}


def check_alike(prompts: Sequence[tuple[str, Text]]) -> None:
  """Raises `ValueError` where only some files, told by name and first prompt, have messages as prompts."""
  for path, prompt in prompts[1:]:
    if type(prompt) is not type(prompts[0][1]):
      raise ValueError(f'only one of {prompts[0][0]} and {path} has messages as prompts; chat makes it both')


def _say(parts: Sequence[Part], held_out: Part | None) -> None:
  """Logs what was left out, and how many held-out prompts are trained on."""
  for part in parts:
    if line := part.rows.report():
      _logger.warning(line)
  texts = [{json.dumps(text, default=str) for text in part.texts} for part in parts]
  for part, there in zip(parts, texts, strict=True):
    if held_out and part is not held_out and (common := len(there & texts[-1])):
      _logger.warning(f'{held_out.rows.path}: {common} held-out prompts are also in {part.rows.path}')

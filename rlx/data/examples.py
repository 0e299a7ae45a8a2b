"""What rows say, and their tokens: an example is a prompt and the answers that a row demonstrates.

`read` makes a `Part` of the rows of a file. On the way a row is filled with new columns, told by its columns
what it is, split into prompt and answers, made into messages where a chat wants them, and encoded; a row that
cannot be used ends there as a `Fault`. `arrays` pads a part to what `Dataset.data` holds.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
import dataclasses
import functools
import itertools
import json
import re
import string
from typing import Any, NamedTuple

import numpy as np

from rlx.data.rows import Fault, Row, Rows
from rlx.data.tokenizer import Piece, Tokenizer

_KINDS = (  # the first one whose columns a row has
    ('chosen', 'rejected'),
    ('prompt', 'completion', 'label'),
    ('prompt', 'completions', 'labels'),
    ('prompt', 'completion'),
    ('messages',),
    ('prompt',),
)
_MESSAGE = "{'role': 'user', 'content': 'Hi'}"
_STEP_END = '\n'  # what stands behind each step, as in TRL
_CHUNK = 2048  # rows that are tokenised at a time: Python's lists of numbers are large

Text = str | list[Mapping[str, Any]]  # a string or messages


class _Malformed(Exception):
  """A row cannot be used; `args` are those of its `Fault`."""


class Example(NamedTuple):
  """What a row says."""

  prompt: Text
  answers: tuple[Text, ...] = ()  # none, one, or the better and the worse of a pair
  label: bool | None = None
  steps: tuple[tuple[str, ...], ...] = ()  # of each answer, where it is given step by step
  step_labels: tuple[float, ...] = ()  # of the steps of the answer


class Encoded(NamedTuple):
  """A prompt and what is demonstrated behind it, up to the last action."""

  tokens: np.ndarray  # [T] int32
  action_mask: np.ndarray  # [T] bool
  prompt_length: int  # tokens before the first action
  step_ends: np.ndarray | None = None  # [S] int32, the column of the last token of each step
  step_labels: np.ndarray | None = None  # [S] float32


class Part(NamedTuple):
  """What was made of the rows of a file; the prompt of a row is encoded with each of its answers."""

  rows: Rows
  texts: list[Text]
  labels: list[bool | None]
  encoded: list[list[Encoded]]


def read(
    rows: Rows, templates, tokenizer: Tokenizer, *, chat: bool, system: str, max_prompt_tokens: int,
    max_completion_tokens: int, like: Row | None = None,
) -> Part:
  """The rows of a file with everything that is made of them; those that cannot be used are sifted out.

  The first row that has columns which are known tells what the rows hold; or `like`, a row with its new ones.
  """
  rows, filled = rows.sift([_or_fault(_filled, row, templates) for row in rows.rows])
  rows = dataclasses.replace(rows, rows=filled)
  kind = next(filter(None, map(_kind, [like] if like else filled)), ())
  rows, examples = rows.sift([_or_fault(_example, row, kind, chat, system) for row in filled])
  first = type(examples[0].prompt)
  rows, examples = rows.sift([_or_fault(_of_type, example, first) for example in examples])
  stepwise = bool(examples[0].steps)
  rows, examples = rows.sift([_or_fault(_like_the_first, example, stepwise) for example in examples])
  rows, pieces = rows.sift([_or_fault(_with_pieces, tokenizer, example) for example in examples])
  fitting = functools.partial(_fitting, limits=(max_prompt_tokens, max_completion_tokens))
  rows, encoded = rows.sift([_or_fault(fitting, *x) for x in _encode(tokenizer, pieces)])
  examples = [example for example, _ in encoded]
  return Part(
      rows=rows, texts=[x.prompt for x in examples], labels=[x.label for x in examples],
      encoded=[answers for _, answers in encoded],
  )


def _or_fault(function, *arguments):
  try:
    return function(*arguments)
  except _Malformed as error:
    return Fault(*error.args)


# --- what a row says ----------------------------------------------------------------------------------------


def templates(columns: Mapping[str, str]) -> list[tuple[str, str, list[str]]]:
  """(new column, template, columns that it is made of)."""
  parsed = []
  for name, template in columns.items():
    try:
      fields = [field for _, field, _, _ in string.Formatter().parse(template) if field is not None]
    except (ValueError, TypeError) as error:
      raise ValueError(f'columns.{name}={template!r}: {error}; literal braces are doubled') from error
    roots = [re.split(r'[.\[]', field)[0] for field in fields]
    if not all(root.isidentifier() for root in roots):
      raise ValueError(f'columns.{name}={template!r}: braces hold a column; literal braces are doubled')
    parsed.append((name, template, roots))
  return parsed


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


def _example(row: Row, kind: tuple[str, ...], chat: bool, system: str) -> Example:
  if not kind:
    hint = "task.columns={'prompt': '{question}'} makes a prompt of a column 'question'"
    raise _Malformed('no column that is known', f'it has {", ".join(row) or "none"}; {hint}')
  if missing := [name for name in kind if row.get(name) is None]:
    raise _Malformed(f'no {missing[0]!r}', f'the first rows have it; this one has {", ".join(row) or "none"}')
  label = row['label'] if 'label' in kind else None
  if 'label' in kind and type(label) is not bool:
    raise _Malformed("'label' is not true or false", f'it is {label!r}')
  names = ('prompt', *kind) if 'chosen' in kind else kind
  if 'completions' in kind or ('chosen' in kind and _is_steps(row['chosen'])):
    return _stepwise(row, kind, chat)
  texts = {name: _text(row, name) for name in names if name != 'label' and row.get(name) is not None}
  if 'messages' in kind:
    prompt, answers = _split_messages(texts['messages'])
  elif 'chosen' in kind:
    prompt, answers = _split_pair(texts)
  else:
    prompt, answers = texts['prompt'], tuple(texts[name] for name in kind[1:2])
  if not (prompt.strip() if isinstance(prompt, str) else prompt):
    raise _Malformed('empty prompt', 'nothing could be answered; write one or delete the row')
  if 'chosen' in kind:
    _check_pair(answers)
  if chat or isinstance(prompt, list):
    prompt, answers = _as_messages(prompt, answers, system)
  elif not all(isinstance(answer, str) for answer in answers):
    raise _Malformed('the prompt is a string and the answer is messages', 'set chat, or make both the same')
  return Example(prompt, answers, label)


def _stepwise(row: Row, kind: tuple[str, ...], chat: bool) -> Example:
  """A row whose answers are lists of steps; a line break is put behind a step that has none."""
  prompt = _text(row, 'prompt') if row.get('prompt') is not None else ''
  if chat or isinstance(prompt, list):
    raise _Malformed('steps behind messages', 'a prompt of steps is a string, and chat is False: as in TRL')
  if not prompt.strip():
    raise _Malformed('empty prompt', 'nothing could be answered; write one or delete the row')
  names = kind if 'chosen' in kind else ('completions',)
  steps = tuple(_steps(row, name) for name in names)
  answers = tuple(''.join(x) for x in steps)
  if 'chosen' in kind:
    _check_pair(answers)
    return Example(prompt, answers, steps=steps)
  return Example(prompt, answers, steps=steps, step_labels=_step_labels(row['labels'], len(steps[0])))


def _is_steps(value: Any) -> bool:
  return isinstance(value, list) and bool(value) and all(isinstance(step, str) for step in value)


def _steps(row: Row, name: str) -> tuple[str, ...]:
  """A column that holds the steps of an answer, as they are written."""
  if not _is_steps(row[name]):
    raise _Malformed(f'{name!r} is no list of steps', f'it is {json.dumps(row[name], default=str)[:60]}')
  for place, step in enumerate(row[name], start=1):
    if not step.strip():
      raise _Malformed(f'a step of {name!r} is empty', f'step {place}; write one, or take it away')
    _check_unicode(name, step)
  return tuple(step if step.endswith(_STEP_END) else step + _STEP_END for step in row[name])


def _step_labels(labels: Any, num: int) -> tuple[float, ...]:
  """What is said of each step: false and true are 0 and 1."""
  if not isinstance(labels, list):
    raise _Malformed("'labels' is no list", f'it is {json.dumps(labels, default=str)[:60]}')
  if len(labels) != num:
    reason = "another number of 'labels' than of 'completions'"
    raise _Malformed(reason, f'{len(labels)} labels of {num} steps')
  for label in labels:
    if not (isinstance(label, int | float) and 0 <= label <= 1):
      raise _Malformed('a label of a step is neither true nor false nor in [0, 1]', f'it is {label!r}')
  return tuple(map(float, labels))


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
  _check_unicode(name, '\n'.join(strings))
  return value


def _check_unicode(name: str, text: str) -> None:
  try:
    text.encode()
  except UnicodeEncodeError as error:
    half = error.object[error.start]
    raise _Malformed(f'{name!r} is not Unicode', f'it has half a character, {half!a}; mend it') from None


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
  if isinstance(prompt, str) and any(not _begins_with(answer, prompt) for answer in answers):
    raise _Malformed('the prompt is not what the answers begin with', f'it is {prompt[:40]!r}; mend either')
  same = itertools.takewhile(lambda x: x[0] == x[1], zip(*answers, strict=False))
  num = sum(1 for _ in same)
  if num == max(map(len, answers)):
    raise _Malformed('chosen and rejected are the same', 'so their prompt cannot be told; give it a column')
  if isinstance(answers[0], str) and answers[0][:num].endswith(' '):
    num -= 1  # tokenizers take the space with the word behind it
  return answers[0][:num], tuple(answer[num:] for answer in answers)


def _begins_with(messages: list, prompt: str) -> bool:
  """Whether the user says so before the assistant first speaks."""
  before = itertools.takewhile(lambda message: message['role'] != 'assistant', messages)
  return any(message.get('content') == prompt for message in before)


def _check_pair(answers: tuple[Text, ...]) -> None:
  """Raises where there is nothing to compare."""
  if answers[0] == answers[1]:
    raise _Malformed('chosen and rejected are the same', 'there is nothing to prefer; delete the row')
  for name, answer in zip(('chosen', 'rejected'), answers, strict=True):
    if not (answer.strip() if isinstance(answer, str) else answer):
      raise _Malformed(f'{name!r} is empty', 'it has no token to learn from; write one or delete the row')


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


def _of_type(example: Example, first: type) -> Example:
  if type(example.prompt) is not first:
    raise _Malformed('strings and messages are mixed', 'chat makes all of them messages')
  return example


def _like_the_first(example: Example, stepwise: bool) -> Example:
  if bool(example.steps) != stepwise:
    raise _Malformed('answers with steps and without are mixed', 'make all of them lists of steps, or none')
  return example


# --- tokens -------------------------------------------------------------------------------------------------


def _with_pieces(tokenizer: Tokenizer, example: Example) -> tuple[Example, list[list[Piece]]]:
  """An example, and its prompt with each of its answers (or its prompt alone) as pieces to encode."""
  prompt, answers = example.prompt, example.answers
  if isinstance(prompt, str):
    parts = example.steps or [(answer,) for answer in answers]
    with_answers = [[Piece(prompt), *(Piece(part, action=True) for part in x)] for x in parts]
    return example, with_answers or [[Piece(prompt)]]
  chat = functools.partial(tokenizer.chat_pieces, actions_from=len(prompt))
  try:
    with_answers = [chat([*prompt, *answer], generation_prompt=False) for answer in answers]
    return example, with_answers or [chat(prompt, generation_prompt=True)]
  except ValueError as error:
    raise _Malformed('the chat template cannot write it', str(error)) from error


def _encode(
    tokenizer: Tokenizer, examples: Sequence[tuple[Example, list[list[Piece]]]]
) -> Iterator[tuple[Example, list[Encoded]]]:
  """Examples with their tokens."""
  for start in range(0, len(examples), _CHUNK):
    chunk = examples[start : start + _CHUNK]
    encoded = iter(tokenizer.encode_numbered([row for _, rows in chunk for row in rows]))
    for example, rows in chunk:
      yield example, [_finished(tokenizer, example, row, *next(encoded)) for row in rows]


def _finished(
    tokenizer: Tokenizer, example: Example, pieces: list[Piece], ids: list[int], numbers: list[int]
) -> Encoded:
  """Tokens with what a template has not written (BOS, EOS), up to the last action."""
  mask, before = [pieces[number].action for number in numbers], 0
  if isinstance(example.prompt, str):
    started = tokenizer.start(ids)
    before = len(started) - len(ids)
    mask = [False] * before + mask
    ids = started
    if example.answers and not (mask[-1:] == [True] and ids[-1] in tokenizer.eos_ids):
      ids, mask = [*ids, tokenizer.eos_ids[0]], [*mask, True]
  elif example.answers:
    num = len(mask) - mask[::-1].index(True)
    ids, mask = ids[:num], mask[:num]
  prompt_length = mask.index(True) if example.answers else len(ids)
  encoded = Encoded(np.array(ids, np.int32), np.array(mask, bool), prompt_length)
  if not example.steps:
    return encoded
  last = {number: column for column, number in enumerate(numbers, start=before) if number}
  labels = np.array(example.step_labels, np.float32) if example.step_labels else None
  return encoded._replace(step_ends=np.array(list(last.values()), np.int32), step_labels=labels)


def _fitting(example: Example, answers: list[Encoded], limits: tuple[int, int]):
  """The same, if it is neither empty nor too long."""
  for name, limit, sizes in (
      ('prompt', limits[0], [x.prompt_length for x in answers]),
      ('completion', limits[1], [len(x.tokens) - x.prompt_length for x in answers]),
  ):
    if max(sizes) > limit:
      raise _Malformed(f'{name} too long', f'{max(sizes)} tokens, max_{name}_tokens={limit}: raise it')
  if min(x.prompt_length for x in answers) == 0:
    raise _Malformed('empty prompt', 'the tokenizer makes no token of it')
  for steps, encoded in zip(example.steps, answers, strict=False):
    if len(encoded.step_ends) < len(steps):
      raise _Malformed('a step without a token', 'the tokenizer makes none of it')
  if len({tuple(x.tokens[: x.prompt_length]) for x in answers}) > 1:  # it is read once for all of them
    raise _Malformed('the answers do not share the tokens of their prompt', 'mend the chat template')
  return example, answers


def longest(parts: Iterable[Part]) -> tuple[int, int]:
  """Tokens of the longest prompt, and of the longest prompt with an answer."""
  encoded = [x for part in parts for answers in part.encoded for x in answers]
  return max(x.prompt_length for x in encoded), max(len(x.tokens) for x in encoded)


def longest_answer(parts: Iterable[Part]) -> int:
  """Tokens of the longest answer; 0 where there are none."""
  return max(len(x.tokens) - x.prompt_length for part in parts for answers in part.encoded for x in answers)


def arrays(part: Part, prompt_columns: int, columns: int, pad_id: int) -> dict[str, np.ndarray]:
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
    if demonstrated[0].step_ends is not None:
      data |= _of_steps(demonstrated, columns)
  if part.labels[0] is not None:
    data['labels'] = np.array(part.labels, bool)
  return data


def _of_steps(demonstrated: Sequence[Encoded], columns: int) -> dict[str, np.ndarray]:
  """`step_ends` [N, T] bool, the last tokens of steps, and `step_labels` [N, T] float32; 0 elsewhere."""
  ends = np.zeros((len(demonstrated), columns), bool)
  labels = np.zeros(ends.shape, np.float32)
  for row, x in enumerate(demonstrated):
    ends[row, x.step_ends] = True
    if x.step_labels is not None:
      labels[row, x.step_ends] = x.step_labels
  labelled = demonstrated[0].step_labels is not None
  return {'step_ends': ends} | ({'step_labels': labels} if labelled else {})


def _padded(rows: Sequence[np.ndarray], columns: int, value: int, dtype) -> np.ndarray:
  array = np.full((len(rows), columns), value, dtype)
  for target, row in zip(array, rows, strict=True):
    target[: len(row)] = row
  return array

"""Text to tokens and back, as a model directory says, and which tokens of a conversation are the policy's.

transformers reads the directory and holds the chat template; `tokenizers` does the work. They take seconds to
import and are imported where they are used. Nothing here reaches the network.

Two rules hold. A text that has been tokenised is never tokenised again: what follows it is tokenised so that
its tokens stay as they are (`encode_pieces`), and a policy is trained behind the prompt that it will see. And
what somebody wrote into a message is text: the name of a special token, such as `<|im_end|>`, is spelled out
in ordinary tokens there and ends no turn. (Tokens that are added but not special, such as `<tool_call>` in
some families, remain tokens in messages too.)
"""

from collections.abc import Mapping, Sequence
import dataclasses
import functools
import json
import os
from pathlib import Path
import re
from typing import Any, NamedTuple

import numpy as np

# Nothing here needs torch, whose absence it would tell everybody when it is imported.
os.environ.setdefault('TRANSFORMERS_NO_ADVISORY_WARNINGS', '1')

Messages = Sequence[Mapping[str, Any]]  # of one conversation: {'role': ..., 'content': ...}

INSTALL = "pip install 'rlx[hf]'"

# A template that writes today's date would give a resumed run other prompts than it began with.
_FIXED_DATE = (
    '{%- macro strftime_now(format) -%}'
    "{{ format | replace('%d', '26') | replace('%b', 'Jul') | replace('%B', 'July') | replace('%m', '07')"
    " | replace('%Y', '2024') }}"
    '{%- endmacro -%}'
)
_GENERATION = re.compile(r'\{%-?\s*generation\s*-?%\}')
_PROBE = 'rlx-probe'


class Piece(NamedTuple):
  """A stretch of a text.

  Attributes:
    text: what it says.
    action: the policy is to produce it.
    literal: the names of special tokens in it are plain text.
  """

  text: str
  action: bool = False
  literal: bool = False


@dataclasses.dataclass(frozen=True, kw_only=True, eq=False)
class Tokenizer:
  """A tokenizer of a model directory.

  Attributes:
    name: where it was read from, for errors.
    hf: the transformers tokenizer.
    vocab_size: number of token ids, those of added tokens included; a model may have more.
    eos_ids: tokens that end a row; the first one is the tokenizer's own, if it has one.
    pad_id: what stands behind the end of a row; it may be an end token too, and says nothing about validity.
    start_ids: what the tokenizer puts before a text of its own accord: the BOS token, or nothing.
  """

  name: str
  hf: Any
  vocab_size: int
  eos_ids: tuple[int, ...]
  pad_id: int
  start_ids: tuple[int, ...]

  def encode(self, text: str, *, special: bool) -> list[int]:
    """The tokens of a text. Names of special tokens in it become these tokens.

    Args:
      text: any text.
      special: with `start_ids` before it, unless the text begins with them.
    """
    ids = self._encode([text])[0]
    return self.start(ids) if special else ids

  def start(self, ids: list[int]) -> list[int]:
    """Tokens of a text with `start_ids` before them, unless they are there."""
    num = len(self.start_ids)
    return ids if tuple(ids[:num]) == self.start_ids else [*self.start_ids, *ids]

  def decode(self, ids: Sequence[int]) -> str:
    """The text of tokens, to the letter, without special tokens."""
    ids = np.asarray(ids, np.int64).tolist()
    return self.hf.decode(ids, skip_special_tokens=True, clean_up_tokenization_spaces=False)

  def spelled(self, ids: Sequence[int]) -> str:
    """The text of tokens, to the letter, special tokens by their names."""
    ids = np.asarray(ids, np.int64).tolist()
    return self.hf.decode(ids, skip_special_tokens=False, clean_up_tokenization_spaces=False)

  def render(self, messages: Messages, *, generation_prompt: bool) -> str:
    """A conversation as the chat template writes it, to be read; `encode_chat` gives the tokens.

    Args:
      messages: at least one, unless the template knows what to do with none.
      generation_prompt: go on to where the assistant speaks next. A last message of the assistant's is then
        left open, to be continued.
    Raises:
      ValueError: there is no chat template, or it refuses the messages.
    """
    left_open = _is_left_open(messages, generation_prompt)
    return self._render(messages, generation_prompt=generation_prompt, left_open=left_open)[0]

  def encode_chat(self, messages: Messages, *, generation_prompt: bool) -> tuple[list[int], list[bool]]:
    """The tokens of a conversation, and which of them the assistant is to produce.

    The template writes the special tokens, BOS too; none is added.

    Args:
      messages: as in `render`.
      generation_prompt: as in `render`.
    Returns:
      Tokens, and a mask of them: True for what the assistant says and for the token that ends its turn, but
      not for a message that is left open.
    Raises:
      ValueError: as `chat_pieces`.
    """
    pieces = self.chat_pieces(messages, generation_prompt=generation_prompt, actions_from=0)
    return self.encode_pieces([pieces])[0]

  def chat_pieces(self, messages: Messages, *, generation_prompt: bool, actions_from: int) -> list[Piece]:
    """A rendered conversation, cut where the assistant begins and ends to speak.

    What the assistant says is taken from the template's `{% generation %}` blocks, if it has them. Otherwise
    prefixes of the conversation are rendered: up to a message with the generation prompt, and with the
    message.

    Args:
      messages: as in `render`.
      generation_prompt: as in `render`.
      actions_from: messages before this one are context, whoever speaks.
    Raises:
      ValueError: there is no chat template, it refuses the messages, it writes no end of turn, or it writes
        the beginning of a conversation differently when more follows.
    """
    left_open = _is_left_open(messages, generation_prompt)
    speaks = [i for i, message in enumerate(messages) if message.get('role') == 'assistant']
    speaks = speaks[:-1] if left_open else speaks
    actions = [i for i in speaks if i >= actions_from]
    marked, literals = self._mark(messages)
    text, blocks = self._render(marked, generation_prompt=generation_prompt, left_open=left_open)
    if not actions:
      spans = []
    elif blocks is None:
      spans = [self._span_by_prefix(marked, i, text) for i in actions]
    else:
      spans = self._spans_of_blocks(text, blocks, num_turns=len(speaks))[-len(actions) :]
    pieces, column = [], 0
    for start, stop in spans:
      pieces += [*_cut(text[column:start], False, literals), *_cut(text[start:stop], True, literals)]
      column = stop
    return pieces + _cut(text[column:], False, literals)

  def encode_pieces(self, rows: Sequence[Sequence[Piece]]) -> list[tuple[list[int], list[bool]]]:
    """Tokens of texts made of pieces, and which of them are actions.

    The tokens of the first k pieces do not depend on the pieces behind them: the policy, which meets the
    first ones as its prompt, sees the same tokens in training. Where a token would reach over the edge (a
    line break before and one behind it, say), the piece behind is tokenised by itself.

    Args:
      rows: pieces of each text.
    Returns:
      For each row its tokens, and a mask of them.
    """
    encoded = self.encode_numbered(rows)
    return [
        (ids, [row[number].action for number in numbers])
        for row, (ids, numbers) in zip(rows, encoded, strict=True)
    ]

  def encode_numbered(self, rows: Sequence[Sequence[Piece]]) -> list[tuple[list[int], list[int]]]:
    """As `encode_pieces`, with the number of the piece that each token is of in the place of the mask."""
    ids, numbers = [[] for _ in rows], [[] for _ in rows]
    texts, starts = [''] * len(rows), [0] * len(rows)  # of the stretch that the next piece may merge with

    def cut(i):
      texts[i], starts[i] = '', len(ids[i])

    def append(i, piece, added):
      ids[i] += added
      numbers[i] += [column] * len(added)
      texts[i] += piece.text
      if self._ends_separate and ids[i] and ids[i][-1] in self.turn_eos_ids:
        cut(i)

    for column in range(max(map(len, rows), default=0)):
      at = [(i, row[column]) for i, row in enumerate(rows) if column < len(row)]
      for i, piece in at:
        if piece.literal:
          append(i, piece, self._spell(piece.text))
      at = [(i, piece) for i, piece in at if not piece.literal]
      wholes = self._encode([texts[i] + piece.text for i, piece in at])
      for (i, piece), whole in zip(at, wholes, strict=True):
        known = ids[i][starts[i] :]
        was_cut = not known and ids[i] and not self._ends_separate
        if was_cut or whole[: len(known)] != known:
          cut(i)
          known, whole = [], self._encode_behind(piece.text)
        append(i, piece, whole[len(known) :])
    return list(zip(ids, numbers, strict=True))

  def encode_answers(self, answers: Sequence[str], *, role: str, ended: bool) -> list[int]:
    """The tokens that a chat template writes behind a turn of the assistant's: answers to it, and the
    beginning of its next turn. What was said before is not looked at, and not tokenised again.

    Args:
      answers: texts; names of special tokens in them are text.
      role: of the messages that they are, 'tool' or 'user'.
      ended: whether the turn has its end token; otherwise that stands in front.
    Raises:
      ValueError: there is no chat template, it refuses messages of the role, or it writes the beginning of a
        conversation differently when more follows.
    """
    said = [{'role': role, 'content': _PROBE} for role in ('user', 'assistant')]
    marked, literals = self._mark([*said, *({'role': role, 'content': text} for text in answers)])
    before, _ = self._render(said, generation_prompt=False, left_open=False)
    whole, _ = self._render(marked, generation_prompt=True, left_open=False)
    said_until = before.rfind(_PROBE) + len(_PROBE)
    end = self._end_of_turn(before, said_until, len(before))
    if not (self._ends_separate and whole.startswith(before[:end])):
      raise ValueError(
          f'the chat template of {self.name} writes a turn of the assistant differently when something '
          f'follows, so that messages of the role {role!r} cannot be appended; take a template that leaves '
          'earlier turns as they are'
      )
    return self.encode_pieces([_cut(whole[end if ended else said_until :], False, literals)])[0][0]

  def encode_between(self, before: str, text: str, after: str) -> list[int]:
    """The tokens of a text that stands between two others, behind something; only in the text itself names of
    special tokens are text."""
    parts = re.split(f'({self._names.pattern})', text)
    spelled = [self._spell(x) if i % 2 else self._encode_behind(x) for i, x in enumerate(parts) if x]
    around = [self._encode_behind(x) if x else [] for x in (before, after)]
    return [*around[0], *(token for ids in spelled for token in ids), *around[1]]

  @functools.cached_property
  def turn_eos_ids(self) -> tuple[int, ...]:
    """`eos_ids` and the token with which the chat template ends the assistant's turn.

    Base models often come with a template for chat, and with the end of a *document* as their only EOS.
    """
    probe = [{'role': role, 'content': _PROBE} for role in ('user', 'assistant')]
    try:
      text = self.render(probe, generation_prompt=False)
    except ValueError:
      return self.eos_ids  # no template, or one that has to be given something else
    _, found, behind = text.rpartition(_PROBE)
    ends = [token for token in self._encode([behind])[0] if token in self._special] if found else []
    return tuple(dict.fromkeys((*self.eos_ids, *ends[:1])))

  @functools.cached_property
  def vocabulary(self) -> list[bytes]:
    """The bytes that each token adds to a text; of special tokens, which are not shown, none."""
    words = self.hf.convert_ids_to_tokens(list(range(self.vocab_size)))
    added = {i: token.content.encode() for i, token in self.hf.added_tokens_decoder.items()}
    added |= dict.fromkeys(self._special, b'')
    to_bytes = _of_byte_level if self._is_byte_level else _of_sentence_piece
    return [added[i] if i in added else to_bytes(word or '') for i, word in enumerate(words)]

  @functools.cached_property
  def longest(self) -> int:
    """The bytes of the longest token, and so the most characters that one can stand for."""
    return max(map(len, self.vocabulary))

  @functools.cached_property
  def _is_byte_level(self) -> bool:
    """Whether tokens are written in the byte alphabet of GPT-2; otherwise in that of SentencePiece."""
    return 'ByteLevel' in json.dumps(json.loads(self.hf.backend_tokenizer.to_str()).get('decoder'))

  @functools.cached_property
  def _special(self) -> dict[int, str]:
    """Special tokens, which template and tokenizer may write and a message may not: id -> name."""
    return {i: token.content for i, token in self.hf.added_tokens_decoder.items() if token.special}

  @functools.cached_property
  def _names(self) -> re.Pattern:
    """The name of any special token."""
    return _any_of(self._special.values())

  @functools.cached_property
  def _end(self) -> re.Pattern:
    """The name of any token that ends a turn."""
    return _any_of(self.hf.convert_ids_to_tokens(list(self.turn_eos_ids)))

  @functools.cached_property
  def _ends_separate(self) -> bool:
    """Whether what follows an end token is tokenised as if it stood alone.

    Then long conversations need not be tokenised from their beginning for each turn. Not so where the end
    token swallows the white space behind it (Phi-3), or a text's first word is marked (SentencePiece).
    """
    names = self.hf.convert_ids_to_tokens(list(self.turn_eos_ids))
    follow = ('\n a', 'a', ' a')
    return all(
        self._encode([name + text])[0] == self._encode([name])[0] + self._encode([text])[0]
        for name in names
        for text in follow
    )

  def _encode(self, texts: list[str]) -> list[list[int]]:
    """Tokens of texts, in parallel; the names of special tokens become these tokens."""
    batch = self.hf.backend_tokenizer.encode_batch_fast(texts, add_special_tokens=False)
    return [encoding.ids for encoding in batch]

  def _encode_behind(self, text: str) -> list[int]:
    """Tokens of a text that follows another one; alone, SentencePiece would mark its first word as such."""
    line, both = self._encode(['\n', '\n' + text])
    return both[len(line) :] if both[: len(line)] == line else self._encode([text])[0]

  def _spell(self, name: str) -> list[int]:
    """The name of a special token in ordinary tokens."""
    backend = self.hf.backend_tokenizer
    backend.encode_special_tokens = True  # as text, that is
    whole, first, rest = map(self._encode_behind, (name, name[:1], name[1:]))
    backend.encode_special_tokens = False
    # A unigram model may hold the name among its words.
    return whole if self._special.keys().isdisjoint(whole) else first + rest

  def _mark(self, messages: Messages) -> tuple[Messages, dict[str, str]]:
    """Messages with a private character for each special token that somebody wrote; character -> name."""
    written = []
    _map_strings(written.append, messages)
    written = '\n'.join(written)
    names = sorted(set(self._names.findall(written)))
    if not names:
      return messages, {}
    unused = (character for character in map(chr, range(0xF0000, 0xFFFFE)) if character not in written)
    characters = dict(zip(names, unused, strict=False))
    mark = lambda text: self._names.sub(lambda match: characters[match[0]], text)
    return _map_strings(mark, messages), {character: name for name, character in characters.items()}

  def _render(self, messages: Messages, *, generation_prompt: bool, left_open: bool):
    """Text, and the (start, stop) of its generation blocks; None where the template has none.

    `left_open` leaves the last message open instead of beginning a new one.
    """
    template = self.hf.chat_template
    if isinstance(template, Mapping):
      template = template.get('default')
    if not template:
      raise ValueError(
          f'{self.name} has no chat template; take the directory of a chat model, or add chat_template.jinja'
      )
    try:
      import jinja2
      from transformers.utils.chat_template_utils import render_jinja_template
    except ImportError as error:
      raise ValueError(f'chat templates need the package jinja2: {INSTALL}') from error
    has_blocks = _GENERATION.search(template) is not None
    # Templates test for keys, not for what is in them.
    messages = [{key: value for key, value in message.items() if value is not None} for message in messages]
    try:
      [text], blocks = render_jinja_template(
          conversations=[messages],
          chat_template=_FIXED_DATE + template,
          return_assistant_tokens_mask=has_blocks,
          continue_final_message=left_open,
          add_generation_prompt=generation_prompt and not left_open,
          **self.hf.special_tokens_map,
      )
    except (jinja2.TemplateError, ImportError, TypeError, ValueError) as error:
      reason = (str(error).splitlines() or [type(error).__name__])[0]
      raise ValueError(f'the chat template of {self.name} refuses the messages: {reason}') from error
    return text, [block for block in blocks[0] if block[1] <= len(text)] if has_blocks else None

  def _span_by_prefix(self, messages: Messages, index: int, text: str):
    """(start, stop) of what the assistant says in a message, within the text of all of them."""
    before, _ = self._render(messages[:index], generation_prompt=True, left_open=False)
    until, _ = self._render(messages[: index + 1], generation_prompt=False, left_open=False)
    if not (until.startswith(before) and text.startswith(until)):
      raise ValueError(
          f'the chat template of {self.name} writes the {index + 1} messages up to one of the assistant '
          'differently by themselves and as the beginning of all: which tokens are its own cannot be told; '
          'put {% generation %} around them in the template, or give the rows as prompt and completion'
      )
    return len(before), self._end_of_turn(text, len(before), len(until) - 1)

  def _spans_of_blocks(self, text: str, blocks: Sequence[tuple[int, int]], *, num_turns: int):
    """(start, stop) of what the assistant says in each of its messages."""
    if len(blocks) != num_turns:
      raise ValueError(
          f'the chat template of {self.name} has {len(blocks)} generation blocks for {num_turns} messages of '
          'the assistant; it needs one for each'
      )
    return [(start, self._end_of_turn(text, start, stop)) for start, stop in blocks]

  def _end_of_turn(self, text: str, start: int, latest: int) -> int:
    """Where the first end token behind `start` is over; what the template writes behind it nobody says."""
    match = self._end.search(text, start)
    if match is None or match.start() > latest:
      names = self.hf.convert_ids_to_tokens(list(self.turn_eos_ids))
      raise ValueError(
          f'the chat template of {self.name} writes none of the end tokens {names} behind what the assistant '
          'says, so that nothing would teach a policy to stop; mend the template or generation_config.json'
      )
    return match.end()


def load(directory: str | Path) -> Tokenizer:
  """The tokenizer of a Hugging Face model directory.

  Args:
    directory: with `tokenizer.json` (or what transformers can make one of) and, if they are there,
      `tokenizer_config.json`, `chat_template.jinja` and `generation_config.json`.
  Raises:
    ValueError: there is no tokenizer, it has no end token, or a package is missing.
  """
  directory = Path(directory)
  if not directory.is_dir():
    raise ValueError(f'{directory} is no directory; it must be that of a model, with its tokenizer.json')
  try:
    from transformers import AutoTokenizer, PreTrainedTokenizerFast
  except ImportError as error:
    raise ValueError(f'tokenizers of models need the package transformers: {INSTALL}') from error
  # AutoTokenizer takes the class that config.json suggests; for some families that class rebuilds the
  # tokenizer from other files, and a local tokenizer.json then tokenises to nothing.
  reader = PreTrainedTokenizerFast if (directory / 'tokenizer.json').is_file() else AutoTokenizer
  try:
    hf = reader.from_pretrained(str(directory), local_files_only=True, trust_remote_code=False)
  except Exception as error:  # the Rust half raises bare ones
    reason = (str(error).splitlines() or [type(error).__name__])[0]
    raise ValueError(f'{directory} has no readable tokenizer ({reason}); give it a tokenizer.json') from error
  if not hf.is_fast:
    raise ValueError(f'{directory} has a tokenizer in Python only; add the tokenizer.json of its fast form')
  hf.backend_tokenizer.no_truncation()
  hf.backend_tokenizer.no_padding()
  vocab_size = max(len(hf), 1 + max(hf.get_vocab().values(), default=0))
  eos_ids = _eos_ids(directory, hf, vocab_size)
  return Tokenizer(
      name=str(directory),
      hf=hf,
      vocab_size=vocab_size,
      eos_ids=eos_ids,
      pad_id=eos_ids[0] if hf.pad_token_id is None else hf.pad_token_id,
      start_ids=_start_ids(hf.backend_tokenizer),
  )


def _eos_ids(directory: Path, hf, vocab_size: int) -> tuple[int, ...]:
  """The tokenizer's end token, then those of generation_config.json."""
  path = directory / 'generation_config.json'
  try:
    config = json.loads(path.read_text()) if path.is_file() else {}
    listed = config.get('eos_token_id')
  except (ValueError, AttributeError) as error:
    raise ValueError(f'{path} is not a JSON object ({error}); mend or delete it') from error
  listed = [] if listed is None else listed if isinstance(listed, list) else [listed]
  ids = [token for token in (hf.eos_token_id, *listed) if token is not None]
  if not ids:
    raise ValueError(
        f'{directory} names no end token; set eos_token in tokenizer_config.json or eos_token_id in '
        'generation_config.json'
    )
  if wrong := [token for token in ids if type(token) is not int or not 0 <= token < vocab_size]:
    raise ValueError(f'{path}: eos_token_id {wrong} is not among the {vocab_size} tokens of the tokenizer')
  return tuple(dict.fromkeys(ids))


def _start_ids(backend) -> tuple[int, ...]:
  """What a tokenizer puts before a text; what it puts behind (an end token) would close a prompt."""
  bare, dressed = (backend.encode('a', add_special_tokens=special).ids for special in (False, True))
  starts = (i for i in range(len(dressed)) if dressed[i : i + len(bare)] == bare)
  return tuple(dressed[: next(starts, 0)])


def _is_left_open(messages: Messages, generation_prompt: bool) -> bool:
  """Whether the assistant goes on with what it has begun to say, instead of beginning to speak."""
  return generation_prompt and len(messages) > 0 and messages[-1].get('role') == 'assistant'


def _any_of(names) -> re.Pattern:
  """Any of some names, the longest that fits."""
  names = sorted((name for name in names if name), key=len, reverse=True)
  return re.compile('|'.join(map(re.escape, names)) or '(?!)')


@functools.cache
def _byte_alphabet() -> dict[str, int]:
  """The characters that stand for bytes in vocabularies of GPT-2 and most since: printable ones for
  themselves, the others in order from 256 on."""
  shown = [*range(33, 127), *range(161, 173), *range(174, 256)]
  hidden = [byte for byte in range(256) if byte not in shown]
  return {chr(byte): byte for byte in shown} | {chr(256 + i): byte for i, byte in enumerate(hidden)}


def _of_byte_level(word: str) -> bytes:
  alphabet = _byte_alphabet()
  return bytes(alphabet[character] for character in word if character in alphabet)


def _of_sentence_piece(word: str) -> bytes:
  byte = re.fullmatch(r'<0x([0-9A-F]{2})>', word)
  return bytes([int(byte[1], 16)]) if byte else word.replace('\u2581', ' ').encode()


def _map_strings(function, value):
  """JSON-like data with a function applied to every string that is not a key."""
  if isinstance(value, str):
    return function(value)
  if isinstance(value, Mapping):
    return {key: _map_strings(function, x) for key, x in value.items()}
  return [_map_strings(function, x) for x in value] if isinstance(value, list | tuple) else value


def _cut(text: str, action: bool, literals: Mapping[str, str]) -> list[Piece]:
  """A text as pieces: its private characters are the special tokens that somebody wrote, literally."""
  parts = re.split(f'([{"".join(literals)}])', text) if literals else [text]
  pieces = [Piece(literals.get(part, part), action, part in literals) for part in parts]
  return [piece for piece in pieces if piece.text]

"""Search over passages: BM25 by tantivy (extra `search`), in an index that is made once for the files.

The index lies beside the user's caches, in a folder that is named after a digest of the files, and is made
by whoever comes first. Queries are built of terms, never parsed, so that nothing a model writes is syntax; it
has one segment, and equal scores are in the order of the passages: the same query has the same answer.
"""

from collections.abc import Sequence
import functools
import json
import os
from pathlib import Path
import re
import shutil
import tempfile

import xxhash

from rlx.errors import ConfigError

_INSTALL = "search needs the package tantivy: pip install 'rlx[search]'"
_WORD = re.compile(r'\w+')
_MAX_WORDS = 64  # of a query
_WRITER_BYTES = 128 << 20
_DONE = 'made'  # a file that says that an index is whole


def search(query: str, *, files: Sequence[str], field: str, results: int, folder: str) -> str:
  """Searches passages for words, and returns the best ones.

  Args:
    query: words to look for.
    files: JSON lines with the passages.
    field: the column of a line that is the passage.
    results: how many are returned.
    folder: where indexes are kept; '' for `~/.cache/rlx/search`.
  """
  found = passages(query, index(tuple(files), field, folder), results)
  return '\n'.join(f'({place}) {text}' for place, text in enumerate(found, start=1)) or 'nothing was found'


def _trial(*, files: Sequence[str], field: str, folder: str, results: int) -> None:
  """Makes the index. Raises `ConfigError` where it cannot be had."""
  if results < 1:
    raise ConfigError(f'results={results}: at least 1 passage')
  index(tuple(files), field, folder)


search.trial = _trial  # called once, before the first query


def passages(query: str, opened, results: int) -> list[str]:
  """The best passages for a query, the best first.

  Args:
    query: any text; its words are looked for, each on its own.
    opened: from `index`.
    results: how many, at most.
  """
  import tantivy

  searcher, schema = opened
  words = list(dict.fromkeys(_WORD.findall(query.lower())))[:_MAX_WORDS]
  if not words:
    return []
  terms = [(tantivy.Occur.Should, tantivy.Query.term_query(schema, 'text', word)) for word in words]
  # More than are asked for: those with the score of the last one are put in the order of the passages.
  hits = searcher.search(tantivy.Query.boolean_query(terms), 4 * results).hits
  ranked = sorted(((-score, searcher.doc(address)) for score, address in hits), key=_rank)
  return [document['text'][0] for _, document in ranked[:results]]


def _rank(hit) -> tuple[float, int]:
  score, document = hit
  return score, document['number'][0]


@functools.cache
def index(files: tuple[str, ...], field: str, folder: str):
  """The searcher over files and its schema, from an index that is made if it is not there.

  Raises:
    ConfigError: the package is missing, or a file is not what it should be.
  """
  try:
    import tantivy
  except ImportError as error:
    raise ConfigError(_INSTALL) from error
  builder = tantivy.SchemaBuilder()
  builder.add_text_field('text', stored=True, tokenizer_name='default')
  builder.add_integer_field('number', stored=True)
  schema = builder.build()
  root = Path(folder).expanduser() if folder else Path('~/.cache/rlx/search').expanduser()
  place = root / _digest(files, field)
  if not (place / _DONE).exists():
    root.mkdir(parents=True, exist_ok=True)
    _make(tantivy, schema, files, field, place)
  return tantivy.Index.open(str(place)).searcher(), schema


def _make(tantivy, schema, files: Sequence[str], field: str, place: Path) -> None:
  """Writes an index beside its place, and moves it there: who comes second finds it whole."""
  beside = Path(tempfile.mkdtemp(dir=place.parent))
  made = tantivy.Index(schema, path=str(beside))
  writer = made.writer(heap_size=_WRITER_BYTES, num_threads=1)
  number = 0
  for file in files:
    for row, line in enumerate(Path(file).read_text().splitlines(), start=1):
      try:
        text = json.loads(line)[field]
      except (ValueError, KeyError, TypeError) as error:
        shutil.rmtree(beside)
        raise ConfigError(f'{file}, line {row}: no passage in {field!r} ({error!r})') from error
      writer.add_document(tantivy.Document(text=str(text), number=number))
      number += 1
  writer.commit()
  writer.wait_merging_threads()
  (beside / _DONE).touch()
  try:
    os.rename(beside, place)
  except OSError:  # somebody else was faster
    shutil.rmtree(beside)


def _digest(files: Sequence[str], field: str) -> str:
  digest = xxhash.xxh3_128(f'1 {field}'.encode())
  for file in files:
    try:
      digest.update(xxhash.xxh3_128(Path(file).read_bytes()).digest())
    except OSError as error:
      raise ConfigError(f'no passages: {error}') from error
  return digest.hexdigest()

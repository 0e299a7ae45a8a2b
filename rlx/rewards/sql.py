"""Rewards of SQL: whether a model's query gives the rows that the right one gives.

Queries run in this process, in SQLite, which is told to allow nothing but reading: the file is opened
read-only and as one that nobody changes; an authorizer admits SELECT, columns, recursion and a list of
functions that compute; there is a deadline, and there are limits on everything that a query can make grow.
Functions that are left out reach beyond the query (`load_extension`) or give another result each time
(`random`).

SQLite's limit on its heap holds for the whole process, and stays. The planner and a single call of a built-in
function are not interrupted, but what they get is kept so small that the worst cases known take a second or
two. Workers import this module: no jax.
"""

from collections import Counter
from collections.abc import Iterable
import contextlib
import os
import pathlib
import re
import sqlite3
import time
import urllib.parse

from rlx.rewards.code import last_block
from rlx.rewards.texts import text_of

Row = tuple[int | float | str | bytes | None, ...]

_HEAP_BYTES = 256 << 20  # of SQLite: sorting, grouping, distinct rows
_RESULT_BYTES = 64 << 20
_LIMITS = {
    sqlite3.SQLITE_LIMIT_LENGTH: 1 << 16,  # bytes of a text; `instr` takes the square of it
    sqlite3.SQLITE_LIMIT_SQL_LENGTH: 20_000,
    sqlite3.SQLITE_LIMIT_COLUMN: 500,
    sqlite3.SQLITE_LIMIT_EXPR_DEPTH: 100,
    sqlite3.SQLITE_LIMIT_COMPOUND_SELECT: 50,
    sqlite3.SQLITE_LIMIT_VDBE_OP: 25_000,
    sqlite3.SQLITE_LIMIT_LIKE_PATTERN_LENGTH: 200,
    sqlite3.SQLITE_LIMIT_ATTACHED: 0,
    sqlite3.SQLITE_LIMIT_WORKER_THREADS: 0,
}
_ACTIONS = (sqlite3.SQLITE_SELECT, sqlite3.SQLITE_READ, sqlite3.SQLITE_RECURSIVE)
_FUNCTIONS = """
    abs acos acosh asin asinh atan atan2 atanh avg ceil ceiling char coalesce concat concat_ws cos cosh count
    cume_dist current_date current_time current_timestamp date datetime degrees dense_rank exp first_value
    floor format glob group_concat hex if ifnull iif instr json json_array json_array_length
    json_extract json_group_array json_group_object json_insert json_object json_patch json_quote json_remove
    json_replace json_set json_type json_valid julianday lag last_value lead length like likelihood
    likely ln log log10 log2 lower ltrim max median min mod nth_value ntile nullif octet_length percent_rank
    percentile pi pow power printf quote radians rank replace round row_number rtrim sign sin sinh soundex
    sqrt strftime string_agg substr substring sum tan tanh time timediff total trim trunc typeof unhex unicode
    unixepoch unlikely upper -> ->>
"""
_ALLOWED = frozenset(_FUNCTIONS.split())
_REPEATED = re.compile(r'%[^a-zA-Z%]*[lh]*c')  # in a format: `%.999999999c` appends one character at a time


class QueryError(ValueError):
  """A query that cannot be run, or that was stopped."""


def run_query(
    database: str | os.PathLike[str], query: str, *, timeout_seconds: float, max_rows: int
) -> list[Row]:
  """The rows of one query that only reads.

  Args:
    database: an SQLite file that nobody changes meanwhile.
    query: one SELECT, or WITH ... SELECT.
    timeout_seconds: wall time; checked every thousand steps of SQLite's machine.
    max_rows: a query with more is stopped.
  Raises:
    QueryError: SQL that is wrong, does more than read, takes too long, or gives too much.
    ValueError: the database is missing, or has changes beside it that are not in the file yet.
  """
  path = pathlib.Path(database).absolute()
  if not path.is_file():
    raise ValueError(f'there is no database {path}')
  log = path.with_name(path.name + '-wal')
  if log.exists() and log.stat().st_size:
    raise ValueError(f'{log} holds changes that are not in {path.name}: `PRAGMA wal_checkpoint(TRUNCATE)`')
  uri = f'file:{urllib.parse.quote(str(path))}?mode=ro&immutable=1'
  with (
      contextlib.closing(sqlite3.connect(uri, uri=True)) as connection,
      contextlib.closing(sqlite3.connect(':memory:')) as formatter,
  ):
    _restrict(connection, formatter, time.monotonic() + timeout_seconds)
    try:
      cursor = connection.execute(query)
      if cursor.description is None:
        raise QueryError('this is no query')
      return _fetch(cursor, max_rows)
    except (sqlite3.Error, sqlite3.Warning, UnicodeError, MemoryError, OverflowError) as error:
      raise QueryError(f'{type(error).__name__}: {error}') from None


def sql_matches(
    completions: list,
    database: list,
    gold_query: list,
    *,
    timeout_seconds: float,
    max_rows: int,
    ordered: bool,
) -> list[float]:
  """1 where the query in a completion gives the same rows as the right query, 0 elsewhere.

  Rows are compared by position of their columns, 3 equals 3.0, and floats count to 12 digits, since a sum
  depends on the order of its terms. A query that fails gets 0.

  Args:
    completions: [N] texts or messages; the query is the last fenced block of SQL, or all of the text.
    database: [N] paths of SQLite files.
    gold_query: [N] the right queries.
    timeout_seconds: wall time of each query.
    max_rows: of each query.
    ordered: whether the order of the rows counts; how often a row occurs always does.
  Raises:
    ValueError: a right query fails.
  """
  limits = {'timeout_seconds': timeout_seconds, 'max_rows': max_rows}
  rewards = []
  for row, (completion, path, gold) in enumerate(zip(completions, database, gold_query, strict=True)):
    try:
      expected = run_query(path, gold, **limits)
    except QueryError as error:
      raise ValueError(f'row {row}: the right query fails ({error}): {gold!r:.200}') from None
    try:
      rows = run_query(path, last_block(text_of(completion), ('sql', 'sqlite')), **limits)
    except QueryError:
      rewards.append(0.0)
      continue
    made, wanted = _rounded(rows), _rounded(expected)
    rewards.append(float(made == wanted if ordered else Counter(made) == Counter(wanted)))
  return rewards


sql_matches.stopped_value = 0.0


def _restrict(connection: sqlite3.Connection, formatter: sqlite3.Connection, deadline: float) -> None:
  connection.execute(f'PRAGMA hard_heap_limit = {_HEAP_BYTES}')
  connection.execute('PRAGMA temp_store = MEMORY')  # no files for what does not fit; the heap is limited
  connection.execute('PRAGMA trusted_schema = OFF')

  def format_text(*arguments):
    if arguments and _REPEATED.search(str(arguments[0])):
      raise QueryError('%c in a format is not allowed')
    marks = ', '.join('?' * len(arguments))
    return formatter.execute(f'SELECT printf({marks})', arguments).fetchone()[0]

  for name in ('printf', 'format'):
    connection.create_function(name, -1, format_text, deterministic=True)
  for limit, value in _LIMITS.items():
    connection.setlimit(limit, value)
    formatter.setlimit(limit, value)
  connection.text_factory = lambda text: text.decode('utf-8', 'replace')
  connection.set_progress_handler(lambda: time.monotonic() > deadline, 1000)
  connection.set_authorizer(_authorize)


def _authorize(action: int, first: str | None, second: str | None, *_) -> int:
  is_function = action == sqlite3.SQLITE_FUNCTION and second is not None and second.lower() in _ALLOWED
  return sqlite3.SQLITE_OK if is_function or action in _ACTIONS else sqlite3.SQLITE_DENY


def _fetch(cursor: sqlite3.Cursor, max_rows: int) -> list[Row]:
  rows, size = [], 0
  for row in cursor:
    rows.append(row)
    size += sum(len(x) if isinstance(x, str | bytes) else 8 for x in row)
    if len(rows) > max_rows or size > _RESULT_BYTES:
      raise QueryError(f'more than {max_rows} rows or {_RESULT_BYTES} bytes')
  return rows


def _rounded(rows: Iterable[Row]) -> list[Row]:
  return [tuple(float(f'{x:.12g}') if isinstance(x, float) else x for x in row) for row in rows]

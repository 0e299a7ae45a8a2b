"""Rewards of SQL: which queries match, and that no query changes anything, or takes much."""

import hashlib
import pathlib
import resource
import sqlite3
import time

import pytest

from rlx.rewards import sql
from rlx.rewards.sql import QueryError, run_query

LIMITS = {'timeout_seconds': 1, 'max_rows': 10_000}
NUM_ROWS = 2000


@pytest.fixture
def database(tmp_path):
  path = tmp_path / 'a base?#%20.sqlite'  # a name that an address has to quote
  connection = sqlite3.connect(path)
  connection.execute('CREATE TABLE t (a INTEGER, b TEXT, c REAL)')
  rows = [(i, None if i % 5 == 0 else 'x' * (i % 3), i / 7) for i in range(NUM_ROWS)]
  connection.executemany('INSERT INTO t VALUES (?, ?, ?)', rows)
  connection.execute("INSERT INTO t (b) VALUES (CAST(x'ff41' AS TEXT))")  # no UTF-8
  connection.commit()
  connection.close()
  return path


def run(database, query, **limits):
  return run_query(database, query, **{**LIMITS, **limits})


# --- hostile queries ----------------------------------------------------------------------------------------


def chain(first, step):
  """24 views, each of which names the one before twice: 2 ** 24 copies for the planner."""
  views = ', '.join(f'v{i} AS ({step.format(f"v{i - 1}")})' for i in range(1, 25))
  return f'WITH v0 AS ({first}), {views} SELECT count(*) FROM v24'


LONG = "(SELECT group_concat(x, '') FROM (SELECT 'a' AS x FROM t p, t q LIMIT 60000))"
COUNT_UP = 'WITH RECURSIVE n(x) AS (SELECT 1 UNION ALL SELECT x + 1 FROM n)'
HOSTILE = {
    'drop': 'DROP TABLE t',
    'delete': 'DELETE FROM t',
    'delete and return': 'DELETE FROM t RETURNING a',
    'update': 'UPDATE t SET a = 0',
    'insert': 'INSERT INTO t VALUES (1, 2, 3)',
    'create': 'CREATE TABLE u (a)',
    'create temporary': 'CREATE TEMP TABLE u AS SELECT * FROM t',
    'trigger': 'CREATE TRIGGER r AFTER INSERT ON t BEGIN DELETE FROM t; END',
    'virtual table': 'CREATE VIRTUAL TABLE f USING fts5(x)',
    'alter': 'ALTER TABLE t RENAME TO u',
    'attach': "ATTACH DATABASE '{folder}/other.sqlite' AS other",
    'schema': 'PRAGMA writable_schema = ON',
    'journal': 'PRAGMA journal_mode = DELETE',
    'no limit': 'PRAGMA hard_heap_limit = 0',
    'pragma as a table': "SELECT * FROM pragma_table_info('t')",
    'vacuum': 'VACUUM',
    'vacuum into': "VACUUM INTO '{folder}/copy.sqlite'",
    'extension': "SELECT load_extension('{folder}/x.so')",
    'read a file': "SELECT readfile('/etc/passwd')",
    'write a file': "SELECT writefile('{folder}/made', 'x')",
    'tokenizer': "SELECT fts3_tokenizer('simple')",
    'begin': 'BEGIN EXCLUSIVE',
    'two statements': 'SELECT 1; DROP TABLE t',
    'endless recursion': f'{COUNT_UP} SELECT count(*) FROM n',
    'endless rows': f'{COUNT_UP} SELECT x FROM n',
    'cross join': 'SELECT count(*) FROM t a, t b, t c, t d',
    'cross join of rows': 'SELECT * FROM t a, t b',
    'random bytes': 'SELECT randomblob(1000000000)',
    'zeros': 'SELECT length(zeroblob(1000000000))',
    'zeros in a sum': f"{COUNT_UP} SELECT sum(length(zeroblob(9999))) FROM n",
    'replace': "SELECT " + "replace(" * 9 + "'a'" + ", 'a', 'aaaaaaaaaa')" * 9,
    'concatenation': "SELECT group_concat(a.b || b.b || 'x') FROM t a, t b",
    'json': 'SELECT json_group_array(a.a) FROM t a, t b',
    'printf': "SELECT printf('%.*c', 1000000000, 'x')",
    'format': "SELECT format('%-20.999999999lc', 'x')",
    'printf of nothing': "SELECT length(printf('%1000000000d', 1)) + 0 FROM t, t, t, t, t",
    'sort': f"{COUNT_UP} SELECT * FROM (SELECT printf('%60000d', x) AS s FROM n) ORDER BY s",
    'distinct': f"{COUNT_UP} SELECT DISTINCT printf('%60000d', x) FROM n ORDER BY 1 DESC",
    'join of views': chain('SELECT 1 AS x', 'SELECT p.x FROM {0} p, {0} q'),
    'union of views': chain('SELECT 1 AS x', 'SELECT x FROM {0} UNION ALL SELECT x FROM {0}'),
    'sum of views': chain('SELECT 1 AS x', 'SELECT (SELECT x FROM {0}) + (SELECT x FROM {0}) AS x'),
    'tables': 'SELECT count(*) FROM ' + ', '.join(f't a{i}' for i in range(60)),
    'depth': 'SELECT ' + '(' * 5000 + '1' + ')' * 5000,
    'width': 'SELECT ' + ' + '.join(['1'] * 3000),
    'length': "SELECT '" + 'x' * 10**6 + "'",
    'many unions': 'SELECT 1 ' + 'UNION SELECT 1 ' * 300,
    'search': f"SELECT sum(instr({LONG}, substr({LONG}, 1, 30000) || 'b')) FROM t p, t q",
}


@pytest.mark.parametrize('name', HOSTILE)
def test_hostile_queries_are_stopped_and_change_nothing(database, name):
  before = hashlib.sha256(database.read_bytes()).hexdigest()
  peak = lambda: resource.getrusage(resource.RUSAGE_SELF).ru_maxrss  # kibibytes, of this process so far
  most, began = peak(), time.monotonic()
  with pytest.raises(QueryError) as error:
    run(database, HOSTILE[name].replace('{folder}', str(database.parent)))
  assert time.monotonic() - began < 1 + 8  # the deadline, and what is not interrupted on a busy machine
  assert hashlib.sha256(database.read_bytes()).hexdigest() == before
  assert list(database.parent.iterdir()) == [database] and '\n' not in str(error.value)
  assert peak() < max(most, 2 << 20) + (1 << 18)


def test_the_deadline_is_kept(database):
  for query in (HOSTILE['endless recursion'], HOSTILE['cross join'], HOSTILE['tables']):
    began = time.monotonic()
    with pytest.raises(QueryError, match='interrupted'):
      run(database, query, timeout_seconds=0.2)
    assert 0.2 <= time.monotonic() - began < 1.5


def test_sizes_are_kept(database):
  assert len(run(database, 'SELECT a FROM t LIMIT 10', max_rows=10)) == 10
  with pytest.raises(QueryError, match='more than 10 rows'):
    run(database, 'SELECT a FROM t LIMIT 11', max_rows=10)
  with pytest.raises(QueryError, match='67108864 bytes'):
    run(database, "SELECT printf('%60000d', a) FROM t", timeout_seconds=30)


# --- queries ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ('query', 'rows'),
    [
        ('SELECT count(*), sum(a) FROM t WHERE a IS NOT NULL', [(NUM_ROWS, NUM_ROWS * (NUM_ROWS - 1) // 2)]),
        ("SELECT a, b FROM t WHERE b LIKE 'x%' AND b GLOB '*x' ORDER BY a LIMIT 2;", [(1, 'x'), (2, 'xx')]),
        ('SELECT a, rank() OVER (ORDER BY a DESC) FROM t ORDER BY a DESC LIMIT 1', [(NUM_ROWS - 1, 1)]),
        ("SELECT printf('%.2f|%5d|%s%%', c, a, b), format('%d', a) FROM t LIMIT 1", [('0.00|    0|%', '0')]),
        ("SELECT strftime('%Y', '2020-05-01'), CAST('3' AS INTEGER), x'00'", [('2020', 3, b'\0')]),
        ('WITH RECURSIVE n(x) AS (SELECT 1 UNION ALL SELECT x + 1 FROM n WHERE x < 3) SELECT x FROM n', None),
        ("SELECT json_extract('{\"a\": [1, 2]}', '$.a[1]'), iif(1, upper('a'), 2)", [(2, 'A')]),
        ('-- a comment\nSELECT b FROM t WHERE a IS NULL', [('\ufffdA',)]),
        ('SELECT name FROM sqlite_master', [('t',)]),
    ],
)
def test_queries(database, query, rows):
  assert run(database, query) == ([(1,), (2,), (3,)] if rows is None else rows)


def test_wrong_queries(database):
  wrong = ['', ' -- nothing', 'SELECT', 'SELECT z FROM t', 'SELECT * FROM u', 'SELECT ?']
  for query in [*wrong, 'SELECT \0', 'SELECT "\ud800"']:
    with pytest.raises(QueryError):
      run(database, query)


def test_a_database_that_cannot_be_used_is_not_the_fault_of_the_query(database, tmp_path):
  with pytest.raises(ValueError, match='there is no database') as error:
    run(tmp_path / 'none.sqlite', 'SELECT 1')
  assert not isinstance(error.value, QueryError)
  pathlib.Path(f'{database}-wal').write_bytes(b'x')
  with pytest.raises(ValueError, match='wal_checkpoint') as error:
    run(database, 'SELECT 1')
  assert not isinstance(error.value, QueryError)


# --- the reward ---------------------------------------------------------------------------------------------


def matches(database, completions, gold, *, ordered):
  count = len(completions)
  return sql.sql_matches(completions, [str(database)] * count, [gold] * count, **LIMITS, ordered=ordered)


def test_rows_are_a_multiset_unless_they_are_ordered(database):
  gold = 'SELECT b FROM t WHERE a < 6 ORDER BY a'
  completions = [
      gold,
      'So:\n```sql\nSELECT a FROM t;\n```\nor rather\n```SQL\nSELECT t.b AS other FROM t WHERE a <= 5\n```',
      [{'role': 'assistant', 'content': '```\nSELECT b FROM t WHERE a BETWEEN 0 AND 5 ORDER BY a DESC\n```'}],
      'SELECT DISTINCT b FROM t WHERE a < 6',
      'SELECT b, a FROM t WHERE a < 6 ORDER BY a',
      'SELECT b FROM t WHERE a < 5 ORDER BY a',
      'SELECT b FROM nothing',
      'DELETE FROM t',
      'I cannot say.',
      '',
  ]
  assert matches(database, completions, gold, ordered=False) == [1, 1, 1, 0, 0, 0, 0, 0, 0, 0]
  assert matches(database, completions, gold, ordered=True) == [1, 1, 0, 0, 0, 0, 0, 0, 0, 0]


def test_numbers_are_compared_by_value(database):
  assert 0.1 + 0.2 != 0.3
  completions = ['SELECT 0.1 + 0.2, 3.0', "SELECT 0.3, '3'", 'SELECT 0.3, 3']
  assert matches(database, completions, 'SELECT 0.3, 3', ordered=True) == [1, 0, 1]
  assert matches(database, ['SELECT 1e-9'], 'SELECT 1.0000001e-9', ordered=True) == [0]


def test_no_rows_equal_no_rows_and_no_query_equals_nothing(database):
  gold = 'SELECT a FROM t WHERE a < 0'
  completions = ['SELECT b FROM t WHERE 0', '', '-- SELECT', gold]
  assert matches(database, completions, gold, ordered=True) == [1, 0, 0, 1]


@pytest.mark.parametrize('gold', ['SELECT z FROM t', 'DROP TABLE t', HOSTILE['cross join'], ''])
def test_a_right_query_that_fails_is_an_error(database, gold):
  with pytest.raises(ValueError, match='row 0: the right query fails') as error:
    matches(database, ['SELECT 1'], gold, ordered=False)
  assert not isinstance(error.value, QueryError)

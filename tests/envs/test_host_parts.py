"""Tools and worlds that come with rlx: what they answer, and what nobody gets out of them."""

import json
import os
import shutil
import sqlite3
import sys

import pytest

from rlx.envs.host import calculator, calls, pages
from rlx.envs.host.calls import Call, Malformed
from rlx.envs.host.python import Python
from rlx.envs.host.sql import Sql
from rlx.errors import ConfigError

# --- how calls are written

HERMES = '<tool_call>\n{"name": "add", "arguments": {"x": 1}}\n</tool_call> and <tool_call>{"name": "f"}'
FORMATS = {
    'hermes': (calls.hermes_json, HERMES, [Call('add', {'x': 1}), Malformed]),
    'hermes, no json': (calls.hermes_json, '<tool_call>add(1)</tool_call>', [Malformed]),
    'hermes, no object': (calls.hermes_json, '<tool_call>[1]</tool_call>', [Malformed]),
    'hermes, a list': (calls.hermes_json, '<tool_call>{"name":"f","arguments":[1]}</tool_call>', [Malformed]),
    'hermes, deep': (calls.hermes_json, f'<tool_call>{"[" * 100_000}</tool_call>', [Malformed]),
    'an answer': (calls.hermes_json, 'It is 3.', []),
    'llama': (
        calls.llama_json, ' {"name": "f", "parameters": {}}; {"name": "g", "parameters": {"x": 2}}',
        [Call('f', {}), Call('g', {'x': 2})],
    ),
    'llama, cut': (calls.llama_json, '{"name": "f", "parameters": {"x"', [Malformed]),
    'llama, an answer': (calls.llama_json, 'It is {"x": 3}', []),
    'tags': (
        lambda text: calls.tags(text, tools=('search', 'read')),
        '<search> who </search>.<read>2</read><search>x',
        [Call('search', 'who'), Call('read', '2'), Malformed],
    ),
    'fenced': (
        lambda text: calls.fenced_python(text, tool='python'), 'So\n```python\nx = 1\n```\nand\n```py\ny',
        [Call('python', 'x = 1\n'), Malformed],
    ),
    'inline': (
        lambda text: calls.inline(text, tool='c', before='<<', after='='), 'a <<1+1=2>> is <<2*3=',
        [Call('c', '2*3')],
    ),
    'inline, another sign': (
        lambda text: calls.inline(text, tool='c', before='<<', after='='), 'so x =', []
    ),
}


@pytest.mark.parametrize('case', FORMATS)
def test_calls_are_read_in_their_order(case):
  read, text, wanted = FORMATS[case]
  found = read(text)
  assert len(found) == len(wanted)
  assert all(type(x) is Malformed if y is Malformed else x == y for x, y in zip(found, wanted, strict=True))


# --- the calculator

SUMS = {
    '48/2': '24', '1,200 * $3': '3600', '7/2': '3.5', '-(2+3)*4': '-20', '2**10': '1024', '10 % 4': '2',
    '7 // 2': '3', '1/3': '0.3333333333', '3 × 4 ÷ 2': '6', '.5+.5': '1',
}
NO_SUMS = (
    '', '1/0', '2**99999', '10**200*10**200*9**999*9**999', '9' * 2000, '().__class__', 'abs(-1)', '"a"*3',
    '[1]', '1 if 2 else 3', 'x', '(-8)**.5', '1e308*10', 'True+1', '1<2', '(' * 300, '1;2', '2**2**2**2**2',
)


@pytest.mark.parametrize('text', SUMS)
def test_a_calculator_works_out_expressions_of_numbers(text):
  assert calculator.calculate(text) == SUMS[text]


@pytest.mark.parametrize('text', NO_SUMS, ids=range(len(NO_SUMS)))
def test_and_nothing_else(text):
  with pytest.raises((ValueError, ZeroDivisionError, OverflowError)):
    calculator.calculate(text)


# --- Python sessions

needs_bubblewrap = pytest.mark.skipif(shutil.which('bwrap') is None, reason='bubblewrap is not installed')


@pytest.fixture
def session():
  world = Python(
      cell_seconds=2.0, session_seconds=60.0, memory_bytes=1 << 28, output_bytes=1000, tier='bubblewrap'
  )
  world._trial()
  world.reset(question='?')
  yield world
  world.reset()


@needs_bubblewrap
def test_what_a_cell_defines_lives_through_the_episode_and_no_longer(session):
  assert session.python('x = 3') == '' and session.python('print(x)\nx + 1') == '3\n4\n'
  session.reset()
  assert 'NameError' in session.python('x')


@needs_bubblewrap
@pytest.mark.parametrize(
    'cell', ['while True: pass', 'import os; os._exit(0)', 'import os\nos.write(0, b"9" * 99)']
)
def test_a_cell_that_ends_its_session_says_so_and_the_next_one_has_a_fresh_one(session, cell):
  session.python('x = 3')
  with pytest.raises(RuntimeError, match='variables are gone'):
    session.python(cell)
  assert 'NameError' in session.python('x')


HOSTILE = {  # cell -> what must not be in the answer
    'network': 'import socket; socket.create_connection(("127.0.0.1", 22), 1)\nprint("reached")',
    'name service': 'import socket; print("reached", socket.gethostbyname("localhost.test"))',
    'password file': 'print("reached", open("/etc/passwd").read())',
    'this file': f'print("reached", open({__file__!r}).read())',
    'environment': 'import os; print("reached" if "RLX_SECRET" in str(os.environ) else "")',
    "another's environment": 'print("reached", "RLX_SECRET" in open("/proc/1/environ").read())',
    'writes': 'open("/made", "w").write("x"); print("reached")',
    'processes': 'import os; print("reached" if sum(x.isdigit() for x in os.listdir("/proc")) > 4 else "")',
    'kill': f'import os; os.kill({os.getpid()}, 0); print("reached")',
    'tracing': 'import ctypes; print("reached" if ctypes.CDLL(None).ptrace(16, 1, 0, 0) == 0 else "")',
    'mount': 'import ctypes\nprint("reached" * (not ctypes.CDLL(None).mount(b"x", b"/tmp", b"tmpfs", 0, 0)))',
    'packages': 'import numpy; print("reached")',
    'root': 'import os; os.setuid(0); print("reached")' if os.getuid() == 0 else 'print(1)',
}


@needs_bubblewrap
@pytest.mark.parametrize('probe', HOSTILE)
def test_hostile_cells_reach_nothing(session, monkeypatch, probe):
  monkeypatch.setenv('RLX_SECRET', 'RLX_SECRET')
  assert 'reached' not in session.python(HOSTILE[probe])
  assert session.python('1 + 1') == '2\n'


@needs_bubblewrap
def test_memory_of_a_session_is_limited(session):
  assert 'MemoryError' in session.python('x = bytearray(1 << 30)') and session.python('1') == '1\n'


def test_a_sandbox_that_does_not_start_refuses(monkeypatch):
  monkeypatch.setattr(shutil, 'which', lambda name: None)
  world = Python(
      cell_seconds=2.0, session_seconds=60.0, memory_bytes=1 << 28, output_bytes=1000, tier='bubblewrap'
  )
  from rlx.rewards import sandbox

  sandbox.check.cache_clear()
  with pytest.raises(sandbox.SandboxError, match='bubblewrap'):
    world._trial()
  sandbox.check.cache_clear()


# --- SQL, search, pages


def test_sql_reads_and_only_reads(tmp_path):
  path = tmp_path / 'shop.db'
  with sqlite3.connect(path) as connection:
    connection.execute('CREATE TABLE items (name TEXT, price REAL)')
    connection.executemany('INSERT INTO items VALUES (?, ?)', [('pen', 1.5), ('book', 9.0), (None, 2.0)])
  connection.close()
  world = Sql(query_seconds=2.0, max_rows=10)
  world.reset(database=str(path), question='?')
  assert world.query('SELECT * FROM items ORDER BY price') == 'pen | 1.5\nNULL | 2.0\nbook | 9.0'
  assert 'CREATE TABLE items' in world.tables() and world.query('SELECT 1 WHERE 0') == 'no rows'
  for sql in ('DELETE FROM items', 'SELECT load_extension(1)', 'ATTACH "x" AS y', 'SELEC', ''):
    assert world.query(sql).startswith('Error: ')
  with pytest.raises(ValueError, match='no database'):
    world.reset(database='nowhere.db')


def test_search_finds_passages_and_its_index_is_made_once(tmp_path):
  pytest.importorskip('tantivy')
  from rlx.envs.host import search

  file = tmp_path / 'passages.jsonl'
  texts = ['The cat sat on the mat.', 'A dog barked.', 'A cat and a dog.']
  texts += [f'Passage {i} of oats.' for i in range(9)]
  file.write_text(''.join(json.dumps({'text': text}) + '\n' for text in texts))
  bound = {'files': (str(file),), 'field': 'text', 'results': 3, 'folder': str(tmp_path / 'index')}
  search.search.trial(**bound)
  assert search.search('cat mat', **bound).splitlines()[0] == '(1) The cat sat on the mat.'
  ties = [f'({place}) Passage {i} of oats.' for place, i in enumerate(range(3), 1)]
  assert search.search('OATS', **bound).splitlines() == ties  # equal scores are in their order
  for query in ('', '"', 'text:oak XOR (', '*', '🙂', 'a' * 10_000, 'nothing'):
    assert search.search(query, **bound) == 'nothing was found'
  [made] = (tmp_path / 'index').iterdir()
  before = made.stat().st_mtime_ns
  search.index.cache_clear()
  assert 'cat' in search.search('cat', **bound) and made.stat().st_mtime_ns == before
  with pytest.raises(ConfigError, match='line 1: no passage'):
    search.search.trial(**{**bound, 'field': 'body'})


def test_a_missing_package_is_one_line(monkeypatch, tmp_path):
  from rlx.envs.host import search

  monkeypatch.setitem(sys.modules, 'tantivy', None)
  with pytest.raises(ConfigError, match=r"pip install 'rlx\[search\]'"):
    search.search.trial(files=('x',), field='text', results=1, folder=str(tmp_path))


def test_pages_are_read_links_followed_and_forms_filled_in(tmp_path):
  (tmp_path / 'start.html').write_text(
      '<head><title>no</title></head><h1>Shop</h1><p>See the <a href="item.html#top">pen &amp; ink</a>'
      '<script>alert(1)</script><form action="done.html">Name <input name="who">'
  )
  (tmp_path / 'item.html').write_text(
      '<p>A pen. <a href="/start.html">back</a> <a href="../secret.html">out</a>'
  )
  (tmp_path / 'done.html').write_text('<p>Thanks.')
  (tmp_path.parent / 'secret.html').write_text('secret')
  world = pages.Pages(folder=str(tmp_path))
  world._trial()
  world.reset(page='start.html')
  assert world.read() == 'Shop\nSee the [1: pen & ink]\nName [field 1: who]'
  assert world.follow(1) == 'A pen. [1: back] [2: out]'
  with pytest.raises(ValueError, match='no page'):
    world.follow(2)
  world.follow(1)
  assert world.fill(1, 'Ada') == 'who = Ada' and world.submit() == 'Thanks.\nwho = Ada'
  for wrong in (lambda: world.follow(9), lambda: world.fill(1, 'x'), world.submit):
    with pytest.raises(ValueError, match='no link|no field|no form'):
      wrong()


@pytest.mark.parametrize(
    'html', ['<a href="x', '<<<>>>', '</p></a>', '<script>never closed', '', '<a href=1><a href=2>']
)
def test_broken_pages_are_read_all_the_same(html):
  assert isinstance(pages.parse(html).text, str)

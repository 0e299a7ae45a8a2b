"""Rewards of programs: what passes, what does not, and what programs try in order to pass."""

import pathlib
import shutil
import subprocess
import sys

import pytest

from rlx.rewards import code, sandbox, sent
from rlx.rewards.sent import judge
from tests.cases import cases

pytestmark = pytest.mark.skipif(shutil.which('bwrap') is None, reason='bubblewrap is not installed')

LIMITS = {'timeout_seconds': 5, 'memory_bytes': 256 << 20, 'tier': 'bubblewrap'}


def unit_tests(program, tests, **limits):
  (reward,) = code.unit_tests([program], [tests], **{**LIMITS, **limits})
  return reward


# --- extracting ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ('text', 'expected'),
    [
        ('x = 1\n', 'x = 1\n'),
        ('Try\n```python\nx = 1\n```\nno:\n```python\nx = 2\n```\nDone.', 'x = 2\n'),
        ('```py\nx = 1\n```\n```\noutput\n```\n```bash\nls\n```', 'x = 1\n'),
        ('```\nx = 1\n```\nas in\n```bash\nls\n```', 'x = 1\n'),
        ('```Python3 title="a.py"\nx = 1\n```', 'x = 1\n'),
        ('```python\ndef f():\n  return 1', 'def f():\n  return 1'),
        ('  ```python\n  x = "```"\n  ```', '  x = "```"\n'),
        ('```bash\nls\n```', '```bash\nls\n```'),
        ('', ''),
    ],
)
def test_extract_code(text, expected):
  assert code.extract_code(text) == expected


# --- what passes --------------------------------------------------------------------------------------------


def test_a_list_gives_a_share_and_a_source_gives_all_or_nothing():
  program = 'Look:\n```python\ndef f(x):\n  return x + 1 if x < 3 else 0\n```'
  asserts = ['assert f(1) == 2', 'assert f(2) == 3', 'assert f(3) == 4', 'y = f(0)\nassert y == 1']
  messages = [{'role': 'assistant', 'content': program}]
  completions = [program, program, messages, 'def f(x): return x + 1', 'I do not know', '']
  tests = [asserts, '\n'.join(asserts), asserts[:1], '\n'.join(asserts), asserts, asserts]
  assert code.unit_tests(completions, tests, **LIMITS) == [0.75, 0.0, 1.0, 1.0, 0.0, 0.0]


VALUES = """
import collections, datetime, decimal, enum, fractions
class Color(enum.Enum): RED = 1
class Level(enum.IntEnum): LOW = 1
class Text(str): pass
class Failure(Exception): pass
class Worse(Failure): pass
Pair = collections.namedtuple('Pair', 'x y')
def echo(x): return x
def count(): return collections.Counter('aab')
def nested(): return {'a': [(1, 2.5), {3}, None], b'b': {True: 1j}}
def default(): return collections.defaultdict(list, {1: [2]})
def dates(): return datetime.date(2020, 1, 2), datetime.datetime(2020, 1, 2, 3), datetime.timedelta(1)
def numbers(): yield 1; yield 2
def sort(x, *, key=None): x.sort(key=key)
def update(d, s, b): d[1] = [2]; s.add(9); b.extend(b'!')
def fail(kind):
  if kind == 'own': raise Worse('bad', 7)
  raise {'value': ValueError, 'key': KeyError, 'end': EOFError, 'stop': StopIteration}[kind]('bad')
def twice(f, x): return f(f(x))
def max_of(*values): return max(values)
"""
PASSING = [
    'assert nested() == {"a": [(1, 2.5), {3}, None], b"b": {True: 1j}}',
    'x = [1, -2**200, 1e300, "\\xfc\\ud800\\0", b"\\0", bytearray(b"a"), frozenset({1}), (), [[]], {}]\n'
    'assert echo(x) == x and [type(a) for a in echo(x)] == [type(a) for a in x]',
    'assert str(echo(float("nan"))) == "nan" and echo(float("inf")) > 0 and echo(-0.0).hex() == "-0x0.0p+0"',
    'assert count() == {"a": 2, "b": 1} and {"a": 2, "b": 1} == count() and count()["a"] == 2',
    'assert count().most_common(1) == [("a", 2)] and isinstance(count(), dict) and len(count()) == 2',
    'assert default() == {1: [2]} and sorted(count()) == ["a", "b"] and dict(count()) == {"a": 2, "b": 1}',
    'assert Pair(1, 2) == (1, 2) and (1, 2) == Pair(1, 2) and Pair(1, 2).y == 2 and [Pair(1, 2)] == [(1, 2)]',
    'assert Color.RED == Color.RED and Color.RED != Level.LOW and Level.LOW == 1 and Level.LOW + 1 == 2',
    'assert 1 + Level.LOW == 2 and Text("a") == "a" and Text("a").upper() == "A" and Text("a") + "b" == "ab"',
    'from fractions import Fraction\nassert echo(Fraction(1, 3)) == Fraction(1, 3)',
    'from decimal import Decimal\nassert echo(Decimal("0.1")) == Decimal("0.1")',
    'import datetime as d\nassert dates() == (d.date(2020, 1, 2), d.datetime(2020, 1, 2, 3), d.timedelta(1))',
    'from collections import deque as d\nassert echo(d([1], 5)) == d([1]) and echo(d([], 5)).maxlen == 5',
    'assert list(numbers()) == [1, 2] and sum(numbers()) == 3 and 2 in numbers() and next(numbers()) == 1',
    'x = [3, 1, 2]\nsort(x)\nassert x == [1, 2, 3]\nsort(x, key=lambda a: -a)\nassert x == [3, 2, 1]',
    'd, s, b = {1: 1}, {1}, bytearray(b"a")\nupdate(d, s, b)\nassert (d, s, b) == ({1: [2]}, {1, 9}, b"a!")',
    'for kind, error in dict(value=ValueError, key=KeyError, end=EOFError, stop=StopIteration).items():\n'
    '  try: fail(kind)\n'
    '  except error as e: assert e.args == ("bad",)\n'
    '  else: assert False',
    'try: fail("own")\nexcept Failure as e: assert e.args == ("bad", 7) and type(e).__name__ == "Worse"',
    'try: echo(1, 2)\nexcept TypeError as e: assert "positional argument" in str(e)\nelse: assert False',
    'assert twice(lambda x: x + 1, 3) == 5 and twice(str, 3) == "3" and twice(abs, -3) == 3',
    'import math\ndef half(x): return math.floor(x / 2)\nassert twice(half, 9) == 2',
    'assert twice(echo, 3) == 3 and twice(lambda x: echo(x) * 2, 3) == 12',
    'def check(f):\n  assert f(1, 2) == 2\ncheck(max_of)',
    'assert [max_of(x, 1) for x in range(3)] == [1, 1, 2]',
    'assert math.isclose(echo(0.1), 0.1) and abs(echo(0.3) - 0.1 - 0.2) < 1e-9',
    'assert all(echo(random.random()) < 1 for _ in range(3))',
    'import random\nassert random.random() == random.Random(0).random()',  # a fixed seed
]  # fmt: skip


def test_values_of_all_kinds():
  failed = [test for test in PASSING if unit_tests(VALUES, [test]) != 1]
  assert failed == []


OBJECTS = """
class Node:
  def __init__(self, value, next=None):
    self.value, self.next = value, next
  def __len__(self): return 1 + (len(self.next) if self.next else 0)
  def __bool__(self): return True
  def __getitem__(self, i): return self.value if i == 0 else self.next[i - 1]
  def __setitem__(self, i, value): self.value = value
  def __iter__(self):
    yield self.value
    if self.next: yield from self.next
class Vector:
  def __init__(self, x): self.x = x
  def __add__(self, other): return Vector(self.x + other.x)
  def __eq__(self, other): return self.x == other.x
  def __lt__(self, other): return self.x < other.x
  def __neg__(self): return Vector(-self.x)
  def __repr__(self): return f'Vector({self.x})'
  def __call__(self, y, *, z=0): return self.x + y + z
  def __enter__(self): self.x += 1; return self
  def __exit__(self, *_): self.x -= 1
  @classmethod
  def zero(cls): return cls(0)
def total(node):
  return node.value + (total(node.next) if node.next else 0)
"""


def test_objects_of_the_program():
  tests = [
      'n = Node(1, Node(2))\nassert total(n) == 3 and len(n) == 2 and n[1] == 2 and list(n) == [1, 2]',
      'n = Node(1)\nn.next = Node(5)\nn[0] = 3\nassert total(n) == 8 and n.next.value == 5 and len(n) == 2',
      'assert Vector(1) + Vector(2) == Vector(3) and Vector(1) != Vector(2) and Vector(1) < Vector(2)',
      'assert repr(-Vector(1)) == f"{Vector(-1)}" == "Vector(-1)" and Vector.zero() == Vector(0)',
      'v = Vector(1)\nassert isinstance(v, Vector) and not isinstance(v, Node) and not isinstance(1, Vector)',
      'v = Vector(1)\nassert v(2, z=3) == 6 and v in [v] and v is v and {v: 1}[v] == 1 and hasattr(v, "x")',
      'with Vector(1) as v: assert v.x == 2\nassert v.x == 1',
      'try: v = Vector(1).y\nexcept AttributeError: pass\nelse: assert False',
      'v = sorted([Vector(2), Vector(1)])\nassert [a.x for a in v] == [1, 2]',
  ]
  failed = [test for test in tests if unit_tests(OBJECTS, [test]) != 1]
  assert failed == []
  assert unit_tests(OBJECTS, ['assert Vector(1) == 1', 'assert Vector(1) + 1', 'assert Vector(1) < 2']) == 0


def test_programs_that_are_wrong():
  tests = ['assert f(1) == 2']
  wrong = [
      'def f(x): return x',
      'def f(x): raise ValueError',
      'def f(x): return f(x)',
      'def f(x',
      'def g(x): return x + 1',
      'import numpy\ndef f(x): return x + 1',
      'def f(x): return x + 1\nraise SystemExit(0)',
      'def f(x): return x + 1\n1 / 0',
      'def f(x): return [None] * 10 ** 10',
      'def f(x): l = []; l.append(l); return l',
      'async def f(x): return 2',
      'def f(x): return "2"',
      'def f(x): return [2]',
      'def f(x): yield 2',
      'def f(x): return lambda: 2',
  ]
  assert [program for program in wrong if unit_tests(program, tests) != 0] == []


def test_a_program_that_hangs_keeps_what_it_passed(monkeypatch):
  program = 'def f(x):\n  while x: pass'
  assert unit_tests(program, ['assert f(0) is None', 'assert f(1)'], timeout_seconds=0.5) == 0.5
  assert unit_tests('while True: pass', ['assert f(1)'], timeout_seconds=0.5) == 0
  assert unit_tests('def f(x):\n  while 1: yield x', ['assert list(f(1))'], timeout_seconds=0.5) == 0
  monkeypatch.setattr(sandbox, '_GRACE_SECONDS', 0.3)
  catching = 'while True:\n  try: f(1)\n  except: assert True'
  assert unit_tests('def f(x): pass', [catching], timeout_seconds=0.5) == 0


def test_tests_keep_what_they_define_and_a_demonstration_does_not_run():
  program = 'def f(x): return x\nif __name__ == "__main__":\n  print(f(int(input())))'
  assert unit_tests(program, ['y = 3\nassert f(y) == 3', 'assert f(y) == y']) == 1
  talkative = 'print("x" * 10 ** 6)\ndef f(x): print("y" * 10 ** 6); return x'
  assert unit_tests(talkative, ['assert f(1) == 1']) == 1
  assert unit_tests('1 / 0', ['assert True']) == 0


# --- programs that want to pass without being right ---------------------------------------------------------

TRUE_WHATEVER = """
class Yes(BASE):
  def method(self, *args): return self
  __eq__ = __ne__ = __lt__ = __le__ = __gt__ = __ge__ = __contains__ = lambda *_: True
  __sub__ = __rsub__ = __add__ = __abs__ = __getitem__ = __call__ = __getattr__ = __round__ = method
  __float__ = lambda self: 0.0
  __bool__ = lambda self: True
  __hash__ = lambda self: hash(2)
  __iter__ = lambda self: iter([self])
  __len__ = lambda self: 1
def f(x): return Yes()
"""
STRICT = [
    'assert f(1) == 2', 'assert 2 == f(1)', 'assert not f(1) != 2', 'assert abs(f(1) - 2) < 1e-6',
    'assert f(1) in (2, 3)', 'assert 2 in f(1)', 'assert [f(1)] == [2]', 'assert {f(1)} == {2}',
    'assert f(1) > 1', 'assert f(1)[0] == 2', 'assert list(f(1)) == [2]', 'assert math.isclose(f(1), 2)',
    'assert round(f(1)) == 2', 'assert f(1) is 2 or type(f(1)) is int', 'assert str(f(1)) == "2"',
    'assert set(f(1)) == {2}', 'assert f(1) == g(1) == 2', 'assert sorted(f(1)) == [2]',
    'assert f(1) + 1 == 3',
]  # fmt: skip


@pytest.mark.parametrize('base', cases(['object', 'int', 'str', 'dict', 'list'], at_once=['object', 'str']))
def test_objects_that_equal_everything(base):
  program = TRUE_WHATEVER.replace('BASE', base)
  assert [test for test in STRICT if unit_tests(program, [test]) != 0] == []


FORGERIES = {
    'ends at once': 'import os\nos._exit(0)',
    'exits at once': 'import sys\nsys.exit(0)',
    'ends in a call': 'import os\ndef f(x): os._exit(0)',
    'exits in a call': 'import sys\ndef f(x): sys.exit(0)',
    'ends later': """
import os, threading, time
threading.Timer(.1, os._exit, [0]).start()
def f(x): time.sleep(9)""",
    'exit hook': 'import atexit, os\natexit.register(os._exit, 0)\ndef f(x): raise SystemExit(0)',
    'kills': 'import os\ndef f(x): os.kill(os.getppid(), 9); os.kill(1, 9); os.kill(-1, 9)',
    'says so': "print('started'); print(('ok', 0, 0.0, [True])); print('passed')\ndef f(x): print('ok')",
    'builtins': """
import builtins, sys
for name in ('len', 'abs', 'isinstance', 'all', 'set', 'sorted', 'exec', 'compile', 'type', 'getattr'):
  setattr(builtins, name, lambda *a, **k: True)
builtins.AssertionError = type('Silent', (Exception,), {})
sys.exit = lambda *a: None
def f(x): return x""",
    'own names': """
class Yes:
  __eq__ = lambda *_: True
set = sorted = len = abs = str = type = list = round = lambda *a: Yes()
class math: isclose = lambda *a: True
def f(x): return x""",
    'own constants': """
set = sorted = len = abs = str = type = list = round = lambda *a: 0
isinstance = all = any = lambda *a: True
def f(x): return x""",
    'modules': """
import math, sys
math.isclose = lambda *a, **k: True
sys.modules['math'] = type(sys)('math')
sys.modules['math'].isclose = lambda *a, **k: True
def f(x): return 1""",
    'looks for the answer': """
import gc, sys
def numbers(x, depth=4):
  if type(x) is int: yield x
  elif depth and type(x) in (list, tuple, set, dict):
    for y in list(x): yield from numbers(y, depth - 1)
  elif depth and hasattr(x, 'co_consts'): yield from numbers(x.co_consts, depth - 1)
def f(x):
  found, frame = [], sys._getframe()
  while frame:
    for place in (frame.f_locals, frame.f_globals):
      found += numbers(list(place.values()))
      for name, value in list(place.items()):
        if name in ('report', 'data', 'job') and isinstance(value, list): value[:] = [True] * 9
    frame = frame.f_back
  for thing in [*gc.get_objects(), *map(vars, list(sys.modules.values()))]:
    found += numbers(thing, 3)
  return next((n for n in found if 4000 < n < 4900 and n != 4096), 1)""",
    'reads': """
import os
def f(x):
  for place in [f'/proc/{p}/{n}' for p in os.listdir('/proc') if p.isdigit() and int(p) != os.getpid()
                for n in ('mem', 'maps', 'fd', 'environ', 'cmdline', 'fd/4', 'fd/5')] + ['/', '/tmp']:
    try: text = str(os.listdir(place)) if place[-2:] in ('fd', '/', 'mp') else open(place, 'rb').read()
    except OSError: continue
    if '4711' in str(text): return int('4711')
  return 1""",
    'writes everywhere': """
import os
def f(x):
  for fd in range(3, 100):
    try: os.write(fd, b"started\\n('ok', 0, 0.0, [True] * 9)\\n")
    except OSError: pass""",
    'talks instead of its process': """
import os
class Yes:
  __eq__ = lambda *_: True
def f(x):
  for value in b'T0; o1;t2;i1;0t0; g1;s4;eval x1;t3;i1;1s4;evilg1;s3;int v1;t2;s7;os.evill0;'.split():
    message = b't2;s6;return' + b't2;' + value + b'd0;'
    for fd in range(3, 10):
      try: os.write(fd, (len(message)).to_bytes(8, 'little') + message)
      except OSError: pass""",
    'nonsense': """
import os
def f(x):
  for fd in range(3, 10):
    try: os.write(fd, b'\\xff' * 4096)
    except OSError: pass""",
    'raises what tests expect': 'def f(x): raise AssertionError',
    'a class for an exception': 'class f(BaseException): stopped = "ok"',
}
GUARDED = [
    'assert f(1) == 4711',
    'try: f(1)\nexcept Exception: pass\nassert f(1) == 4711',
    'try: assert f(1) == 4711\nexcept ZeroDivisionError: pass',
    'assert len([f(1), 2]) == 2 and 4711 in [f(1)]',
    'assert set([f(1)]) == {4711}',
    'assert sorted([f(1)]) == sorted([4711])',
    'assert all(f(x) == 4711 for x in [1])',
    'assert math.isclose(f(1), 4711)',
    'import math\nassert math.isclose(f(1), 4711)',
]


@pytest.mark.parametrize('name', FORGERIES)
def test_forgeries(name):
  assert unit_tests(FORGERIES[name], GUARDED, timeout_seconds=2) == 0


def test_the_program_cannot_hand_functions_of_python_to_the_tests():
  """It takes over the conversation: first it answers with `eval`, then with what that would evaluate."""
  program = """
import fcntl, os
for fd in range(3, 20):
  try: mode = fcntl.fcntl(fd, fcntl.F_GETFL) & os.O_ACCMODE
  except OSError: continue
  if mode == os.O_RDONLY: receive_fd = fd
  else: send_fd = fd
results = [b'g1;s4;eval', b's4;4711']
while True:
  request = os.read(receive_fd, int.from_bytes(os.read(receive_fd, 8), 'little'))
  if b's4;call' in request: result = b't2;' + results.pop(0) + b'd0;'
  else: result = b'i1;0' if b's3;len' in request else b'o1;t2;i1;0t0;'
  message = b't2;s6;return' + result
  os.write(send_fd, len(message).to_bytes(8, 'little') + message)
"""
  test = ['x = f(1)\nassert x(f(2)) == 4711']
  assert unit_tests(program.replace('g1;s4;eval', 'g1;s3;int'), test) == 1  # so the bytes are right
  assert unit_tests(program, test) == 0


def test_the_end_of_the_program_is_not_the_exception_that_a_test_expects():
  expects = ['try: f(1); assert False\nexcept Exception: pass', 'try: f(1); assert False\nexcept: pass']
  assert unit_tests('def f(x): raise ValueError', expects[:1]) == 1
  for end in ('import os\ndef f(x): os._exit(0)', 'def f(x): raise SystemExit', 'import os\nos._exit(0)'):
    assert unit_tests(end, expects[:1]) == 0
  assert unit_tests('import os\ndef f(x): os._exit(0)', expects) == 0


def test_the_program_never_sees_the_values_that_tests_expect():
  """Whatever reaches it is printed: the arguments, and nothing else."""
  program = """
import sys
class Spy:
  def __getattribute__(self, name):
    print('asked', name, flush=True)
    return object.__getattribute__(self, name)
  for name in ('eq', 'ne', 'lt', 'gt', 'sub', 'rsub', 'contains', 'radd', 'add'):
    exec(f'def __{name}__(self, other): print("operand", other, flush=True); return True')
def f(x):
  print('argument', x, flush=True)
  return Spy()
"""
  tests = ['f(123) == 4711', 'f(123) - 4711 == 0', '4711 in f(123)', '4711 > f(123)']
  data = code._tests([f'assert {test}' for test in tests], 0)
  result, report = sandbox.run_judged(program, sent.functions(judge), data, **LIMITS)
  assert report == [False] * 4 and result.status == 'ok'
  assert result.stdout.count('argument 123') == 4 and '4711' not in result.stdout


def test_a_flood_of_data_fails_alone():
  wide = 'def f(x): return [0] * 10 ** 7'
  deep = 'def f(x):\n  l = []\n  for _ in range(10 ** 5): l = [l]\n  return l'
  for program in (wide, deep):
    assert unit_tests(program, ['assert f(1) == 2', 'assert f(1) != 2'], timeout_seconds=2) == 0


# --- HumanEval ----------------------------------------------------------------------------------------------

PROMPT = '''from typing import List


def helper(x: int) -> int:
    return x * 2


def doubled(xs: List[int]) -> List[int]:
    """ Doubles.
    >>> doubled([1])
    [2]
    """
'''
TEST = '''

METADATA = {'author': 'jt', 'dataset': 'test'}


def check(candidate):
    assert candidate([]) == []
    assert candidate([1, 2]) == [helper(1), 4]
'''
BODY = '    return [helper(x) for x in xs]\n'
WHOLE = 'def doubled(xs: List[int]) -> List[int]:\n    return [2 * x for x in xs]\n'


@pytest.mark.parametrize(
    ('completion', 'reward'),
    [
        (BODY, 1),
        ('    return xs\n', 0),
        (BODY + '\n\ndef other(:\n  what', 1),  # a base model goes on; that is cut
        (BODY + '\n\nprint(1 /', 1),
        (BODY + '\n# the end (', 1),
        (BODY + '\nif __name__ == 1 +', 1),
        (BODY + '\nclass A(', 1),
        (BODY + '\nclass A(\n\ndef other(:\n', 1),
        (BODY + '\nx = (', 0),
        (f'Here it is:\n```python\n{WHOLE}```\nIt doubles (', 1),  # List and helper come from the prompt
        (WHOLE, 1),
        (WHOLE + '\n\ndef extra():\n    return 1 /', 0),
        ('```python\ndef twice(xs): return xs\n```', 0),
        ([{'role': 'assistant', 'content': f'```python\n{WHOLE}```'}], 1),
    ],
)
def test_humaneval(completion, reward):
  for prompt in (PROMPT, [{'role': 'system', 'content': 'Write.'}, {'role': 'user', 'content': PROMPT}]):
    assert code.humaneval([prompt], [completion], [TEST], ['doubled'], **LIMITS) == [reward]


def test_humaneval_in_a_chat():
  """The prompt is prose around a fenced block, or a template's text; a whole function is right in both."""
  asked = f'<|user|>Complete this function, please:\n\n```python\n{PROMPT}```\n<|assistant|>'
  whole = 'import typing\nfrom typing import List\ndef helper(x): return 2 * x\n' + WHOLE
  prompts = [asked, f'Complete (in 3 lines): {PROMPT}', [{'role': 'user', 'content': asked}]]
  assert code.humaneval(prompts, [whole] * 3, [TEST] * 3, ['doubled'] * 3, **LIMITS) == [1, 1, 1]
  fenced = f'```python\n{WHOLE}```'
  assert code.humaneval(prompts[:1], [fenced], [TEST], ['doubled'], **LIMITS) == [1]
  with pytest.raises(ValueError, match='has a message of the user'):
    code.humaneval([[]], [whole], [TEST], ['doubled'], **LIMITS)


# --- input and output ---------------------------------------------------------------------------------------


def test_stdin_stdout():
  program = '```python\nn = int(input())\nprint(n * 2, end=" \\n\\n")\nassert n != 3\n```'
  given, expected = ['1\n', '2', '3', 'x'], ['2', '4\n', '6', '']
  rewards = code.stdin_stdout(
      [program, program, 'print(2)', 'while True: print(2)', 'print(open("/etc/passwd").read())'],
      [given, given[:2], ['', ''], [''], ['']],
      [expected, expected[:2], ['2\n\n', ' 2'], ['2'], ['']],
      **{**LIMITS, 'timeout_seconds': 1},
  )
  assert rewards == [0.5, 1, 0.5, 0, 0]


def test_a_right_program_may_print_much_and_one_that_prints_too_much_is_told():
  long = '\n'.join(map(str, range(50_000)))  # 288,889 bytes: five times what other outputs may have
  programs = ['for i in range(50_000): print(i)', 'for i in range(200_000): print(i)']
  said = []
  rewards = code.stdin_stdout(
      programs, [[''], ['']], [[long], [long]], **LIMITS, log_metric=lambda *one: said.append(one)
  )
  assert rewards == [1, 0] and said == [('output_overruns', 0.5)]


def test_a_sandbox_that_the_system_ends_gives_no_verdict(monkeypatch):
  killed = sandbox.Result('killed', None, '', '', 0.0, False)
  monkeypatch.setattr(sandbox, 'run_python', lambda *args, **limits: killed)
  monkeypatch.setattr(sandbox, 'run_judged', lambda *args, **limits: (killed, []))
  for attempt in (
      lambda: unit_tests('def f(x): return 2', ['assert f(1) == 2']),
      lambda: code.stdin_stdout(['print(1)'], [['']], [['1']], **LIMITS),
  ):
    with pytest.raises(sandbox.SandboxError, match='the system ended a sandbox'):
      attempt()


def test_lines_are_compared_without_white_space_at_their_ends():
  assert code._lines('a  b \r\n\nc\n\n') == code._lines('a  b\n\nc') != code._lines('a b\n\nc')
  assert code._lines('') == code._lines('\n\n') == ['']


# --- data that cannot be used -------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ('tests', 'message'),
    [
        ('x = f(1)', 'needs an assert'),
        ('def test_f():\n  assert f(1) == 2', 'needs an assert that runs'),
        (TEST, 'needs an assert that runs'),
        ([], 'there are no tests'),
        (['assert f(1) == 2', 'import math'], 'needs an assert'),
        ('assert f(1', 'does not parse'),
        ('assert f(1) == \0', 'does not parse'),
        ('import numpy\nassert f(1) == 2', r"import \['numpy'\]; the sandbox has only"),
        ('from solution import f\nassert f(1) == 2', "import .'solution'"),
        ('class A: pass\nassert f(A())', 'hands a A to the program'),
        ('import io\nassert f(io.StringIO())', 'hands a StringIO'),
        ('assert f(x for x in [1])', 'hands a generator'),
    ],
)
def test_tests_that_cannot_be_used_are_errors(tests, message):
  with pytest.raises(ValueError, match=f'row 1: .*{message}'):
    code.unit_tests(['def f(x): return 2'] * 2, ['assert f(1) == 2', tests], **LIMITS)


@pytest.mark.parametrize(('given', 'expected'), [([], []), (['1'], []), ('1', ['1']), (['1'], '1')])
def test_inputs_and_outputs_that_do_not_fit_are_errors(given, expected):
  with pytest.raises(ValueError, match='row 0: need two lists'):
    code.stdin_stdout(['print(1)'], [given], [expected], **LIMITS)


def test_without_bubblewrap_no_program_is_scored(monkeypatch, tmp_path):
  monkeypatch.setenv('PATH', str(tmp_path))
  sandbox.check.cache_clear()
  for attempt in (
      lambda: unit_tests('def f(x): return 2', ['assert f(1) == 2']),
      lambda: code.stdin_stdout(['print(1)'], [['']], [['1']], **LIMITS),
      lambda: code.humaneval([PROMPT], [BODY], [TEST], ['doubled'], **LIMITS),
  ):
    with pytest.raises(sandbox.SandboxError, match="`apt-get install bubblewrap`.*tier='seccomp'"):
      attempt()


def test_the_modules_of_rewards_do_not_import_jax():
  names = ', '.join(f'rlx.rewards.{name}' for name in ('sandbox', 'code', 'sql'))
  check = f'import sys, {names}; print({{"jax", "numpy", "torch"}} & sys.modules.keys())'
  folder = pathlib.Path(__file__).parents[2]
  said = subprocess.run([sys.executable, '-c', check], capture_output=True, text=True, cwd=folder, check=True)
  assert said.stdout == 'set()\n'

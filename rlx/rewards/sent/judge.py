"""Unit tests and the program that they test, in two processes that talk.

`judge` runs the tests; `serve` answers it, in the program's process. The judge sends ('ask', function,
arguments). The program answers ('return', value) or ('raise', type, arguments); before that it may have
functions of the tests called, by ('callback', number, arguments, keywords), which are answered in the same
way. Nothing that comes from the program is believed.

What this defends against, and what not, is said in `rlx/rewards/code.py`.
"""


def judge(channel, report, data):
  """Runs the tests. Reports True or False for each, or the type of an object that cannot be sent."""
  import builtins
  import sys

  refused = []
  ask, is_alive = connect(channel, refused)

  class Names(dict):
    """What the tests define; what Python has built in; modules; then what the program defines."""

    def __missing__(self, name):
      if hasattr(builtins, name):
        raise KeyError(name)
      return __import__(name) if name in data['modules'] else ask('name', name)

  def passes(test):
    try:
      test()
    except BaseException:
      return False
    return is_alive()  # the test may have caught that it is not

  if not passes(lambda: ask('len', ())):  # waits until the program has run
    return
  if 'random' in data['modules']:
    __import__('random').seed(0)
  names = Names(__builtins__=builtins, __name__='tests')
  sys.modules['tests'] = type(sys)('tests')
  for code in data['tests']:
    refused.clear()
    passed = passes(lambda: exec(code, names))
    report(refused[0] if refused else passed)


def connect(channel, refused):
  """A function that asks the program, and one that says whether it still answers."""
  import builtins
  import sys

  receive_fd, send_fd = channel
  functions, classes, numbers, is_alive = [], {}, {}, True
  data_types = (bool, int, float, complex, str, bytes, bytearray, list, tuple, set, frozenset, dict)

  class Ended(BaseException):
    """Not an `Exception`: tests that expect one do not take the end of the program for it."""

  def refer(x):
    """What stands for an object of the tests on its way to the program."""
    if type(x) is Remote:
      return b'p', x.rlx_number
    if isinstance(x, type) and x in numbers:
      return b'p', numbers[x]
    if value := as_value(x):
      return b'v', value
    if callable(x):
      module, name = getattr(x, '__module__', None), getattr(x, '__qualname__', '')
      if module != 'tests' and name and getattr(sys.modules.get(module), name, None) is x:
        return b'g', (module, name)
      functions.append(x)
      return b'k', len(functions) - 1
    if held := as_plain(x):
      return b'h', held[0]
    refused.append(type(x).__qualname__)
    raise TypeError(f'a {type(x).__qualname__} cannot be sent')

  def resolve(tag, inner):
    """What the tests see of an object of the program."""
    if tag == b'v':
      return from_value(*inner)
    if tag == b'o':
      number, held = inner
      return Remote(number, tuple(held)[:1])
    if tag == b'g':
      kind = getattr(builtins, inner)
      if kind in data_types or (isinstance(kind, type) and issubclass(kind, BaseException)):
        return kind
    if tag == b'x' and issubclass(inner[2], BaseException):
      number, name, base = inner
      if number not in classes:
        classes[number] = type(str(name), (base,), {})
        numbers[classes[number]] = number
      return classes[number]
    raise ValueError(f'the program may not send {inner!r:.80}')

  def exchange(message):
    """Sends, and waits for what comes back."""
    nonlocal is_alive
    try:
      send(send_fd, message)
      return receive(receive_fd)
    except (EOFError, OSError):
      is_alive = False
      raise Ended from None

  def ask(function, *arguments):
    if not is_alive:
      raise Ended
    message = pack(('ask', function, arguments), refer)
    while True:
      kind, *content = unpack(exchange(message), resolve)
      if kind == 'return':
        return content[0]
      if kind == 'raise':
        raise error_of(*content)
      number, arguments, keywords = content
      message = pack(outcome(functions[number], arguments, keywords, Exception), refer)

  Remote = remote_type(ask)
  return ask, lambda: is_alive


def remote_type(ask):
  """The class of what stands, in the tests, for an object of the program.

  One whose type is derived from a type of plain data holds this data, and is compared as such. The operand of
  an operator is shown to the program only if it is the program's own.
  """
  import operator

  class Remote:
    __slots__ = ('rlx_held', 'rlx_number')

    def __init__(self, number, held):
      object.__setattr__(self, 'rlx_number', number)
      object.__setattr__(self, 'rlx_held', held)

    @property
    def __class__(self):  # for `isinstance(x, dict)`
      return type(self.rlx_held[0]) if self.rlx_held else Remote

    def __getattr__(self, name):
      return ask('getattr', self, name)

    def __setattr__(self, name, value):
      ask('setattr', self, name, value)

    def __call__(self, *arguments, **keywords):
      result, changed = ask('call', self, arguments, keywords)
      given = [*arguments, *keywords.values()]
      for i, new in changed.items():
        old = given[i]
        if type(old) is not type(new) or type(old) not in (list, dict, set, bytearray):
          raise ValueError('the program may not change this argument')
        old.clear()
        (old.update if type(old) in (dict, set) else old.extend)(new)
      return result

    def __eq__(self, other):
      if is_value(self) and is_value(other):
        return value(self) == value(other)
      same = type(other) is Remote and other.rlx_number == self.rlx_number
      return same or (type(other) is Remote and ask('__eq__', self, other) is True)

    def __hash__(self):
      return hash(value(self)) if is_value(self) else hash(self.rlx_number)

    def __instancecheck__(self, x):
      return type(x) is Remote and ask('isinstance', x, self) is True

  value = lambda x: x.rlx_held[0] if type(x) is Remote and x.rlx_held else x
  is_value = lambda x: type(x) is not Remote or bool(x.rlx_held)

  def forwarded(name):
    return lambda self, *arguments: ask(name, self, *arguments)

  def binary(name):
    def method(self, other):
      if is_value(self) and is_value(other):
        return getattr(operator, name)(value(self), value(other))
      return ask(name, self, other) if type(other) is Remote else NotImplemented

    return method

  def reflected(name):
    operate = getattr(operator, name)
    return lambda self, other: operate(other, value(self)) if is_value(self) else NotImplemented

  kinds = {
      binary: 'add sub mul matmul truediv floordiv mod pow lshift rshift and or xor lt le gt ge',
      reflected: 'add sub mul matmul truediv floordiv mod pow lshift rshift and or xor',
      forwarded: 'len bool str repr bytes int float complex index abs neg pos invert round format '
      'iter next reversed getitem setitem delitem enter exit',
  }
  for kind, names in kinds.items():
    for name in names.split():
      setattr(Remote, f'__{"r" * (kind is reflected)}{name}__', kind(f'__{name}__'))
  return Remote


def serve(namespace, channel):
  """Answers the judge, in the program's process."""
  import builtins
  import importlib
  import operator

  receive_fd, send_fd = channel
  objects, numbers = [], {}

  def number_of(x):
    if id(x) not in numbers:
      numbers[id(x)] = len(objects)
      objects.append(x)  # and keeps its id
    return numbers[id(x)]

  def refer(x):
    if value := as_value(x):
      return b'v', value
    if isinstance(x, type):
      if getattr(builtins, x.__name__, None) is x:
        return b'g', x.__name__
      if issubclass(x, BaseException):
        base = next(base for base in x.__mro__[1:] if issubclass(base, BaseException))
        return b'x', (number_of(x), x.__name__, base)
    return b'o', (number_of(x), as_plain(x))

  def resolve(tag, inner):
    if tag == b'p':
      return objects[inner]
    if tag == b'v':
      return from_value(*inner)
    if tag == b'g':
      return getattr(importlib.import_module(inner[0]), inner[1])
    return function_of_tests(inner) if tag == b'k' else inner

  def function_of_tests(number):
    def function(*arguments, **keywords):
      return converse(('callback', number, arguments, keywords))

    return function

  def call(function, arguments, keywords):
    """The result, and the new state of arguments that the function changed."""
    state = lambda x: pack(x, refer) if type(x) in (list, dict, set, bytearray) else None
    given = [*arguments, *keywords.values()]
    before = [state(x) for x in given]
    result = function(*arguments, **keywords)
    return result, {i: x for i, x in enumerate(given) if state(x) != before[i]}

  def find(name):
    if name in ('name', 'call'):
      return namespace.__getitem__ if name == 'name' else call
    found = getattr(builtins, name.strip('_'), None) or getattr(operator, name, None)
    return found or (lambda x, *arguments: getattr(type(x), name)(x, *arguments))

  def converse(message):
    """Sends a message unless it is None, and answers what is asked until the answer to it comes."""
    while True:
      if message is not None:
        try:
          packed = pack(message, refer)
        except Exception as error:  # such as a list that contains itself
          packed = pack(('raise', ValueError, (f'cannot be sent: {type(error).__name__}',)), refer)
        send(send_fd, packed)
      kind, *content = unpack(receive(receive_fd), resolve)
      if kind == 'return':
        return content[0]
      if kind == 'raise':
        raise error_of(*content)
      message = outcome(find(content[0]), content[1], {}, BaseException)

  converse(None)


def outcome(function, arguments, keywords, caught):
  """The message that says what became of a call."""
  try:
    return 'return', function(*arguments, **keywords)
  except caught as error:
    kind = type(error) if type(error).__module__ != 'tests' else RuntimeError
    return 'raise', kind, error.args


def error_of(kind, arguments):
  """The error that a message is about."""
  if not issubclass(kind, Exception):
    return SystemExit(1)
  try:
    return kind(*arguments)
  except Exception:  # its class wants other arguments
    return RuntimeError(*arguments)


def as_value(x):
  """Name and arguments of some objects of the standard library that are values themselves; or None."""
  name = f'{type(x).__module__}.{type(x).__qualname__}'
  if name == 'fractions.Fraction':
    return name, [x.numerator, x.denominator]
  if name == 'decimal.Decimal':
    return name, [str(x)]
  if name == 'datetime.date':
    return name, [x.year, x.month, x.day]
  if name == 'datetime.datetime' and x.tzinfo is None:
    return name, [x.year, x.month, x.day, x.hour, x.minute, x.second, x.microsecond]
  if name == 'datetime.timedelta':
    return name, [x.days, x.seconds, x.microseconds]
  if name == 'collections.deque':
    return name, [list(x), x.maxlen]
  return None


def from_value(name, arguments):
  """The object again, if it is one of these."""
  module, _, kind = name.rpartition('.')
  known = {'fractions': ['Fraction'], 'decimal': ['Decimal'], 'datetime': ['date', 'datetime', 'timedelta']}
  if kind not in (known | {'collections': ['deque']}).get(module, []):
    raise ValueError(f'{name:.80} is no such value')
  if {type(x) for x in arguments} - {int, str, list, type(None)}:
    raise ValueError(f'{arguments!r:.80} make no {name}')
  return getattr(__import__(module), kind)(*arguments)


def as_plain(x):
  """(the data of an object whose type is derived from a type of plain data,); or ()."""
  for kind in (int, float, complex, str, bytes, bytearray, list, tuple, dict, set, frozenset):
    if issubclass(type(x), kind):
      return (str.__str__(x) if kind is str else kind(x),)
  return ()


def pack(value, refer):
  """A value as bytes. `refer(x)` gives a tag and what to send for an object of another type."""
  parts = []
  groups = {list: b'l', tuple: b't', set: b'e', frozenset: b'z'}

  def put(tag, size, payload=b''):
    parts.append(b'%c%d;%b' % (tag, size, payload))

  def add(x):
    kind = type(x)
    if x is None or kind is bool:
      put({None: b'N', True: b'T', False: b'F'}[x], 0)
    elif kind in (int, float, str, bytes, bytearray):
      tag, payload = {
          int: lambda: (b'i', b'%x' % x), float: lambda: (b'f', x.hex().encode()),
          str: lambda: (b's', x.encode('utf-8', 'surrogatepass')), bytes: lambda: (b'b', x),
          bytearray: lambda: (b'B', x),
      }[kind]()  # fmt: skip
      put(tag, len(payload), payload)
    elif kind in groups or kind in (dict, complex):
      tag = groups.get(kind) or (b'd' if kind is dict else b'c')
      items = [x.real, x.imag] if kind is complex else x
      items = [y for item in x.items() for y in item] if kind is dict else items
      put(tag, len(items))
      for y in items:
        add(y)
    else:
      tag, inner = refer(x)
      put(tag, 1)
      add(inner)

  add(value)
  return b''.join(parts)


def unpack(data, resolve):
  """The value; `resolve(tag, inner)` gives what stands for an object of another type."""
  at = 0
  scalars = {
      b'N': lambda x: None, b'T': lambda x: True, b'F': lambda x: False, b'i': lambda x: int(x, 16),
      b'f': lambda x: float.fromhex(x.decode()), b's': lambda x: x.decode('utf-8', 'surrogatepass'),
      b'b': bytes, b'B': bytearray,
  }  # fmt: skip
  groups = {
      b'l': list, b't': tuple, b'e': set, b'z': frozenset, b'c': lambda x: complex(*x),
      b'd': lambda x: dict(zip(x[::2], x[1::2], strict=True)),
  }  # fmt: skip

  def take():
    nonlocal at
    end = data.index(b';', at)
    tag, size = data[at : at + 1], int(data[at + 1 : end])
    at = end + 1
    if not 0 <= size <= len(data):
      raise ValueError(f'a part of {size} in {len(data)} bytes')
    if tag in scalars:
      at += size
      return scalars[tag](data[at - size : at])
    items = [take() for _ in range(size)]
    return groups[tag](items) if tag in groups else resolve(tag, *items)

  return take()


def send(fd, message):
  import os

  rest = memoryview(len(message).to_bytes(8, 'little') + message)
  while rest:
    rest = rest[os.write(fd, rest) :]


def receive(fd):
  """One message. Raises `EOFError` if there is none, or if it is too long."""
  import os

  def read(size):
    data = bytearray()
    while len(data) < size:
      part = os.read(fd, min(size - len(data), 1 << 20))
      if not part:
        raise EOFError
      data += part
    return bytes(data)

  size = int.from_bytes(read(8), 'little')
  if size > 1 << 26:
    raise EOFError
  return read(size)

"""Tables for tests, in a module that workers can import."""

import os
import random
import time


class Alone:
  """One seat, whose first text without a call is the last."""

  seats = ('policy',)

  def reset(self, **columns):
    return None

  def step(self, seat: str, text: str):
    return {}, {'policy': len(text) % 3 + 1}, None


class Ring:
  """Two seats that speak by turns, the first twice in a row, and are told four letters of what was said.

  Chance ends it, and pays both.
  """

  seats = ('a', 'b')

  def __init__(self, *, seconds: float = 0.0):
    self._seconds = seconds

  def reset(self, **columns):
    self.turn = 0
    return {}

  def step(self, seat: str, text: str):
    if self._seconds:
      time.sleep(self._seconds * random.SystemRandom().random())
    self.turn += 1
    following = ('a', 'a', 'b')[self.turn % 3]
    paid = {'a': 1.0, 'b': 2.0 if seat == 'a' else -0.5}
    told = {following: f'{text.strip()[:4]}{random.randrange(10)}'}
    return told, paid, None if random.random() < 0.15 else following


class Secret(Ring):
  """As `Ring`, but the first seat alone knows a secret, and nobody is told what was said."""

  secret = 'one'

  def reset(self, **columns):
    super().reset(**columns)
    return {'a': f' The secret is {self.secret}.'}

  def step(self, seat: str, text: str):
    self.turn += 1
    following = 'ab'[self.turn % 2]
    return {following: 'go'}, {'a': 1.0}, None if self.turn == 4 else following


class OtherSecret(Secret):
  """Another one."""

  secret = 'two'


class Repeats(Ring):
  """Tells the second seat all that it hears of the first."""

  def step(self, seat: str, text: str):
    return {'b': text}, {}, 'b'


class Fails(Ring):
  """Fails at its second step, in a way that depends on the answer of the row."""

  def reset(self, **columns):
    self.how = ('raise', 'die', 'nan', '')[len(columns['answer']) % 4]
    return super().reset(**columns)

  def step(self, seat: str, text: str):
    if self.turn == 1 and self.how == 'raise':
      raise ValueError('no step')
    if self.turn == 1 and self.how == 'die':
      os._exit(7)
    if self.turn == 1 and self.how == 'nan':
      return {}, {'a': float('nan')}, None
    told, paid, _ = super().step(seat, text)
    return told, paid, None if self.turn == 3 else ('a', 'a', 'b')[self.turn % 3]


class Stranger(Ring):
  """Names a seat that is not there."""

  def step(self, seat: str, text: str):
    return {'c': 'hello'}, {}, 'c'


class Mute(Ring):
  """Says nothing that a table says."""

  def step(self, seat: str, text: str):
    return 'b'

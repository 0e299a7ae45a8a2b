"""What runs in a worker: functions that are called, and one world, where the worker keeps one.

A request is a pickled tuple, its reply JSON: a run unpickles nothing that a tool may have written. Requests
are `('call', name, arguments, seed)` of a function, `('begin', world, columns, seed)`, which begins a world
in place of the one before, `('method', name, arguments, seed)` and `('reward',)` of that world, and
`('try',)`, which makes each world once, and calls its `_trial()` or the `trial` of a function, where there is
one: it raises where it cannot work here. A reply is `['ok', value]`, of a tool its text,
`['over', text]` where that is the last of a world, or `['raised', words]`.

Python's `random` is seeded by the caller before each call, so that a tool that draws from it draws the same
when it is called again. Workers import this module: no jax.
"""

from collections.abc import Callable, Mapping
import functools
import json
import math
import pickle
import random
from typing import Any, NamedTuple

from rlx.envs.host.tools import OVER, RESET, REWARD, Last, text_of
from rlx.rewards.workers import Handler, describe

MAX_CHARACTERS = 1 << 20  # of a result; what is longer is cut again, by tokens


class Setup(NamedTuple):
  """What workers know."""

  functions: Mapping[str, Callable]
  worlds: Mapping[str, Callable]  # classes, or partials of them
  keep: str  # which end of a text that is too long: 'head' or 'tail'


def prepare(setup: Setup) -> Handler:
  """For `workers.Sessions`."""
  space: dict[str, Any] = {}  # of one worker: the world that it keeps

  def handle(call: bytes) -> bytes:
    try:
      value = _answer(setup, space, *pickle.loads(call))
      reply = (OVER if isinstance(value, Last) else 'ok', value)
    except BaseException as error:  # whatever a tool raises is said to the model
      reply = ('raised', describe(error))
    return json.dumps(reply).encode()

  return handle


def _answer(setup: Setup, space: dict[str, Any], kind: str, *rest: Any) -> Any:
  if kind == 'try':
    for make in setup.worlds.values():
      world = make()
      if hasattr(world, '_trial'):
        world._trial()
    for one in setup.functions.values():
      bound = one.keywords if isinstance(one, functools.partial) else {}
      plain = one.func if isinstance(one, functools.partial) else one
      if hasattr(plain, 'trial'):
        plain.trial(**bound)
    return None
  if kind == 'reward':
    reward = float(getattr(space['world'], REWARD)())
    if not math.isfinite(reward):
      raise ValueError(f'get_reward() says {reward}, which is no finite number')
    return reward
  name, arguments, seed = rest
  random.seed(seed)
  if kind == 'call':
    return _cut(text_of(setup.functions[name](**arguments)), setup.keep)
  if kind == 'method':
    value = getattr(space['world'], name)(**arguments)
    text = _cut(text_of(value), setup.keep)
    return Last(text) if isinstance(value, Last) else text
  space['world'] = setup.worlds[name]()
  said = getattr(space['world'], RESET)(**arguments)
  return None if said is None else _cut(text_of(said), setup.keep)


def _cut(text: str, keep: str) -> str:
  return text[:MAX_CHARACTERS] if keep == 'head' else text[-MAX_CHARACTERS:]

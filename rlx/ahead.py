"""Loops over keys, whose random bits are drawn before they begin.

A turn of a rollout splits its key several times and draws an action, a start, a gust of wind: a few numbers.
For each of these, a CPU runs a loop of Threefry's rounds, which costs more than a small policy and a simple
world together, and an accelerator starts a kernel. The bits follow from the keys alone, so `scan` finds in
the body what makes them and does it for all turns at once. The bits, and what comes of them, are the same.
"""

from collections.abc import Callable
import dataclasses
from typing import Any

import jax
from jax.extend import core

from rlx.types import Key

MIN_TURNS = 16  # a loop of fewer is left as it is: what is drawn outside takes a second more to compile
MAX_BYTES = 2**26  # of the bits of one draw, in all turns; what is larger is drawn turn by turn

_Known = tuple[jax.Array | None, bool]
_CALLS = ('jit', 'pjit')
_OF_INDICES = frozenset({  # what is done to the numbers that keys are picked by, or folded with
    'iota', 'slice', 'squeeze', 'reshape', 'broadcast_in_dim', 'concatenate', 'convert_element_type', 'lt',
    'add', 'select_n', 'random_unwrap',
})


def scan(body: Callable[[Any, Key], tuple[Any, Any]], carry: Any, keys: Key) -> tuple[Any, Any]:
  """`jax.lax.scan(body, carry, keys)`, with the bits that follow from the keys drawn before the loop.

  Draws inside loops and branches of the body stay where they are, as do those of keys in the carry, and those
  of other generators than Threefry, whose bits under `jax.vmap` are not those of each key.

  Args:
    body: `(carry, key) -> (carry, y)`.
    carry: what the first turn begins with.
    keys: [T], a key for each turn.
  """
  is_threefry = jax.random.key_impl(keys) == 'threefry2x32'
  if keys.shape[0] < MIN_TURNS or not is_threefry or jax.config.jax_disable_jit:  # to look at single turns
    return jax.lax.scan(body, carry, keys)
  traced, shapes = jax.make_jaxpr(body, return_shape=True)(carry, keys[0])
  loop = _Loop(num_turns=keys.shape[0])
  consts = [(x, True) for x in traced.consts]

  def draw(key: Key) -> list[jax.Array]:
    drawn = []

    def keep(make):
      drawn.append(make())
      return drawn[-1]

    missing = [(None, False)] * len(jax.tree.leaves(carry))
    loop.run(traced.jaxpr, [*consts, *missing, (key, True)], keep, partly=True)
    return drawn

  def turn(carry, inputs):
    key, drawn = inputs
    given = [(x, False) for x in jax.tree.leaves(carry)]
    drawn = iter(drawn)
    outputs = loop.run(traced.jaxpr, [*consts, *given, (key, True)], lambda make: next(drawn), partly=False)
    return jax.tree.unflatten(jax.tree.structure(shapes), [x for x, _ in outputs])

  return jax.lax.scan(turn, carry, (keys, jax.vmap(draw)(keys)))


@dataclasses.dataclass(frozen=True)
class _Loop:
  """Interprets the body of a loop. A value goes with whether it follows from the turn's key alone."""

  num_turns: int

  def run(self, jaxpr: core.Jaxpr, inputs: list[_Known], draw, *, partly: bool) -> list[_Known]:
    """The outputs of `jaxpr`.

    Args:
      jaxpr: of the body, or of a function that it calls.
      inputs: of its constants and arguments.
      draw: `make -> bits` for bits that follow from the key; `make()` draws them.
      partly: nothing is evaluated but what such bits are made of; all else is None.
    """
    env = dict(zip([*jaxpr.constvars, *jaxpr.invars], inputs, strict=True))
    read = lambda x: (x.val, True) if isinstance(x, core.Literal) else env[x]
    for eqn in jaxpr.eqns:
      args = [read(x) for x in eqn.invars]
      outputs = self._equation(eqn, args, draw, partly)
      env.update(zip(eqn.outvars, outputs, strict=True))
    return [read(x) for x in jaxpr.outvars]

  def _equation(self, eqn: core.JaxprEqn, args: list[_Known], draw, partly: bool) -> list[_Known]:
    name = eqn.primitive.name
    if name in _CALLS:
      called = eqn.params['jaxpr']
      return self.run(called.jaxpr, [*((x, True) for x in called.consts), *args], draw, partly=partly)
    follows = all(known for _, known in args)
    evaluate = lambda: _evaluate(eqn, [x for x, _ in args])
    if follows and name == 'random_bits' and self._fits(eqn.outvars[0].aval):
      return [(draw(lambda: evaluate()[0]), True)]
    follows = follows and (name in _OF_INDICES or _makes_keys(eqn))
    if partly and not follows:
      return [(None, False)] * len(eqn.outvars)
    return [(x, follows) for x in evaluate()]

  def _fits(self, bits) -> bool:
    return self.num_turns * bits.size * bits.dtype.itemsize <= MAX_BYTES


def _makes_keys(eqn: core.JaxprEqn) -> bool:
  """Whether it has outputs, which are keys, and no effect."""
  is_key = lambda x: jax.dtypes.issubdtype(getattr(x.aval, 'dtype', None), jax.dtypes.prng_key)
  return bool(eqn.outvars) and not eqn.effects and all(map(is_key, eqn.outvars))


def _evaluate(eqn: core.JaxprEqn, values: list[jax.Array]) -> list[jax.Array]:
  outputs = eqn.primitive.bind(*values, **eqn.primitive.get_bind_params(eqn.params))
  return outputs if eqn.primitive.multiple_results else [outputs]

"""What somebody believes who has cooked elsewhere: which things another one is made of."""

import jax
import jax.numpy as jnp

from rlx.models.networks import Network
from rlx.types import Key


def recipes(*, things: int, believed: float) -> Network:
  """`apply(params, there [..., N], thing [...]) -> [...] bool`, whether making the thing would work.

  Beliefs are drawn, and are nobody's recipes: of each two things, the earlier one is believed to be needed
  for the later one with a chance. That what is there already is not made again is known.

  Args:
    things: N.
    believed: that chance, in [0, 1].
  """

  def init(key: Key):
    earlier = jnp.tril(jnp.ones((things, things), bool), -1)
    return {'parts': (jax.random.bernoulli(key, believed, (things, things)) & earlier).astype(jnp.float32)}

  def apply(params, there: jax.Array, thing: jax.Array) -> jax.Array:
    ready = jnp.all(there | (params['parts'][thing] < 0.5), axis=-1)
    return ready & ~jnp.take_along_axis(there, thing[..., None], axis=-1)[..., 0]

  return Network(init=init, apply=apply)

"""What an episode will come to with a case in its prompt: Q(state, case), of the parts that are equal."""

import jax
import jax.numpy as jnp

from rlx.models import mlp
from rlx.models.networks import Network
from rlx.types import Key


def case_value(*, num_parts: int, hidden: tuple[int, ...]) -> Network:
  """`apply(params, features [..., num_parts + 1]) -> [...]`, the log-odds of success.

  Args:
    num_parts: of a state; the last feature is what the case came to.
    hidden: sizes of the hidden layers.
  """

  def init(key: Key):
    sizes = (num_parts + 1, *hidden, 1)
    return mlp.init(key, sizes, scale=1.0, final_scale=0.0, layer_norm=False)

  def apply(params, features: jax.Array) -> jax.Array:
    return mlp.apply(params, features.astype(jnp.float32), jax.nn.relu)[..., 0]

  return Network(init=init, apply=apply)

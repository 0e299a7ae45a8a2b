"""Two encoders into one space: what an agent does in a state, and what can be said of it.

A state and an action go through one network, an explanation through another; each is then a direction, and
how near two of them are is their cosine. Explanations are vectors of any kind, such as sets of concepts. As
they are encoded and not numbered, what is learnt of one tells something of those that resemble it.
"""

from collections.abc import Callable
import math

import jax
import jax.numpy as jnp

from rlx.envs.control.environment import Discrete, Environment
from rlx.models import mlp
from rlx.models.networks import Network
from rlx.types import Key

_EPS = 1e-12  # of a squared length


def joint(
    env: Environment, *, explanations: Callable[[], jax.Array], hidden: tuple[int, ...], size: int,
    activation: str, sharpness: float,
) -> Network:
  """s_j = κ cos(f(s, a), g(e_j)): `apply(params, observations [..., *O], actions [..., *A]) -> [..., N]`.

  The explanation that is retrieved for a move is the one of the largest s.

  Args:
    env: whose moves are explained.
    explanations: `() -> [N, C]`, what can be said.
    hidden: units of each hidden layer, of both encoders.
    size: of the space.
    activation: between layers.
    sharpness: κ, one over the temperature of a softmax over the explanations.
  """
  library, between = explanations(), mlp.activation(activation)
  is_discrete = isinstance(env.actions, Discrete)
  num_seen = math.prod(env.observation_shape) + (env.actions.num if is_discrete else env.actions.size)
  shape = dict(scale=math.sqrt(2), final_scale=1.0, layer_norm=False)

  def init(key: Key):
    move_key, explanation_key = jax.random.split(key)
    return {
        'moves': mlp.init(move_key, (num_seen, *hidden, size), **shape),
        'explanations': mlp.init(explanation_key, (library.shape[1], *hidden, size), **shape),
    }

  def apply(params, observations, actions):
    moves = jax.nn.one_hot(actions, env.actions.num) if is_discrete else actions
    seen = observations.reshape(*moves.shape[:-1], -1)
    f = _direction(mlp.apply(params['moves'], jnp.concatenate([seen, moves], axis=-1), between))
    g = _direction(mlp.apply(params['explanations'], library, between))
    return sharpness * jnp.dot(f, g.T)

  return Network(init=init, apply=apply)


def _direction(x: jax.Array) -> jax.Array:
  return x * jax.lax.rsqrt(jnp.sum(jnp.square(x), axis=-1, keepdims=True) + _EPS)

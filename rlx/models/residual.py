"""A policy that plans ahead, and a small one beside it that corrects each step.

    base:      b_t, ..., b_{t+k-1} = β(s_t) at every kth step, carried out without looking up
    residual:  a_t = clip(b_t + c tanh f(s_t, b_t), ±1)
"""

from collections.abc import Callable
import dataclasses

import jax
import jax.numpy as jnp

from rlx.envs.control.environment import Environment
from rlx.models import mlp
from rlx.models.networks import Policy, deterministic_policy
from rlx.types import Key


@dataclasses.dataclass(frozen=True, kw_only=True, eq=False)
class Residual(Policy):
  """A `Policy` on a base of which no gradient is taken; parameters are `{'base', 'residual'}`.

  Attributes:
    base: `(params, observations) -> actions` of the base alone, with gradients.
  """

  base: Callable


def residual(
    env: Environment, *, chunk: int, base_hidden: tuple[int, ...], hidden: tuple[int, ...], activation: str,
    scale: float, exploration_noise: float,
) -> Residual:
  """A policy for a `chunked` environment.

  `sample` and `score` are those of a deterministic policy; the last layer of the residual begins at zero.

  Args:
    env: `chunked`, with the same `chunk`.
    chunk: k, steps of a plan.
    base_hidden: units of each hidden layer of the base.
    hidden: of the residual.
    activation: between layers.
    scale: c, the largest correction, in units of the actions.
    exploration_noise: standard deviation, in units of the actions.
  Raises:
    ValueError: the observations are not those of a chunk of this length.
  """
  size, num_actions = (env.observation_shape[0] - chunk) // 2, env.actions.size
  act = mlp.activation(activation)
  if env.observation_shape != (2 * size + chunk,):
    raise ValueError(
        f'chunk={chunk} of an environment that shows {env.observation_shape}; wrap it in chunked()'
    )

  def init(key: Key):
    base_key, residual_key = jax.random.split(key)
    shape = dict(scale=1.4, layer_norm=False)
    base_sizes = (size, *base_hidden, chunk * num_actions)
    sizes = (size + num_actions, *hidden, num_actions)
    return {
        'base': mlp.init(base_key, base_sizes, final_scale=0.01, **shape),
        'residual': mlp.init(residual_key, sizes, final_scale=0.0, **shape),
    }

  def base(params, observations):
    _, start, place = jnp.split(observations, (size, 2 * size), axis=-1)
    plan = jnp.tanh(mlp.apply(params['base'], start, act))
    return jnp.sum(plan.reshape(*plan.shape[:-1], chunk, num_actions) * place[..., None], axis=-2)

  def mode(params, observations):
    planned = jax.lax.stop_gradient(base(params, observations))
    seen = jnp.concatenate([observations[..., :size], planned], axis=-1)
    return jnp.clip(planned + scale * jnp.tanh(mlp.apply(params['residual'], seen, act)), -1, 1)

  acting = deterministic_policy(init, mode, exploration_noise=exploration_noise)
  return Residual(init=init, sample=acting.sample, mode=mode, score=acting.score, base=base)

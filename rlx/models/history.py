"""A policy that sees the last steps, and the return that is wanted: a causal transformer over an episode.

Source: Chen et al., 2021, https://arxiv.org/abs/2106.01345, section 3. As there, the three tokens of a step
share a learnt embedding of its time; here they have rotary positions besides, which tell them apart.
"""

import dataclasses
import math

import jax
import jax.numpy as jnp

from rlx.envs.control.environment import Discrete, Environment
from rlx.models import mlp, transformer
from rlx.models.networks import Network
from rlx.types import Key

INPUTS = ('wanted', 'observations', 'actions', 'steps')  # of a History, in this order


@dataclasses.dataclass(frozen=True, kw_only=True, eq=False)
class History(Network):
  """Actions, given all of a stretch before them.

  `apply(params, wanted [B, T], observations [B, T, O], actions [B, T, ...], steps [B, T]) -> [B, T, A]`:
  actions in [-1, 1], or logits of discrete ones. The output at t looks at `actions` before t alone, and at
  the others up to t.

  Attributes:
    length: K, the longest stretch.
  """

  length: int


def causal(
    env: Environment, *, length: int, width: int, num_layers: int, num_heads: int, max_steps: int,
    return_scale: float,
) -> History:
  """A transformer over three tokens a step: return, observation, action.

  Args:
    env: what is controlled; observations [O].
    length: K, steps that it sees.
    width: of the residual stream.
    num_layers: blocks.
    num_heads: divides `width`.
    max_steps: of an episode; later steps are read as the last of these.
    return_scale: returns are divided by it, so that they are of the order of 1.
  Raises:
    ValueError: a number is out of its range, or observations are no vectors.
  """
  if len(env.observation_shape) != 1 or min(length, max_steps) < 1 or width % num_heads or return_scale <= 0:
    raise ValueError(
        f'length={length}, max_steps={max_steps}, return_scale={return_scale}, width={width}, num_heads='
        f'{num_heads} for observations {env.observation_shape}: positive numbers, whole heads, and vectors'
    )
  discrete = isinstance(env.actions, Discrete)
  num_actions = env.actions.num if discrete else env.actions.size
  blocks = transformer.TransformerConfig(
      vocab_size=1, num_layers=num_layers, width=width, num_heads=num_heads, num_kv_heads=num_heads,
      head_size=width // num_heads, mlp_size=4 * width, context_length=3 * length, norm='layernorm',
      activation='gelu', gated=False,
  )
  linear = lambda key, num_in, num_out: mlp.init(
      key, (num_in, num_out), scale=1.0, final_scale=1.0, layer_norm=False
  )
  apply_linear = lambda params, x: mlp.apply(params, x, jnp.tanh)  # of one layer: nothing is between

  def init(key: Key):
    keys = jax.random.split(key, 6)
    stack = transformer.init(keys[0], blocks)
    del stack['embedding']  # tokens are no words
    return {
        'blocks': stack,
        'times': jax.random.normal(keys[1], (max_steps, width)) / math.sqrt(width),
        'wanted': linear(keys[2], 1, width),
        'observed': linear(keys[3], math.prod(env.observation_shape), width),
        'acted': linear(keys[4], num_actions, width),
        'head': linear(keys[5], width, num_actions),
    }

  def apply(params, wanted, observations, actions, steps):
    acted = jax.nn.one_hot(actions, num_actions) if discrete else actions
    times = params['times'][jnp.minimum(steps, max_steps - 1)]
    tokens = [
        apply_linear(params['wanted'], wanted[..., None] / return_scale),
        apply_linear(params['observed'], observations), apply_linear(params['acted'], acted),
    ]
    tokens = jnp.stack([token + times for token in tokens], axis=2)
    num_rows, num_steps = steps.shape
    hidden, _ = transformer.forward(params['blocks'], blocks, tokens.reshape(num_rows, 3 * num_steps, width))
    outputs = apply_linear(params['head'], hidden[:, 1::3])  # at the observations
    return outputs if discrete else jnp.tanh(outputs)

  return History(init=init, apply=apply, length=length)

"""Adversarial Surprise: a policy goes where the next one will be surprised, and that one calms things down.

Explore and Control take turns in one body, and what is paid is the surprise of Control
(`envs/control/turns.py`). Explore wants the sum to be large and Control wants it small. Noise that cannot be
helped is worth nothing to Explore as soon as Control has learnt to turn it off or to leave it, so that it
moves on to what is not mastered yet.

    A_explore = A,   A_control = -A,   A = GAE(r, V)

It is PPO on `taking_turns`, an environment that shows θ and the clock behind the observation, with `players`,
two policies in one. What PPO differs in is the sign of the advantages, which are normalised for each player.

Source: Fickinger et al., 2021, https://arxiv.org/abs/2107.07394. That one value serves both players, whose
game is of zero sum, is our choice.
"""

import jax
import jax.numpy as jnp

from rlx.algorithms.control.ppo import ppo
from rlx.envs.control.turns import controls
from rlx.models.networks import Network, Policy
from rlx.types import Algorithm, Rollout

_EPS = 1e-8  # of the standard deviation of advantages


def adversarial_surprise(
    rollout: Rollout, policy: Policy, value: Network, *, clip_low: float, clip_high: float,
    entropy_coef: float, value_coef: float, value_clip: float, discount: float, lambda_: float,
) -> Algorithm:
  """Adversarial Surprise; trains `models['policy']`, both players, and `models['value']`.

  Args:
    rollout: yields [B, T] stretches of time of `taking_turns`, with `sampler_logprobs`.
    policy: `players`.
    value: V(s), the surprise to come.
    clip_low: as are the others, of `ppo`.
    clip_high: see there.
    entropy_coef: see there; of both players.
    value_coef: see there.
    value_clip: see there.
    discount: see there.
    lambda_: see there.
  """
  of_player = lambda advantages, batch: opposed(advantages, controls(batch['observations']))
  return ppo(
      rollout, policy, value, clip_low=clip_low, clip_high=clip_high, entropy_coef=entropy_coef,
      value_coef=value_coef, value_clip=value_clip, discount=discount, lambda_=lambda_, normalise=of_player,
  )


def opposed(advantages: jax.Array, control: jax.Array) -> jax.Array:
  """A of Explore's steps and -A of Control's, each normalised among its own.

  Args:
    advantages: [B, T] of the surprise.
    control: [B, T] bool, True where Control acted.
  """
  signed = jnp.where(control, -advantages, advantages)

  def normalised(mine):
    mean = lambda x: jnp.where(mine, x, 0).sum() / jnp.maximum(mine.sum(), 1)
    centred = signed - mean(signed)
    return centred / (jnp.sqrt(mean(jnp.square(centred))) + _EPS)

  return jnp.where(control, normalised(control), normalised(~control))

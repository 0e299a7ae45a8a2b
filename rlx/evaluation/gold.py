"""What a policy is in a world whose true reward is known, exactly: sums over all answers, without chance."""

import jax
import jax.numpy as jnp
import numpy as np

from rlx.envs import gold
from rlx.errors import above, between
from rlx.evaluation.evaluation import Evaluation
from rlx.types import Models, World

_HALVINGS = 40
_NEAR = 0.0025  # nats: the root of less is rounding
_FARTHEST = 64.0  # times as far as the policy has gone


def measured(world: gold.Worlds, policy: gold.LogLinear, *, at_kl: float) -> Evaluation:
  """Gain, price and breadth of a policy; rewards are the true ones, which nobody learns from.

  The metrics, means over prompts: `gain`, in true reward over the reference; `kl`, KL(π || ref) in nats;
  `entropy`; `best`, the chance of the answer of the largest reward; `rare`, the chance of answers that the
  reference says with less than a tenth of an even share; `exploitability`, how much above 1/2 the best answer
  wins against the policy's; `gain_at_kl`, the gain where θ is stretched or shortened until KL(π || ref) is
  `at_kl`, so that policies are compared at the same price.

  Args:
    world: what it is measured in.
    policy: what is measured.
    at_kl: in nats, above 0.
  """
  above(0, at_kl=at_kl)

  def ask(models: Models, memory: World) -> dict[str, jax.Array]:
    del memory
    there, params = models['world'], models['policy']
    logprobs = policy.logprobs(params)
    probs = jnp.exp(logprobs)
    rare = there.base < -jnp.log(10 * there.base.shape[1])
    best = there.gold == there.gold.max(axis=1, keepdims=True)
    share = lambda which: jnp.mean(jnp.sum(jnp.where(which, probs, 0), axis=1))
    priced = policy.logprobs({**params, 'theta': _scale(policy, params, at_kl) * params['theta']})
    return {
        'gain': gold.gain(there, logprobs), 'kl': gold.divergence(there, logprobs),
        'entropy': -jnp.mean(jnp.sum(probs * logprobs, axis=1)), 'best': share(best), 'rare': share(rare),
        'exploitability': gold.exploitability(there, logprobs), 'gain_at_kl': gold.gain(there, priced),
    }

  return Evaluation(ask=ask, read=lambda answer: ({name: float(x) for name, x in answer.items()}, []))


def scalarised(
    world: gold.Worlds, policy: gold.LogLinear, *, weight: float, beta: float
) -> Evaluation:
  """How much of the best policy for two rewards at once a policy has.

  The metrics, means over prompts: `first` and `second`, gains in the two rewards over the reference; `value`,
  w first + (1 - w) second - β KL(π || ref), as a share of what the closed-form optimum has.

  Args:
    world: with two rewards, such as `two_sided_worlds`.
    policy: what is measured.
    weight: w in [0, 1], of the first.
    beta: β, above 0.
  """
  between(0, 1, weight=weight)
  above(0, beta=beta)

  def ask(models: Models, memory: World) -> dict[str, jax.Array]:
    del memory
    there = models['world']
    mixed = there.replace(gold=weight * there.gold + (1 - weight) * there.other)
    value = lambda logprobs: gold.gain(mixed, logprobs) - beta * gold.divergence(there, logprobs)
    logprobs = policy.logprobs(models['policy'])
    return {
        'first': gold.gain(there, logprobs),
        'second': gold.gain(there.replace(gold=there.other), logprobs),
        'value': value(logprobs) / value(gold.best(mixed, mixed.gold, beta=beta)),
    }

  return Evaluation(ask=ask, read=lambda answer: ({name: float(x) for name, x in answer.items()}, []))


def taught(world: gold.Worlds, policy: gold.LogLinear, *, beta: float) -> Evaluation:
  """How near a policy comes to the best one, and how it orders answers.

  The metrics, means over prompts: `nll`, -log π of answers of the best policy, in nats; `right`, the share of
  pairs of answers of the reference whose better one the policy says more likely.

  Args:
    world: what it is measured in.
    policy: what is measured.
    beta: of the best policy; see `gold.best`.
  """

  def ask(models: Models, memory: World) -> dict[str, jax.Array]:
    del memory
    there, logprobs = models['world'], policy.logprobs(models['policy'])
    best = jnp.exp(gold.best(there, there.gold, beta=beta))
    lead = lambda x: x[:, :, None] - x[:, None, :]
    better = lead(there.gold) > 0
    drawn = jnp.where(better, jnp.exp(there.base[:, :, None] + there.base[:, None, :]), 0)
    right = jnp.sum(drawn * (lead(logprobs) > 0)) / jnp.sum(drawn)
    return {'nll': -jnp.mean(jnp.sum(best * logprobs, axis=1)), 'right': right}

  return Evaluation(ask=ask, read=lambda answer: ({name: float(x) for name, x in answer.items()}, []))


def overoptimisation_fit(kl: np.ndarray, gain: np.ndarray, *, logarithmic: bool) -> float:
  """R² of d (α - β log d), or of d (α - β d), for gains of a run as it goes on; d is the root of the KL.

  Args:
    kl: [N] KL(π || ref) in nats; points below 0.0025 are left out.
    gain: [N] in true reward.
    logarithmic: which form; the first is that of policy gradients and direct alignment.
  Raises:
    ValueError: fewer than three points are left.
  Source: Gao et al., 2022, https://arxiv.org/abs/2210.10760, eq. 1 (best of n) and 2; for direct alignment,
    Rafailov et al., 2024, https://arxiv.org/abs/2406.02900.
  """
  far = np.asarray(kl) > _NEAR
  root, gain = np.sqrt(np.asarray(kl)[far]), np.asarray(gain)[far]
  if len(root) < 3:
    raise ValueError(f'{len(root)} points with a KL above {_NEAR} nats; a fit of two numbers needs 3')
  falling = root * np.log(root) if logarithmic else root**2
  terms = np.stack([root, -falling], axis=1)
  rest = gain - terms @ np.linalg.lstsq(terms, gain, rcond=None)[0]
  return float(1 - np.sum(rest**2) / np.sum((gain - gain.mean()) ** 2))


def _scale(policy: gold.LogLinear, params: dict, at_kl: float) -> jax.Array:
  """[] what θ is multiplied by for a KL of `at_kl`, found by halving: the KL rises with it."""
  there = params['world']

  def halve(_, ends):
    low, high = ends
    middle = (low + high) / 2
    stretched = policy.logprobs({**params, 'theta': middle * params['theta']})
    short = gold.divergence(there, stretched) < at_kl
    return jnp.where(short, middle, low), jnp.where(short, high, middle)

  return jax.lax.fori_loop(0, _HALVINGS, halve, (jnp.float32(0), jnp.float32(_FARTHEST)))[0]

"""PQN: Q-learning from the steps of many environments side by side, without a store or a lagging copy.

    L = mean (Q(s, a) - G)² / 2,    G of `target`: λ-returns of max Q in the paper

Targets are made once a rollout, before its updates. What they are is a function
(`advantages/off_policy.py`): `peng_q_lambda` is the paper's, `watkins_q_lambda` stops at actions that were
not the best, `q_lambda` and `retrace` judge an ε'-greedy policy by what an ε-greedy one did. It is called
with what it asks for by the names of its parameters. The paper's network has layer norm, without which it
diverges more easily.

Source: Gallici et al., 2024, https://arxiv.org/abs/2407.04811, algorithm 1.
"""

from collections.abc import Callable

import jax
import jax.numpy as jnp

from rlx.advantages.episodes import transitions
from rlx.losses import value as value_losses
from rlx.losses.ratios import ratio
from rlx.models.networks import GreedyPolicy, picked
from rlx.names import fill
from rlx.types import Algorithm, Batch, Key, Models, Rollout


def pqn(rollout: Rollout, policy: GreedyPolicy, *, target: Callable, epsilon: float) -> Algorithm:
  """Parallelised Q-network; trains `models['policy']`.

  Args:
    rollout: yields [B, T] stretches of time with `sampler_logprobs`; updates see their B T transitions.
    policy: ε-greedy, over Q(s, ·).
    target: gives G [B, T]; may ask for `rewards, terminated, truncated`, `taken`, Q of the action,
    `best_now`,
      `best_next`, max Q before it and behind it, `is_best`, and of the ε'-greedy policy `expected_next` and
      `ratios`.
    epsilon: ε', of the policy that Q is of; 0 is greedy. The paper's target asks for none of it.
  Raises:
    ValueError: `epsilon` is no rate, or the target asks for something that there is not.
  """
  if not 0 <= epsilon <= 1:
    raise ValueError(f'epsilon={epsilon}: a rate is in [0, 1]')

  def advantage(models: Models, batch: Batch, key: Key) -> Batch:
    del key
    now = policy.values(models['policy'], batch['observations'])
    following = policy.values(models['policy'], batch['next_observations'])
    taken, best = picked(now, batch['actions']), now.max(axis=-1)
    is_best = batch['actions'] == jnp.argmax(now, axis=-1)
    chances = epsilon / now.shape[-1] + (1 - epsilon) * is_best
    known = {
        **batch, 'taken': taken, 'best_now': best, 'best_next': following.max(axis=-1), 'is_best': is_best,
        'expected_next': epsilon * following.mean(axis=-1) + (1 - epsilon) * following.max(axis=-1),
        'ratios': ratio(jnp.log(chances), batch['sampler_logprobs']),
    }
    return transitions({**batch, 'returns': fill(target, known)})

  def loss(models: Models, batch: Batch, key: Key):
    del key
    values = picked(policy.values(models['policy'], batch['observations']), batch['actions'])
    critic_loss = value_losses.squared_error(values, batch['returns']).mean()
    return critic_loss, {'loss/critic': critic_loss, 'critic/mean': jax.lax.stop_gradient(values).mean()}

  return Algorithm(rollout=rollout, advantage=advantage, loss=loss)

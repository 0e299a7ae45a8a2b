"""B-Coder: offline Q-learning of programs, from a Q-function that begins as the language model.

    Q(s, a) = α (ℓ(s, a) - max ℓ(s, ·)) + V(s)
    L = mean over tokens of  (Q(s_t, a_t) - y_t)² / 2
    y_t = r_t + γ max { Q(s_{t+1}, a) : a in supp β(· | s_{t+1}) }

β is the model that the rows were drawn from. Their tokens are in its support, and so are those of the target;
the maximum over all tokens would ask for the values of programs that nobody has tried. Behind the last token
of a row there is its outcome alone.

Targets are made by the models as they are at the start of a train step. The paper's operator takes what a
fixed model finds best, which is `support=1`; a threshold on the chances of β, between that and Q-learning, is
our reading. There rewards also tell kinds of errors apart; here a program passes its tests or it does not.

Source: Yu et al., 2023, https://arxiv.org/abs/2310.03173, sections 4.2 and 4.3.
"""

import jax
import jax.numpy as jnp

from rlx import reductions
from rlx.advantages import temporal
from rlx.engine import token_q
from rlx.engine.speaker import Critic, Speaker
from rlx.errors import between
from rlx.losses.value import squared_error
from rlx.types import Algorithm, Annotate, Batch, Key, Models, Rollout


def bcoder(
    rollout: Rollout, reward: Annotate, policy: Speaker, behaviour: Speaker, value: Critic, *, scale: float,
    support: float, discount: float,
) -> Algorithm:
  """Trains `models['policy']` and `models['value']`; asks the fixed `models['behaviour']`.

  Args:
    rollout: yields rows of one turn each, such as `from_memory`.
    reward: adds `rewards` [B]; `of_world` where the rows have theirs.
    policy: whose logits are the advantages of Q.
    behaviour: β, what the rows were drawn from.
    value: V.
    scale: α, what a nat of the policy is worth.
    support: tokens count that β gives at least so much of the chance of its likeliest one, in [0, 1].
    discount: γ per token.
  """
  between(0, 1, support=support)

  def advantage(models: Models, batch: Batch, key: Key) -> Batch:
    del key
    best = token_q.best_q(policy, behaviour, value, models, batch, scale=scale, support=support)
    mask = batch['action_mask']
    targets = bellman_targets(batch['rewards'], best, mask, discount=discount)
    return {**batch, 'returns': targets, 'weights': reductions.token_mean(mask)}

  def loss(models: Models, batch: Batch, key: Key):
    del key
    chosen = token_q.chosen_q(policy, value, models, batch, scale=scale)
    missed = reductions.weighted_mean(squared_error(chosen, batch['returns']), batch['weights'])
    told = {'loss/q': missed, 'q/chosen': reductions.weighted_mean(chosen, batch['weights'])}
    return missed, {**told, 'q/target': reductions.weighted_mean(batch['returns'], batch['weights'])}

  return Algorithm(rollout=rollout, reward=reward, advantage=advantage, loss=loss)


def bellman_targets(rewards: jax.Array, best: jax.Array, mask: jax.Array, *, discount: float) -> jax.Array:
  """[B, T] float32: r_t + γ max Q(s_{t+1}, ·) at each action, and the outcome at the last one; 0 elsewhere.

  Args:
    rewards: [B] outcomes of rows, paid behind their last action.
    best: [B, T] the largest Q before each action, among tokens that count.
    mask: [B, T] bool, True where the token is an action; without gaps.
    discount: γ.
  """
  following = jnp.pad(jnp.where(mask, best, 0)[:, 1:], ((0, 0), (0, 1)))
  return jnp.where(mask, temporal.paid_at_end(rewards, mask) + discount * following, 0)

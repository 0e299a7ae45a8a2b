"""A reward model learns from comparisons: the chance that one answer is preferred is a logistic function.

    L = mean over pairs of  -(1 - ε) log σ(r_w - r_l - m) - ε log σ(r_l - r_w + m)  + c (r_w + r_l)²

Source: Bradley and Terry, 1952; Ouyang et al., 2022, https://arxiv.org/abs/2203.02155, equation 1. The margin
m: Llama 2, https://arxiv.org/abs/2307.09288, equation 2; c, which centres rewards: Eisenstein et al., 2023,
https://arxiv.org/abs/2312.09244 (TRL's `center_rewards_coefficient`); ε: as of cDPO.

`votes` trains several of them on parts of each batch, so that what they agree on can be asked.
"""

import dataclasses

import jax
import jax.numpy as jnp

from rlx.algorithms.dpo import shares
from rlx.engine.speaker import Judge
from rlx.envs.gold import Voters
from rlx.errors import above, at_least, between
from rlx.losses import preference
from rlx.losses.comparisons import right, sides
from rlx.types import Algorithm, Batch, Key, Models, Rollout


def bradley_terry(
    rollout: Rollout, judge: Judge, *, smoothing: float = 0.0, centring: float = 0.0
) -> Algorithm:
  """Trains `models['judge']` on comparisons.

  Args:
    rollout: yields pairs as rows behind one another, the better one first; `weights` [2N] say which count
      and `margins` [2N] by how much the better one is ahead, where they are there.
    judge: a reward model, such as `heads.reward_head`.
    smoothing: ε in [0, 0.5), the share of labels that is taken to be wrong.
    centring: c, at least 0.
  """
  at_least(0, centring=centring)

  def advantage(models: Models, batch: Batch, key: Key) -> Batch:
    del models, key
    return {**batch, 'weights': shares(batch)}

  def loss(models: Models, batch: Batch, key: Key):
    del key
    chosen, rejected = sides(judge.apply(models['judge'], batch))
    counts = sides(batch['weights'])[0]
    mean = lambda x: jnp.mean(jnp.where(counts != 0, x, 0) * counts)
    ahead = sides(batch['margins'])[0] if 'margins' in batch else jnp.zeros_like(chosen)
    value = mean(preference.sigmoid(chosen - ahead, rejected, beta=1.0, smoothing=smoothing))
    total = value + centring * mean(jnp.square(chosen + rejected))
    return total, {
        'loss/pairs': value,
        'judge/right': mean(right(chosen, rejected)),
        'judge/margin': mean(chosen - rejected),
        'judge/mean': mean(chosen + rejected) / 2,
    }

  return Algorithm(rollout=rollout, advantage=advantage, loss=loss, together=2)


def votes(
    rollout: Rollout, voters: Voters, *, share: float, smoothing: float = 0.0, centring: float = 0.0
) -> Algorithm:
  """Trains `models['voters']`, each on comparisons of its own draw.

  Args:
    rollout: as for `bradley_terry`.
    voters: reward models side by side.
    share: of the comparisons of a batch that a member learns from, in (0, 1].
    smoothing: as for `bradley_terry`.
    centring: likewise.
  Source: Secrets of RLHF II, https://arxiv.org/abs/2401.06080, whose members differ in the order of their
    data.
  """
  above(0, share=share)
  between(0, 1, share=share)
  parent = bradley_terry(rollout, voters.member, smoothing=smoothing, centring=centring)

  def advantage(models: Models, batch: Batch, key: Key) -> Batch:
    batch = parent.advantage(models, batch, key)
    drawn = jax.random.bernoulli(key, share, (len(batch['weights']) // 2, voters.num))
    return {**batch, 'ballots': jnp.repeat(drawn / share, 2, axis=0)}

  def loss(models: Models, batch: Batch, key: Key):
    def of_member(params, ballots):
      return parent.loss({'judge': params}, {**batch, 'weights': batch['weights'] * ballots}, key)

    told = jax.vmap(of_member, (voters.axes, 1))(models['voters'], batch['ballots'])
    return jax.tree.map(jnp.mean, told)

  return dataclasses.replace(parent, advantage=advantage, loss=loss)

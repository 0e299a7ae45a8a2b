"""GKD: a pupil is brought to its teacher, token by token, on what the pupil itself says.

    L = mean over tokens of  JSD_β(π_T, π)(· | x, y_<t),    y ~ π, or from the data

β = 0 is the forward KL, with data for y the distillation of Hinton et al.; β = 1 the reverse KL, MiniLLM's
without its corrections. TRL draws with chance λ whether a batch is sampled: here that is the rollout,
`prompts.completions` (λ = 1), `prompts.solutions` (λ = 0), or `sometimes` one and sometimes the other.
Source: Agarwal et al., 2023, https://arxiv.org/abs/2306.13649, algorithm 1.
"""

import functools

from rlx import reductions
from rlx.engine.distances import distances
from rlx.engine.speaker import Speaker
from rlx.losses import distillation
from rlx.types import Algorithm, Batch, Key, Models, Rollout


def gkd(rollout: Rollout, policy: Speaker, teacher: Speaker, *, share: float) -> Algorithm:
  """Generalised knowledge distillation.

  Args:
    rollout: yields rows; no gradient goes through what was sampled.
    policy: the pupil; its parameters are trained.
    teacher: `models['teacher']`, of the same vocabulary.
    share: β in [0, 1], of `distillation.generalised_jsd`.
  Raises:
    ValueError: when it is traced: the vocabularies differ.
  """
  divergence = functools.partial(distillation.generalised_jsd, share=share)

  def advantage(models: Models, batch: Batch, key: Key) -> Batch:
    del models, key
    return {**batch, 'weights': reductions.token_mean(batch['action_mask'])}

  def loss(models: Models, batch: Batch, key: Key):
    del key
    models_of = (policy, models['policy'], teacher, models['teacher'])
    apart = distances(*models_of, batch, divergence=divergence)
    total = reductions.weighted_mean(apart, batch['weights'])
    return total, {'loss/distillation': total}

  return Algorithm(rollout=rollout, advantage=advantage, loss=loss)

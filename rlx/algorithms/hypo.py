"""HyPO: DPO on recorded comparisons, held to the reference by the KL of what the policy says now.

    L = L_DPO(recorded pairs) + λ E_{x, y ~ π} [log π(y|x) · sg(log π(y|x) / ref(y|x))]

Where recorded answers cover few of those that there are, DPO says nothing of the others, and the policy may
give them any probability: KL(π || ref) is not bounded. Samples of the policy itself see it. The term has the
gradient of KL(π || ref); as a value it is k2, the square of the log-ratio over 2. With λ = 0 this is DPO.

Source: Song et al., 2024, https://arxiv.org/abs/2406.01462, algorithm 1. The prompts are those of the pairs.
"""

from collections.abc import Callable
import dataclasses

import jax.numpy as jnp

from rlx.algorithms.dpo import dpo
from rlx.data.dataset import Dataset
from rlx.engine.speaker import Speaker
from rlx.envs.gold import Worlds
from rlx.envs.text import Task
from rlx.errors import at_least
from rlx.losses import comparisons, regularizers
from rlx.types import Algorithm, Batch, Key, Models, Rollout

_SAMPLED = 'sampled_'  # columns of what the policy says to the prompt of a row
_COLUMNS = ('tokens', 'valid', 'action_mask', 'prompt_lengths')


def hypo(
    rollout: Rollout, policy: Speaker, reference: Speaker, task: Task | Dataset | Worlds, *, loss: Callable,
    kl_coef: float,
) -> Algorithm:
  """`dpo`, and the KL of a sample to the prompt of each row.

  Args:
    rollout: yields pairs, as for `dpo`.
    policy: samples and scores; its parameters are trained. Samples are of the policy before the updates of
      the batch: with several updates a batch they lag behind.
    reference: scores pairs and samples once a batch.
    task: says how wide prompts are.
    loss: of each pair, as for `dpo`.
    kl_coef: λ, at least 0.
  """
  at_least(0, kl_coef=kl_coef)
  parent = dpo(rollout, policy, reference, loss=loss)

  def advantage(models: Models, batch: Batch, key: Key) -> Batch:
    batch = parent.advantage(models, batch, key)
    lengths = batch['prompt_lengths']
    columns = jnp.arange(task.prompt_columns)[None]
    prompts = jnp.where(columns < lengths[:, None], batch['tokens'][:, : task.prompt_columns], 0)
    said = policy.sample(models['policy'], prompts, lengths, key, group_size=1)
    said = {name: said[name] for name in _COLUMNS} | {'groups': batch['groups']}
    of_reference = reference.score(models['reference'], said)[0]
    samples = {**said, 'reference': comparisons.summed(of_reference, said['action_mask'])}
    return {**batch, **{_SAMPLED + name: x for name, x in samples.items()}}

  def loss_of(models: Models, batch: Batch, key: Key):
    pairs, metrics = parent.loss(models, batch, key)
    said = {name.removeprefix(_SAMPLED): x for name, x in batch.items() if name.startswith(_SAMPLED)}
    logprobs = comparisons.summed(policy.score(models['policy'], said)[0], said['action_mask'])
    kl = jnp.mean(regularizers.kl_k2(logprobs, said['reference']))
    of_samples = jnp.mean(regularizers.kl_k1(logprobs, said['reference']))
    return pairs + kl_coef * kl, {**metrics, 'kl/reference': of_samples}

  return dataclasses.replace(parent, advantage=advantage, loss=loss_of)

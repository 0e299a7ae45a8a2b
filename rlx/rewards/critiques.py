"""A reward behind a critique: a model writes what it thinks of a row, and a head on it says a number of both.

The head reads the row and the critique behind it, so what was worked out in words need not be found in one
pass. `algorithms.critique_then_score` trains the two together.

Source: MM-RLHF, https://arxiv.org/abs/2502.10391, critique-based reward model, from the abstract; that the
score is a head's on the same decoder is by accounts of the paper.
"""

import jax.numpy as jnp

from rlx.engine.speaker import Judge, Speaker
from rlx.types import Annotate, Batch, Key, Models


def critiqued(critic: Speaker, judge: Judge) -> Annotate:
  """Adds `rewards` [B]: what `models['judge']` says of each row and of a critique of it.

  Args:
    critic: `models['critic']`, which writes by its own decoding behind rows with `tokens, valid` [B, T].
    judge: a reward model, such as `heads.shared_reward_head` on the critic.
  """

  def reward(models: Models, batch: Batch, key: Key) -> Batch:
    prompts = jnp.where(batch['valid'], batch['tokens'], critic.decoding.pad_id)
    rows = critic.sample(models['critic'], prompts, batch['valid'].sum(axis=1), key, group_size=1)
    said = rows['action_mask'].sum(axis=1).astype(jnp.float32)
    return {**batch, 'rewards': judge.apply(models['judge'], rows), 'tokens/critique': said}

  return reward

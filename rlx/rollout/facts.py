"""Rows of worlds of facts (`envs/facts.py`): what the base model says when it is asked of a claim."""

import jax

from rlx.envs import gold
from rlx.errors import at_least
from rlx.types import Batch, Key, Models, StatefulRollout, World


def self_assessed(world: gold.Worlds, *, batch_size: int) -> StatefulRollout:
  """Claims, and in the column `preferred` whether the base model affirms them: one sample of its answers.

  Args:
    world: whose claims are drawn.
    batch_size: rows B of the batch.
  Source: KLCF, https://arxiv.org/abs/2509.23765: its self-assessment learns from the base model alone.
  """
  at_least(1, batch_size=batch_size)

  def draw(models: Models, memory: World, key: Key) -> tuple[Batch, World]:
    subject_key, claim_key, answer_key = jax.random.split(key, 3)
    belief = models['world'].belief
    subjects = jax.random.randint(subject_key, (batch_size,), 0, belief.shape[0])
    claims = jax.random.randint(claim_key, (batch_size,), 0, belief.shape[1])
    affirmed = jax.random.bernoulli(answer_key, jax.nn.sigmoid(belief[subjects, claims]))
    return {**gold.rows_of(subjects, claims), 'preferred': affirmed}, memory

  return StatefulRollout(begin=lambda key: {}, draw=draw, data=None)

"""What a report is worth to somebody who knows what the base model knows, and nothing else."""

import jax
import jax.numpy as jnp

from rlx.envs import facts, gold
from rlx.errors import at_least, between
from rlx.types import Annotate, Batch, Key, Models


def dual_facts(
    world: gold.Worlds, judge: gold.Linear, *, known: float, recall_coef: float, truth_coef: float
) -> Annotate:
  """Adds `rewards` [B]: the share of a checklist that is stated, and how true a verifier takes the report.

      r = c_r |stated ∩ checklist| / |checklist| + c_t mean over stated claims of σ(verifier)

  A report of nothing has no truth. The checklist is what the base model knows (`facts.checklist`), the
  verifier has learnt from its answers; nothing else is asked.

  Args:
    world: of facts.
    judge: the verifier, whose numbers are log-odds.
    known: chance from which on the base model knows a claim.
    recall_coef: c_r, at least 0.
    truth_coef: c_t, at least 0.
  Source: KLCF, https://arxiv.org/abs/2509.23765; the sum of two shares is our reading. (There,
    the checklist and what the verifier learns from are claims of the base model that an index has verified
    before.)
  """
  between(0, 1, known=known)
  at_least(0, recall_coef=recall_coef, truth_coef=truth_coef)

  def scored(models: Models, batch: Batch, key: Key) -> Batch:
    del key
    subjects, said = batch['tokens'][:, 0], batch['tokens'][:, 1:] > 0
    listed = facts.checklist(models['world'], known=known)[subjects]
    trusted = jax.nn.sigmoid(judge.rewards(models['judge']))[subjects]
    recall = jnp.sum(said & listed, axis=1) / jnp.maximum(listed.sum(axis=1), 1)
    truth = jnp.where(said, trusted, 0).sum(axis=1) / jnp.maximum(said.sum(axis=1), 1)
    return {
        **batch, 'rewards': recall_coef * recall + truth_coef * truth, 'reward/recall': recall,
        'reward/truth': truth,
    }

  return scored

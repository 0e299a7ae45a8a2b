"""PAV's beam search against the best of n: a little more for the policy's tokens, less for the prover's."""

import functools

import chain_toy
import jax
import jax.numpy as jnp
import numpy as np
import pytest

from rlx.engine import sample as engine
from rlx.engine.probe import success_of_cuts
from rlx.envs import text
from rlx.rollout import beam

PROBLEMS, BRANCHES, PROVER_SAMPLES = 200, 4, 8


@pytest.mark.slow
def test_the_value_finds_more_than_the_outcome_for_as_many_tokens_of_the_policy():
  """Five policies, four branches of each step against the best of four rows, 200 held-out problems.

  Measured, share of problems with a right answer by the value: 0.96, 0.89, 0.82, 0.75, 0.79; by the outcome:
    0.91, 0.85, 0.81, 0.81, 0.74. The gain is 0.04 (median) with a deviation of about 0.03, and one policy
    loses 0.06. (On another 100 problems, with four samples a value: 0.05, 0.09, 0.06, 0.00, 0.01.)
  The prover is the policy itself, sampled: eight completions of each branch, which cost over ten times the
    tokens of the search. Counting those it is no gain: the best of only 16 rows finds at least 0.995.
  """
  task = chain_toy.sums(checks=0)
  policy, separator = chain_toy.policy_for(task), text.one_token(task, ';')
  problems = task.sample(jax.random.key(5), PROBLEMS, True)

  def right(rows, each):
    columns = jax.tree.map(lambda x: jnp.repeat(x, each, axis=0), problems)
    return task.verify(columns, engine.completions_of(rows, policy.decoding)).reshape(PROBLEMS, each)

  def one(params, key):
    value = functools.partial(success_of_cuts, params, policy, task, samples=PROVER_SAMPLES, best_of=1)
    search_key, sample_key = jax.random.split(key)
    best = beam.search(
        params, policy, problems, search_key, value=value, separator=separator, beams=1, branches=BRANCHES,
        rounds=chain_toy.STEPS + 1, step_tokens=3,
    )
    rows = policy.sample(
        params, problems['prompts'], problems['prompt_lengths'], sample_key, group_size=16
    )
    tokens = jnp.stack([best['beam/tokens'].mean(), BRANCHES * rows['action_mask'].sum(axis=1).mean()])
    return right(best, 1).mean(), right(rows, 16), tokens

  keys = jax.random.split(jax.random.key(6), chain_toy.SEEDS)
  found, sampled, tokens = map(np.asarray, jax.jit(jax.vmap(one))(chain_toy.taught(0), keys))
  pick = sampled.reshape(chain_toy.SEEDS, PROBLEMS, -1, BRANCHES).any(axis=-1).mean(axis=(1, 2))
  np.testing.assert_allclose(tokens[:, 0], tokens[:, 1], rtol=0.02)
  gain = found - pick
  assert np.median(gain) > 0.02 and gain.min() > -0.1
  assert np.all(sampled.any(axis=-1).mean(axis=1) > found)

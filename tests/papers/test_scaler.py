"""SCALER is GRPO with another rollout, `generators.adaptive`: as hard as is solved half of the time."""

import dataclasses

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from skill_toy import exam, policy_for, run, untrained

from rlx.algorithms.grpo import grpo
from rlx.algorithms.sft import sft
from rlx.envs.skills import skills
from rlx.losses.anchors import no_kl
from rlx.rewards.verifier import verifier
from rlx.rollout import generators, inject, prompts

LONGEST, NUM_FIXED = 5, 64
TASK = skills(
    modulus=5, num_skills=4, used=(0, 1, 2, 3), min_steps=1, max_steps=LONGEST, held_out_share=0.4
)
POLICY = policy_for(TASK)
FAMILIES, UNSEEN = ('ab', 'bc', 'cd'), ('ac', 'bd')
ROWS = dict(batch_size=64, group_size=8, num_slots=0)


def of(families, low, high):
  """The task with problems of some families and lengths alone."""
  weights = generators.family_weights(families, 4)

  def sample(key, num, held_out):
    steps_key, key = jax.random.split(key)
    steps = jax.random.randint(steps_key, (num,), low, high + 1)
    return TASK.compose(key, weights[jnp.arange(num) % len(families)], steps, held_out)

  return dataclasses.replace(TASK, sample=sample)


def fixed():
  """The same problems again and again, of all lengths."""
  problems = jax.device_get(of(FAMILIES, 1, LONGEST).sample(jax.random.key(7), NUM_FIXED, False))

  def sample(key, num, held_out):
    del held_out
    rows = jax.random.randint(key, (num,), 0, NUM_FIXED)
    return jax.tree.map(lambda x: jnp.asarray(x)[rows], problems)

  return dataclasses.replace(TASK, sample=sample)


@pytest.mark.slow
def test_the_pass_rate_is_held_and_unseen_families_profit():
  """Five seeds, 150 steps of SFT on problems of one and two operations, then 240 of 64 rows on 3 families.

  Measured: in windows of 30 steps behind the first, 48 to 59 % of the answers are right, but for 68 % on the
  one seed that arrives at the longest problems, while levels rise from 2 to 3.7 and more. On families that
  are not trained on, over one to five operations: median 52 % right (worst 45 %), with a fixed set of 64
  problems of all lengths 45 % (worst 37 %); better on four seeds of five. With a rate of 0.1 in place of 0.3
  the level lags, and 52 to 71 % are right.
  """
  lessons = inject.lessons(of(('abcd',), 1, 2), POLICY, batch_size=64, forms=('',))
  base, *_ = run(sft(lessons, POLICY), untrained(POLICY), 150, jax.random.key(1), 3e-3)
  rollouts = {
      'scaler': generators.adaptive(
          TASK, POLICY, **ROWS, families=FAMILIES, num_active=2, first_level=2.0, target=0.5,
          rate=0.3, min_rise=0.1, patience=60,
      ),
      'fixed': prompts.completions(fixed(), POLICY, **ROWS),
  }
  reward, clip = verifier(TASK, POLICY), dict(clip_low=0.2, clip_high=0.2, entropy_coef=0.0)
  found = {
      name: run(grpo(rollout, reward, POLICY, no_kl(), **clip), base, 240, jax.random.key(2), 1e-3)
      for name, rollout in rollouts.items()
  }
  metrics = found['scaler'][1]
  rates = metrics['reward/mean'][:, 30:].reshape(5, -1, 30).mean(axis=2)
  assert ((rates > 0.4) & (rates < 0.6)).mean() > 0.85
  levels = metrics['difficulty/level']
  assert (levels[:, -1] > levels[:, 0] + 0.5).sum() >= 4, 'the policy improves'
  unseen = {
      name: exam(of(UNSEEN, 1, LONGEST), POLICY, params, samples=16)[0]
      for name, (params, *_) in found.items()
  }
  assert np.median(unseen['scaler']) > np.median(unseen['fixed']) + 0.03

"""NuRL is GRPO with another rollout, `inject.hinted`: hints raise what a policy can do at all."""

import dataclasses

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from skill_toy import exam, policy_for, run, untrained

from rlx.algorithms.grpo import grpo
from rlx.algorithms.sft import sft
from rlx.envs.skills import skills
from rlx.envs.text import EOS_ID
from rlx.losses.anchors import no_kl
from rlx.rewards.verifier import verifier
from rlx.rollout import inject, prompts

STEPS, MODULUS = 4, 7
SIZES = dict(modulus=MODULUS, num_skills=4, min_steps=STEPS, max_steps=STEPS, held_out_share=0.3)
EASY, HARD = skills(**SIZES, used=(0, 1)), skills(**SIZES, used=(2, 3))
POLICY = policy_for(HARD)
REWARD = verifier(HARD, POLICY)
ROWS = dict(batch_size=64, group_size=8, num_slots=0)


def rumours(key, num, held_out):
  """One problem in four is of the hard skills, and its values are chance: what they do, nobody says."""
  easy_key, hard_key, value_key = jax.random.split(key, 3)
  easy, hard = EASY.sample(easy_key, num, held_out), HARD.sample(hard_key, num, held_out)
  digits = jnp.asarray(HARD.encode('0123456'))
  values = digits[jax.random.randint(value_key, (num, STEPS), 0, MODULUS)]
  told = jnp.isin(hard['hinted_prompts'][:, :STEPS], digits)
  hints, lengths = HARD.with_hint(hard, jnp.where(told, values, 0))
  solutions = jnp.pad(values, ((0, 0), (0, 1)), constant_values=EOS_ID)
  hard = {**hard, 'solutions': solutions, 'hinted_prompts': hints, 'hinted_lengths': lengths}
  is_hard = jnp.arange(num) % 4 == 0
  pick = lambda x, y: jnp.where(is_hard.reshape(-1, *[1] * (x.ndim - 1)), x, y)
  return jax.tree.map(pick, hard, easy)


@pytest.mark.slow
def test_the_upper_limit_rises():
  """Five seeds, 250 steps of SFT that teach two skills, the use of hints, and only the names of two others;
  then 300 steps of 64 rows on problems of the latter.

  Measured, pass@16 on held-out problems: 1.6 to 3.1 % before, GRPO median 0 (best 3.1 %), NuRL median 25 %
  (worst 20 %, best 72 %). A chain is guessed once in 2401 times. More steps raise NuRL further.
  """
  school = dataclasses.replace(EASY, sample=rumours)
  lessons = inject.lessons(school, POLICY, batch_size=64, forms=('', 'hinted', 'asking'))
  base, *_ = run(sft(lessons, POLICY), untrained(POLICY), 250, jax.random.key(1), 3e-3)
  rollouts = {
      'grpo': prompts.completions(HARD, POLICY, **ROWS),
      'nurl': inject.hinted(
          HARD, POLICY, REWARD, **ROWS, form='hinted', num_retried=8, kept_rows=1
      ),
  }
  clip = dict(clip_low=0.2, clip_high=0.2, entropy_coef=0.0)
  found = {
      name: run(grpo(rollout, REWARD, POLICY, no_kl(), **clip), base, 300, jax.random.key(2), 1e-3)
      for name, rollout in rollouts.items()
  }
  before, grpo_after, nurl_after = (
      exam(HARD, POLICY, params, samples=16)[1]
      for params in (base, found['grpo'][0], found['nurl'][0])
  )
  assert before.max() < 0.1 and np.median(grpo_after) < 0.05
  assert np.median(nurl_after) > 0.15 and nurl_after.min() > np.max([before, grpo_after])
  helped = found['nurl'][1]['inject/new_successes'][:, :20].mean(axis=1)
  assert helped.min() > 0.01, 'hints make some of what never passed pass'

"""CLPO: GRPO with less KL where it is hard, and hard problems asked in an easier form beside their own."""

import dataclasses

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from skill_toy import policy_for, run, untrained

from rlx.algorithms.clpo import clpo
from rlx.algorithms.grpo import grpo
from rlx.algorithms.sft import sft
from rlx.envs.skills import skills
from rlx.envs.text import EOS_ID
from rlx.losses.anchors import kl_in_loss, no_kl
from rlx.rewards.verifier import verifier
from rlx.rollout import inject, prompts, restructure
from rlx.types import check

STEPS, MODULUS = 3, 5
SIZES = dict(modulus=MODULUS, num_skills=4, min_steps=STEPS, max_steps=STEPS, held_out_share=0.4)
EASY, HARD = skills(**SIZES, used=(0, 1)), skills(**SIZES, used=(2, 3))
POLICY = policy_for(HARD)
REWARD = verifier(HARD, POLICY)
CLIP = dict(clip_low=0.2, clip_high=0.2)
FORMS = dict(hard_form='hinted', medium_form='decomposed', hard_max=0.3, medium_max=0.7)


def half_and_half(first, second):
  """Problems of one kind and of the other in turn."""

  def sample(key, num, held_out):
    keys = jax.random.split(key)
    is_first = jnp.arange(num) % 2 == 0
    pick = lambda x, y: jnp.where(is_first.reshape(-1, *[1] * (x.ndim - 1)), x, y)
    return jax.tree.map(pick, first(keys[0], num, held_out), second(keys[1], num, held_out))

  return dataclasses.replace(EASY, sample=sample)


def rumours(key, num, held_out):
  """Problems of the hard skills whose values are chance: what those do, nobody says."""
  problem_key, value_key = jax.random.split(key)
  hard = HARD.sample(problem_key, num, held_out)
  digits = jnp.asarray(HARD.encode('01234'))
  values = digits[jax.random.randint(value_key, (num, STEPS), 0, MODULUS)]
  told = jnp.isin(hard['hinted_prompts'][:, :STEPS], digits)
  hints, lengths = HARD.with_hint(hard, jnp.where(told, values, 0))
  solutions = jnp.pad(values, ((0, 0), (0, 1)), constant_values=EOS_ID)
  return {**hard, 'solutions': solutions, 'hinted_prompts': hints, 'hinted_lengths': lengths}


TASK = half_and_half(EASY.sample, HARD.sample)


def rollout(batch_size, num_restructured):
  return restructure.restructured(
      TASK, POLICY, REWARD, batch_size=batch_size, group_size=8, num_slots=0,
      num_restructured=num_restructured, **FORMS,
  )


@pytest.mark.slow
def test_the_kl_of_hard_problems_counts_less():
  """The losses at s = 0, 1/2 and 1, rewards put in by hand, against the mean taken by hand."""
  params, reference = (POLICY.model.init(jax.random.key(i)) for i in (0, 1))
  models = {'policy': params, 'reference': reference}
  draw, held = rollout(16, 1), kl_in_loss(POLICY, coef=0.1)
  batch, _ = jax.jit(draw.draw)({'policy': params}, {}, jax.random.key(0))
  check(batch)
  hard = jnp.arange(16) >= 8
  batch = {**batch, 'rewards': (jnp.arange(16) % 3 == 0).astype(jnp.float32), 'hard': hard}

  @jax.jit
  def losses(batch):
    def of(method):
      annotated = method.advantage(models, batch, jax.random.key(0))
      return method.loss(models, annotated, jax.random.key(0))[0]

    ours = [
        of(clpo(draw, REWARD, POLICY, held, **CLIP, hard_scale=s, entropy_coef=c))
        for s, c in ((0.0, 0.0), (0.5, 0.0), (1.0, 0.0), (1.0, 0.2))
    ]
    plain = [
        of(grpo(draw, REWARD, POLICY, kl, **CLIP, entropy_coef=c))
        for kl, c in ((no_kl(), 0.0), (held, 0.0), (held, 0.2))
    ]
    return ours, plain, *(POLICY.score(models[name], batch)[0] for name in ('policy', 'reference'))

  ours, plain, logprobs, fixed = losses(batch)
  mask = np.asarray(batch['action_mask'])
  difference = np.where(mask, np.asarray(fixed) - np.asarray(logprobs), 0)
  kl = (np.exp(difference) - difference - 1).sum(axis=1) / mask.sum(axis=1)
  for scale, loss in zip((0, 0.5, 1), ours[:3], strict=True):
    expected = plain[0] + 0.1 * (kl[:8].sum() + scale * kl[8:].sum()) / 16
    np.testing.assert_allclose(loss, expected, rtol=1e-4)
  np.testing.assert_allclose(ours[2:], plain[1:], rtol=1e-5)
  with pytest.raises(ValueError, match='hard_scale=-1'):
    clpo(draw, REWARD, POLICY, held, **CLIP, hard_scale=-1, entropy_coef=0.0)


def teaching(rollout, params):
  """[seeds] the share of the rows of hard problems that are in a group with a difference, of 20 batches."""

  @jax.jit
  @jax.vmap
  def shares(params):
    def one(key):
      batch, _ = rollout.draw({'policy': params}, {}, key)
      batch = REWARD({}, batch, key)
      rewards = batch['rewards'].reshape(-1, 8)
      differ = jnp.repeat(rewards.max(axis=1) > rewards.min(axis=1), 8)
      hard = batch.get('hard', jnp.repeat(rewards.mean(axis=1) <= FORMS['hard_max'], 8))
      return (hard & differ).sum(), hard.sum()

    differing, total = jax.lax.map(one, jax.random.split(jax.random.key(5), 20))
    return differing.sum() / total.sum()

  return np.asarray(shares(params))


@pytest.mark.slow
def test_hard_problems_teach_more():
  """Five seeds, 150 steps of SFT that teach two skills, and of two others the names; half of the problems
  need the latter. Rows of hard problems, rewritten ones included, that are in a group with a difference: in
  every seed more than 1.5 times the share of GRPO's.

  What does not show is that more is solved in the end. After 150 steps of 128 rows, CLPO of 8 problems a step
  and 8 rewritten ones, held-out hard problems are right in 1.9 % of the samples in the median (worst 0.1 %,
  best 4.5 %), after GRPO of 16 problems in 3.8 % (worst 2.7 %, best 15.2 %); it was
  0.9 % before, and 4 % with hints.
  """
  lessons = inject.lessons(
      half_and_half(EASY.sample, rumours), POLICY, batch_size=64, forms=('', 'hinted', 'decomposed')
  )
  base, *_ = run(sft(lessons, POLICY), untrained(POLICY), 150, jax.random.key(1), 3e-3)
  plain = prompts.completions(TASK, POLICY, batch_size=128, group_size=8, num_slots=0)
  assert (teaching(rollout(128, 8), base) > 1.5 * teaching(plain, base)).all()

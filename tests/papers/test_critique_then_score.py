"""A critique is written, and a head scores what it reads of both. https://arxiv.org/abs/2502.10391"""

import dataclasses

import algorithms_table as table
import jax
import jax.numpy as jnp
import numpy as np
import pytest

from rlx.algorithms.bradley_terry import bradley_terry
from rlx.algorithms.critique_then_score import critique_then_score
from rlx.engine.speaker import Judge, Speaker
from rlx.envs import weighing
from rlx.losses.comparisons import averaged
from rlx.models import heads
from rlx.models.language import LanguageModel
from rlx.rewards.critiques import critiqued
from rlx.rollout import pairs
from rlx.rollout.weighing import criticised_answers
from rlx.types import check
from tests.once import once

TASK = weighing.weighed(modulus=7, length=3, held_out_share=0.1)
MODEL = LanguageModel(dataclasses.replace(table.MODEL.shape, vocab_size=TASK.vocab_size))
HEAD = heads.shared_reward_head(MODEL)
JUDGE = Judge(head=HEAD.functions, scoring=table.SCORING)
CRITIC = Speaker(
    model=MODEL, scoring=table.SCORING, decoding=dataclasses.replace(table.DECODING, max_tokens=4)
)


def rows_of(num=4):
  rollout = criticised_answers(TASK, batch_size=num)
  return jax.jit(lambda key: rollout.draw({}, rollout.begin(jax.random.key(0)), key)[0])(jax.random.key(1))


def models_of(critic, own):
  return {'critic': critic, 'judge': HEAD.view(own, {'policy': critic})}


CRITIC_PARAMS = once(lambda: MODEL.init(jax.random.key(2)))
OWN = once(lambda: HEAD.init(jax.random.key(3), {'policy': CRITIC_PARAMS()}))


def test_a_critique_is_the_running_sums_of_its_answer():
  batch = rows_of(8)
  check(batch)
  worth = []
  columns = [np.asarray(batch[name]) for name in ('tokens', 'valid', 'action_mask')]
  for row, valid, said in zip(*columns, strict=True):
    digits, _, sums = TASK.decode(row[valid]).partition('=')
    assert sums == ''.join(str(x) for x in np.cumsum([int(d) for d in digits]) % 7)
    assert said.sum() == 4  # three digits and the end token
    worth.append(int(sums[-1]))
  assert all(better > worse for better, worse in zip(worth[0::2], worth[1::2], strict=True))
  at_once = weighing.weighed_at_once(modulus=7, length=3, held_out_share=0.1)
  with pytest.raises(ValueError, match="show no thoughts; take the task 'weighing.weighed'"):
    weighing.criticised_rows(at_once.sample(jax.random.key(0), 2, False))


@pytest.mark.slow
def test_the_loss_is_of_the_score_and_of_the_words():
  """The score's gradient reaches the decoder that writes; without words it is the parent."""
  batch = rows_of()

  def value_of(algorithm):
    def value(critic, own):
      models = models_of(critic, own)
      return algorithm.loss(models, algorithm.advantage(models, batch, None), None)

    return jax.jit(jax.value_and_grad(value, argnums=(0, 1), has_aux=True))(CRITIC_PARAMS(), OWN())

  rollout = criticised_answers(TASK, batch_size=4)
  (alone, _), (slope, _) = value_of(bradley_terry(rollout, JUDGE))
  (value, metrics), _ = value_of(critique_then_score(rollout, CRITIC, JUDGE, critique_coef=0.5))
  logprobs, _ = CRITIC.score(CRITIC_PARAMS(), batch)
  nll = float(jnp.mean(averaged(-logprobs, batch['action_mask'])))
  np.testing.assert_allclose([value, metrics['loss/critique']], [alone + 0.5 * nll, nll], rtol=1e-5)
  assert nll > 1 and float(jnp.abs(slope['embedding']).max()) > 1e-4
  (none, _), (same, _) = value_of(critique_then_score(rollout, CRITIC, JUDGE, critique_coef=0.0))
  np.testing.assert_allclose(none, alone, rtol=1e-6)
  np.testing.assert_allclose(same['embedding'], slope['embedding'], rtol=1e-4, atol=1e-7)


@pytest.mark.slow
def test_a_margin_is_of_what_is_read_behind_critiques():
  """The reward is the head's number of the row with its critique, and not of the row alone."""
  answers = weighing.answer_rows(TASK.sample(jax.random.key(4), 3, False))
  models = models_of(CRITIC_PARAMS(), OWN())
  reward = critiqued(CRITIC, JUDGE)
  rewards = reward(models, answers, jax.random.key(5))['rewards']
  rows = CRITIC.sample(
      CRITIC_PARAMS(), answers['tokens'], answers['valid'].sum(axis=1), jax.random.key(5), group_size=1
  )
  np.testing.assert_allclose(rewards, JUDGE.apply(models['judge'], rows), rtol=1e-5)
  assert float(jnp.abs(rewards - JUDGE.apply(models['judge'], answers)).min()) > 1e-4
  rollout = pairs.with_critiqued_margins(lambda models, world, key: (answers, world), CRITIC, JUDGE)
  batch, _ = rollout.draw(models, {}, jax.random.key(6))
  _, critique_key = jax.random.split(jax.random.key(6))
  again = reward(models, answers, critique_key)['rewards']
  np.testing.assert_allclose(batch['pair_reward_margin'], np.repeat(again[0::2] - again[1::2], 2), rtol=1e-5)
  np.testing.assert_array_equal(batch['tokens'], answers['tokens'])

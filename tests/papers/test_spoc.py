"""SPOC: proposals and verdicts in one pass, both learnt, and rows that stop where they are right."""

import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest
import seeds

from rlx.algorithms.spoc import spoc
from rlx.engine.decoding import Decoding
from rlx.engine.speaker import Scoring, Speaker
from rlx.envs.propose import propose
from rlx.losses.anchors import no_kl
from rlx.models.language import LanguageModel
from rlx.models.transformer import TransformerConfig
from rlx.rewards.toys import by_role
from rlx.rollout import prompts

SEEDS = 5
TASK = propose(modulus=5, length=3, proposals=3, wrong_share=0.5, held_out_share=0.25)
MODEL = LanguageModel(TransformerConfig(
    vocab_size=TASK.vocab_size, num_layers=2, width=32, num_heads=2, num_kv_heads=2, head_size=16,
    mlp_size=64, context_length=16, rope_theta=100.0,
))
DECODING = Decoding(
    max_tokens=TASK.answer_columns, min_tokens=0, temperature=1.0, top_k=0, top_p=1.0, sampler='gumbel',
    eos_ids=TASK.eos_ids, pad_id=0,
)
POLICY = Speaker(model=MODEL, decoding=DECODING, scoring=Scoring(chunk_tokens=1024, packing=None))


def algorithm_of(rollout):
  return spoc(rollout, by_role(TASK, POLICY), POLICY, no_kl(), clip_low=0.2, clip_high=0.2)


def test_advantages_by_hand():
  """Two rows of one prompt: `w~r$` and `w$`. Proposals earn 0, 1, 0 and verdicts 1, 1, 0.

  Proposals: mean 1/3, unbiased deviation sqrt(1/3); verdicts: mean 2/3 and the same deviation.
  """
  mask = np.array([[0, 1, 1, 1, 1], [0, 1, 1, 0, 0]], bool)
  turns = np.where(mask, np.arange(-1, 4), -1)
  batch = {
      'action_mask': jnp.array(mask), 'turns': jnp.array(turns), 'roles': jnp.where(mask, turns % 2, -1),
      'token_rewards': jnp.array([[0, 0, 1, 1, 1], [0, 0, 0, 0, 0]], jnp.float32),
      'rewards': jnp.array([1.0, 0.0]), 'groups': jnp.zeros(2, jnp.int32),
  }
  advantage = jax.jit(algorithm_of(None).advantage)
  found = advantage({}, batch, jax.random.key(0))['advantages']
  expected = np.array([[0, -1, 1, 2, 1], [0, -1, -2, 0, 0]]) / 3 * 3**0.5
  np.testing.assert_allclose(found, expected, rtol=1e-5, atol=1e-7)
  # A prompt of its own for each row: the proposals of the first one differ, and nothing else does.
  apart = {**batch, 'groups': jnp.array([0, 1])}
  found = advantage({}, apart, jax.random.key(0))['advantages']
  np.testing.assert_allclose(found, np.array([[0, -1, 0, 1, 0], [0] * 5]) * 0.5**0.5, rtol=1e-5, atol=1e-7)


@pytest.mark.slow
def test_verdicts_and_answers_become_right():
  """Five seeds, 400 steps on pairs, then 150 of 128 rows; shares of what is sampled in training.

  Measured, median (worst seed), of the first 5 steps and of the last 20:

      answers right in the end           82.5 % (75 %)    97 % (95 %)
      first proposals right              51 % (42 %)      97 % (94 %)
      true verdicts                      79 % (68 %)      97 % (95 %)
      stopped at once when right         74 % (52 %)      99.8 % (98.7 %)
      wrong first, and right later       33 % (14 %)      0.2 % (0 %)

  So corrections carry the beginning, and RL makes them needless: over the whole run they are 0.5 to 4 % of
  the rows.
  """
  lessons = prompts.solutions(TASK, POLICY, batch_size=64)
  taught = seeds.taught(lessons, POLICY, seeds=SEEDS, steps=400, learning_rate=5e-3)
  samples = prompts.completions(TASK, POLICY, batch_size=128, group_size=8, num_slots=0)
  _, metrics = seeds.run(algorithm_of(samples), optax.adam(2e-3), taught, 150, jax.random.key(2))
  names = 'reward/mean', 'spoc/first_right', 'spoc/true_verdicts', 'spoc/corrected', 'spoc/stopped_when_right'
  shares = lambda steps: {n: np.asarray(metrics[n])[:, steps].mean(axis=1) for n in names}
  early, late = shares(np.s_[:5]), shares(np.s_[-20:])
  rise = lambda name: late[name] - early[name]
  assert np.median(rise('reward/mean')) > 0.08 and late['reward/mean'].min() > 0.9
  assert np.median(rise('spoc/true_verdicts')) > 0.1 and late['spoc/true_verdicts'].min() > 0.9
  assert np.median(rise('spoc/stopped_when_right')) > 0.1 and late['spoc/stopped_when_right'].min() > 0.95
  corrected = np.asarray(metrics['spoc/corrected'])
  assert early['spoc/corrected'].min() > 0.05 and np.all(corrected.mean(axis=1) > 0)

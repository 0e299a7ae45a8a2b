"""Cooper: pairs of verified rows and corrupted copies, for the judge. https://arxiv.org/abs/2508.05613"""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from rlx.envs import gold
from rlx.evaluation.gold import proxy
from rlx.rewards.gold import corrupted_copies

REWARDS = jnp.array([[-1.5, -0.5, 0.2, 1.8], [1.2, 1.1, -2.0, -0.3]])
WORLD = gold.World(
    features=jnp.stack([REWARDS, -REWARDS], axis=2), gold=gold.standard(REWARDS),
    base=jnp.full((2, 4), -np.log(4), jnp.float32),
)
WORLDS = gold.Worlds(make=lambda key: WORLD)
PROMPTS, ANSWERS = jnp.repeat(jnp.arange(2), 40), jnp.tile(jnp.arange(4), 20)


def test_right_rows_stand_beside_wrong_answers_and_wrong_rows_do_not_count():
  bar = 0.8
  right = np.asarray(WORLD.gold) > bar
  rows = {'policy': gold.rows_of(PROMPTS, ANSWERS)}
  made = corrupted_copies(WORLDS, bar=bar, of='policy', to='judge')({'world': WORLD}, rows, jax.random.key(0))
  assert made['policy'] is rows['policy']
  prompts, answers = np.asarray(made['judge']['tokens']).T
  np.testing.assert_array_equal(prompts, np.repeat(PROMPTS, 2))
  np.testing.assert_array_equal(answers[0::2], ANSWERS)
  counts = np.asarray(made['judge']['weights'])
  np.testing.assert_array_equal(counts[0::2], right[PROMPTS, ANSWERS])
  np.testing.assert_array_equal(counts[1::2], counts[0::2])
  assert not right[prompts, answers][1::2].any()
  for x in range(2):
    assert set(answers[1::2][prompts[1::2] == x]) == set(np.flatnonzero(~right[x])), 'each of the wrong ones'


@pytest.mark.parametrize('direction', [[1.0, 0.0], [0.0, 2.0]])
def test_the_gap_is_what_the_judge_sees_beyond_the_true_reward(direction):
  """One judge sees the reward, the other its opposite; to both the scale is that of the true reward."""
  policy, judge = gold.LogLinear(), gold.Linear()
  models = {
      'world': WORLD, 'policy': {**policy.init(WORLD), 'theta': jnp.array([0.7, 0.0])},
      'judge': {'direction': jnp.array(direction), 'world': WORLD},
  }
  evaluation = proxy(WORLDS, policy, judge)
  told, _ = evaluation.read(jax.device_get(evaluation.ask(models, {})))
  true = float(gold.gain(WORLD, policy.logprobs(models['policy'])))
  assert true > 0.3
  sign = 1 if direction[0] else -1
  np.testing.assert_allclose([told['gain'], told['gap']], [sign * true, (sign - 1) * true], atol=1e-5)


def test_a_judge_that_says_nothing_sees_no_gain():
  np.testing.assert_array_equal(gold.standard(jnp.zeros((2, 3))), 0)

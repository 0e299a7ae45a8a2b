"""SWE-RM: verifiers in the same order with other chances. https://arxiv.org/abs/2512.21919"""

import jax
import jax.numpy as jnp
import numpy as np

from rlx.algorithms.pointwise import pointwise
from rlx.envs import gold
from rlx.evaluation.gold import verifier_quality
from rlx.rewards.learned import probable
from rlx.rollout.gold import verdicts

# One prompt of four answers that are as likely; log-odds are what a verifier says of each.
ODDS = jnp.array([-2.0, -1.0, 0.5, 2.5])
WORLD = gold.World(
    features=jnp.eye(4)[None], gold=jnp.array([[-1.0, 1.0, -1.0, 1.0]]),
    base=jnp.full((1, 4), -np.log(4), jnp.float32),
)
WORLDS = gold.Worlds(make=lambda key: WORLD)
POLICY, JUDGE = gold.LogLinear(), gold.Linear()
MODELS = {
    'world': WORLD, 'policy': {**POLICY.init(WORLD), 'theta': jnp.array([0.0, 0, 0, 1])},
    'judge': {'direction': ODDS, 'world': WORLD},
}


def told(scale):
  evaluation = verifier_quality(WORLDS, POLICY, JUDGE, bar=0.0, scale=scale, best_of=64)
  return evaluation.read(jax.device_get(evaluation.ask(MODELS, {})))[0]


def test_a_verifier_that_is_too_sure_differs_in_its_calibration_alone():
  """By hand: three of four pairs of a right and a wrong answer are in order; the best of many is the last."""
  calm, sure = told(1.0), told(4.0)
  for found in (calm, sure):
    np.testing.assert_allclose(found['auc'], 3 / 4, atol=0.02)  # of 1024 samples
    assert found['best_of'] == 1
    np.testing.assert_allclose(found['right'], (1 + np.e) / (3 + np.e), rtol=1e-5)
  right = np.array([0.0, 1, 0, 1])
  chances = lambda scale: 1 / (1 + np.exp(-scale * np.asarray(ODDS)))
  for scale, found in ((1.0, calm), (4.0, sure)):  # each answer is in a bin of its own, or in the same
    bins = np.minimum((chances(scale) * 10).astype(int), 9)
    gaps = [abs((right - chances(scale))[bins == b].sum()) for b in range(10)]
    np.testing.assert_allclose(found['calibration_error'], sum(gaps) / 4, atol=0.03)


def test_the_reward_is_the_chance_that_the_verifier_gives():
  rows = gold.rows_of(jnp.zeros(4, jnp.int32), jnp.arange(4))
  rewards = probable(JUDGE, scale=2.0)(MODELS, rows, jax.random.key(0))['rewards']
  np.testing.assert_allclose(rewards, 1 / (1 + np.exp(-2 * np.asarray(ODDS))), rtol=1e-5)


def test_verdicts_are_those_of_the_rule_and_what_they_cost_is_a_cross_entropy():
  rollout = verdicts(WORLDS, POLICY, batch_size=16, bar=0.0)
  batch, _ = rollout(MODELS, rollout.begin(jax.random.key(0)), jax.random.key(1))
  answers = np.asarray(batch['tokens'])[:, 1]
  np.testing.assert_array_equal(batch['preferred'], np.isin(answers, [1, 3]))
  method = pointwise(rollout, JUDGE)
  batch = method.advantage(MODELS, batch, jax.random.key(2))
  value, metrics = method.loss(MODELS, batch, jax.random.key(2))
  chance = 1 / (1 + np.exp(-np.asarray(ODDS)[answers]))
  by_hand = -np.mean(np.log(np.where(batch['preferred'], chance, 1 - chance)))
  np.testing.assert_allclose(value, by_hand, rtol=1e-5)
  np.testing.assert_allclose(metrics['judge/right'], np.mean((chance > 0.5) == batch['preferred']), rtol=1e-6)

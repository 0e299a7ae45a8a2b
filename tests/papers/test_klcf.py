"""Recall of what the base model knows, and truth as it sees it. https://arxiv.org/abs/2509.23765"""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from rlx.envs import facts, gold
from rlx.evaluation.facts import factuality
from rlx.rewards.facts import dual_facts
from rlx.rollout.facts import self_assessed

LOGIT = lambda p: float(np.log(p / (1 - p)))
# One subject with three claims: known and true, believed and false, doubted and false.
WORLD = facts.Facts(
    features=jnp.eye(3)[None], truth=jnp.array([[True, False, False]]),
    belief=jnp.array([[LOGIT(0.95), LOGIT(0.6), LOGIT(0.1)]]),
    stated=jnp.array([[0.0, LOGIT(0.8), LOGIT(0.25)]]),
)
WORLDS = gold.Worlds(make=lambda key: WORLD, action_columns=3)
POLICY = facts.Stating()
JUDGE = {'direction': WORLD.belief[0], 'world': WORLD}
REPORTS = jnp.array([[1, 0, 0], [1, 1, 0], [1, 1, 1], [0, 1, 1], [0, 0, 0]])


@pytest.mark.parametrize('truth_coef', [0.0, 1.0])
def test_a_report_is_paid_for_recall_and_for_the_truth_of_what_it_states(truth_coef):
  rows = {'tokens': jnp.pad(REPORTS, ((0, 0), (1, 0)))}
  reward = dual_facts(WORLDS, gold.Linear(), known=0.9, recall_coef=1.0, truth_coef=truth_coef)
  paid = reward({'world': WORLD, 'judge': JUDGE}, rows, jax.random.key(0))['rewards']
  recall = np.array([1, 1, 1, 0, 0])
  truth = np.array([0.95, (0.95 + 0.6) / 2, (0.95 + 0.6 + 0.1) / 3, 0.35, 0])
  np.testing.assert_allclose(paid, recall + truth_coef * truth, rtol=1e-5)
  says_more, says_less = paid[2], paid[0]
  assert (says_less > says_more) == (truth_coef > 0)  # without the truth nothing speaks against a false claim


def test_what_a_policy_states_is_summed_against_the_truth():
  evaluation = factuality(WORLDS, POLICY, known=0.9)
  params = {'theta': jnp.array([LOGIT(0.9), 0.0, 0.0]), 'world': WORLD}
  told = evaluation.read(evaluation.ask({'world': WORLD, 'policy': params}, {}))[0]
  assert told == pytest.approx({
      'recall': 0.9, 'hallucinated': 1.05 / 1.95, 'stated': 0.65, 'net': 0.9 - 1.05,
  }, rel=1e-5)


def test_reports_are_scored_as_they_were_drawn():
  params = {'theta': jnp.array([0.3, -0.2, 0.1]), 'world': WORLD}
  prompts, lengths = jnp.zeros((2, 1), jnp.int32), jnp.ones(2, jnp.int32)
  rows = POLICY.sample(params, prompts, lengths, jax.random.key(0), group_size=500)
  logprobs, entropy = POLICY.score(params, rows)
  np.testing.assert_allclose(logprobs, rows['sampler_logprobs'], rtol=1e-5)
  chance = np.asarray(jax.nn.sigmoid(POLICY.odds(params)))[0]
  np.testing.assert_allclose(rows['tokens'][:, 1:].mean(axis=0), chance, atol=0.05)
  by_hand = -(chance * np.log(chance) + (1 - chance) * np.log(1 - chance))
  np.testing.assert_allclose(entropy[0], [0, *by_hand], rtol=1e-5)


def test_the_verifier_learns_what_the_base_model_affirms_not_what_is_true():
  rollout = self_assessed(WORLDS, batch_size=3000)
  rows, _ = rollout.draw({'world': WORLD}, {}, jax.random.key(0))
  claims, affirmed = np.asarray(rows['tokens'][:, 1]), np.asarray(rows['preferred'])
  shares = [affirmed[claims == c].mean() for c in range(3)]
  np.testing.assert_allclose(shares, [0.95, 0.6, 0.1], atol=0.06)


def test_beliefs_are_calibrated():
  worlds = facts.fact_worlds(num_prompts=200, num_claims=20, width=4, sure=2.0, hidden=0.2, loose=0.5)
  world = worlds.make(jax.random.key(0))
  belief, truth = np.asarray(world.belief), np.asarray(world.truth)
  sure = belief > LOGIT(0.9)
  assert truth[sure].mean() == pytest.approx((1 / (1 + np.exp(-belief[sure]))).mean(), abs=0.03)
  np.testing.assert_array_equal(facts.checklist(world, known=0.9), sure)

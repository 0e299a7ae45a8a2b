"""What evaluations say of policies in worlds of known reward, against sums by hand and closed forms."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from rlx.envs import gold
from rlx.evaluation import gold as evaluations
from rlx.models import gold as models_of

POLICY = gold.LogLinear()
WORLDS = gold.two_sided_worlds(num_prompts=4, num_answers=6, width=3, conflict=0.5)
WORLD = jax.jit(WORLDS.make)(jax.random.key(0))
PARAMS = {**POLICY.init(WORLD), 'theta': jnp.array([1.0, -0.5, 0.2])}


def told(evaluation, params=PARAMS, world=WORLD):
  models = {'world': world, 'policy': params}
  return evaluation.read(jax.jit(lambda m: evaluation.ask(m, {}))(models))[0]


def test_measures_are_sums_over_answers():
  logprobs, base = np.asarray(POLICY.logprobs(PARAMS), float), np.asarray(WORLD.base, float)
  probs, rewards = np.exp(logprobs), np.asarray(WORLD.gold, float)
  found = told(evaluations.measured(WORLDS, POLICY, at_kl=0.3))
  expected = {
      'gain': ((probs - np.exp(base)) * rewards).sum(axis=1).mean(),
      'kl': (probs * (logprobs - base)).sum(axis=1).mean(),
      'entropy': -(probs * logprobs).sum(axis=1).mean(),
      'best': probs[np.arange(4), rewards.argmax(axis=1)].mean(),
      'rare': np.where(np.exp(base) < 1 / 60, probs, 0).sum(axis=1).mean(),
  }
  wins = 1 / (1 + np.exp(rewards[:, None, :] - rewards[:, :, None]))  # of the first against the second
  expected['exploitability'] = np.einsum('xab,xb->xa', wins, probs).max(axis=1).mean() - 0.5
  np.testing.assert_allclose([found[k] for k in expected], list(expected.values()), rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize('times', [0.2, 3.0])
def test_the_gain_at_a_price_does_not_depend_on_how_far_the_policy_went(times):
  evaluation = evaluations.measured(WORLDS, POLICY, at_kl=0.3)
  further = {**PARAMS, 'theta': times * PARAMS['theta']}
  assert told(evaluation, further)['gain_at_kl'] == pytest.approx(told(evaluation)['gain_at_kl'], rel=1e-4)
  at_price = told(evaluations.measured(WORLDS, POLICY, at_kl=told(evaluation)['kl']))
  assert at_price['gain_at_kl'] == pytest.approx(at_price['gain'], rel=1e-4)


def test_the_closed_form_optimum_has_the_whole_value_and_the_reference_none():
  evaluation = evaluations.scalarised(WORLDS, POLICY, weight=0.3, beta=0.5)
  mixed = WORLD.replace(gold=0.3 * WORLD.gold + 0.7 * WORLD.other)
  best = WORLD.replace(base=gold.best(mixed, mixed.gold, beta=0.5))  # a policy that says just that
  assert told(evaluation, POLICY.init(best))['value'] == pytest.approx(1, abs=1e-4)
  assert told(evaluation, POLICY.init(WORLD))['value'] == pytest.approx(0, abs=1e-5)
  assert told(evaluation)['value'] < 1


def test_the_best_policy_has_the_least_nll_and_orders_all_pairs():
  evaluation = evaluations.taught(WORLDS, POLICY, beta=0.5)
  best = POLICY.init(WORLD.replace(base=gold.best(WORLD, WORLD.gold, beta=1e-2)))
  assert told(evaluation, best)['right'] == pytest.approx(1, abs=1e-6)
  own = POLICY.init(WORLD.replace(base=gold.best(WORLD, WORLD.gold, beta=0.5)))
  assert told(evaluation, own)['nll'] < min(told(evaluation)['nll'], told(evaluation, best)['nll'])


def test_two_rewards_are_in_each_others_way_and_can_be_exchanged():
  large = gold.two_sided_worlds(num_prompts=200, num_answers=40, width=3, conflict=0.5)
  world = large.make(jax.random.key(1))
  assert float(jnp.mean(world.gold * world.other)) == pytest.approx(-0.5, abs=0.1)
  exchanged = models_of.other_side(WORLDS).view(None, {'world': world})
  np.testing.assert_array_equal(exchanged.gold, world.other)
  np.testing.assert_array_equal(exchanged.other, world.gold)


@pytest.mark.parametrize('logarithmic', [True, False])
def test_curves_of_either_form_are_fitted_and_told_from_the_other(logarithmic):
  kl = np.linspace(0, 9, 40)
  root = np.sqrt(np.maximum(kl, 1e-9))
  gain = root * (1.3 - 0.5 * (np.log(root) if logarithmic else root))
  assert evaluations.overoptimisation_fit(kl, gain, logarithmic=logarithmic) == pytest.approx(1, abs=1e-6)
  assert evaluations.overoptimisation_fit(kl, gain, logarithmic=not logarithmic) < 0.999
  noise = np.random.default_rng(0).normal(size=40)
  assert evaluations.overoptimisation_fit(kl, noise, logarithmic=logarithmic) < 0.3
  with pytest.raises(ValueError, match='needs 3'):
    evaluations.overoptimisation_fit(kl[:3], gain[:3], logarithmic=logarithmic)

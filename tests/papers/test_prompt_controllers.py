"""Which problems are tried: VAS, MoPPS, DRIVE."""

import functools

import bandits
import jax
import jax.numpy as jnp
import numpy as np
import pytest
import scipy.stats

from rlx.controllers import allocation, prompts, statistics
from rlx.rollout import curriculum

SEEDS = 10
VAS = dict(
    scores=functools.partial(
        prompts.by_variance_and_entropy, variance_coef=1.0, diversity_coef=0.02, unseen=0.5
    ),
    draw=functools.partial(prompts.mixed, num_weighted=6),
)


@pytest.mark.slow
def test_variance_aware_sampling_learns_faster():
  """VAS, https://arxiv.org/abs/2509.21268: rewards vary more, gradients are larger, and learning is faster.

  Most of 256 problems are nearly always or hardly ever solved; 8 problems a batch, 8 samples each. Against
  uniform draws, in the worst, median and best of ten seeds: groups with a difference 1.30, 1.56, 1.71 times
  as many and the gradient's norm 1.20, 1.37, 1.47 times as large over the first hundred steps; the mean
  accuracy gained in 300 steps 1.26, 1.33, 1.39 times as large.
  """
  rates = np.random.default_rng(0).choice([0.003, 0.02, 0.3, 0.6, 0.97], 256, p=[0.3, 0.25, 0.1, 0.05, 0.3])
  logits = bandits.logits_of(rates)
  sizes = dict(num_prompts=8, num_rows=64, keep=0.8)
  mixed, norm, gained = {}, {}, {}
  for name, choice in {'uniform': {}, 'vas': VAS}.items():
    rollout = bandits.rollout(256, **sizes, **choice)
    algorithm = bandits.grpo_on(rollout)
    states, metrics = bandits.train(algorithm, logits, steps=300, seeds=SEEDS, learning_rate=4.0)
    mixed[name] = 1 - metrics['reward/zero_variance_fraction'][:, :100].mean(axis=1)
    norm[name] = metrics['optimizer/grad_norm'][:, :100].mean(axis=1)
    gained[name] = np.asarray(jax.vmap(bandits.rates_of)(states.params['policy'])).mean(axis=1) - rates.mean()
  ratios = [np.sort(x['vas'] / x['uniform']) for x in (mixed, norm, gained)]
  for name, ratio in zip(('mixed', 'norm', 'gained'), ratios, strict=True):
    assert ratio[0] > 1.1, f'{name}: {ratio}'


@pytest.mark.slow
def test_difficulty_is_predicted_without_rollouts():
  """MoPPS, https://arxiv.org/abs/2507.04632: the posterior keeps up with a policy that learns.

  The worst of ten seeds has a rank correlation of 0.80, the median one of 0.84, between predicted and true
  success rates of the problems that were drawn in the last fifth of training. More of its groups have a
  difference than of uniform draws in every seed, without a rollout that is not trained on.
  """
  rates = np.random.default_rng(1).uniform(0.02, 0.9, 100)
  choice = dict(
      scores=functools.partial(prompts.thompson, target=0.5, value=0.5, strength=2.0), draw=prompts.highest
  )
  sizes = dict(num_prompts=16, num_rows=128, keep=0.7)
  rollout = bandits.rollout(100, **sizes, **choice)
  states, metrics = bandits.train(
      bandits.grpo_on(rollout), bandits.logits_of(rates), steps=150, seeds=SEEDS, learning_rate=0.5
  )
  true = np.asarray(jax.vmap(bandits.rates_of)(states.params['policy']))
  table = states.world['statistics']
  believe = functools.partial(statistics.posterior_mean, value=0.5, strength=2.0)
  believed = np.asarray(jax.vmap(believe)(table))
  recent = np.asarray(table.last_seen) >= 120
  found = [scipy.stats.spearmanr(b[r], t[r])[0] for b, t, r in zip(believed, true, recent, strict=True)]
  _, uniform = bandits.train(
      bandits.grpo_on(bandits.rollout(100, **sizes)), bandits.logits_of(rates), steps=150, seeds=SEEDS,
      learning_rate=0.5,
  )
  assert min(found) > 0.7
  teaching = lambda metrics: 1 - metrics['reward/zero_variance_fraction'].mean(axis=1)
  assert (teaching(metrics) > teaching(uniform)).all()


@pytest.mark.slow
def test_the_hard_problems_fall_only_in_the_second_stage():
  """DRIVE, https://arxiv.org/abs/2511.06307: 8 samples of everything, then 64 of what stays hardest.

  32 of 256 problems are solved once in a hundred samples. In 100 steps of 32 x 8 rows their mean success
  rate stays below 0.012 in all of ten seeds, and below 0.014 in 100 more; 100 steps of 4 x 64 rows, the same
  number, bring it to 0.88 in the median seed and 0.77 in the worst.
  """
  hard = np.arange(256) % 8 == 0
  rates = np.where(hard, 0.01, 0.5)
  focus = dict(scores=functools.partial(prompts.hard_focus, unseen=0.0), draw=prompts.highest)
  first = bandits.rollout(256, num_prompts=32, num_rows=256)
  second = bandits.rollout(256, num_prompts=4, num_rows=256, **focus)
  train = functools.partial(bandits.train, steps=100, seeds=SEEDS, learning_rate=8.0)
  rate = lambda states: np.asarray(jax.vmap(bandits.rates_of)(states.params['policy']))[:, hard].mean(axis=1)
  broad, _ = train(bandits.grpo_on(first), bandits.logits_of(rates))
  longer, _ = train(bandits.grpo_on(first), broad.params['policy'], worlds=broad.world)
  focused, _ = train(bandits.grpo_on(second), broad.params['policy'], worlds=broad.world)
  drawn = np.asarray(focused.world['statistics'].tries - broad.world['statistics'].tries)
  share = drawn[:, hard].sum(axis=1) / drawn.sum(axis=1)
  assert rate(broad).max() < 0.02 and rate(longer).max() < 0.02
  assert rate(focused).min() > 0.6 and share.min() > 0.9


@pytest.mark.slow
def test_what_was_hardest_by_count_is_what_is_drawn():
  """DRIVE's selector: of a table that is known, the problems of lowest pass rate, and all of those."""
  world = curriculum.begin(20)
  rows = jnp.repeat(jnp.arange(20), 10)
  passes = (jnp.arange(200) % 10 < rows // 2).astype(jnp.float32)
  table = statistics.update(world['statistics'], rows, passes, 0, keep=1.0)
  drawn, place, _ = curriculum.deal(
      {}, {**world, 'statistics': table}, jax.random.key(0),
      scores=functools.partial(prompts.hard_focus, unseen=0.0), draw=prompts.highest,
      allocate=allocation.uniform, num_prompts=6, num_rows=12, prior_rate=0.5, prior_strength=2.0,
  )
  assert sorted(drawn.tolist()) == [0, 1, 2, 3, 4, 5]
  np.testing.assert_array_equal(np.bincount(place), 2)

"""Losses of comparisons: against formulas in NumPy, at the reference, and where one is another's limit."""

import functools
from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from rlx.losses import comparisons, preference, ranking
from rlx.names import fill

RNG = np.random.default_rng(0)
CHOSEN, REJECTED = RNG.normal(0, 2, (2, 9)).astype(np.float32)
N = len(CHOSEN)
OTHER = RNG.normal(0, 1, (4, N)).astype(np.float32)
LENGTHS = RNG.integers(1, 9, (2, N))
B, E = 0.7, 0.1  # β, ε
KNOWN = {
    'chosen': CHOSEN, 'rejected': REJECTED, 'shift': np.full(N, (CHOSEN.mean() + REJECTED.mean()) / 2),
    'margin_below': OTHER[0], 'chosen_partner': OTHER[1], 'rejected_partner': OTHER[2],
    'other_margin': OTHER[3], 'win_rate': np.linspace(0, 1, N).astype(np.float32),
    'chosen_before': OTHER[0], 'rejected_before': OTHER[1],
    'reward_margin': np.abs(OTHER[1]), 'chosen_logprobs': -np.abs(OTHER[2]), 'chosen_lengths': LENGTHS[0],
    'rejected_logprobs': -np.abs(OTHER[3]), 'chosen_is_reference': np.arange(N) % 2,
}
KNOWN = {name: jnp.asarray(x, jnp.float32) for name, x in KNOWN.items()}


def sigma(x):
  return 1 / (1 + np.exp(-x))


def ls(x):
  return np.log(sigma(x))


def odds(log_p):
  return np.log(np.exp(log_p) / (1 - np.exp(log_p)))


C, R, H = CHOSEN.astype(float), REJECTED.astype(float), CHOSEN.astype(float) - REJECTED
G = sigma(B * H / 0.05)
LAST = np.abs(OTHER[3]) - np.abs(OTHER[2])  # margin of log-probs
FORMULAS = {  # loss, its formula, its value where chosen = rejected = 0
    'sigmoid': (partial(preference.sigmoid, beta=B), -ls(B * H), np.log(2)),
    'cdpo': (partial(preference.sigmoid, beta=B, smoothing=E), -(1 - E) * ls(B * H) - E * ls(-B * H),
             np.log(2)),
    'dynamic': (partial(preference.dynamic, beta=B, share=0.4, rate=2.0),
                -ls(B * (1 + 0.4 * (1 - np.exp(-2 * np.abs(OTHER[1])))) * H), np.log(2)),
    'robust': (partial(preference.robust, beta=B, flips=E),
               (-(1 - E) * ls(B * H) + E * ls(-B * H)) / (1 - 2 * E), np.log(2)),
    'hinge': (partial(preference.hinge, beta=B), np.maximum(0, 1 - B * H), 1),
    'ipo': (partial(preference.ipo, beta=B), (H - 1 / (2 * B)) ** 2, 1 / (4 * B**2)),
    'exo': (partial(preference.exo, beta=B, smoothing=E),
            sigma(B * H) * np.log(sigma(B * H) / (1 - E)) + sigma(-B * H) * np.log(sigma(-B * H) / E),
            -np.log(2) - np.log(E * (1 - E)) / 2),
    'nca': (partial(preference.nca, beta=B), -ls(B * C) - ls(-B * C) / 2 - ls(-B * R) / 2, 2 * np.log(2)),
    'bco': (partial(preference.bco, beta=B),
            -ls(B * C - B * (C + R).mean() / 2) - ls(-(B * R - B * (C + R).mean() / 2)), 2 * np.log(2)),
    'sppo_hard': (partial(preference.sppo_hard, beta=B), (C - 0.5 / B) ** 2 + (R + 0.5 / B) ** 2,
                  1 / (2 * B**2)),
    'sppo': (partial(preference.sppo, beta=B),
             (C - (np.linspace(0, 1, N) - 0.5) / B) ** 2 + (R + (np.linspace(0, 1, N) - 0.5) / B) ** 2, None),
    'aot': (partial(preference.aot, beta=B), -ls(B * (H - OTHER[0])), np.log(2)),
    'apo_zero': (partial(preference.apo_zero, beta=B), 1 - sigma(B * C) + sigma(B * R), 1),
    'apo_down': (partial(preference.apo_down, beta=B), sigma(B * C) + 1 - sigma(B * H), 1),
    'discopop': (partial(preference.discopop, beta=B, tau=0.05),
                 -(1 - G) * ls(B * H) + G * np.exp(-B * H), (np.log(2) + 1) / 2),
    'modpo': (partial(preference.modpo, beta=B, weight=0.4), -ls((B * H - 0.6 * OTHER[3]) / 0.4), np.log(2)),
    'inpo': (partial(preference.inpo, eta=0.5, tau=0.2),
             (0.4 * H + 0.6 * (LAST - OTHER[0] + OTHER[1]) - 1 / (2 * 0.5)) ** 2, 1.0),
    'optimism': (preference.optimism, np.where(np.arange(N) % 2, -np.abs(OTHER[2]), -np.abs(OTHER[3])), 0),
    'nll': (preference.nll, np.abs(OTHER[2]) / LENGTHS[0], 0),
    'simpo': (partial(preference.simpo, beta=B, margin=0.3), -ls(B * H - 0.3), None),
    'slic': (partial(preference.slic, delta=0.8), np.maximum(0, 0.8 - H), 0.8),
}


def value(loss, **changes):
  known = {**KNOWN, **changes}
  return fill(loss, {**known, 'known': known})


@pytest.mark.parametrize('name', FORMULAS)
def test_losses_are_their_formulas_and_begin_where_the_table_says(name):
  loss, expected, at_reference = FORMULAS[name]
  np.testing.assert_allclose(value(loss), expected, rtol=2e-5, atol=1e-6)
  if at_reference is not None:
    zeros = {key: jnp.zeros(2) for key in KNOWN}
    np.testing.assert_allclose(value(loss, **zeros, ), at_reference, rtol=1e-5)


OF_LOGPROBS = ('nll', 'optimism')


@pytest.mark.parametrize('name', FORMULAS)
def test_gradients_are_differences(name):
  loss = FORMULAS[name][0]
  if name in OF_LOGPROBS:
    total = lambda x: value(loss, chosen_logprobs=x['chosen'], rejected_logprobs=x['rejected']).sum()
  else:
    total = lambda x: value(loss, **x).sum()
  x = {'chosen': KNOWN['chosen'], 'rejected': KNOWN['rejected']}
  slopes = jax.grad(total)(x)
  step = 1e-2
  for side in x:
    up, down = ({**x, side: x[side] + change} for change in (step, -step))
    ending = '_logprobs' if name in OF_LOGPROBS else ''
    each = lambda at, ending=ending: np.asarray(value(loss, **{key + ending: x for key, x in at.items()}))
    found = (each(up) - each(down)) / (2 * step)
    near = np.abs(slopes[side] - found) < 2e-2 * (1 + np.abs(found))
    kinks = name in ('hinge', 'slic')  # whose slope is of either side there
    assert near.all() or (kinks and near.sum() >= N - 1), (side, slopes[side], found)


def test_aot_unpaired_is_the_sorted_form_in_value_and_gradient():
  def by_sorting(chosen, rejected):
    return preference.sigmoid(jnp.sort(chosen), jnp.sort(rejected), beta=B).mean()

  found = comparisons.survey({'chosen': CHOSEN, 'rejected': REJECTED}, jnp.zeros(N), {'chosen_partner'})
  partners = {name.removeprefix('pair_'): x[0::2] for name, x in found.items()}
  by_partners = lambda c, r: preference.aot_unpaired(c, r, **partners, beta=B).mean()
  for a, b in zip(
      jax.value_and_grad(by_sorting, (0, 1))(CHOSEN, REJECTED),
      jax.value_and_grad(by_partners, (0, 1))(CHOSEN, REJECTED), strict=True,
  ):
    np.testing.assert_allclose(a, b, rtol=1e-5)


def test_aot_is_the_sorted_form_in_value_and_gradient():
  """Margins of the policy's log-probs, sorted, against those of the reference's."""
  reference = jnp.asarray(OTHER[0])

  def by_sorting(margins):
    return preference.sigmoid(jnp.sort(margins), jnp.sort(reference), beta=B).mean()

  found = comparisons.survey({'chosen': CHOSEN, 'rejected': REJECTED}, reference, {'margin_below'})
  below = found['pair_margin_below'][0::2]
  by_places = lambda h: preference.aot(h, jnp.zeros(N), below, beta=B).mean()
  h = CHOSEN - REJECTED
  for a, b in zip(
      jax.value_and_grad(by_sorting)(h + reference), jax.value_and_grad(by_places)(h), strict=True
  ):
    np.testing.assert_allclose(a, b, rtol=1e-5)


def test_limits_of_one_loss_are_another():
  close = partial(np.testing.assert_allclose, rtol=1e-4, atol=1e-5)
  dpo = value(partial(preference.sigmoid, beta=B))
  close(value(partial(preference.robust, beta=B, flips=0.0)), dpo)
  close(value(partial(preference.dynamic, beta=B, share=0.0, rate=1.0)), dpo)
  close(value(partial(preference.modpo, beta=B, weight=1.0)), dpo)
  close(value(partial(preference.aot, beta=B), margin_below=jnp.zeros(N)), dpo)
  close(value(partial(preference.simpo, beta=B, margin=0.0)), dpo)
  hard = value(partial(preference.sppo_hard, beta=B))
  close(value(partial(preference.sppo, beta=B), win_rate=jnp.ones(N)), hard)
  close(value(partial(preference.inpo, eta=B, tau=B)), value(partial(preference.ipo, beta=B)))
  close(value(partial(preference.slic, delta=1 / B)) * B, value(partial(preference.hinge, beta=B)))
  flipped = {'chosen': KNOWN['rejected'], 'rejected': KNOWN['chosen']}
  robust = partial(preference.robust, beta=B, flips=E)
  close((1 - E) * value(robust) + E * value(robust, **flipped), dpo)  # unbiased
  sigmoid = partial(preference.sigmoid, beta=B)
  total = partial(preference.plus, first=sigmoid, second=preference.nll, weight=0.5)
  close(value(total), dpo + 0.5 * value(preference.nll))


def test_kto_without_a_shift_is_half_of_apo_zero_on_pairs():
  zero = jnp.zeros(N)
  of = lambda h, good: ranking.kto(h, jnp.full(N, good), zero, beta=B, desirable=1.0, undesirable=1.0)
  pairs = (of(KNOWN['chosen'], True) + of(KNOWN['rejected'], False)) / 2  # the mean over rows
  np.testing.assert_allclose(pairs, value(partial(preference.apo_zero, beta=B)) / 2, rtol=1e-5)


def test_discopop_goes_the_wrong_way_at_first():
  """As the published formula does: its slope at the reference, derived by hand."""
  slope = jax.grad(lambda h: preference.discopop(h, jnp.zeros(1), beta=1.0, tau=0.05)[0])(jnp.zeros(1))
  np.testing.assert_allclose(slope, 1 / (4 * 0.05) * (1 - np.log(2)) - 0.5 * 0.5 - 0.5 * 1, rtol=1e-4)
  assert slope[0] > 0


def test_odds_of_orpo_by_hand():
  log_p = -np.abs(np.stack([CHOSEN, REJECTED])) - 0.1
  found = preference.odds_ratio(jnp.asarray(log_p[0]), jnp.asarray(log_p[1]))
  chosen, rejected = odds(log_p.astype(float))
  np.testing.assert_allclose(found, -ls(chosen - rejected), rtol=1e-4)
  slope = jax.grad(lambda x: preference.odds_ratio(x, x - 1).sum())(jnp.zeros(1))
  assert jnp.isfinite(slope).all(), 'also of an answer that is certain'


def test_extreme_margins_stay_finite():
  far = jnp.array([-1e4, -100.0, 100.0, 1e4])
  for name, (loss, *_) in FORMULAS.items():
    if name in ('discopop', *OF_LOGPROBS):  # which is exponential, by its authors' choice; no margin
      continue
    zeros = {key: jnp.zeros(4) for key in KNOWN}
    slope = jax.grad(lambda x, loss=loss, zeros=zeros: value(loss, **{**zeros, 'chosen': x}).sum())(far)
    assert jnp.isfinite(slope).all(), name


@pytest.mark.parametrize(('loss', 'words'), [
    (partial(preference.sigmoid, beta=0.0), 'beta=0.0: above 0'),
    (partial(preference.sigmoid, beta=1.0, smoothing=0.5), '0.5 of the labels wrong: 0 up to 0.5'),
    (partial(preference.exo, beta=1.0, smoothing=0.0), 'smoothing=0.0: above 0'),
    (partial(preference.modpo, beta=1.0, weight=2.0), 'weight=2.0: from 0 to 1'),
    (partial(preference.inpo, eta=0.1, tau=0.2), 'tau=0.2: from 0 to 0.1'),
])
def test_numbers_that_make_no_sense_are_refused(loss, words):
  with pytest.raises(ValueError, match=words):
    value(loss)


# --- more than two answers ----------------------------------------------------------------------------------

SCORES = RNG.normal(0, 1, (5, 4)).astype(np.float32)


def test_plackett_luce_by_hand_and_bradley_terry_of_two():
  expected = [
      -sum(B * s[k] - np.log(np.exp(B * s[k:]).sum()) for k in range(3)) for s in SCORES.astype(float)
  ]
  np.testing.assert_allclose(ranking.plackett_luce(SCORES, beta=B), expected, rtol=1e-5)
  two = ranking.plackett_luce(SCORES[:, :2], beta=B)
  np.testing.assert_allclose(two, preference.sigmoid(SCORES[:, 0], SCORES[:, 1], beta=B), rtol=1e-5)
  last = jax.grad(lambda s: ranking.plackett_luce(s, beta=B).sum())(jnp.asarray(SCORES))
  np.testing.assert_allclose(last.sum(axis=1), 0, atol=1e-6)


def test_rrhf_by_hand_and_slic_of_two():
  expected = [sum(max(0, s[j] - s[i]) for i in range(4) for j in range(i + 1, 4)) for s in SCORES]
  np.testing.assert_allclose(ranking.rrhf(SCORES), expected, rtol=1e-5)


def test_labels_of_kto_by_hand():
  ratios, kl = jnp.asarray(CHOSEN), jnp.full(N, 0.3)
  preferred = jnp.arange(N) % 3 == 0
  found = ranking.kto(ratios, preferred, kl, beta=B, desirable=1.5, undesirable=0.5)
  z = B * (CHOSEN.astype(float) - 0.3)
  expected = np.where(np.arange(N) % 3 == 0, 1.5 * (1 - sigma(z)), 0.5 * (1 - sigma(-z)))
  np.testing.assert_allclose(found, expected, rtol=1e-5)
  even = functools.partial(ranking.kto, beta=B, desirable=1.0, undesirable=1.0)
  np.testing.assert_allclose(even(jnp.zeros(2), jnp.array([True, False]), jnp.zeros(2)), 0.5)

"""Values and gradients of the policy-gradient losses by hand."""

import functools

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from rlx import reductions
from rlx.losses import covariance, policy, ratios

CLIP = {'clip_low': 0.2, 'clip_high': 0.3}
surrogate = functools.partial(policy.clipped_surrogate, **CLIP)


def gradient(loss, *args, argnum=0):
  return jax.grad(lambda *a: loss(*a).sum(), argnum)(*args)


@pytest.mark.parametrize(
    ('rho', 'advantage', 'value', 'slope'),
    [
        (1.0, 2.0, -2.0, -2.0),
        (1.25, 1.0, -1.25, -1.25),  # inside: the upper bound is 1.3, not 1.2
        (1.5, 1.0, -1.3, 0.0),  # good and already likelier: held
        (1.5, -1.0, 1.5, 1.5),  # bad and likelier: pushed back
        (0.5, 1.0, -0.5, -0.5),  # good and less likely: pulled
        (0.5, -1.0, 0.8, 0.0),  # bad and already less likely: held at the lower bound
        (0.5, -3.0, 2.4, 0.0),
        (0.7, 0.0, 0.0, 0.0),
    ],
)
def test_clipped_surrogate_by_hand(rho, advantage, value, slope):
  """slope: d(-ρ A) / d log π = -ρ A where it is not clipped."""
  args = jnp.log(jnp.array([rho])) - 1.5, jnp.array([-1.5]), jnp.array([advantage])
  np.testing.assert_allclose(surrogate(*args), [value], rtol=1e-6)
  np.testing.assert_allclose(gradient(surrogate, *args), [slope], rtol=1e-6)


def test_reinforce_by_hand():
  logprobs, advantages = jnp.array([[-1.0, -2.0]]), jnp.array([[0.5, -3.0]])
  np.testing.assert_allclose(policy.reinforce(logprobs, advantages), [[0.5, -6.0]])
  np.testing.assert_allclose(gradient(policy.reinforce, logprobs, advantages), -advantages)


def test_at_ratio_one_the_surrogate_is_reinforce():
  logprobs, advantages = -jnp.arange(1.0, 7.0), jnp.array([-2.0, -0.5, 0.0, 0.5, 2.0, 1e4])
  np.testing.assert_allclose(surrogate(logprobs, logprobs, advantages), -advantages)
  np.testing.assert_allclose(
      gradient(surrogate, logprobs, logprobs, advantages), gradient(policy.reinforce, logprobs, advantages)
  )


def test_wide_bounds_are_the_importance_weighted_policy_gradient():
  logprobs, old, advantages = jnp.array([-1.0, -3.0]), jnp.array([-2.0, -1.0]), jnp.array([1.0, -2.0])
  loss = functools.partial(policy.clipped_surrogate, clip_low=1.0, clip_high=1e3)
  np.testing.assert_allclose(loss(logprobs, old, advantages), -np.exp([1.0, -2.0]) * advantages, rtol=1e-6)


@pytest.mark.parametrize('log_ratio', [90.0, -90.0, 1e4, -1e4])
@pytest.mark.parametrize('advantage', [1.0, -1.0, 0.0])
def test_extreme_ratios_are_finite(log_ratio, advantage):
  logprobs, old, advantages = jnp.array([log_ratio - 1]), jnp.array([-1.0]), jnp.array([advantage])
  for loss in (surrogate, lambda logprobs, old, _: ratios.ratio(logprobs, old)):
    assert np.isfinite(loss(logprobs, old, advantages)).all()
    assert np.isfinite(gradient(loss, logprobs, old, advantages)).all()


def test_ratio_is_exact_inside_its_bounds():
  log_ratios = jnp.array([-19.0, -1.0, 0.0, 1e-3, 19.0])
  np.testing.assert_allclose(ratios.ratio(log_ratios - 2, jnp.full(5, -2.0)), np.exp(log_ratios), rtol=1e-5)


@pytest.mark.parametrize('argnum', [1, 2], ids=['old_logprobs', 'advantages'])
def test_constants_have_no_gradient(argnum):
  args = jnp.array([-1.0, -2.0]), jnp.array([-1.1, -1.9]), jnp.array([1.0, -1.0])
  assert (gradient(surrogate, *args) != 0).all()
  np.testing.assert_array_equal(gradient(surrogate, *args, argnum=argnum), 0)


def test_reinforce_takes_advantages_as_constants():
  args = jnp.array([-1.0, -2.0]), jnp.array([1.0, -1.0])
  np.testing.assert_array_equal(gradient(policy.reinforce, *args, argnum=1), 0)


def test_is_clipped_says_where_the_gradient_is_gone():
  log_ratios, signs = jnp.meshgrid(jnp.linspace(-0.6, 0.6, 41), jnp.array([-1.0, 1.0]))
  args = log_ratios - 1, jnp.full(log_ratios.shape, -1.0), signs
  low, high = policy.is_clipped(*args, **CLIP)
  np.testing.assert_array_equal(low + high, gradient(surrogate, *args) == 0)
  assert low.sum() > 0 and high.sum() > 0
  np.testing.assert_array_equal(low * (signs > 0), 0)
  np.testing.assert_array_equal(high * (signs < 0), 0)


def test_half_precision_log_probs_are_subtracted_in_float32():
  half = lambda *x: jnp.array(x, jnp.bfloat16)
  args = half(-1.0, -2.0), half(-1.5, -2.5), half(1.0, -1.0)
  exact = tuple(x.astype(jnp.float32) for x in args)
  for loss, inputs in ((ratios.ratio, slice(2)), (surrogate, slice(3)), (policy.reinforce, slice(0, 3, 2))):
    result = loss(*args[inputs])
    assert result.dtype == jnp.float32
    np.testing.assert_array_equal(result, loss(*exact[inputs]))


def test_shapes_must_agree():
  with pytest.raises(AssertionError):
    surrogate(jnp.ones((2, 3)), jnp.ones((2, 3)), jnp.ones((2, 1)))
  with pytest.raises(AssertionError):
    ratios.ratio(jnp.ones((2, 3)), jnp.ones((2, 1)))


# Three rows of four tokens: one with a hole, one full, one without a counted token. `NOISE` is added to what
# stands under the mask, which must not matter.
T, F = True, False
MASK = np.array([[T, F, T, T], [T, T, T, T], [F, F, F, F]])
LOGPROBS = np.float32([[-1.0, -9.0, -0.2, -2.0], [-0.5, -1.5, -0.1, -3.0], [-4.0, -1.0, -2.0, -0.3]])
OLD = np.float32([[-1.3, -2.0, -0.1, -1.2], [-0.9, -1.4, -0.3, -2.0], [-1.0, -2.0, -2.5, -0.4]])
ADVANTAGES = np.float32([[1.5, 1.5, 1.5, 1.5], [-0.7, -0.7, -0.7, -0.7], [2.0, 2.0, 2.0, 2.0]])
TURNS = np.int32([[0, 0, 1, 1], [0, 1, 1, 1], [-1, -1, 0, 0]])
NOISE = np.where(MASK, 0, np.float32(3))

LEVELS = {
    'sequence_product': ratios.sequence_product,
    'sequence_ratio': ratios.sequence_ratio,
    'sequence_token_ratio': ratios.sequence_token_ratio,
    'turn_ratio': functools.partial(ratios.turn_ratio, turns=TURNS),
}
clipped = functools.partial(policy.clipped, **CLIP)
WIDE = functools.partial(policy.clipped, clip_low=1.0, clip_high=1e9)
dual = functools.partial(policy.dual_clip, **CLIP, ratio_max=3.0)
sapo = functools.partial(policy.sapo, temperature_positive=1.0, temperature_negative=1.05)
gmpo = functools.partial(policy.gmpo, log_clip_low=0.2, log_clip_high=0.4)
cispo = functools.partial(policy.cispo, **CLIP)
vespo = functools.partial(
    policy.vespo, power_positive=2.0, rate_positive=3.0, power_negative=3.0, rate_negative=2.0
)
dppo = functools.partial(policy.dppo, learns=np.ones_like(MASK), ratio_max=20.0)
dro = functools.partial(policy.dro, kl_coef=0.5)
calibrl = functools.partial(policy.calibrl, correct=ADVANTAGES > 0, slope=0.5)

# Every loss as a function of (logprobs, old_logprobs, advantages), with the slope d loss / d log π of one
# token, as the paper has it, from the numbers ρ and A.
gate = lambda rho, tau: 1 / (1 + np.exp(-tau * (rho - 1)))
token_ratio = lambda new, old: ratios.ratio(new, jax.lax.stop_gradient(old))
LOSSES = {
    'clipped': (
        lambda new, old, a: clipped(token_ratio(new, old), a),
        lambda rho, a: -rho * a * (not (rho > 1.3 and a > 0 or rho < 0.8 and a < 0)),
    ),
    'dual_clip': (
        lambda new, old, a: dual(token_ratio(new, old), a),
        lambda rho, a: -rho * a * (not (rho > 1.3 and a > 0 or (rho < 0.8 or rho > 3) and a < 0)),
    ),
    'sapo': (
        lambda new, old, a: sapo(token_ratio(new, old), a),
        lambda rho, a: -4 * rho * a * (g := gate(rho, 1.0 if a > 0 else 1.05)) * (1 - g),
    ),
    'cispo': (
        lambda new, old, a: cispo(token_ratio(new, old), new, a),
        lambda rho, a: -np.clip(rho, 0.8, 1.3) * a,
    ),
    'vespo': (
        lambda new, old, a: vespo(token_ratio(new, old), new, a),
        lambda rho, a: -a * (np.exp(3 - 3 * rho) * rho**2 if a >= 0 else np.exp(2 - 2 * rho) * rho**3),
    ),
    'dppo': (
        lambda new, old, a: dppo(token_ratio(new, old), new, a),
        lambda rho, a: -min(rho, 20) * a,
    ),
    'dro': (dro, lambda rho, a: -a + 0.5 * np.log(rho)),
    'calibrl': (
        calibrl,
        lambda rho, a: abs(a) * (-1 if a > 0 else 1) * (1 if (a > 0) == (rho < 1) else 0.5),
    ),
    'kl_cov': (
        functools.partial(covariance.kl_cov, selected=np.ones_like(MASK), kl_coef=0.3),
        lambda rho, a: -rho * a + 0.3 * np.sign(np.log(rho)),
    ),
}
EVERY_LOSS = pytest.mark.parametrize('name', LOSSES)
EVERY_LEVEL = pytest.mark.parametrize('name', LEVELS)


def value_and_gradients(loss, *args):
  """Of the sum, for each argument."""
  return jax.value_and_grad(lambda *a: loss(*a).sum(), argnums=tuple(range(len(args))))(*args)


@jax.jit
def all_losses(new, old, advantages):
  """Of every loss its value and its gradients, from one program: compiling is what these tests cost."""
  return {name: value_and_gradients(loss, new, old, advantages) for name, (loss, _) in LOSSES.items()}


@EVERY_LOSS
def test_slopes_are_those_of_the_paper_and_constants_have_none(name):
  new = OLD + np.float32([[0.1, 0.5, -0.4, 2.0], [0.1, 0.5, -0.4, 2.0], [-1.0, 0.2, -0.1, 1.2]])
  _, (mine, old, advantages) = all_losses(new, OLD, ADVANTAGES)[name]
  rho, a = np.exp(np.float64(new - OLD)), np.float64(ADVANTAGES)
  slope = LOSSES[name][1]
  expected = [[slope(r, x) for r, x in zip(*row, strict=True)] for row in zip(rho, a, strict=True)]
  np.testing.assert_allclose(mine, expected, rtol=2e-5, atol=1e-5)
  np.testing.assert_array_equal(old, 0)
  np.testing.assert_array_equal(advantages, 0)


@pytest.mark.parametrize('name', [name for name in LOSSES if name not in ('calibrl', 'kl_cov')])
def test_at_ratio_one_every_surrogate_is_reinforce(name):
  """But for those with a penalty, whose gradient there is a sign."""
  _, (mine, _, _) = all_losses(OLD, OLD, ADVANTAGES)[name]
  np.testing.assert_allclose(mine, -ADVANTAGES, rtol=1e-6)


@EVERY_LOSS
@pytest.mark.parametrize('dtype', [jnp.float32, jnp.bfloat16])
def test_losses_of_extreme_log_ratios_are_finite_float32(name, dtype):
  gaps = np.float32([[90, -90, 90, -90]] * 3)
  args = np.minimum(gaps, 0) - 1, np.minimum(-gaps, 0) - 1, ADVANTAGES
  value, gradients = all_losses(*(x.astype(dtype) for x in args))[name]
  assert value.dtype == jnp.float32
  assert np.isfinite(value) and all(np.isfinite(np.float32(x)).all() for x in gradients)


@jax.jit
def all_surrogates(rho, logprobs, a):
  return {
      'clipped': clipped(rho, a),
      'dual_clip': dual(rho, a),
      'dual_clip at infinity': policy.dual_clip(rho, a, **CLIP, ratio_max=float('inf')),
      'cispo': cispo(rho, logprobs, a),
      'cispo of TRL': policy.cispo(rho, logprobs, a, clip_low=1, clip_high=4),
      'sapo': sapo(rho, a),
      'vespo': vespo(rho, logprobs, a),
  }


def test_surrogate_values_by_hand():
  """ρ = 2 and 1/2, A = 1 and -1, log π = -3; φ(2) = e³ 2² e⁻⁶ and e² 2³ e⁻⁴."""
  rho, a = np.float32([2.0, 2.0, 0.5, 0.5, 9.0]), np.float32([1.0, -1.0, 1.0, -1.0, -1.0])
  values = all_surrogates(rho, np.full(5, -3, np.float32), a)
  phi = [4 * np.exp(-3), 8 * np.exp(-2), np.exp(1.5) / 4, np.exp(1) / 8, 9**3 * np.exp(-16)]
  tau = np.where(a > 0, 1.0, 1.05)
  for name, expected in {
      'clipped': [-1.3, 2.0, -0.5, 0.8, 9.0],
      'dual_clip': [-1.3, 2.0, -0.5, 0.8, 3.0],
      'cispo': [3.9, -3.9, 2.4, -2.4, -3.9],
      'cispo of TRL': [6.0, -6.0, 1.5, -1.5, -15.0],  # min(ρ, epsilon_high = 5)
      'sapo': -a * 4 / tau * gate(rho, tau),
      'vespo': 3 * np.array(phi) * a,
  }.items():
    np.testing.assert_allclose(values[name], expected, rtol=1e-5, err_msg=name)


def test_dual_clip_is_ppo_at_infinity_and_the_two_sided_clip():
  """TRL's form: -min(min(ρ, δ) A, clip(ρ) A)."""
  rho, a = np.float32([0.1, 0.9, 1.5, 2.9, 50.0] * 2), np.float32([2.0] * 5 + [-2.0] * 5)
  values = all_surrogates(rho, rho, a)
  np.testing.assert_array_equal(values['dual_clip at infinity'], values['clipped'])
  two_sided = -np.minimum(np.minimum(rho, 3) * a, np.clip(rho, 0.8, 1.3) * a)
  np.testing.assert_allclose(values['dual_clip'], two_sided, rtol=1e-6)
  # At c = 1 + ε the sides meet: a bad token above it costs what one at it costs, and teaches nothing.
  closed = lambda rho: policy.dual_clip(rho, a, **CLIP, ratio_max=1 + CLIP['clip_high'])
  bounds = np.where(a > 0, 0, 0.8)
  np.testing.assert_allclose(closed(rho), -np.clip(rho, bounds, 1.3) * a, rtol=1e-6)
  slopes = jax.grad(lambda rho: closed(rho).sum())(rho)
  assert not slopes[rho > 1.3].any() and slopes[(rho > 0.8) & (rho < 1.3)].all()
  with pytest.raises(ValueError, match=r'ratio_max=1\.19: must be at least 1 \+ clip_high'):
    policy.dual_clip(rho, a, **CLIP, ratio_max=1.19)


def naive_sequence(mean):
  rows = []
  for new, old, mask in zip(LOGPROBS, OLD, MASK, strict=True):
    logs = [n - o for n, o, m in zip(new, old, mask, strict=True) if m]
    total = sum(logs) / (len(logs) if mean else 1) if logs else 0
    rows.append([np.exp(total)] * len(new))
  return np.array(rows)


def naive_turns():
  rows = np.ones(MASK.shape)
  for b in range(3):
    for t in range(4):
      logs = [
          LOGPROBS[b, s] - OLD[b, s] for s in range(4) if MASK[b, s] and TURNS[b, s] == TURNS[b, t]
      ]
      rows[b, t] = np.exp(np.mean(logs)) if logs else 1
  return rows


@jax.jit
def all_levels(new, old):
  """Of every level its ratios, and value and gradients of the surrogate over counted tokens."""
  weigh = lambda level: lambda *x: jnp.where(MASK, WIDE(level(*x, MASK), ADVANTAGES), 0)
  return {
      name: (level(new, old, MASK), *value_and_gradients(weigh(level), new, old))
      for name, level in LEVELS.items()
  }


@pytest.mark.parametrize(
    ('name', 'expected'),
    [
        ('sequence_ratio', naive_sequence(mean=True)),
        ('sequence_product', naive_sequence(mean=False)),
        ('sequence_token_ratio', naive_sequence(mean=True)),
        ('turn_ratio', naive_turns()),
    ],
)
def test_levels_against_loops(name, expected):
  np.testing.assert_allclose(all_levels(LOGPROBS, OLD)[name][0], expected, rtol=1e-5)


@EVERY_LEVEL
def test_what_a_level_does_not_count_changes_neither_value_nor_gradient(name):
  """Nor do old log-probs have a gradient, and a row without a counted token stands still."""
  _, value, (mine, old) = all_levels(LOGPROBS, OLD)[name]
  _, noisy, (also_mine, _) = all_levels(LOGPROBS + NOISE, OLD - 2 * NOISE)[name]
  np.testing.assert_allclose(noisy, value, rtol=1e-6)
  np.testing.assert_allclose(also_mine, mine, rtol=1e-5)
  np.testing.assert_array_equal(np.where(MASK, 0, mine), 0)
  np.testing.assert_array_equal(old, 0)
  assert (np.abs(mine).sum(axis=-1) > 0).tolist() == [True, True, False]


@EVERY_LEVEL
@pytest.mark.parametrize('dtype', [jnp.float32, jnp.bfloat16])
def test_levels_of_extreme_log_ratios_are_finite_float32(name, dtype):
  for new, old in ((OLD + 90, OLD), (OLD, OLD + 90)):
    ratios, value, gradients = all_levels(new.astype(dtype), old.astype(dtype))[name]
    assert ratios.dtype == jnp.float32
    assert np.isfinite(value) and all(np.isfinite(np.float32(x)).all() for x in gradients)


def test_of_one_token_every_level_is_the_token():
  """GSPO at T = 1 is PPO, in value and gradient."""
  new, old, advantages, turns = (x[:, 3:] for x in (LOGPROBS, OLD, ADVANTAGES, TURNS))
  levels = {**LEVELS, 'turn_ratio': functools.partial(ratios.turn_ratio, turns=turns)}
  ones = np.ones((3, 1), bool)

  @jax.jit
  def both(new):
    gspo = lambda level: lambda new: clipped(level(new, old, ones), advantages)
    losses = [gspo(level) for level in levels.values()]
    losses.append(lambda new: surrogate(new, old, advantages))
    return [(loss(new), gradient(loss, new)) for loss in losses]

  *mine, ppo = both(new)
  for value, slope in mine:
    np.testing.assert_allclose(value, ppo[0], rtol=1e-6)
    np.testing.assert_allclose(slope, ppo[1], rtol=1e-6)


def test_one_turn_is_a_sequence_and_a_turn_for_each_token_is_the_token():
  turns = jax.jit(lambda turns: ratios.turn_ratio(LOGPROBS, OLD, MASK, turns))
  whole, alone = turns(np.zeros_like(TURNS)), turns(np.int32([range(4)] * 3))
  np.testing.assert_allclose(whole, naive_sequence(mean=True), rtol=1e-5)
  np.testing.assert_allclose(alone, np.where(MASK, np.exp(LOGPROBS - OLD), 1), rtol=1e-5)


def test_the_gradient_of_gspo_is_shared_and_that_of_gspo_token_adds_up_to_it():
  """s A / |y| at each token; where advantages vary inside a row, GSPO-token's go with them."""
  mean = np.float32([[4 / 3 / 2], [1 / 4], [0]]) * MASK  # sequence_mean, but for a factor
  varied = ADVANTAGES * np.float32([range(4)])

  @jax.jit
  def slopes(new):
    total = lambda level, a: gradient(lambda new: mean * WIDE(level(new, OLD, MASK), a), new)
    shared = total(ratios.sequence_ratio, ADVANTAGES), total(ratios.sequence_token_ratio, ADVANTAGES)
    return shared, total(ratios.sequence_token_ratio, varied)

  shared, token = slopes(LOGPROBS)
  s = naive_sequence(mean=True)
  for slope in shared:
    np.testing.assert_allclose(slope, -mean * ADVANTAGES * s, rtol=1e-5)
  np.testing.assert_allclose(token, -mean * varied * s, rtol=1e-5)


def test_luspo_is_gspo_times_the_length():
  loss = clipped(naive_sequence(mean=True).astype(np.float32), ADVANTAGES)
  trl = np.mean([length * loss[b, 0] for b, length in enumerate([3, 4, 0])])
  np.testing.assert_allclose(reductions.weighted_mean(loss, reductions.sequence_sum(MASK)), trl, rtol=1e-6)


def naive_gmpo(low, high):
  rows = []
  for b in range(3):
    a, logs = float(ADVANTAGES[b, 0]), []
    for t in range(4):
      if MASK[b, t]:
        x = float(LOGPROBS[b, t] - OLD[b, t])
        logs.append(min(x, high) if a > 0 else max(x, -low))
    rows.append([-a * np.exp(np.mean(logs) if logs else 0)] * 4)
  return np.array(rows)


def test_gmpo_against_a_loop_and_its_gradient():
  @jax.jit
  def run(new, old, a):
    total = lambda *x: jnp.where(MASK, gmpo(*x, MASK), 0)
    free = policy.gmpo(new, old, a, MASK, log_clip_low=9.0, log_clip_high=9.0)
    return gmpo(new, old, a, MASK), free, value_and_gradients(total, new, old, a)[1]

  expected = naive_gmpo(0.2, 0.4)
  loss, free, gradients = run(LOGPROBS + NOISE, OLD, ADVANTAGES)
  np.testing.assert_allclose(loss, expected, rtol=1e-5)
  np.testing.assert_allclose(free, -ADVANTAGES * naive_sequence(mean=True), rtol=1e-5)
  # The loss stands at each of |y| tokens, and the mean inside has a 1/|y|.
  learns = MASK & np.where(ADVANTAGES > 0, LOGPROBS - OLD < 0.4, LOGPROBS - OLD > -0.2)
  np.testing.assert_allclose(gradients[0], np.where(learns, expected, 0), rtol=1e-5)
  for constant in gradients[1:]:
    np.testing.assert_array_equal(constant, 0)


def test_covariance_selection():
  x, y = LOGPROBS, np.float32([[0.3, -1.0, 1.2, -0.4], [0.8, -1.7, 0.1, 2.2], [0.0, 1.0, 0.5, -0.5]])
  expected = np.where(MASK, (x - x[MASK].mean()) * (y - y[MASK].mean()), 0)
  covariances = covariance.covariances(LOGPROBS + NOISE, y - NOISE, MASK)
  np.testing.assert_allclose(covariances, expected, rtol=1e-4, atol=1e-6)
  select = lambda mask, fraction: np.array(covariance.top(covariances, mask, fraction=fraction))
  top = select(MASK, 0.45)
  assert top.sum() == 3 and not (top & ~MASK).any()  # 0.45 of 7 tokens, rounded down
  assert expected[top].min() >= expected[MASK & ~top].max()
  assert select(MASK, 1e-4).sum() == 1
  assert select(np.zeros_like(MASK), 0.5).sum() == 0


def test_covariance_band_draws_from_eligible_tokens_alone():
  covariances = np.float32([[2.0, 2.0, 0.5, 3.0], [9.0, 2.0, 4.0, 2.0], [2.0, 2.0, 2.0, 2.0]])
  eligible = np.ones_like(MASK)
  eligible[1, 3] = False
  candidates = MASK & eligible & (covariances > 1) & (covariances < 5)
  band = functools.partial(covariance.band, covariances, eligible, MASK, low=1.0, high=5.0)
  draw = jax.jit(lambda seed, fraction: band(jax.random.key(seed), fraction=fraction))
  np.testing.assert_array_equal(draw(0, 0.9), candidates)  # 6 may be drawn, 4 can be
  drawn = [np.array(draw(seed, 0.3)) for seed in range(12)]
  assert all(x.sum() == 2 and not (x & ~candidates).any() for x in drawn)
  assert len({x.tobytes() for x in drawn}) > 1


@jax.jit
def divergence_masks(new, old, limit):
  ones = jnp.ones_like(new)
  rules = policy.dppo_tv, policy.dppo_kl
  return [[rule(new, old, a, low=limit, high=limit) for a in (ones, -ones)] for rule in rules]


def test_divergence_masks_by_hand():
  """μ = 0.5 and 0.01; a move of 0.15 and of a factor 2."""
  old, new = np.log(np.float32([[0.5, 0.5, 0.01, 0.01], [0.65, 0.35, 0.02, 0.005]]))
  (up, down), _ = divergence_masks(new, old, 0.1)
  assert up.tolist() == [False, True, True, True]
  assert down.tolist() == [True, False, True, True]
  mu, pi = np.exp(np.float64(old)), np.exp(np.float64(new))
  divergence = mu * np.log(mu / pi) + (1 - mu) * np.log((1 - mu) / (1 - pi))
  for limit in np.sort(divergence) * 1.01:
    _, (up, down) = divergence_masks(new, old, limit)
    np.testing.assert_array_equal(up, (divergence <= limit) | (pi <= mu))
    np.testing.assert_array_equal(down, (divergence <= limit) | (pi >= mu))


def test_divergence_masks_have_their_own_bound_for_each_direction():
  old, new = np.log(np.float32([[0.5, 0.5], [0.6, 0.4]]))
  for rule in (policy.dppo_tv, policy.dppo_kl):
    for a, bounds in ((1, {'low': 0.0, 'high': 0.5}), (-1, {'low': 0.5, 'high': 0.0})):
      assert rule(new, old, np.full(2, a, np.float32), **bounds).all()


def test_divergence_masks_of_certain_tokens_are_decided():
  """π = 1 and log-ratios of 90: no infinity stands behind a comparison."""
  new, old = np.float32([0.0, -90.0, 0.0, -1.0]), np.float32([-90.0, 0.0, 0.0, -1.0])
  tv, kl = divergence_masks(new, old, 0.5)
  assert tv[0].tolist() == [False, True, True, True]
  assert tv[1].tolist() == kl[1].tolist() == [True, False, True, True]
  assert kl[0].tolist()[1:] == [True, True, True]


def test_dppo_learns_only_where_it_may():
  learns = (np.arange(12).reshape(3, 4) % 2 == 0) & (OLD < -0.1)
  loss = lambda new: policy.dppo(ratios.ratio(new, OLD), new, ADVANTAGES, learns, ratio_max=20.0)
  expected = np.where(learns, -np.exp(LOGPROBS - OLD) * ADVANTAGES, 0)
  np.testing.assert_allclose(jax.jit(lambda new: gradient(loss, new))(LOGPROBS), expected, rtol=1e-5)


@jax.jit
def three_policies(new, proximal, sampler, a):
  decoupled = lambda *x: policy.decoupled(*x, a, **CLIP)
  remix = lambda *x: policy.remix(*x, a, clip=0.2)
  args = new, proximal, sampler
  return [(loss(*args), value_and_gradients(loss, *args)[1]) for loss in (decoupled, remix)]


def test_decoupled_and_remix_are_ppo_where_the_sampler_is_the_proximal_policy():
  (decoupled, _), (remix, _) = three_policies(LOGPROBS, OLD, OLD, ADVANTAGES)
  rho = np.exp(LOGPROBS - OLD)
  ppo = lambda high: -np.minimum(rho * ADVANTAGES, np.clip(rho, 0.8, 1 + high) * ADVANTAGES)
  np.testing.assert_allclose(decoupled, ppo(0.3), rtol=1e-5)
  np.testing.assert_allclose(remix, ppo(0.2), rtol=1e-5)


def test_decoupled_and_remix_by_hand():
  """π_prox / π_behav = 2; π / π_prox = 1.4, 1.25, 1.05: r = 2.8, 2.5, 2.1; bands 2 (1 ± 0.3) and 2 ± 0.2."""
  sampler = np.full(3, -2, np.float32)
  proximal = sampler + np.log(np.float32(2))
  new = proximal + np.log(np.float32([1.4, 1.25, 1.05]))
  (decoupled, slopes), (remix, more) = three_policies(new, proximal, sampler, np.ones(3, np.float32))
  np.testing.assert_allclose(decoupled, [-2.6, -2.5, -2.1], rtol=1e-6)
  np.testing.assert_allclose(slopes[0], [0, -2.5, -2.1], rtol=1e-6)
  np.testing.assert_allclose(remix, [-2.2, -2.2, -2.1], rtol=1e-6)
  np.testing.assert_allclose(more[0], [0, 0, -2.1], rtol=1e-5)
  for constant in (*slopes[1:], *more[1:]):
    np.testing.assert_array_equal(constant, 0)


def test_luffy_shapes_demonstrations_and_leaves_the_rest():
  rows = np.array([[True], [False], [False]]) & np.ones_like(MASK)
  loss = lambda *x: policy.luffy(*x, rows, gamma=0.1, **CLIP)
  run = jax.jit(lambda *x: (loss(*x), surrogate(*x), value_and_gradients(loss, *x)[1]))
  both, ppo, gradients = run(LOGPROBS, OLD, ADVANTAGES)
  pi = np.exp(np.float64(LOGPROBS))
  np.testing.assert_allclose(both, np.where(rows, -pi / (pi + 0.1) * ADVANTAGES, ppo), rtol=1e-5)
  slope = -ADVANTAGES * pi * 0.1 / (pi + 0.1) ** 2
  np.testing.assert_allclose(gradients[0][0], slope[0], rtol=1e-4)
  for constant in gradients[1:]:
    np.testing.assert_array_equal(constant, 0)


def test_calibrl_pushes_towards_the_expert_from_the_right_side():
  """Right and less sure than the expert: full slope; right and surer: half. Wrong: the other way round."""
  gap, right = np.float32([-2.0, 2.0, -2.0, 2.0]), np.array([True, True, False, False])
  loss = policy.calibrl(gap - 3, np.full(4, -3, np.float32), np.where(right, 0.5, -0.5), right, slope=0.5)
  np.testing.assert_allclose(loss, [1.0, -0.5, -0.5, 1.0], rtol=1e-6)


def test_kl_cov_penalises_selected_tokens_alone():
  loss = lambda selected: covariance.kl_cov(LOGPROBS, OLD, ADVANTAGES, selected, kl_coef=2.0)
  penalty = np.where(MASK, 2 * np.abs(LOGPROBS - OLD), 0)
  expected = -np.exp(LOGPROBS - OLD) * ADVANTAGES + penalty
  np.testing.assert_allclose(loss(MASK), expected, rtol=1e-5, atol=1e-6)

"""The parts of a policy gradient: they meet, papers are choices among them, and these learn."""

import dataclasses
import functools
import types

import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest

from rlx import reductions
from rlx.advantages import groups
from rlx.algorithms import presets
from rlx.algorithms.grpo import grpo
from rlx.algorithms.policy_gradient import policy_gradient
from rlx.algorithms.ppo import ppo
from rlx.algorithms.reinforce import reinforce
from rlx.losses import corrections, policy, ratios, regularizers, weights
from rlx.losses.anchors import kl_in_loss, kl_in_reward, no_kl
from rlx.names import fill, resolve
from rlx.step import make_train_step, repeat
from rlx.types import State, check
from rlx.unscored import leave_out
from tests.cases import cases

CLIP = dict(clip_low=0.2, clip_high=0.2)
COLUMNS, VOCAB, GROUP = 3, 4, 4


def rollout(models, world, key):
  """A policy without a network: one table of logits a place. Two prompts, told by nothing but the group."""
  logits = jnp.broadcast_to(models['policy'], (8 * GROUP, COLUMNS, VOCAB))
  tokens = jax.random.categorical(key, logits)
  ended = jnp.cumsum(tokens == 0, axis=1) - (tokens == 0) > 0
  logprobs = jnp.take_along_axis(jax.nn.log_softmax(logits), tokens[..., None], axis=-1)[..., 0]
  first = lambda x: jnp.pad(x, ((0, 0), (1, 0)))
  mask = first(~ended)
  return {
      'tokens': first(tokens), 'action_mask': mask, 'valid': mask,
      'sampler_logprobs': jnp.where(mask, first(logprobs), 0),
      'groups': jnp.repeat(jnp.arange(8), GROUP), 'prompt_lengths': jnp.ones(8 * GROUP, jnp.int32),
  }, world


def reward(models, batch, key):
  """The share of threes among all columns."""
  threes = (batch['tokens'] == 3) & batch['action_mask']
  right = threes.sum(axis=1)
  in_group = lambda x: jax.ops.segment_sum(x, batch['groups'], num_segments=len(x))[batch['groups']]
  counts = {'successes': in_group(right) / COLUMNS, 'attempts': in_group(jnp.ones(len(right)))}
  counts['success_rates'] = counts['successes'] / counts['attempts']
  shown = {'similarities': right / COLUMNS, 'gaps': 1 - right / COLUMNS}  # the demonstration is all threes
  return {**batch, **counts, **shown, 'rewards': right / COLUMNS}


def score(params, batch):
  logprobs = jnp.broadcast_to(jax.nn.log_softmax(params), (*batch['tokens'][:, 1:].shape, VOCAB))
  taken = jnp.take_along_axis(logprobs, batch['tokens'][:, 1:, None], axis=-1)[..., 0]
  entropy = -jnp.sum(jnp.exp(logprobs) * logprobs, axis=-1)
  first = lambda x: jnp.where(batch['action_mask'], jnp.pad(x, ((0, 0), (1, 0))), 0)
  return first(taken), first(entropy)


def score_energies(params, batch):
  collision = jnp.sum(jnp.square(jax.nn.softmax(params)), axis=-1)
  collision = jnp.broadcast_to(jnp.pad(collision, (1, 0)), batch['tokens'].shape)
  return groups.score_energies(score(params, batch)[0], collision)


POLICY = types.SimpleNamespace(score=score, score_energies=score_energies)  # all that is asked of a speaker


def state_of(optimizer, seed=1):
  params = {'policy': jnp.zeros((COLUMNS, VOCAB))}
  return State(
      step=jnp.int32(0), params=params, slow={'reference': jnp.zeros((COLUMNS, VOCAB))},
      opt_state=optimizer.init(params), world={}, key=jax.random.key(seed),
  )


def annotated(algorithm, models):
  batch, _ = algorithm.rollout(models, {}, jax.random.key(0))
  return algorithm.advantage(models, reward(models, batch, None), jax.random.key(1))


def loss_and_gradient(algorithm, batch, params):
  loss = lambda params: algorithm.loss({'policy': params, 'value': None}, batch, jax.random.key(2))
  (value, metrics), gradient = jax.value_and_grad(loss, has_aux=True)(params)
  return value, gradient, metrics


MODELS = {'policy': jnp.zeros((COLUMNS, VOCAB)), 'reference': jnp.full((COLUMNS, VOCAB), 0.3).at[:, 1].set(0)}
MOVED = 0.3 * jax.random.normal(jax.random.key(3), (COLUMNS, VOCAB))
PARTS = dict(
    baseline=groups.normalised, weight=weights.equal, level=ratios.ratio,
    surrogate=functools.partial(policy.clipped, **CLIP), reduction=reductions.sequence_mean,
    kl_estimator=regularizers.kl_k3, entropy_coef=0.0, correction=corrections.none,
    correction_level=ratios.ratio,
)


def made_of(kl=None, **parts):
  return policy_gradient(rollout, reward, POLICY, kl or no_kl(), **{**PARTS, **parts})


@pytest.mark.parametrize('kl', [
    pytest.param(no_kl(), marks=pytest.mark.slow), kl_in_loss(POLICY, coef=0.1),
    kl_in_reward(POLICY, coef=0.1),
    dataclasses.replace(kl_in_loss(POLICY, coef=0.1), reward_coef=0.2),
], ids=['no KL', 'in the loss', 'in the reward', 'in both'])
def test_its_parts_make_up_grpo(kl):
  """The same advantages, loss, gradient and metrics as the page that is written out, wherever the KL is."""
  parts = made_of(kl, entropy_coef=0.01)
  written = grpo(rollout, reward, POLICY, kl, **CLIP, entropy_coef=0.01)
  ours, theirs = (annotated(x, MODELS) for x in (parts, written))
  check(ours)
  np.testing.assert_allclose(ours['advantages'], theirs['advantages'], atol=1e-6)
  value, gradient, metrics = loss_and_gradient(parts, ours, MOVED)
  expected, expected_gradient, expected_metrics = loss_and_gradient(written, theirs, MOVED)
  np.testing.assert_allclose(value, expected, rtol=1e-6)
  np.testing.assert_allclose(gradient, expected_gradient, atol=1e-7)
  assert np.abs(gradient).max() > 1e-3
  assert metrics.keys() == expected_metrics.keys()
  for name, metric in metrics.items():
    np.testing.assert_allclose(metric, expected_metrics[name], rtol=1e-5, atol=1e-7, err_msg=name)
  assert metrics['policy/clipped_low'] > 0 and metrics['policy/clipped_high'] > 0


def test_dr_grpo_is_grpo_with_another_baseline_and_reduction():
  kl = kl_in_loss(POLICY, coef=0.1)
  written = grpo(
      rollout, reward, POLICY, kl, **CLIP, entropy_coef=0.0, baseline=groups.centred,
      reduction=functools.partial(reductions.constant_length_sum, length=7),
  )
  chosen = presets.dr_grpo(rollout, reward, POLICY, kl, **CLIP, length=7)
  value, gradient, _ = loss_and_gradient(chosen, annotated(chosen, MODELS), MOVED)
  expected, expected_gradient, _ = loss_and_gradient(written, annotated(written, MODELS), MOVED)
  np.testing.assert_allclose(value, expected, rtol=1e-6)
  np.testing.assert_allclose(gradient, expected_gradient, atol=1e-7)
  assert np.abs(gradient).max() > 1e-3


def test_the_kl_in_the_reward_is_that_of_the_whole_row():
  batch = annotated(made_of(kl_in_reward(POLICY, coef=0.5), baseline=lambda rewards: rewards), MODELS)
  apart = np.where(batch['action_mask'], batch['sampler_logprobs'] - batch['reference_logprobs'], 0)
  expected = np.asarray(batch['rewards']) - 0.5 * apart.sum(axis=1)
  np.testing.assert_allclose(batch['advantages'], expected[:, None] * batch['action_mask'], atol=1e-6)
  np.testing.assert_allclose(batch['rewards'], reward(MODELS, batch, None)['rewards'])  # those of the task


CRITIC = types.SimpleNamespace(apply=lambda params, batch: jnp.zeros(batch['tokens'].shape))
WRITTEN = {
    'grpo': functools.partial(grpo, rollout, policy=POLICY, **CLIP, entropy_coef=0.0),
    'reinforce': functools.partial(reinforce, rollout, policy=POLICY, entropy_coef=0.0),
    'ppo': functools.partial(
        ppo, rollout, policy=POLICY, value=CRITIC, **CLIP, entropy_coef=0.0, value_coef=0.5, value_clip=0.2,
        discount=1.0, lambda_=0.95,
    ),
}


@pytest.mark.parametrize('name', WRITTEN)
@pytest.mark.parametrize('kl', [kl_in_loss(POLICY, coef=0.5), kl_in_reward(POLICY, coef=0.5)],
                         ids=['in the loss', 'in the reward'])
def test_the_kl_is_live_wherever_it_is(name, kl):
  """Another reference gives another gradient, and a policy that is far from it is led back."""

  def gradient(kl, reference):
    algorithm, models = WRITTEN[name](reward=reward, kl=kl), {**MODELS, 'value': None, 'reference': reference}
    batch = annotated(algorithm, models)
    check(batch)
    return loss_and_gradient(algorithm, batch, MOVED)[1]

  near, far = MODELS['reference'], MODELS['reference'].at[:, 2].add(2.0)
  led = gradient(kl, near) - gradient(kl, far)
  assert np.abs(led).max() > 1e-3
  assert np.all(led[:, 2] > 0), 'the token that the far reference prefers becomes likelier, down the loss'
  free = gradient(no_kl(), near)
  np.testing.assert_array_equal(free, gradient(no_kl(), far))


def test_row_weights_multiply_advantages():
  plain, weighted = (annotated(made_of(weight=x), MODELS) for x in (weights.equal, weights.informative))
  share = np.mean(np.asarray(groups.is_informative(plain['rewards'], plain['groups'])))
  assert 0 < share <= 1
  np.testing.assert_allclose(weighted['advantages'], plain['advantages'] / share, rtol=1e-6)


def test_a_correction_weighs_tokens_by_the_policy_that_training_starts_from():
  """The sampler drew from uniform logits, the trainer has others: weights are the ratios of the two."""
  models = {**MODELS, 'policy': MOVED}
  sampled, _ = rollout(MODELS, {}, jax.random.key(0))
  algorithm = made_of(correction=functools.partial(corrections.truncated, ratio_max=1.1))
  batch = algorithm.advantage(models, reward(models, sampled, None), jax.random.key(1))
  mask = np.asarray(batch['action_mask'])
  expected = np.minimum(np.exp(np.asarray(score(MOVED, sampled)[0]) - sampled['sampler_logprobs']), 1.1)
  np.testing.assert_allclose(batch['corrections'], np.where(mask, expected, 0), rtol=1e-5)
  assert (expected[mask] == 1.1).any() and (expected[mask] < 1).any()

  _, gradient, metrics = loss_and_gradient(algorithm, batch, MOVED)

  def by_hand(params):
    ratios = jnp.exp(score(params, batch)[0] - batch['old_logprobs'])
    x = policy.clipped(ratios, batch['advantages'], **CLIP) * expected
    return reductions.weighted_mean(x, batch['weights'])

  np.testing.assert_allclose(gradient, jax.grad(by_hand)(MOVED), atol=1e-7)
  # π is π_old here, however far the sampler.
  assert metrics['policy/clipped_low'] == 0 and metrics['policy/clipped_high'] == 0


def test_what_has_no_gradient_is_counted():
  batch = annotated(made_of(), MODELS)
  mask, advantages = np.asarray(batch['action_mask']), np.asarray(batch['advantages'])
  ratios = np.exp(np.asarray(score(3 * MOVED, batch)[0] - batch['sampler_logprobs']))
  _, _, metrics = loss_and_gradient(made_of(), batch, 3 * MOVED)
  sides = {'low': (ratios < 0.8) & (advantages < 0), 'high': (ratios > 1.2) & (advantages > 0)}
  for side, held in sides.items():
    expected = np.mean((held & mask).sum(axis=1) / mask.sum(axis=1))
    assert 0.05 < expected < 0.9
    np.testing.assert_allclose(metrics[f'policy/clipped_{side}'], expected, rtol=1e-5)


def test_a_part_that_asks_for_too_much_is_told():
  with pytest.raises(ValueError, match=r"asks for \['colour'\], which is none of \['action_mask'"):
    annotated(made_of(baseline=lambda rewards, colour: rewards), MODELS)


ALL = {
    'dr_grpo': dict(CLIP, length=COLUMNS),
    'grpo_s': dict(CLIP, deviation_max=0.1),
    'rloo': {},
    'lite_ppo': CLIP,
    'reinforce_plus_plus': CLIP,
    'reinforce_plus_plus_to_go': dict(CLIP, discount=1.0),
    'reinforce_plus_plus_baseline': CLIP,
    'opo': {},
    'optimal_token_baseline': CLIP,
    'gpg': {},
    'maxrl': {},
    'pass_at_k': dict(CLIP, k=2),
    'reinforce_ada': CLIP,
    'gspo': dict(clip_low=3e-2, clip_high=4e-2),
    'gspo_token': dict(clip_low=3e-2, clip_high=4e-2),
    'luspo': dict(clip_low=3e-2, clip_high=4e-2),
    'cispo': dict(clip_low=1.0, clip_high=0.2),
    'gmpo': dict(log_clip_low=0.4, log_clip_high=0.4),
    'sapo': dict(temperature_positive=1.0, temperature_negative=1.05),
    'vespo': dict(power_positive=2.0, rate_positive=3.0, power_negative=3.0, rate_negative=2.0),
    'dual_clip': dict(CLIP, ratio_max=4.0),
    'dro': dict(leash=0.1),
    'dppo_tv': dict(low=0.2, high=0.2, ratio_max=20.0),
    'clip_cov': dict(CLIP, fraction=0.02, low=0.1, high=5.0),
    'kl_cov': dict(fraction=0.02, leash=1.0),
    'truncated_importance': dict(CLIP, ratio_max=2.0),
    'icepop': dict(CLIP, ratio_min=0.5, ratio_max=5.0),
    'deepseek_v32': dict(CLIP, kl_max=0.5),
}


# Baselines, ratios and corrections that have least in common.
UNLIKE = ('dr_grpo', 'opo', 'pass_at_k', 'gspo', 'clip_cov', 'icepop', 'grpo', 'ppo')


def test_every_preset_is_here():
  made = {name for name, x in vars(presets).items() if getattr(x, '__module__', '') == presets.__name__}
  assert {name for name in made if not name.startswith('_')} == set(ALL)


KL = {  # in the reward where the paper has it there
    name: kl_in_reward(POLICY, coef=0.01)
    if name in ('rloo', 'reinforce_plus_plus', 'reinforce_plus_plus_to_go')
    else kl_in_loss(POLICY, coef=0.01)
    for name in ALL
}


def preset(name, reward=reward, **numbers):
  """The choice of a paper, with a KL if it asks for one."""
  parts = dict(rollout=rollout, reward=reward, policy=POLICY, kl=KL[name])
  return fill(functools.partial(getattr(presets, name), **numbers), parts)


def test_presets_have_the_metrics_of_grpo():
  """All of them, and no other: a stop rule does not ask which spelling of the loss it is."""
  metrics = lambda algorithm: loss_and_gradient(algorithm, annotated(algorithm, MODELS), MOVED)[2].keys()
  of_grpo = metrics(grpo(rollout, reward, POLICY, no_kl(), **CLIP, entropy_coef=0.0))
  for name in ('dr_grpo', 'rloo', 'cispo', 'reinforce_plus_plus_baseline'):
    optional = {'kl/reference'} if name in ('dr_grpo', 'reinforce_plus_plus_baseline') else set()
    assert metrics(preset(name, **ALL[name])) == of_grpo | optional, name


def test_rloo_is_reinforce_against_the_others():
  """By hand: the log-prob of the row times what it got more than the other rows of its prompt."""
  rloo = preset('rloo')
  batch = annotated(rloo, MODELS)
  apart = np.where(batch['action_mask'], batch['sampler_logprobs'] - batch['reference_logprobs'], 0)
  rewards = (np.asarray(batch['rewards']) - 0.01 * apart.sum(axis=1)).reshape(-1, GROUP)
  others = (rewards.sum(axis=1, keepdims=True) - rewards) / (GROUP - 1)
  better = (rewards - others).reshape(-1)
  value, gradient, _ = loss_and_gradient(rloo, batch, MOVED)
  by_hand = lambda params: -jnp.mean(better * score(params, batch)[0].sum(axis=1))
  np.testing.assert_allclose(value, by_hand(MOVED), rtol=1e-5)
  np.testing.assert_allclose(gradient, jax.grad(by_hand)(MOVED), atol=1e-6)


def test_reinforce_plus_plus_charges_each_token_what_is_still_to_come():
  """Row by row: the outcome at the last action, minus the penalties from each action on, normalised."""
  algorithm = presets.reinforce_plus_plus_to_go(
      rollout, reward, POLICY, kl_in_reward(POLICY, coef=0.3), **CLIP, discount=0.9
  )
  batch = annotated(algorithm, MODELS)
  mask, expected = np.asarray(batch['action_mask']), np.zeros(batch['action_mask'].shape)
  apart = np.asarray(batch['sampler_logprobs'] - batch['reference_logprobs'], np.float64)
  for row, outcome in enumerate(np.asarray(batch['rewards'], np.float64)):
    to_go, places = outcome, np.flatnonzero(mask[row])
    for place in places[::-1]:
      to_go = to_go * (1 if place == places[-1] else 0.9) - 0.3 * apart[row, place]
      expected[row, place] = to_go
  counted = expected[mask]
  expected[mask] = (counted - counted.mean()) / counted.std(ddof=1)
  np.testing.assert_allclose(batch['advantages'], expected, rtol=1e-4, atol=1e-5)
  assert len(set(np.round(expected[0][mask[0]], 4))) > 1, 'tokens of a row differ'
  with pytest.raises(ValueError, match='kl counts 0.1 in the loss'):
    presets.reinforce_plus_plus_to_go(
        rollout, reward, POLICY, kl_in_loss(POLICY, coef=0.1), **CLIP, discount=1.0
    )


def test_reinforce_and_rloo_differ_by_the_baseline():
  """In one group of all rows, the mean of the others is the batch's, and times n / (n - 1)."""
  together = lambda models, world, key: (
      {**rollout(models, world, key)[0], 'groups': jnp.zeros(8 * GROUP, jnp.int32)}, world
  )
  of = lambda algorithm: loss_and_gradient(algorithm, annotated(algorithm, MODELS), MOVED)
  for kl in (no_kl(), kl_in_reward(POLICY, coef=0.1)):
    value, gradient, _ = of(presets.rloo(together, reward, POLICY, kl))
    expected, expected_gradient, _ = of(reinforce(together, reward, POLICY, kl, entropy_coef=0.0))
    scale = 8 * GROUP / (8 * GROUP - 1)
    np.testing.assert_allclose(value, scale * expected, rtol=1e-5)
    np.testing.assert_allclose(gradient, scale * expected_gradient, atol=1e-6)


UNSCORED = 5  # the last group, and one row of the group before it


def partly_scored(rows):
  """`reward` for the first `rows` rows, which are all there are, or all that could be scored."""

  def score_rows(models, batch, key):
    known = jnp.arange(len(batch['tokens'])) < rows
    batch = {**batch, 'action_mask': batch['action_mask'] & known[:, None]}  # successes are counted of these
    batch = reward(models, batch, key)
    far = jnp.where(batch['rewards'] > 0, 5 + batch['rewards'], 0)
    return {**batch, 'rewards': jnp.where(known, far, jnp.nan)}

  return score_rows


@pytest.mark.parametrize('name', cases([*ALL, 'grpo', 'reinforce', 'ppo'], at_once=UNLIKE))
def test_a_row_that_was_not_scored_changes_nothing(name):
  """Advantages, loss and gradient are those of the batch without it: off policy, with rewards far from 0."""
  sampled, _ = rollout(MODELS, {}, jax.random.key(0))
  sampled = {**sampled, 'action_mask': sampled['action_mask'].at[3].set(False)}  # scored, without a token
  num = len(sampled['tokens']) - UNSCORED
  part = partly_scored(num)
  algorithm = preset(name, part, **ALL[name]) if name in ALL else WRITTEN[name](
      reward=part, kl=kl_in_loss(POLICY, coef=0.1)
  )

  @jax.jit
  def learnt(batch):
    models = {**MODELS, 'policy': 0.1 * MOVED, 'value': None}
    batch = algorithm.advantage(models, leave_out(algorithm.reward(models, batch, None)), jax.random.key(1))
    return batch['advantages'], loss_and_gradient(algorithm, batch, MOVED)[:2]

  advantages, (value, gradient) = learnt(sampled)
  expected, (expected_value, expected_gradient) = learnt(jax.tree.map(lambda x: x[:num], sampled))
  np.testing.assert_allclose(advantages[:num], expected, rtol=1e-4, atol=1e-5)
  assert np.any(expected) and not np.any(advantages[num:])
  np.testing.assert_allclose(value, expected_value, rtol=1e-4, atol=1e-6)
  np.testing.assert_allclose(gradient, expected_gradient, rtol=1e-4, atol=1e-6)
  assert np.any(gradient)


def test_presets_are_found_by_their_names():
  for name in ALL:
    assert resolve(name, 'rlx.algorithms') is getattr(presets, name)


AT_ONCE = {'icepop'}


@pytest.mark.parametrize('name', [
    pytest.param(name, marks=() if name in AT_ONCE else pytest.mark.slow) for name in ALL
])
def test_presets_learn(name):
  """Two minibatches a step, so that ratios are not 1; the share of threes goes from a quarter to nearly 1."""
  algorithm = preset(name, **ALL[name])
  adam = optax.adam(5e-2)
  step = make_train_step(algorithm, adam, epochs=1, minibatches=2, microbatches=1)
  state, metrics = jax.jit(repeat(step, 150))(state_of(adam))
  rewards = np.asarray(metrics['reward/mean'])
  assert np.isfinite(np.asarray(jax.tree.leaves(metrics))).all()
  reached = 0.6 if name == 'pass_at_k' else 0.9  # that one is content with a three in one of two samples
  assert rewards[0] < 0.4 and rewards[-10:].mean() > reached, rewards[[0, -1]]


@pytest.mark.slow
def test_presets_choose_what_they_say():
  """What tells them from GRPO, by the loss and gradient of one batch off policy."""
  batch = annotated(made_of(), MODELS)
  lengths = np.asarray(batch['action_mask'].sum(axis=1))
  assert len(set(lengths)) > 1
  clip = dict(clip_low=0.03, clip_high=0.04)
  gspo, token = preset('gspo', **clip), preset('gspo_token', **clip)
  ours = loss_and_gradient(gspo, annotated(gspo, MODELS), MOVED)
  theirs = loss_and_gradient(token, annotated(token, MODELS), MOVED)
  np.testing.assert_allclose(ours[0], theirs[0], rtol=1e-5)
  np.testing.assert_allclose(ours[1], theirs[1], atol=1e-6)  # one advantage a sequence: the same gradient
  wide = preset('dual_clip', **CLIP, ratio_max=1e6)
  plain = loss_and_gradient(made_of(), batch, 3 * MOVED)
  _, gradient, _ = loss_and_gradient(wide, annotated(wide, MODELS), 3 * MOVED)
  np.testing.assert_allclose(gradient, plain[1], atol=1e-7)
  others = {
      name: np.asarray(loss_and_gradient(x, annotated(x, MODELS), 3 * MOVED)[1])
      for name, x in ((name, preset(name, **numbers)) for name, numbers in ALL.items())
  }
  same = [n for n, g in others.items() if np.allclose(g, plain[1], atol=1e-6)]
  # Nothing is above four times as likely here; off policy by nothing, corrections and sequence masks are 1.
  assert set(same) <= {'dual_clip', 'truncated_importance', 'icepop'}

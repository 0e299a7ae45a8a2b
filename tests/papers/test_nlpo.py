"""NLPO: the mask in sampler and loss, the coefficient that adapts, and what it does to the rewards of PPO."""

import functools

import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest

from rlx.algorithms.nlpo import nlpo
from rlx.algorithms.ppo import ppo
from rlx.algorithms.sft import sft
from rlx.engine import sample as engine
from rlx.engine import stepwise
from rlx.engine.decoding import Decoding
from rlx.engine.speaker import Critic, Scoring, Speaker
from rlx.envs.sorting import sorting
from rlx.losses.anchors import kl_in_reward
from rlx.models import heads
from rlx.models.language import LanguageModel
from rlx.models.transformer import TransformerConfig
from rlx.rewards.overlap import overlap
from rlx.rollout import nucleus, prompts
from rlx.step import make_train_step, repeat
from rlx.types import State, check

SEEDS, LENGTH = 5, 3
TASK = sorting(length=LENGTH, held_out_share=0.1)
MODEL = LanguageModel(TransformerConfig(
    vocab_size=TASK.vocab_size, num_layers=1, width=32, num_heads=2, num_kv_heads=2, head_size=16,
    mlp_size=64, context_length=16, rope_theta=100.0,
))
DECODING = Decoding(
    max_tokens=LENGTH + 1, min_tokens=1, temperature=0.8, top_k=0, top_p=1.0, sampler='gumbel', eos_ids=(1,),
    pad_id=0,
)
SCORING = Scoring(chunk_tokens=512, packing=None)
POLICY = Speaker(model=MODEL, decoding=DECODING, scoring=SCORING)  # and of all others
VALUE = Critic(head=heads.TokenHead(MODEL), scoring=SCORING)
CLIP = dict(clip_low=0.2, clip_high=0.2)
CRITIC = dict(entropy_coef=0.01, value_coef=0.5, value_clip=0.2, discount=1.0, lambda_=0.95)
KL_COEF, ADAPTIVE = 0.1, dict(kl_target=0.3, kl_rate=0.1)
SIZES = dict(batch_size=64, group_size=4)


def learner(*, rollout=None, top_p=0.9, min_kept=1, refresh=5, kl_coef=KL_COEF, **changes):
  rollout = rollout or nucleus.completions(
      TASK, POLICY, POLICY, **SIZES, top_p=top_p, min_kept=min_kept
  )
  return nlpo(
      rollout, overlap(TASK, POLICY, order=2), POLICY, POLICY, VALUE, kl_in_reward(POLICY, coef=kl_coef),
      top_p=top_p, min_kept=min_kept, refresh=refresh, **{**CLIP, **CRITIC, **ADAPTIVE, **changes},
  )


def parent(*, kl_coef):
  return ppo(
      prompts.completions(TASK, POLICY, **SIZES, num_slots=0), overlap(TASK, POLICY, order=2), POLICY, VALUE,
      kl_in_reward(POLICY, coef=kl_coef), **CLIP, **CRITIC,
  )


@functools.cache
def models_and_rows():
  """Three policies with preferences, a critic, and rows of one inside the nucleus of another."""
  policy, past, reference = (
      jax.tree.map(lambda x: 1.5 * x, MODEL.init(jax.random.key(seed))) for seed in range(3)
  )
  critic = heads.init_value(policy)
  critic['value_head'] = jax.random.normal(jax.random.key(3), critic['value_head'].shape) / 8
  models = {'policy': policy, 'past': past, 'reference': reference, 'value': critic}
  rollout = nucleus.completions(TASK, POLICY, POLICY, **SIZES, top_p=0.7, min_kept=1)
  rows, _ = jax.jit(rollout)(models, {}, jax.random.key(4))
  return models, rows


def test_only_the_nucleus_of_the_past_is_left_and_has_a_gradient():
  """The past says 0.5, 0.3, 0.15, 0.05, of which two tokens are 0.7; the policy has 0.1 and 0.3 there."""
  past, logits = (jnp.log(jnp.array(x)) for x in ([0.5, 0.3, 0.15, 0.05], [0.1, 0.3, 0.4, 0.2]))
  said = lambda logits: jax.nn.log_softmax(nucleus.restrict(logits, past, top_p=0.7, min_kept=1))
  np.testing.assert_allclose(jnp.exp(said(logits)), [0.25, 0.75, 0.0, 0.0], rtol=1e-5)
  gradient = jax.grad(lambda logits: said(logits)[0])(logits)
  np.testing.assert_allclose(gradient, [0.75, -0.75, 0.0, 0.0], rtol=1e-5)


def test_some_tokens_are_left_however_likely_the_first_one_is():
  """The past says 0.9, 0.06, 0.03, 0.01; 0.7 is one token, and two are left at least, or three."""
  past, logits = (jnp.log(jnp.array(x)) for x in ([0.9, 0.06, 0.03, 0.01], [0.1, 0.3, 0.4, 0.2]))
  said = lambda kept: jnp.exp(jax.nn.log_softmax(nucleus.restrict(logits, past, top_p=0.7, min_kept=kept)))
  np.testing.assert_allclose(said(1), [1, 0, 0, 0], rtol=1e-5)
  np.testing.assert_allclose(said(2), [0.25, 0.75, 0, 0], rtol=1e-5)
  np.testing.assert_allclose(said(3), [0.125, 0.375, 0.5, 0], rtol=1e-5)
  np.testing.assert_allclose(said(4), jnp.exp(logits), rtol=1e-5)


def test_what_was_sampled_is_kept_whatever_rounding_says():
  logits = jnp.log(jnp.array([[0.6, 0.4]]))
  kept = nucleus.restrict(logits, logits, jnp.array([1]), top_p=0.5, min_kept=1)
  np.testing.assert_allclose(kept, logits)


@jax.jit
def logits_of(params, rows):
  return stepwise.base_logits(params, MODEL, rows, decoding=DECODING)


@pytest.mark.slow
def test_no_row_leaves_the_nucleus():
  models, rows = models_and_rows()
  check(rows)
  own, likely = (np.asarray(jax.nn.softmax(logits_of(models[name], rows))) for name in nucleus.MODELS)
  acts = np.asarray(engine.actions(rows, rows['action_mask'], DECODING.max_tokens))
  said = np.asarray(engine.actions(rows, rows['tokens'], DECODING.max_tokens))
  mass = np.take_along_axis(likely, said[..., None], axis=-1)
  above = np.where(likely > mass + 1e-6, likely, 0).sum(axis=-1)  # of what is likelier than what was said
  assert above[acts].max() < 0.7 and above[acts].max() > 0.5
  assert np.take_along_axis(own, said[..., None], axis=-1)[acts].min() < 0.1  # the past policy decided


@jax.jit
def masked_score(models, rows):
  return nucleus.score(models, POLICY, POLICY, rows, top_p=0.7, min_kept=1)


@pytest.mark.slow
def test_training_computes_the_log_probs_of_the_restricted_sampler():
  models, rows = models_and_rows()
  logprobs, entropy = masked_score(models, rows)
  np.testing.assert_allclose(logprobs, rows['sampler_logprobs'], atol=2e-5)
  plain, wider = POLICY.score(models['policy'], rows)
  assert np.abs(plain - rows['sampler_logprobs']).max() > 0.1
  mask = np.asarray(rows['action_mask'])
  assert np.all(np.asarray(entropy)[mask] >= 0) and entropy[mask].mean() < wider[mask].mean()


@pytest.mark.slow
def test_entropy_and_its_gradient_are_finite_and_those_of_the_nucleus():
  """Against a sum over the tokens that are left, one distribution at a time."""
  models, rows = models_and_rows()
  _, entropy = masked_score(models, rows)
  logits, past = (logits_of(models[name], rows) for name in nucleus.MODELS)
  left = np.asarray(jax.nn.softmax(nucleus.restrict(logits, past, top_p=0.7, min_kept=1)), np.float64)
  by_hand = -np.sum(left * np.log(np.where(left > 0, left, 1)), axis=-1)
  found = engine.actions(rows, entropy, DECODING.max_tokens)
  acts = np.asarray(engine.actions(rows, rows['action_mask'], DECODING.max_tokens))
  np.testing.assert_allclose(np.asarray(found)[acts], by_hand[acts], atol=2e-5)
  total = lambda models: sum(x.sum() for x in masked_score(models, rows))
  gradient = jax.jit(jax.grad(total))({name: models[name] for name in nucleus.MODELS})
  assert all(np.isfinite(x).all() for x in jax.tree.leaves(gradient['policy']))
  assert max(np.abs(x).max() for x in jax.tree.leaves(gradient['policy'])) > 1e-3
  assert all(np.all(x == 0) for x in jax.tree.leaves(gradient['past']))


@pytest.mark.slow
def test_without_a_mask_and_with_a_fixed_coefficient_it_is_ppo():
  """Advantages, returns and the gradient, on the same rows."""
  models, rows = models_and_rows()
  rows = {**rows, 'rewards': jnp.linspace(0, 1, 64), 'kl/coef': jnp.full(64, 0.2)}

  def learnt(algorithm):
    batch = algorithm.advantage(models, rows, None)
    loss = lambda policy: algorithm.loss({**models, 'policy': policy}, batch, None)[0]
    return batch['advantages'], batch['returns'], jax.grad(loss)(models['policy'])

  algorithms = parent(kl_coef=0.2), learner(top_p=1.0, kl_coef=0.2, kl_rate=0.0)
  plain, masked = (jax.jit(functools.partial(learnt, algorithm))() for algorithm in algorithms)
  apart = jax.tree.map(lambda a, b: np.abs(a - b).max(), plain, masked)
  assert max(jax.tree.leaves(apart)) < 1e-5
  assert max(np.abs(x).max() for x in jax.tree.leaves(masked[2])) > 1e-2


@pytest.mark.slow
def test_the_coefficient_is_remembered_and_follows_the_kl():
  """β is a column of the batch, weighs the KL in the rewards, and moves by K times the clipped error."""
  models, drawn = models_and_rows()
  algorithm = learner(rollout=lambda models, world, key: (drawn, world), kl_target=0.3, kl_rate=0.5)
  world = algorithm.rollout.begin(jax.random.key(0))
  np.testing.assert_allclose(world['kl_coef'], KL_COEF)
  rows, world = algorithm.rollout(models, {**world, 'kl_coef': jnp.float32(0.4)}, None)
  check(rows)
  np.testing.assert_allclose(rows['kl/coef'], 0.4)
  rows = {**rows, 'rewards': jnp.zeros(64)}
  advantage = jax.jit(functools.partial(algorithm.advantage, key=None))
  batch = advantage(models, rows)
  mask = np.asarray(rows['action_mask'])
  kl = np.where(mask, np.asarray(rows['sampler_logprobs'] - batch['reference_logprobs'], np.float64), 0)
  np.testing.assert_allclose(batch['kl/reference'].mean(), kl.sum() / mask.sum(), rtol=1e-4)
  raw = advantage(models, {**rows, 'kl/coef': jnp.zeros(64)})
  # Both returns have the critic's part, which a weight of the KL does not change.
  lambda_ = CRITIC['lambda_']
  expected, running = np.zeros(kl.shape), np.zeros(64)
  for t in reversed(range(kl.shape[1])):
    running = np.where(mask[:, t], -0.4 * kl[:, t] + lambda_ * running, running)
    expected[:, t] = np.where(mask[:, t], running, 0)
  np.testing.assert_allclose(batch['returns'] - raw['returns'], expected, atol=2e-5)
  for observed, factor in ((0.3, 1.0), (9.0, 1.1), (0.0, 0.9), (0.33, 1.05)):
    seen = {**batch, 'kl/reference': jnp.full(64, observed)}
    after = algorithm.rollout.observe(world, seen)['kl_coef']
    np.testing.assert_allclose(after, 0.4 * factor, rtol=1e-5)


def test_the_past_is_copied_every_few_updates_and_nothing_else_moves():
  track = learner(refresh=3).track
  slow = {'past': {'w': jnp.zeros(2)}, 'reference': {'w': jnp.full(2, 7.0)}}
  for update in range(6):
    slow = track(slow, {'policy': {'w': jnp.full(2, update + 1.0)}}, jnp.int32(update))
    assert slow['past']['w'][0] == 3 * ((update + 1) // 3) and slow['reference']['w'][0] == 7


@pytest.mark.slow
def test_columns_without_an_action_do_not_matter():
  models, rows = models_and_rows()
  mask = rows['action_mask']
  outside = jnp.arange(mask.shape[1])[None] >= rows['prompt_lengths'][:, None] + mask.sum(axis=1)[:, None]
  other = jnp.where(outside, 5, rows['tokens'])
  assert bool(outside.any())
  for a, b in zip(masked_score(models, rows), masked_score(models, {**rows, 'tokens': other}), strict=True):
    np.testing.assert_allclose(a, b, atol=1e-6)


@pytest.mark.parametrize('changes, message', [
    ({'kl_coef': 0.0}, 'kl counts 0.0 in'), ({'refresh': 0}, 'refresh=0'), ({'top_p': 0.0}, 'top_p=0.0'),
    ({'min_kept': 0}, 'min_kept=0'),
])
def test_bad_numbers_are_refused(changes, message):
  with pytest.raises(ValueError, match=message):
    learner(**changes)


def test_another_filter_is_refused():
  filtered = POLICY.saying(top_k=3)
  with pytest.raises(ValueError, match='decoding.top_k=3'):
    nucleus.completions(TASK, filtered, POLICY, **SIZES, top_p=0.9, min_kept=1)


# --- learning -----------------------------------------------------------------------------------------------


@functools.cache
def taught():
  """[seeds, ...] policies after 80 supervised steps."""
  optimizer = optax.adam(3e-3)
  lessons = sft(prompts.solutions(TASK, POLICY, batch_size=64), POLICY)
  dispatch = repeat(make_train_step(lessons, optimizer, epochs=1, minibatches=1, microbatches=1), 80)

  def one(seed):
    key = jax.random.fold_in(jax.random.key(8), seed)
    params = {'policy': MODEL.init(key)}
    state, _ = dispatch(State(
        step=jnp.int32(0), params=params, slow={}, opt_state=optimizer.init(params), world={}, key=key
    ))
    return state.params['policy']

  return jax.jit(jax.vmap(one))(jnp.arange(SEEDS))


def learn(algorithm, steps, lagging, learning_rate=1e-3):
  """Metrics [seeds, steps] of all seeds side by side, two updates a batch."""
  optimizer = optax.adam(learning_rate)
  dispatch = repeat(make_train_step(algorithm, optimizer, epochs=1, minibatches=2, microbatches=1), steps)

  def one(policy, seed):
    params = {'policy': policy, 'value': heads.init_value(policy)}
    begin = getattr(algorithm.rollout, 'begin', lambda key: {})
    key = jax.random.fold_in(jax.random.key(9), seed)
    state = State(
        step=jnp.int32(0), params=params, slow={name: policy for name in lagging},
        opt_state=optimizer.init(params), world=begin(key), key=key,
    )
    return dispatch(state)[1]

  return jax.tree.map(np.asarray, jax.jit(jax.vmap(one))(taught(), jnp.arange(SEEDS)))


@functools.cache
def learnt():
  """Metrics of NLPO, and of the same without a mask: PPO with an adaptive coefficient."""
  settings = dict(kl_coef=0.05, kl_target=0.1, kl_rate=0.5, refresh=10)
  return {
      top_p: learn(learner(top_p=top_p, **settings), 150, ('past', 'reference')) for top_p in (0.9, 1.0)
  }


@pytest.mark.slow
def test_the_kl_stays_near_its_target():
  """Five seeds, 150 steps, K = 0.5 (a shorter run than the paper's needs a faster controller), target 0.1.

  Measured, mean of the last 50 steps: 0.13, 0.16, 0.11, 0.11, 0.13 with the mask, and without it 0.11, 0.15,
  0.11, 0.12, 0.12; single batches go from 0.05 to 0.25. β ends between 0.1 and 6 with, 0.02 and 0.1 without.
  With a target out of reach (0.3) it falls to 0, and the KL is at 0.17 to 0.22.
  """
  for metrics in learnt().values():
    kl = metrics['kl/reference'][:, -50:].mean(axis=1)
    assert abs(np.median(kl) - 0.1) < 0.04 and np.abs(kl - 0.1).max() < 0.08
  assert learnt()[0.9]['mismatch/logprob_max'].max() < 1e-4  # of the first update: the mask is the sampler's


@pytest.mark.slow
def test_rewards_vary_less_than_those_of_ppo_while_the_mask_cuts_off_the_tail():
  """The same runs; deviation of the rewards in a batch, mean over all steps, NLPO less PPO.

  Measured: -0.015, -0.027, -0.021, -0.014, -0.016, of 0.25; on another machine, whose roundings differ,
  0.001, -0.029, -0.011, -0.020, -0.019: four of five are asked for. It is a matter of the beginning,
  where the mask alone lifts the reward from 0.78 to 0.87 (median). Of the last 30 steps it is 0.012,
  -0.029, -0.012, 0.007, 0.017, and the final reward is the same (0.89) and no closer together over seeds:
  a deviation of 0.012 against 0.010. So of the paper's claim the toy shows the beginning only.
  """
  less = {name: learnt()[0.9][name] - learnt()[1.0][name] for name in ('reward/std', 'reward/mean')}
  apart = less['reward/std'].mean(axis=1)
  assert np.median(apart) < -0.01 and np.sum(apart < 0) >= 4
  first, last = (less['reward/mean'][:, part].mean(axis=1) for part in (slice(0, 5), slice(-30, None)))
  assert np.median(first) > 0.03 and np.median(last) > -0.02

"""Dead ends: the learned value against enumeration, and fewer bad endings at nearly the same perplexity."""

import dataclasses
import functools
import itertools

import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest

from rlx.algorithms import deadend as algorithm
from rlx.algorithms.deadend import deadend
from rlx.engine import stepwise
from rlx.engine.decoding import Decoding
from rlx.engine.speaker import Scoring, Speaker
from rlx.envs.text import Task
from rlx.models import drafter
from rlx.models.language import LanguageModel
from rlx.models.transformer import TransformerConfig
from rlx.rewards.verifier import verifier
from rlx.rollout import deadend as rectified
from rlx.rollout import prompts
from rlx.step import make_train_step, repeat
from rlx.types import State, check

LENGTH, BAD = 4, 3  # tokens of a completion; the letter that must not come last


def endings() -> Task:
  """Three letters, and one that rows must not end with: `a` or `b` -> `....`, without an end token."""

  def sample(key, num, held_out):
    del held_out
    asked = jax.random.randint(key, (num, 1), 2, 4)
    return {'prompts': asked, 'prompt_lengths': jnp.ones(num, jnp.int32), 'solutions': asked}

  def verify(problems, completions):
    del problems
    return (completions[:, LENGTH - 1] != BAD).astype(jnp.float32)

  return Task(alphabet='abc', prompt_columns=1, answer_columns=LENGTH, sample=sample, verify=verify)


TASK = endings()
MODEL = LanguageModel(TransformerConfig(
    vocab_size=TASK.vocab_size, num_layers=2, width=32, num_heads=2, num_kv_heads=2, head_size=16,
    mlp_size=64, context_length=8, positions='learned',
))
SMALL = LanguageModel(drafter.config_of(MODEL.shape, num_layers=1))
DECODING = Decoding(
    max_tokens=LENGTH, min_tokens=LENGTH, temperature=1.0, top_k=0, top_p=1.0, sampler='gumbel', eos_ids=(1,),
    pad_id=0,
)
POLICY, RECTIFIER = (
    Speaker(model=model, decoding=DECODING, scoring=Scoring(chunk_tokens=64, packing=None))
    for model in (MODEL, SMALL)
)
SEEDS = 5


def begun(key, rectifier=SMALL):
  """A policy whose preferences at one token depend on those before it, and a rectifier that knows nothing."""
  policy_key, rectifier_key = jax.random.split(key)
  policy = MODEL.init(policy_key)
  policy['layers'] = jax.tree.map(lambda x: 2.0 * x, policy['layers'])
  policy['final_norm']['scale'] = 1.5 * policy['final_norm']['scale']
  return {'policy': policy, 'rectifier': rectifier.init(rectifier_key)}


def parts(batch_size=128):
  rows = prompts.completions(TASK, POLICY, batch_size=batch_size, group_size=1, num_slots=0)
  return deadend(rows, verifier(TASK, POLICY), POLICY, RECTIFIER)


@functools.cache
def trained():
  """Models of all seeds after 600 steps of 128 rows."""
  optimizer = optax.adam(optax.cosine_decay_schedule(5e-3, 600))
  dispatch = repeat(make_train_step(parts(), optimizer, epochs=1, minibatches=1, microbatches=1), 600)

  def one(seed):
    key = jax.random.fold_in(jax.random.key(0), seed)
    models = begun(key)
    params = {'rectifier': models['rectifier']}
    state = State(
        step=jnp.int32(0), params=params, slow={'policy': models['policy']}, opt_state=optimizer.init(params),
        world={}, key=key,
    )
    state, _ = dispatch(state)
    return state.models

  return jax.jit(jax.vmap(one))(jnp.arange(SEEDS))


def every_row():
  """[2 * 5^4, 5] prompts and completions: all that can be said, the padding token included."""
  words = [token for token in range(TASK.vocab_size) if token != 1]
  rows = [(prompt, *x) for prompt in (2, 3) for x in itertools.product(words, repeat=LENGTH)]
  return jnp.array(rows, jnp.int32)


def enumerated(models):
  """Rows, log-probs of their tokens [N, LENGTH], and exactly how likely each beginning ends badly."""
  rows = every_row()
  batch = {'tokens': rows, 'prompt_lengths': jnp.ones(len(rows), jnp.int32)}
  logits = stepwise.base_logits(models['policy'], MODEL, batch, decoding=DECODING)
  logprobs = np.asarray(jax.nn.log_softmax(logits), np.float64)
  rows = np.asarray(rows)
  picked = np.take_along_axis(logprobs, rows[:, 1:, None], axis=-1)[..., 0]
  bad = rows[:, -1] == BAD
  exact = np.zeros_like(picked)
  for n in range(LENGTH):
    groups = {}
    for row, weight, is_bad in zip(rows, np.exp(picked[:, n + 1 :].sum(axis=1)), bad, strict=True):
      prefix = tuple(row[: n + 2])
      groups[prefix] = groups.get(prefix, 0.0) + weight * is_bad
    exact[:, n] = [groups[tuple(row[: n + 2])] for row in rows]
  learned = rectified.values(models['rectifier'], SMALL, batch, decoding=DECODING)
  learned = -np.take_along_axis(np.asarray(learned), rows[:, 1:, None], axis=-1)[..., 0]
  return rows, picked, exact, learned


def test_the_cap_by_hand():
  """0.5, 0.3, 0.2 under bounds 0.1, 1, 0.4 leave 0.1, 0.3, 0.2, out of 0.6."""
  logits = jnp.log(jnp.array([0.5, 0.3, 0.2]))
  capped = rectified.cap(logits, jnp.array([-0.9, 0.0, -0.6]))
  np.testing.assert_allclose(jnp.exp(capped), [1 / 6, 3 / 6, 2 / 6], rtol=1e-5)


def test_where_nothing_is_bad_or_everything_is_the_policy_stays():
  logits = jnp.array([1.0, 0.0, -jnp.inf])
  for values in (jnp.zeros(3), jnp.full(3, -1.0), jnp.array([0.0, 0.0, -1.0])):
    np.testing.assert_allclose(rectified.cap(logits, values), jax.nn.log_softmax(logits), rtol=1e-6)


def test_a_token_that_must_end_badly_is_never_drawn():
  capped = rectified.cap(jnp.zeros(3), jnp.array([-1.0, -0.1, -0.5]))
  np.testing.assert_allclose(jnp.exp(capped), [0.0, 0.5, 0.5], rtol=1e-5)


def test_the_backup_by_hand():
  """Two actions and an end with reward 0.25; then a row of one action, with reward 1."""
  values = jnp.array([[-0.8, -0.25, -0.9], [-0.8, -0.7, -0.9]])
  mask = jnp.array([[True, True, False], [True, False, False]])
  targets = algorithm.backup(values, jnp.array([0.25, 1.0]), mask)
  np.testing.assert_allclose(targets, [[-0.25, -0.75, 0.0], [0.0, 0.0, 0.0]], atol=1e-6)


@pytest.mark.slow
def test_the_targets_are_the_mean_value_of_what_the_policy_would_say_next():
  """V before the second action, from the distributions of the two models one prefix at a time."""
  models, batch = rectified_rows()
  batch = parts().advantage(models, {**batch, 'rewards': jnp.full(64, 0.5)}, jax.random.key(0))
  check(batch)
  tokens = batch['tokens'][:8, :2]
  np.testing.assert_allclose(batch['returns'][:8, 1], mean_value(models, SMALL, tokens), rtol=1e-4)
  np.testing.assert_allclose(batch['returns'][:, -1], -0.5)


def mean_value(models, rectifier, prefixes):
  """[B] V of what follows prefixes [B, T], from a pass of each model over them."""
  logits, outlook = (
      model.logits(models[name], model.forward(models[name], prefixes)[0][:, -1])
      for name, model in (('policy', MODEL), ('rectifier', rectifier))
  )
  chances = jax.nn.softmax(logits.at[:, 1].set(-jnp.inf))  # no end yet
  return jnp.sum(chances * -jax.nn.sigmoid(outlook), axis=1)


@pytest.mark.slow
def test_the_rectifier_has_a_shape_of_its_own():
  """Wider and deeper than the policy: it caps what is drawn, its values are targets, and it learns."""
  wide = MODEL.replace(num_layers=3, width=48)
  models, rectifier = begun(jax.random.key(1), wide), dataclasses.replace(RECTIFIER, model=wide)
  rows = rectified.completions(TASK, POLICY, rectifier, batch_size=8, group_size=1)
  method = deadend(rows, verifier(TASK, POLICY), POLICY, rectifier)

  @jax.jit
  def step(models):
    batch, _ = method.rollout(models, {}, jax.random.key(2))
    batch = method.advantage(models, method.reward(models, batch, None), jax.random.key(0))
    loss = lambda rectifier: method.loss({**models, 'rectifier': rectifier}, batch, None)[0]
    logprobs = rectified.score(models, POLICY, rectifier, batch)
    expected = mean_value(models, wide, batch['tokens'][:, :1])
    return batch, logprobs, expected, jax.grad(loss)(models['rectifier'])

  batch, logprobs, expected, gradient = step(models)
  np.testing.assert_allclose(logprobs, batch['sampler_logprobs'], atol=2e-5)
  np.testing.assert_allclose(batch['values'][:, 1], expected, rtol=1e-4)
  assert max(np.abs(x).max() for x in jax.tree.leaves(gradient)) > 1e-3


@functools.cache
def rectified_rows(num=64):
  models = begun(jax.random.key(1))
  problems = TASK.sample(jax.random.key(2), num, False)
  draw = functools.partial(
      rectified.sample, policy=POLICY, rectifier=RECTIFIER, group_size=1, greedy=False
  )
  return models, jax.jit(draw)(
      models, prompts=problems['prompts'], prompt_lengths=problems['prompt_lengths'], key=jax.random.key(3)
  )


@pytest.mark.slow
def test_training_computes_the_log_probs_of_the_capped_sampler():
  models, batch = rectified_rows()
  check(batch)
  logprobs = rectified.score(models, POLICY, RECTIFIER, batch)
  np.testing.assert_allclose(logprobs, batch['sampler_logprobs'], atol=2e-5)
  plain, _ = POLICY.score(models['policy'], batch)
  assert np.abs(plain - batch['sampler_logprobs']).max() > 0.05


@pytest.mark.slow
def test_the_loss_pulls_q_to_its_target_and_only_where_actions_are():
  models, batch = rectified_rows()
  learning = parts()
  batch = learning.advantage(models, {**batch, 'rewards': jnp.linspace(0, 1, 64)}, jax.random.key(0))
  loss = lambda rectifier, batch: learning.loss({**models, 'rectifier': rectifier}, batch, None)[0]
  value_and_grad = jax.jit(jax.value_and_grad(loss))
  total, gradient = value_and_grad(models['rectifier'], batch)
  own = rectified.values(models['rectifier'], SMALL, batch, decoding=DECODING)
  own = np.take_along_axis(np.asarray(own), np.asarray(batch['tokens'])[:, 1:, None], axis=-1)[..., 0]
  bad = -np.asarray(batch['returns'])[:, 1:]
  by_hand = -(bad * np.log(-own) + (1 - bad) * np.log1p(own)).mean()
  np.testing.assert_allclose(total, by_hand, rtol=1e-4)
  assert max(np.abs(x).max() for x in jax.tree.leaves(gradient)) > 1e-3
  other = {**batch, 'returns': batch['returns'].at[:, 0].set(-9.0)}  # the prompt's column
  np.testing.assert_array_equal(value_and_grad(models['rectifier'], other)[0], total)


@pytest.mark.slow
def test_the_value_is_that_of_enumeration():
  """Mean distance over the tokens that the policy says, at each of the four places, for five policies.

  Measured: median 0.003, worst 0.009, where the values themselves are 0.04 to 0.5 from their mean.
  """
  for seed in range(SEEDS):
    rows, logprobs, exact, learned = enumerated(jax.tree.map(lambda x, seed=seed: x[seed], trained()))
    weights = np.exp(logprobs.sum(axis=1))[:, None] / 2  # of two prompts
    np.testing.assert_allclose(weights.sum(), 1, rtol=1e-4)
    error = (weights * np.abs(exact - learned)).sum(axis=0)
    spread = (weights * np.abs(exact - (weights * exact).sum(axis=0))).sum(axis=0)
    np.testing.assert_array_equal(exact[:, -1], rows[:, -1] == BAD)
    assert error.max() < 0.03 and np.all(error < spread / 4), seed


@pytest.mark.slow
def test_bad_endings_become_rare_at_nearly_the_same_perplexity():
  """Five policies, 1,000 rows each, drawn plainly and under the bounds of the learned rectifier.

  Measured, bad endings of the policy 13.2 to 51.7 %, under the bounds median 0.2 % (worst 0.4 %). Perplexity
  of the rows under the policy: ratio median 1.02, worst 1.37, where half of what it says had to change.
  """

  def one(models, key):
    problems = TASK.sample(key, 1000, True)
    asked = (problems['prompts'], problems['prompt_lengths'])
    plain = POLICY.sample(models['policy'], *asked, key, group_size=1)
    capped = rectified.sample(models, POLICY, RECTIFIER, *asked, key, group_size=1, greedy=False)
    bad = lambda batch: jnp.mean(batch['tokens'][:, -1] == BAD)
    nll = lambda batch: -jnp.mean(POLICY.score(models['policy'], batch)[0][:, 1:])
    return jnp.stack([bad(plain), bad(capped)]), jnp.exp(jnp.stack([nll(plain), nll(capped)]))

  keys = jax.random.split(jax.random.key(7), SEEDS)
  bad, perplexity = (np.asarray(x) for x in jax.jit(jax.vmap(one))(trained(), keys))
  ratio = perplexity[:, 1] / perplexity[:, 0]
  assert bad[:, 0].min() > 0.1 and bad[:, 1].max() < 0.02
  assert np.median(ratio) < 1.1 and ratio.max() < 1.6

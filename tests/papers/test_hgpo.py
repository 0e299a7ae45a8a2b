"""HGPO: half of a group thinks and half does not, and the policy learns which to choose."""

import dataclasses
import functools

import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest

from rlx.advantages import modes as mode_advantages
from rlx.algorithms.hgpo import hgpo
from rlx.algorithms.sft import sft
from rlx.engine.decoding import Decoding
from rlx.engine.speaker import Scoring, Speaker
from rlx.envs.hybrid import hybrid
from rlx.losses.anchors import kl_in_loss
from rlx.models.language import LanguageModel
from rlx.models.transformer import TransformerConfig
from rlx.rewards.verifier import verifier
from rlx.rollout import modes, prompts
from rlx.step import make_train_step, repeat
from rlx.types import State, check

SEEDS, EASY, HARD = 5, 2, 3  # digits
TASK = hybrid(modulus=4, min_steps=EASY, max_steps=HARD, held_out_share=0.25)
MODES = ('!', '?')  # at once; with thought
MODEL = LanguageModel(TransformerConfig(
    vocab_size=TASK.vocab_size, num_layers=2, width=32, num_heads=2, num_kv_heads=2, head_size=16,
    mlp_size=64, context_length=16, rope_theta=100.0,
))
DECODING = Decoding(
    max_tokens=TASK.answer_columns, min_tokens=0, temperature=1.0, top_k=0, top_p=1.0, sampler='gumbel',
    eos_ids=TASK.eos_ids, pad_id=0,
)
POLICY = Speaker(model=MODEL, decoding=DECODING, scoring=Scoring(chunk_tokens=1024, packing=None))
SETTINGS = dict(clip_low=0.2, clip_high=0.2, inter_coef=4.0, margins=(0.1, 0.0))
HELD = kl_in_loss(POLICY, coef=0.1)


def halves():
  return modes.forced(TASK, POLICY, batch_size=64, group_size=8, num_slots=0, modes=MODES)


# --- formulas -----------------------------------------------------------------------------------------------

# Two prompts with two rows in each of two modes, in no order.
GROUPS = jnp.array([1, 0, 0, 1, 0, 1, 0, 1])
NUMBERS = jnp.array([0, 0, 1, 1, 0, 0, 1, 1])
REWARDS = jnp.array([1.0, 0.2, 0.9, 1.0, 0.6, 0.0, 0.1, 0.0])


@pytest.mark.parametrize('margin, best', [(0.0, (1, 0)), (0.15, (0, 0)), (-0.01, (1, 1))])
def test_a_mode_wins_by_its_mean_and_the_margin(margin, best):
  """Means of prompt 0: 0.4 and 0.5. Of prompt 1: 0.5 both, and the first mode wins ties."""
  found = mode_advantages.best_mode(REWARDS, GROUPS, NUMBERS, margins=(margin, 0.0))
  np.testing.assert_array_equal(found, np.array(best)[GROUPS])


def test_advantages_by_hand():
  """Of four rows two win: mean 1/2, unbiased deviation sqrt(1/3). Of two rows one: 1/2 and sqrt(1/2)."""
  inter = mode_advantages.inter_mode(REWARDS, GROUPS, NUMBERS, margins=(0.0, 0.0))
  wins = np.array([1, -1, 1, -1, -1, 1, 1, -1])  # mode 1 of prompt 0, mode 0 of prompt 1
  np.testing.assert_allclose(inter, wins * 0.75**0.5, rtol=1e-5)
  intra = mode_advantages.intra_mode(REWARDS, GROUPS, NUMBERS)
  np.testing.assert_allclose(intra, np.array([1, -1, 1, 1, 1, -1, -1, -1]) * 0.5**0.5, rtol=1e-5)
  alike = mode_advantages.intra_mode(jnp.zeros(8), GROUPS, NUMBERS)
  np.testing.assert_array_equal(alike, 0)  # where all fail, none is better


@functools.cache
def a_batch():
  params = MODEL.init(jax.random.key(0))
  batch, _ = jax.jit(halves().draw)({'policy': params}, {'data': None}, jax.random.key(1))
  return params, batch


@pytest.mark.slow
def test_the_mode_is_an_action_with_the_probability_that_the_policy_gives_it():
  params, batch = a_batch()
  check(batch)
  rows, lengths = np.arange(64), np.asarray(batch['prompt_lengths'])
  np.testing.assert_array_equal(batch['modes'], np.tile([0, 0, 0, 0, 1, 1, 1, 1], 8))
  np.testing.assert_array_equal(batch['groups'], rows // 8)
  np.testing.assert_array_equal(modes.chosen(batch, modes.mode_tokens(TASK, MODES)), batch['modes'])
  assert np.asarray(batch['action_mask'])[rows, lengths].all()
  is_prompt = np.arange(batch['tokens'].shape[1]) < lengths[:, None]
  np.testing.assert_array_equal(batch['turns'], np.where(is_prompt, -1, 0))
  logprobs, _ = jax.jit(POLICY.score)(params, batch)
  np.testing.assert_allclose(batch['sampler_logprobs'], logprobs, atol=2e-5)


@pytest.mark.slow
def test_only_the_first_action_learns_which_mode():
  params, batch = a_batch()
  rewards = jax.random.bernoulli(jax.random.key(2), 0.5, (64,)).astype(jnp.float32)
  batch = {**batch, 'rewards': rewards}
  method = lambda inter: hgpo(None, None, POLICY, HELD, **{**SETTINGS, 'inter_coef': inter})
  of = lambda inter: jax.jit(method(inter).advantage)({'reference': params}, batch, jax.random.key(0))
  difference = np.asarray(of(2.0)['advantages'] - of(0.0)['advantages'])
  rows = np.arange(64)
  first = np.zeros(difference.shape, bool)
  first[rows, batch['prompt_lengths']] = True
  inter = mode_advantages.inter_mode(rewards, batch['groups'], batch['modes'], margins=SETTINGS['margins'])
  np.testing.assert_allclose(difference[first], 2 * np.asarray(inter), rtol=1e-5)
  np.testing.assert_array_equal(difference[~first], 0)
  assert not np.asarray(of(1.0)['advantages'])[~np.asarray(batch['action_mask'])].any()


@pytest.mark.parametrize('change, message', [
    (dict(modes=('!', '?', '#')), '3 modes do not divide rollout.group_size=8'),
    (dict(modes=('!', '!')), 'pass a different token for each'),
    (dict(modes=('!', '??')), 'pass a different token for each'),
])
def test_bad_modes_are_refused(change, message):
  with pytest.raises(ValueError, match=message):
    modes.forced(TASK, POLICY, **dict(batch_size=64, group_size=8, num_slots=0), **change)


# --- learning -----------------------------------------------------------------------------------------------


def run(algorithm, optimizer, params, steps, key):
  """All seeds side by side: parameters and metrics, [seeds, ...] each."""
  dispatch = repeat(make_train_step(algorithm, optimizer, epochs=1, minibatches=1, microbatches=1), steps)

  def one(params, seed):
    state = State(
        step=jnp.int32(0), params={'policy': params}, slow={'reference': params},
        opt_state=optimizer.init({'policy': params}), world={},
        key=jax.random.fold_in(key, seed),
    )
    state, metrics = dispatch(state)
    return state.params['policy'], metrics

  return jax.jit(jax.vmap(one))(params, jnp.arange(SEEDS))


def cold_start(key, num, held_out):
  """Both modes on all problems; but sums of many digits are random where they are not thought about."""
  problems = TASK.sample(key, num, held_out)
  answers = problems['solutions'][:, 2]
  at_random = jax.random.randint(jax.random.fold_in(key, 1), (num,), answers.min(), answers.max() + 1)
  blind = (problems['prompt_lengths'] == HARD + 1) & (problems['solutions'][:, 0] == TASK.encode('!')[0])
  return {
      **problems, 'solutions': problems['solutions'].at[:, 2].set(jnp.where(blind, at_random, answers))
  }


def left_alone(params):
  """What the policies do without a mode given, greedily, by digits of the prompt: thinks, right."""
  problems = TASK.sample(jax.random.key(9), 300, False)
  marks = modes.mode_tokens(TASK, MODES)

  def one(params):
    batch = POLICY.mode(params, problems['prompts'], problems['prompt_lengths'])
    batch = verifier(TASK, POLICY)({}, {**prompts.columns_of(problems, 1), **batch}, None)
    return modes.chosen(batch, marks) == 1, batch['rewards']

  found = [np.asarray(x) for x in jax.jit(jax.vmap(one))(params)]
  digits = np.asarray(problems['prompt_lengths']) - 1
  return {
      name: np.stack([x[:, digits == n].mean(axis=1) for n in range(EASY, HARD + 1)])
      for name, x in zip(('thinks', 'right'), found, strict=True)
  }


@pytest.mark.slow
def test_it_thinks_where_thinking_pays():
  """Five seeds, 500 steps of both modes, then 200 of 64 rows. Training problems, no mode given, greedy.

  Measured, median (worst seed): thinks about three digits 75 % (9 %), about two 0 % (11 %); before, whatever
  it does it does for both. Right about three digits 85 % (55 %), before 14 % (10 %). Hybrid accuracy 51 % in
  the first ten steps, 86 % (55 %) in the last ten. After 100 steps the choice is still on its way: it was
  92 % as once measured, and 49 % on another kind of CPU.
  Without advantages between modes the median thinks about three digits 12 % then.
  """
  params = jax.vmap(MODEL.init)(jax.random.split(jax.random.key(3), SEEDS))
  lessons = prompts.solutions(dataclasses.replace(TASK, sample=cold_start), POLICY, batch_size=64)
  taught, _ = run(sft(lessons, POLICY), optax.adam(5e-3), params, 500, jax.random.key(1))
  algorithm = hgpo(halves(), verifier(TASK, POLICY), POLICY, HELD, **SETTINGS)
  params, metrics = run(algorithm, optax.adam(1e-3), taught, 200, jax.random.key(2))
  before, after = left_alone(taught), left_alone(params)
  hybrid_accuracy = np.asarray(metrics['mode/hybrid_accuracy'])
  early, late = hybrid_accuracy[:, :10].mean(axis=1), hybrid_accuracy[:, -10:].mean(axis=1)
  easy, hard = after['thinks'][0], after['thinks'][-1]
  assert np.median(hard) > 0.6 and np.median(easy) < 0.2 and np.all(hard >= easy)
  assert np.median(late - early) > 0.1
  assert np.median(after['right'][-1] - before['right'][-1]) > 0.3

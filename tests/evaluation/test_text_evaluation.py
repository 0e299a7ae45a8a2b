"""Evaluations of texts: the same held-out problems, answered without chance, under short names."""

import dataclasses
import types

import algorithms_table as toy
import jax
import jax.numpy as jnp
import numpy as np
import pytest

from rlx.engine import sample as engine
from rlx.envs.chain import chain
from rlx.envs.hybrid import hybrid
from rlx.evaluation import preferences, text
from rlx.evaluation.budgets import anytime
from rlx.evaluation.deadend import rectified
from rlx.evaluation.latent import verified_with_latents
from rlx.evaluation.modes import in_mode
from rlx.evaluation.nucleus import verified_inside
from rlx.evaluation.refine import refined
from rlx.models import latent
from tests.once import once

PARAMS = once(lambda: toy.MODEL.init(jax.random.key(0)))
NAMES = {'accuracy', 'response_tokens', 'truncated_fraction'}


def examined(evaluation, params):
  metrics, transcripts = evaluation.read(jax.jit(evaluation.ask)({'policy': params, 'other': ()}, ()))
  return metrics, transcripts


@pytest.mark.slow
def test_accuracy_is_that_of_the_likeliest_answers():
  metrics, transcripts = examined(text.verified(toy.TASK, toy.POLICY, 3, problems=24), PARAMS())
  asked = toy.TASK.sample(jax.random.key(0), 24, True)
  rows = toy.POLICY.mode(PARAMS(), asked['prompts'], asked['prompt_lengths'])
  right = np.asarray(toy.TASK.verify(asked, engine.completions_of(rows, toy.DECODING)))
  assert metrics.keys() == NAMES and metrics['accuracy'] == right.mean()
  np.testing.assert_allclose(metrics['response_tokens'], rows['action_mask'].sum(axis=1).mean(), rtol=1e-6)
  assert [row['correct'] for row in transcripts] == (right[:3] == 1).tolist()


def test_another_way_to_answer():
  def answer(models, asked):
    solutions = asked['solutions'][:, : toy.DECODING.max_tokens]
    lengths, logprobs = asked['prompt_lengths'], jnp.zeros(solutions.shape)
    counts = jnp.sum(solutions != 0, axis=1)
    return engine.as_rows(asked['prompts'], lengths, 1, solutions, logprobs, counts, toy.DECODING)

  metrics, _ = examined(text.verified_by(toy.TASK, answer, toy.POLICY, 0, problems=24), None)
  assert metrics['accuracy'] == 1


def test_with_its_gate_shut_a_hybrid_policy_answers_as_the_plain_one():
  hybrid = latent.init(jax.random.key(1), PARAMS(), r_min=0.9, r_max=0.95)
  gate = lambda decay: {**hybrid, 'hybrid': {**hybrid['hybrid'], 'decay': jnp.full(toy.MODEL.width, decay)}}
  evaluation = verified_with_latents(toy.TASK, toy.POLICY, 24, problems=24, answer_start='')
  plain = examined(text.verified(toy.TASK, toy.POLICY, 24, problems=24), PARAMS())
  assert examined(evaluation, gate(1e3)) == plain
  assert examined(evaluation, gate(-1e3))[1] != plain[1], 'an open gate changes nothing here: no test'


def says(decoding, speak):
  """A policy that has no chance: `speak(prompts, lengths, group_size)` is what it says, [P * G, C] tokens."""

  def rows(prompts, lengths, group_size):
    said = speak(prompts, lengths, group_size)
    counts = jnp.sum(said != decoding.pad_id, axis=1)
    lengths = jnp.repeat(lengths, group_size)
    return engine.as_rows(prompts, lengths, group_size, said, jnp.zeros(said.shape), counts, decoding)

  return types.SimpleNamespace(
      decoding=decoding, mode=lambda params, prompts, lengths: rows(prompts, lengths, 1),
      sample=lambda params, prompts, lengths, key, *, group_size: rows(prompts, lengths, group_size),
  )


def test_what_is_found_in_several_samples():
  """Of four samples of `3`, two are `333`, one is `33` and one `777`: here what is said thrice is right."""

  def speak(prompts, lengths, group_size):
    digit = jnp.repeat(prompts[:, 0], group_size)[:, None]
    form = jnp.tile(jnp.array([[1, 1, 1], [1, 1, 1], [1, 1, 0], [0, 0, 0]]), (prompts.shape[0], 1))
    other = jnp.tile(jnp.array([[0, 0, 0], [0, 0, 0], [0, 0, 0], [7, 7, 7]]), (prompts.shape[0], 1))
    return digit * form + other

  thrice = dataclasses.replace(
      toy.TASK, verify=lambda problems, said: jnp.all(said == said[:, :1], axis=1).astype(jnp.float32)
  )
  found = text.repeated(thrice, says(toy.DECODING, speak), problems=5, samples=4)
  assert examined(found, None)[0] == {'accuracy': 0.75, 'passed': 1, 'distinct': 2}


def test_the_runs_own_reward_and_its_columns():
  def reward(models, batch, key):
    del models, key
    rewards = batch['solutions'][:, 0].astype(jnp.float32)
    return {**batch, 'rewards': rewards, 'odd/ones': jnp.where(batch['groups'] % 2 == 1, rewards, jnp.nan)}

  policy = says(toy.DECODING, lambda prompts, lengths, size: jnp.ones((len(prompts) * size, 3), jnp.int32))
  metrics, _ = examined(text.paid(toy.TASK, policy, reward, problems=6, samples=2), None)
  digits = np.asarray(toy.TASK.sample(jax.random.key(0), 6, True)['prompts'][:, 0], np.float32)
  np.testing.assert_allclose(metrics['reward'], digits.mean(), rtol=1e-6)
  np.testing.assert_allclose(metrics['odd/ones'], digits[1::2].mean(), rtol=1e-6)


def test_answers_behind_thinking_that_is_cut():
  """A policy that thinks as solutions do, and answers with its last step: right where that is the sum."""
  task = chain(modulus=3, min_steps=3, max_steps=3, checks=0, held_out_share=0.5)
  zero, decoding = int(task.encode('0')[0]), dataclasses.replace(toy.DECODING, max_tokens=task.answer_columns)
  asked = task.sample(jax.random.key(0), 13, True)

  def last_step(prompts, lengths, group_size):
    del group_size
    digit = jnp.take_along_axis(prompts, lengths[:, None] - 3, axis=1)  # in front of `;#`
    return jnp.pad(digit, ((0, 0), (0, 1)), constant_values=1)

  policy = says(decoding, lambda prompts, lengths, size: asked['solutions'])
  policy.saying = lambda max_tokens: says(dataclasses.replace(decoding, max_tokens=max_tokens), last_step)
  evaluation = anytime(task, policy, problems=13, budgets=(2, 4, 6), marker='#', summary_tokens=2)
  metrics, _ = examined(evaluation, None)
  sums = np.cumsum(np.asarray(asked['operands']), axis=1) % 3
  np.testing.assert_array_equal(sums[:, -1], np.asarray(asked['answers'])[:, 0] - zero)
  expected = (sums == sums[:, -1:]).mean(axis=0)
  np.testing.assert_allclose([metrics[f'accuracy_{b}'] for b in (2, 4, 6)], expected, rtol=1e-6)
  assert expected[0] < expected[2] == 1
  np.testing.assert_allclose(metrics['accuracy'], expected.mean(), rtol=1e-6)


@pytest.mark.slow
def test_answers_in_a_mode():
  """A policy that says at once what `!` asks for, and nothing behind `?`."""
  task = hybrid(modulus=3, min_steps=2, max_steps=2, held_out_share=0.5)
  decoding = dataclasses.replace(toy.DECODING, max_tokens=task.answer_columns)
  asked, marker = task.sample(jax.random.key(0), 7, True), int(task.encode('#')[0])

  def at_once(prompts, lengths, group_size):
    del prompts, group_size
    answers = jnp.pad(asked['answers'], ((0, 0), (1, 1)), constant_values=((0, 0), (marker, 1)))
    return jnp.pad(answers, ((0, 0), (0, task.answer_columns - 4)))

  policy = says(decoding, at_once)
  policy.saying = lambda max_tokens, min_tokens: says(
      dataclasses.replace(decoding, max_tokens=max_tokens), at_once
  )
  accuracy = lambda mode: examined(in_mode(task, policy, 0, problems=7, modes=(mode,)), None)[0]['accuracy']
  assert accuracy('!') == 1 and accuracy('?') == 0
  with pytest.raises(ValueError, match='begin with one'):
    in_mode(task, policy, 0, problems=7, modes=('!', '?'))


def test_rounds_of_held_out_problems():
  """A policy that repeats the last token of what it reads: the digit first, and then the workspace's."""

  def speak(prompts, lengths, group_size):
    token = jnp.repeat(jnp.take_along_axis(prompts, lengths[:, None] - 1, axis=1), group_size, axis=0)
    return jnp.repeat(token, 3, axis=1)

  policy = says(toy.DECODING, speak)
  policy.sample = lambda params, *a, num_slots, group_size, sample=policy.sample: sample(
      params, *a, group_size=group_size
  )
  distil = lambda drafts: (jnp.full((drafts.shape[0], 1), 7), jnp.ones(drafts.shape[0], jnp.int32))
  seen = []
  asked = dataclasses.replace(
      toy.TASK, sample=lambda key, num, held: seen.append(held) or toy.TASK.sample(key, num, held)
  )
  evaluation = refined(asked, policy, problems=5, group_size=2, num_rounds=2, distil=distil)
  assert examined(evaluation, None)[0] == {'first': 1, 'last': 0, 'gain': -1} and seen[-1] is True


@pytest.mark.slow
def test_a_rectified_policy_is_examined_as_a_plain_one():
  models = {'policy': PARAMS(), 'rectifier': PARAMS()}
  ask = lambda evaluation: evaluation.read(jax.jit(evaluation.ask)(models, ()))[0]
  bounded = ask(rectified(toy.TASK, toy.POLICY, toy.POLICY, 3, problems=24))
  plain = ask(text.sampled(toy.TASK, toy.POLICY, 3, problems=24))
  assert plain.keys() == bounded.keys() == NAMES | {'entropy', 'nll'}
  assert bounded['nll'] != plain['nll']


def test_where_nothing_is_to_be_read_one_row_is_answered_for_a_program_of_none_is_none():
  asked = []
  pairs = lambda num: {'preferred': np.arange(num) % 2 == 0, 'groups': np.arange(num) // 2}
  task = types.SimpleNamespace(held_out=asked.append, held_out_demonstrations=pairs)
  text.likelihood(task, toy.POLICY, 0, problems=4)
  preferences.implicit(task, toy.POLICY, toy.POLICY, 0, pairs=4)
  assert asked == [1, 1]


@pytest.mark.slow
def test_inside_the_nucleus_of_another():
  """At top_p = 1 it is the policy alone; in a nucleus of one token, it is the other policy."""
  other = toy.MODEL.init(jax.random.key(1))
  inside = lambda top_p, min_kept=1: verified_inside(
      toy.TASK, toy.POLICY, toy.POLICY, 24, problems=24, top_p=top_p, min_kept=min_kept
  )
  ask = lambda evaluation: evaluation.read(jax.jit(evaluation.ask)({'policy': PARAMS(), 'past': other}, ()))
  plain, likely = (
      examined(text.verified(toy.TASK, toy.POLICY, 24, problems=24), params) for params in (PARAMS(), other)
  )
  assert ask(inside(1.0)) == plain and ask(inside(1e-6)) == likely
  assert ask(inside(1e-6, toy.MODEL.vocab_size)) == plain
  assert plain[1] != likely[1], 'both say the same: no test'


def test_a_function_that_is_called_as_a_metric_keeps_its_mean():
  values = {'reward': np.array([0.25, 0.75]), 'ends': np.array([1.0, 0.0])}
  scores = types.SimpleNamespace(
      values=values, totals=np.array([1.25, 0.75]), scored=np.array([True, True]),
      failed={name: np.zeros(2, bool) for name in values},
  )
  reward = types.SimpleNamespace(score=lambda rows, tokens: scores)
  metrics, right = text.scored_by(reward, np.arange(2), [[1], [2]], accuracy='ends')
  assert metrics == {'reward_function': 0.5, 'ends': 0.5, 'reward': 1.0, 'failed': 0.0, 'accuracy': 0.5}
  assert right.tolist() == [True, False]

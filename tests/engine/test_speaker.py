"""A language model that speaks: the same sampler and scorer, with the model, decoding and scoring inside."""

import dataclasses

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from test_sample import DECODINGS, KEY, LENGTHS, MODEL, PARAMS, PROMPTS

from rlx.engine import sample as engine
from rlx.engine.packing import Packing
from rlx.engine.speaker import Critic, Scoring, Speaker, in_stage
from rlx.models.heads import TokenHead, init_value

SCORING = Scoring(chunk_tokens=7, packing=None)
POLICY = Speaker(model=MODEL, decoding=DECODINGS['all_filters'], scoring=SCORING)


@pytest.mark.slow
def test_it_samples_and_scores_as_the_engine_does():
  how = dict(prompts=PROMPTS, prompt_lengths=LENGTHS, key=KEY, group_size=2, num_slots=3)
  batch = jax.jit(lambda params: POLICY.sample(params, **how))(PARAMS)
  expected = jax.jit(lambda params: engine.sample(
      params, MODEL, decoding=POLICY.decoding, **how
  ))(PARAMS)
  jax.tree.map(np.testing.assert_array_equal, batch, expected)
  scores = jax.jit(POLICY.score)(PARAMS, batch)
  expected = jax.jit(lambda params, batch: engine.score(
      params, MODEL, batch, decoding=POLICY.decoding, chunk_size=7
  ))(PARAMS, batch)
  jax.tree.map(np.testing.assert_array_equal, scores, expected)


def test_its_mode_is_the_likeliest_token_of_each_step():
  batch = jax.jit(POLICY.mode)(PARAMS, PROMPTS, LENGTHS)
  assert batch['tokens'].shape[0] == len(PROMPTS)
  hidden, _ = jax.jit(MODEL.forward)(PARAMS, batch['tokens'])
  decoding = POLICY.decoding
  for row in range(len(PROMPTS)):
    for column in np.flatnonzero(batch['action_mask'][row]):
      logits = np.array(MODEL.logits(PARAMS, hidden[row, column - 1]))
      if column - LENGTHS[row] < decoding.min_tokens:
        logits[list(decoding.eos_ids)] = -np.inf
      assert batch['tokens'][row, column] == logits.argmax()


PACKING = Packing(columns=24, rows=2, share_prompts=False)


@pytest.mark.slow
@pytest.mark.parametrize('packing', [None, PACKING], ids=str)
def test_score_energies_are_those_of_the_distribution_that_was_drawn_from(packing):
  """The squared norm of onehot - π, token by token, with the filters of the sampler; packed too."""
  decoding = POLICY.decoding
  batch = jax.jit(
      lambda params: POLICY.sample(params, PROMPTS, LENGTHS, KEY, group_size=2)
  )(PARAMS)
  policy = dataclasses.replace(POLICY, scoring=dataclasses.replace(SCORING, packing=packing))
  energies = jax.jit(policy.score_energies)(PARAMS, batch)
  hidden, _ = jax.jit(MODEL.forward)(PARAMS, batch['tokens'])
  expected = np.zeros(batch['tokens'].shape)
  for row, column in np.argwhere(np.asarray(batch['action_mask'])):
    logits, target = MODEL.logits(PARAMS, hidden[row, column - 1])[None], batch['tokens'][row, column][None]
    may_end = column - batch['prompt_lengths'][row] >= decoding.min_tokens
    pi = np.asarray(jax.nn.softmax(decoding.adjust(logits, target, may_end=bool(may_end))))[0]
    expected[row, column] = np.sum(np.square(np.eye(len(pi))[target[0]] - pi))
  np.testing.assert_allclose(energies, expected, rtol=1e-4, atol=1e-6)
  assert expected.any()


def test_saying_changes_the_decoding_alone():
  brief = POLICY.saying(max_tokens=1, min_tokens=0)
  assert brief.decoding == dataclasses.replace(POLICY.decoding, max_tokens=1, min_tokens=0)
  assert dataclasses.replace(brief, decoding=POLICY.decoding) == POLICY
  with pytest.raises(ValueError, match='temperature=-1'):
    POLICY.saying(temperature=-1.0)


def test_a_critic_says_what_is_expected_before_each_token():
  critic = Critic(head=TokenHead(MODEL), scoring=SCORING)
  params = {**init_value(PARAMS), 'value_head': jnp.linspace(-1.0, 1.0, MODEL.width)}
  tokens = np.random.default_rng(2).integers(0, MODEL.vocab_size, (3, 6))
  values = jax.jit(critic.apply)(params, {'tokens': tokens})
  hidden, _ = jax.jit(MODEL.forward)(PARAMS, tokens)
  np.testing.assert_array_equal(values[:, 0], 0)
  expected = np.asarray(hidden)[:, :-1] @ np.asarray(params['value_head'])
  np.testing.assert_allclose(values[:, 1:], expected, atol=1e-5)


def test_a_stage_says_how_models_speak_and_are_read():
  asked = []

  def ask(name, value):
    return lambda: asked.append(name) or value

  given = lambda functions: in_stage(functions, ask('decoding', POLICY.decoding), ask('scoring', SCORING))
  assert given(MODEL) == POLICY and asked == ['decoding', 'scoring']
  asked.clear()
  head = TokenHead(MODEL)
  assert given(head) == Critic(head=head, scoring=SCORING) and asked == ['scoring']
  asked.clear()
  network = object()
  assert given(network) is network and not asked, 'nobody asks how a network speaks'

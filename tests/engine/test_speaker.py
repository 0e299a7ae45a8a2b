"""A language model that speaks: the same sampler and scorer, with the model, decoding and scoring inside."""

import dataclasses

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from test_sample import DECODINGS, KEY, LENGTHS, MODEL, PARAMS, PROMPTS

from rlx.engine import sample as engine
from rlx.engine.speaker import Critic, Scoring, Speaker, in_stage
from rlx.models.heads import TokenHead, init_value

SCORING = Scoring(chunk_tokens=7, packing=None)
POLICY = Speaker(model=MODEL, decoding=DECODINGS['all_filters'], scoring=SCORING)


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

"""Evaluations of texts: the same held-out problems, answered without chance, under short names."""

import algorithms_table as toy
import jax
import jax.numpy as jnp
import numpy as np
import pytest

from rlx.engine import sample as engine
from rlx.evaluation import text
from rlx.evaluation.latent import verified_with_latents
from rlx.models import latent

PARAMS = toy.MODEL.init(jax.random.key(0))
NAMES = {'accuracy', 'response_tokens', 'truncated_fraction'}


def examined(evaluation, params):
  metrics, transcripts = evaluation.read(jax.jit(evaluation.ask)({'policy': params, 'other': ()}, ()))
  return metrics, transcripts


@pytest.mark.slow
def test_accuracy_is_that_of_the_likeliest_answers():
  metrics, transcripts = examined(text.verified(toy.TASK, toy.POLICY, 3, problems=24), PARAMS)
  asked = toy.TASK.sample(jax.random.key(0), 24, True)
  rows = toy.POLICY.mode(PARAMS, asked['prompts'], asked['prompt_lengths'])
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
  hybrid = latent.init(jax.random.key(1), PARAMS, r_min=0.9, r_max=0.95)
  gate = lambda decay: {**hybrid, 'hybrid': {**hybrid['hybrid'], 'decay': jnp.full(toy.MODEL.width, decay)}}
  evaluation = verified_with_latents(toy.TASK, toy.POLICY, 24, problems=24, answer_start='')
  plain = examined(text.verified(toy.TASK, toy.POLICY, 24, problems=24), PARAMS)
  assert examined(evaluation, gate(1e3)) == plain
  assert examined(evaluation, gate(-1e3))[1] != plain[1], 'an open gate changes nothing here: no test'

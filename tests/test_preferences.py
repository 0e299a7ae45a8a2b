"""Configs of preferences as runs: stopped and gone on with to the bit; and what a step holds in memory."""

import dataclasses
import functools
import json
import math
import re

import algorithms_table as table
import chex
import jax
import jax.numpy as jnp
from ml_collections import ConfigDict
import optax
import pytest
from whole_runs import in_the_repository, numbers, run_in

from rlx.algorithms.bradley_terry import bradley_terry
from rlx.algorithms.dpo import dpo as dpo_algorithm
from rlx.engine.speaker import Judge, Scoring, Speaker
from rlx.experiments.configs.preferences import dpo, tr_dpo
from rlx.experiments.data import generate
from rlx.losses import preference
from rlx.models import heads
from rlx.models.language import LanguageModel
from rlx.step import make_train_step
from rlx.types import State, StatefulRollout


@pytest.fixture(autouse=True)
def _here():
  with in_the_repository():
    yield


def small(config: ConfigDict) -> ConfigDict:
  """What compiles in seconds: no evaluation, two steps a dispatch."""
  config.evals = ConfigDict()
  config.log.headline = 'loss/total'
  config.log.writers = ()
  config.mesh.data = 1
  return config


@pytest.mark.slow
@pytest.mark.parametrize('make', [
    lambda folder: dpo.get_config('smoke'),
    lambda folder: dpo.get_config('smoke,lora_rank=2'),
    lambda folder: dpo.get_config(f'smoke,stored={folder}/kept.npz'),
    lambda folder: tr_dpo.get_config('smoke,lora_rank=2'),
], ids=['dpo', 'dpo_lora', 'dpo_stored', 'tr_dpo_lora'])
def test_a_run_that_was_stopped_is_the_whole_one(make, tmp_path):
  config = small(make(tmp_path))
  metrics, state, _ = run_in(config, tmp_path / 'whole')
  again, resumed, _ = run_in(config, tmp_path / 'stopped', stops=(2,))
  assert metrics == again
  chex.assert_trees_all_equal(numbers(state), numbers(resumed))
  assert (tmp_path / 'whole/model/model.safetensors').is_file()


# --- memory -------------------------------------------------------------------------------------------------

VOCABULARY, ROWS, COLUMNS = 4096, 8, 48


def buffers_of(method, chunk_tokens):
  """Bytes of the largest array of a compiled step, and of all of its temporaries together."""
  shape = dataclasses.replace(table.MODEL.shape, vocab_size=VOCABULARY, context_length=COLUMNS)
  model = LanguageModel(shape)
  rows = {
      'tokens': jnp.ones((ROWS, COLUMNS), jnp.int32), 'valid': jnp.ones((ROWS, COLUMNS), bool),
      'action_mask': jnp.broadcast_to(jnp.arange(COLUMNS) >= 4, (ROWS, COLUMNS)),
      'prompt_lengths': jnp.full(ROWS, 4), 'groups': jnp.arange(ROWS) // 2,
  }
  rollout = StatefulRollout(begin=lambda key: {}, draw=lambda models, world, key: (rows, world), data=None)
  scoring = Scoring(chunk_tokens=chunk_tokens, packing=None)
  speaker = Speaker(
      model=model, decoding=dataclasses.replace(table.DECODING, max_tokens=COLUMNS - 4), scoring=scoring,
  )
  policy = jax.eval_shape(model.init, jax.random.key(0))
  if method == 'dpo':
    algorithm = dpo_algorithm(
        rollout, speaker, speaker, loss=functools.partial(preference.sigmoid, beta=0.1)
    )
    params, slow = {'policy': policy}, {'reference': policy}
  else:
    head = heads.reward_head(model)
    algorithm = bradley_terry(rollout, Judge(head=head.functions, scoring=scoring))
    begin = lambda policy: head.init(jax.random.key(0), {'policy': policy})
    params, slow = {'judge': jax.eval_shape(begin, policy)}, {}
  optimizer = optax.sgd(1.0)
  state = State(
      step=jnp.int32(0), params=params, slow=slow, opt_state=jax.eval_shape(optimizer.init, params), world={},
      key=jax.random.key(0),
  )
  step = make_train_step(algorithm, optimizer, epochs=1, minibatches=1, microbatches=1)
  compiled = jax.jit(step, donate_argnums=0).lower(state).compile()
  sizes = [
      math.prod(map(int, dims.split(','))) * int(bits) // 8
      for bits, dims in re.findall(r'[fsu](8|16|32|64)\[([\d,]+)\]', compiled.as_text())
  ]
  return max(sizes), compiled.memory_analysis().temp_size_in_bytes


@pytest.mark.slow
@pytest.mark.parametrize('method', ['dpo', 'reward'])
def test_no_array_of_a_step_has_a_row_a_token_and_a_word(method):
  """A sixteenth of [B, T, V] at most, forward and backward; all logits at once would be most of it."""
  largest, temporaries = buffers_of(method, chunk_tokens=16)
  every_logit = 4 * ROWS * COLUMNS * VOCABULARY
  assert largest <= every_logit / 16, largest / every_logit
  assert temporaries < every_logit / 2, temporaries / every_logit
  if method == 'dpo':
    at_once, _ = buffers_of(method, chunk_tokens=ROWS * COLUMNS)
    assert at_once > every_logit / 2


def test_more_solutions_are_of_different_problems(tmp_path):
  generate.more_solutions(5, tmp_path)
  for name, column in (('solutions', 'completion'), ('steps', 'labels'), ('step_pairs', 'rejected')):
    files = [tmp_path / f'{name}_{part}.jsonl' for part in ('train', 'test')]
    train, held_out = ([json.loads(line) for line in path.read_text().splitlines()] for path in files)
    assert len(train) == 5 and len(held_out) == 256 and all(column in row for row in train)
    assert len({row['prompt'] for row in train + held_out}) == 261

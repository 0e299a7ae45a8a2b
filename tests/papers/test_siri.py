"""SIRI: a length limit that swings makes a verbose solver brief, cycle by cycle, and costs no accuracy."""

import functools

import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest

from rlx.algorithms.grpo import grpo
from rlx.algorithms.sft import sft
from rlx.controllers import allocation, schedules
from rlx.controllers import prompts as choice
from rlx.engine.decoding import Decoding
from rlx.engine.speaker import Scoring, Speaker
from rlx.envs.fork import fork, undecided
from rlx.losses.anchors import no_kl
from rlx.models.language import LanguageModel
from rlx.models.transformer import TransformerConfig
from rlx.rewards.verifier import verifier
from rlx.rollout import prompts
from rlx.rollout.curriculum import curriculum
from rlx.step import make_train_step, repeat
from rlx.types import State, stateful

SEEDS, PERIOD, CYCLES = 5, 20, 3
FORK = dict(choices=4, length=2, before=0, after=10, letters=4, held_out_share=0.25)  # verbose: filler behind
TASK = fork(**FORK)
HIGH, LOW = TASK.answer_columns, 4
MODEL = LanguageModel(TransformerConfig(
    vocab_size=TASK.vocab_size, num_layers=1, width=32, num_heads=2, num_kv_heads=2, head_size=16,
    mlp_size=64, context_length=16, rope_theta=100.0,
))
DECODING = Decoding(
    max_tokens=HIGH, min_tokens=0, temperature=1.0, top_k=0, top_p=1.0, sampler='gumbel',
    eos_ids=TASK.eos_ids, pad_id=0,
)
POLICY = Speaker(model=MODEL, decoding=DECODING, scoring=Scoring(chunk_tokens=1024, packing=None))


def run(algorithm, optimizer, params, steps, key):
  """All seeds side by side: parameters and metrics, [seeds, ...] each."""
  dispatch = repeat(make_train_step(algorithm, optimizer, epochs=1, minibatches=1, microbatches=1), steps)
  rollout = stateful(algorithm.rollout)

  def one(params, seed):
    state = State(
        step=jnp.int32(0), params={'policy': params}, slow={}, opt_state=optimizer.init({'policy': params}),
        world=rollout.begin(key), key=jax.random.fold_in(key, seed),
    )
    state, metrics = dispatch(state, rollout.data)
    return state.params['policy'], metrics

  return jax.jit(jax.vmap(one))(params, jnp.arange(SEEDS))


def limited(length):
  """GRPO with a length limit that follows the step."""
  rollout = curriculum(
      TASK, POLICY, num_problems=48, batch_size=64, num_prompts=8, num_slots=0,
      scores=choice.everywhere, draw=choice.without_replacement, allocate=allocation.uniform, length=length,
      keep=1.0, prior_rate=0.5, prior_strength=1.0,
  )
  return grpo(
      rollout, verifier(TASK, POLICY), POLICY, no_kl(), clip_low=0.2, clip_high=0.28, entropy_coef=0.0
  )


@pytest.mark.slow
def test_no_row_is_longer_than_the_limit_of_its_step():
  length = functools.partial(schedules.oscillating, low=LOW, high=HIGH, period=4)
  rollout = limited(length).rollout
  params = MODEL.init(jax.random.key(0))
  world = {**rollout.begin(jax.random.key(0)), 'data': rollout.data}
  draw = jax.jit(rollout.draw)
  for step in (0, 1, 2):
    batch, _ = draw({'policy': params}, {**world, 'batches': jnp.int32(step)}, jax.random.key(step))
    assert int(batch['action_mask'].sum(axis=1).max()) == int(length(step))


@pytest.mark.slow
def test_each_cycle_shortens_answers_and_accuracy_is_not_below_that_of_a_fixed_limit():
  """Five seeds, three cycles of 20 steps of 64 rows, against 60 steps with the full limit.

  Lengths are taken where the limit is at its height, so that they are the policy's own. Measured, tokens at
  the beginning and after each cycle, median (worst seed): 7.1 (7.7), 2.5 (2.7), 2.3 (2.3), 2.2 (2.4); 2 is
  the shortest. With the full limit 7.1, 4.8, 3.1, 3.0 (5.5): GRPO's mean over a row favours short ones too.
  Accuracy in the end is 98 % (worst 95 %) with either.
  """
  params = jax.vmap(MODEL.init)(jax.random.split(jax.random.key(3), SEEDS))
  # Half of what it is taught is right: accuracy is left to be learnt.
  lessons = prompts.solutions(undecided(**FORK, right_share=0.5), POLICY, batch_size=64)
  taught, _ = run(sft(lessons, POLICY), optax.adam(3e-3), params, 100, jax.random.key(1))
  limits = {
      'swings': functools.partial(schedules.oscillating, low=LOW, high=HIGH, period=PERIOD),
      'fixed': functools.partial(schedules.constant, value=HIGH),
  }
  found = {
      name: run(limited(limit), optax.adam(1e-3), taught, PERIOD * CYCLES, jax.random.key(2))[1]
      for name, limit in limits.items()
  }
  heights = [np.clip([k * PERIOD - 1, k * PERIOD, k * PERIOD + 1], 0, PERIOD * CYCLES - 1) for k in range(4)]
  at_heights = lambda name, metric: np.stack(
      [np.asarray(found[name][metric])[:, steps].mean(axis=1) for steps in heights], axis=1
  )
  lengths = {name: at_heights(name, 'tokens/response_mean') for name in found}
  accuracy = {name: at_heights(name, 'reward/mean') for name in found}
  assert np.all(np.diff(np.median(lengths['swings'], axis=0)) < 0)
  assert np.median(lengths['swings'][:, -1]) < np.median(lengths['fixed'][:, -1])
  assert np.median(accuracy['swings'][:, -1]) > np.median(accuracy['fixed'][:, -1]) - 0.02

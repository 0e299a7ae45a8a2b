"""What tests on chains of skills share: a tiny policy, five seeds side by side, and an examination."""

import jax
import jax.numpy as jnp
import numpy as np
import optax

from rlx.engine import sample as engine
from rlx.engine.decoding import Decoding
from rlx.engine.speaker import Scoring, Speaker
from rlx.models.language import LanguageModel
from rlx.models.transformer import TransformerConfig
from rlx.rollout import inject
from rlx.rollout import prompts as rollouts
from rlx.step import make_train_step, repeat
from rlx.types import State, stateful

NUM_SEEDS = 5


def policy_for(task, width=32):
  """A tiny decoder, sampled as it is."""
  model = LanguageModel(TransformerConfig(
      vocab_size=task.vocab_size, num_layers=1, width=width, num_heads=4, num_kv_heads=4, head_size=8,
      mlp_size=2 * width, context_length=32, rope_theta=100.0,
  ))
  decoding = Decoding(
      max_tokens=task.answer_columns, min_tokens=0, temperature=1.0, top_k=0, top_p=1.0, sampler='gumbel',
      eos_ids=task.eos_ids, pad_id=0,
  )
  return Speaker(model=model, decoding=decoding, scoring=Scoring(chunk_tokens=2048, packing=None))


def untrained(policy):
  """Parameters [seeds, ...]."""
  return jax.vmap(policy.model.init)(jax.random.split(jax.random.key(3), NUM_SEEDS))


def run(algorithm, params, steps, key, learning_rate):
  """Parameters, metrics and worlds, [seeds, ...] each."""
  adam = optax.adam(learning_rate)
  rollout = stateful(algorithm.rollout)
  dispatch = repeat(make_train_step(algorithm, adam, epochs=1, minibatches=1, microbatches=1), steps)

  def one(params, seed):
    key_of_seed = jax.random.fold_in(key, seed)
    state = State(
        step=jnp.int32(0), params={'policy': params}, slow={}, opt_state=adam.init({'policy': params}),
        world=rollout.begin(key_of_seed), key=key_of_seed,
    )
    state, metrics = dispatch(state, rollout.data)
    return state.params['policy'], metrics, state.world

  params, metrics, world = jax.jit(jax.vmap(one))(params, jnp.arange(NUM_SEEDS))
  return params, jax.tree.map(np.asarray, metrics), world


def exam(task, policy, params, *, samples, form=''):
  """[seeds] each, on 64 held-out problems: the share of samples that are right, and of problems solved."""
  problems = task.sample(jax.random.key(0), 64, True)
  columns = rollouts.columns_of(inject.without_forms(problems), samples)

  @jax.jit
  @jax.vmap
  def ask(params):
    rows = policy.sample(params, *inject.form_of(problems, form), jax.random.key(9), group_size=samples)
    right = task.verify(columns, engine.completions_of(rows, policy.decoding))
    return right.mean(), inject.passed(right, samples).mean()

  return tuple(np.asarray(x) for x in ask(params))

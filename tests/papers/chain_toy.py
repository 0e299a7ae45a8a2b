"""Policies that think in steps, for the papers that look inside: taught by someone who is often mistaken.

So the format is known, every step is right with about the same chance, and there is much to learn.
"""

import dataclasses
import functools

import jax
import jax.numpy as jnp
import optax

from rlx.algorithms.sft import sft
from rlx.engine.decoding import Decoding
from rlx.engine.speaker import Scoring, Speaker
from rlx.envs.chain import chain
from rlx.envs.text import Task
from rlx.models.language import LanguageModel
from rlx.models.transformer import TransformerConfig
from rlx.rollout import prompts
from rlx.step import make_train_step, repeat
from rlx.types import State

MODULUS, STEPS, SEEDS = 3, 3, 5
FIRST_DIGIT = 5
MODEL = LanguageModel(TransformerConfig(
    vocab_size=FIRST_DIGIT + MODULUS, num_layers=1, width=32, num_heads=2, num_kv_heads=2, head_size=16,
    mlp_size=64, context_length=32, rope_theta=100.0,
))
SIZES = dict(batch_size=64, group_size=8)
CLIP = dict(clip_low=0.2, clip_high=0.2)


def sums(*, checks: int) -> Task:
  """Three digits modulo three."""
  return chain(modulus=MODULUS, min_steps=STEPS, max_steps=STEPS, checks=checks, held_out_share=0.2)


def policy_for(task: Task, model: LanguageModel = MODEL) -> Speaker:
  decoding = Decoding(
      max_tokens=task.answer_columns, min_tokens=0, temperature=1.0, top_k=0, top_p=1.0, sampler='gumbel',
      eos_ids=task.eos_ids, pad_id=0,
  )
  return Speaker(model=model, decoding=decoding, scoring=Scoring(chunk_tokens=512, packing=None))


@functools.partial(jax.jit, static_argnames='model')
def logprobs_behind(params, tokens, model=MODEL):
  """[V] log-probs of what follows a prefix, a list of tokens that zeros fill up."""
  hidden, _ = model.forward(params, tokens[None])
  last = jnp.sum(tokens != 0) - 1
  return jax.nn.log_softmax(model.logits(params, hidden[0, last]))


def mistaken(task: Task, rate: float) -> Task:
  """The same problems, with solutions in which each operand is misread with this chance."""

  def sample(key, num, held_out):
    problems = task.sample(key, num, held_out)
    keys = jax.random.split(jax.random.fold_in(key, 1))
    misread = jax.random.bernoulli(keys[0], rate, problems['operands'].shape)
    other = jax.random.randint(keys[1], misread.shape, 1, MODULUS)
    shift = jnp.cumsum(jnp.where(misread, other, 0), axis=1)
    solutions = problems['solutions']
    is_digit = solutions >= FIRST_DIGIT
    step = jnp.minimum(jnp.cumsum(is_digit, axis=1) - 1, STEPS - 1)
    shift = jnp.take_along_axis(shift, jnp.maximum(step, 0), axis=1)
    shifted = (solutions - FIRST_DIGIT + shift) % MODULUS + FIRST_DIGIT
    return {**problems, 'solutions': jnp.where(is_digit, shifted, solutions)}

  return dataclasses.replace(task, sample=sample)


def state_of(params, optimizer, key, slow=None) -> State:
  return State(
      step=jnp.int32(0), params={'policy': params}, slow=slow or {},
      opt_state=optimizer.init({'policy': params}), world={}, key=key,
  )


def run(algorithm, optimizer, params, steps, key, slow=None):
  """All seeds side by side: parameters and metrics, [seeds, ...] each."""
  dispatch = repeat(make_train_step(algorithm, optimizer, epochs=1, minibatches=1, microbatches=1), steps)

  def one(params, slow, seed):
    state, metrics = dispatch(state_of(params, optimizer, jax.random.fold_in(key, seed), slow))
    return state.params['policy'], metrics

  return jax.jit(jax.vmap(one))(params, slow or {}, jnp.arange(SEEDS))


@functools.cache
def taught(checks: int):
  """[seeds, ...] parameters: 250 supervised steps with right solutions, then 60 with mistaken ones."""
  task = sums(checks=checks)
  policy = policy_for(task)
  params = jax.vmap(MODEL.init)(jax.random.split(jax.random.key(3), SEEDS))
  for seed, (teacher, steps) in enumerate([(task, 250), (mistaken(task, 0.3), 60)]):
    lessons = prompts.solutions(teacher, policy, batch_size=64)
    algorithm = sft(lessons, policy)
    params, _ = run(algorithm, optax.adam(5e-3 / (1 + seed)), params, steps, jax.random.key(seed))
  return params

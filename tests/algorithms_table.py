"""One row an algorithm: how it is built, on a toy with a known answer; `test_conformance.py` checks them.

The toy: a prompt is one digit, and the reward is the share of the completion's tokens that repeat it. Chance
is 1/6, the best is 1. Adding an algorithm to rlx adds one row here.
"""

from collections.abc import Callable
from typing import NamedTuple

import jax
import jax.numpy as jnp

from rlx.algorithms.cispo import cispo
from rlx.algorithms.dapo import dapo
from rlx.algorithms.dr_grpo import dr_grpo
from rlx.algorithms.grpo import grpo
from rlx.algorithms.ppo import ppo
from rlx.algorithms.reinforce import reinforce
from rlx.algorithms.rloo import rloo
from rlx.algorithms.rose import rose
from rlx.algorithms.sft import sft
from rlx.algorithms.tempo import tempo
from rlx.algorithms.tlt import tlt
from rlx.algorithms.treepo import treepo
from rlx.envs.text import Task
from rlx.models import drafter, heads
from rlx.models.transformer import TransformerConfig
from rlx.rewards.verifier import verifier
from rlx.rollout import prompts, tree
from rlx.rollout import sample as engine
from rlx.rollout.sample import Decoding
from rlx.types import Algorithm

NUM_TOKENS, GROUP_SIZE, BATCH_SIZE = 3, 4, 64


def repeat_digit() -> Task:
  """`3` -> `333`; the reward counts the share of threes."""

  def sample(key, num, held_out):
    del held_out
    digits = jax.random.randint(key, (num, 1), 2, 6)
    return {
        'prompts': digits,
        'prompt_lengths': jnp.ones(num, jnp.int32),
        'solutions': jnp.repeat(digits, NUM_TOKENS, axis=1),
    }

  def verify(problems, completions):
    right = completions[:, :NUM_TOKENS] == problems['solutions']
    return jnp.mean(right, axis=1, dtype=jnp.float32)

  return Task(alphabet='0123', prompt_columns=1, answer_columns=NUM_TOKENS, sample=sample, verify=verify)


TASK = repeat_digit()
MODEL = TransformerConfig(
    vocab_size=TASK.vocab_size, num_layers=1, width=16, num_heads=4, num_kv_heads=2, head_size=8, mlp_size=32,
    context_length=16,
)
DECODING = Decoding(
    max_tokens=NUM_TOKENS, min_tokens=0, temperature=1.0, top_k=0, top_p=1.0, sampler='gumbel', eos_ids=(1,),
    pad_id=0,
)
DRAFTER = drafter.config_of(MODEL, num_layers=1)


PACKING = None  # how rows are packed for scoring


def score(params, batch):
  return engine.score(params, MODEL, batch, decoding=DECODING, chunk_size=64, packing=PACKING)


def value(params, batch):
  return heads.values(params, MODEL, batch, packing=PACKING)


def draft_score(params, batch):
  return engine.score(params, DRAFTER, batch, decoding=DECODING, chunk_size=64, packing=PACKING)


def samples(batch_size=BATCH_SIZE):
  return prompts.completions(
      TASK, MODEL, DECODING, batch_size=batch_size, group_size=GROUP_SIZE, num_slots=0
  )


def drafted_samples():
  return prompts.drafted_completions(
      TASK, MODEL, DRAFTER, DECODING, batch_size=BATCH_SIZE, group_size=GROUP_SIZE, num_slots=16,
      draft_tokens=2, max_live=16,
  )


def growing():
  return tree.segments(
      TASK, MODEL, DECODING, batch_size=BATCH_SIZE, group_size=GROUP_SIZE, segment_tokens=1, first_branches=2,
      branching=2, uncertainty=0.0, repeated_tokens=0, least_logprob=-100.0,
  )


def exploring():
  return tree.explore(
      TASK, MODEL, DECODING, batch_size=BATCH_SIZE, group_size=GROUP_SIZE, first_rows=2, rows_per_round=2,
      epsilon=0.5, synonyms=(),
  )


class Row(NamedTuple):
  name: str
  make: Callable[[], Algorithm]
  slow: tuple[str, ...] = ()  # lagging copies of the policy that it asks for
  critic: bool = False
  drafter: bool = False
  metric: str = 'reward/mean'  # rises as it learns
  reached: float = 0.9  # by then


reward = verifier(TASK, DECODING)
clip = dict(clip_low=0.2, clip_high=0.2)

ROWS = (
    Row('sft', lambda: sft(prompts.solutions(TASK, DECODING, batch_size=BATCH_SIZE), score),
        metric='-loss/nll', reached=-0.1),
    Row('reinforce', lambda: reinforce(samples(), reward, score, kl_coef=0.0, entropy_coef=0.0)),
    Row('rloo', lambda: rloo(samples(), reward, score, kl_coef=0.001, entropy_coef=0.001),
        slow=('reference',)),
    Row('grpo', lambda: grpo(samples(), reward, score, **clip, kl_coef=0.001, entropy_coef=0.0),
        slow=('reference',)),
    Row('dr_grpo', lambda: dr_grpo(
        samples(), reward, score, **clip, kl_coef=0.0, entropy_coef=0.0, length=NUM_TOKENS)),
    Row('dapo', lambda: dapo(
        samples(2 * BATCH_SIZE), reward, score, clip_low=0.2, clip_high=0.28, train_rows=BATCH_SIZE,
        max_tokens=2 * NUM_TOKENS, overlong_buffer=NUM_TOKENS), metric='reward/before_selection'),
    Row('cispo', lambda: cispo(samples(), reward, score, clip_low=1.0, clip_high=0.28)),
    Row('ppo', lambda: ppo(
        samples(), reward, score, value, **clip, kl_coef=0.001, entropy_coef=0.0, value_coef=0.5,
        value_clip=0.2, discount=1.0, lambda_=0.95), slow=('reference',), critic=True),
    Row('tlt', lambda: tlt(
        drafted_samples(), reward, score, draft_score, **clip, kl_coef=0.0, entropy_coef=0.0, draft_coef=1.0),
        drafter=True),
    Row('tempo', lambda: tempo(samples(), reward, score, **clip, kl_coef=0.001), slow=('reference',)),
    Row('treepo', lambda: treepo(growing(), reward, score, clip_low=0.2, clip_high=0.28)),
    Row('rose', lambda: rose(
        exploring(), reward, score, **clip, kl_coef=0.001, length_power=0.5, length=NUM_TOKENS),
        slow=('reference',)),
)

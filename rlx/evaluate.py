"""Accuracy on problems that are never trained on, with transcripts to read."""

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from rlx.envs.text import Task
from rlx.models.transformer import TransformerConfig
from rlx.rollout import sample as engine
from rlx.rollout.sample import Decoding
from rlx.types import Batch, Metrics

_PROBLEMS_SEED = 0  # the held-out problems are the same for every run of a task


def make_evaluate(
    task: Task, config: TransformerConfig, decoding: Decoding, *, problems: int, transcripts: int
) -> Callable[[Any], tuple[Metrics, Batch]]:
  """Greedy decoding of held-out problems.

  Args:
    task: where problems come from.
    config: shape of the policy.
    decoding: the run's; its chance is taken out.
    problems: how many held-out problems are asked.
    transcripts: how many of them are handed back to be read.
  Returns:
    `params -> (metrics, rows)`; rows hold `prompts`, `completions`, `solutions` and `rewards`.
  """

  def evaluate(params) -> tuple[Metrics, Batch]:
    asked = task.sample(jax.random.key(_PROBLEMS_SEED), problems, True)
    batch = engine.sample(
        params, config, asked['prompts'], asked['prompt_lengths'], jax.random.key(0),
        group_size=1, decoding=decoding.greedy,
    )
    tokens = jnp.where(batch['action_mask'], batch['tokens'], decoding.pad_id)
    completions = engine.actions(batch, tokens, decoding.max_tokens)
    rewards = task.verify(asked, completions)
    metrics = {
        'eval/accuracy': rewards.mean(),
        'eval/response_tokens': batch['action_mask'].sum(axis=1).mean(dtype=jnp.float32),
        'eval/truncated_fraction': batch['truncated'].mean(dtype=jnp.float32),
    }
    rows = {
        'prompts': asked['prompts'], 'completions': completions,
        'solutions': asked['solutions'], 'rewards': rewards,
    }
    return metrics, jax.tree.map(lambda a: a[:transcripts], rows)

  return evaluate


def read_transcripts(task: Task, rows: Batch) -> list[dict]:
  """Rows of an evaluation as text: prompt, completion, solution, correct."""
  rows = jax.tree.map(np.asarray, rows)
  return [
      {
          'prompt': task.decode(prompt),
          'completion': task.decode(completion),
          'solution': task.decode(solution),
          'correct': bool(reward == 1),
      }
      for prompt, completion, solution, reward in zip(
          rows['prompts'], rows['completions'], rows['solutions'], rows['rewards'], strict=True
      )
  ]

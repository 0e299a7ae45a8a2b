"""What a policy can do on problems that are never trained on, with transcripts to read.

An evaluation is two functions: `ask` is pure and compiled (vmapped over a population), `read` turns what came
back into metrics and transcripts on the host, where reward functions in Python may be called.
"""

from collections.abc import Callable
import dataclasses
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from rlx import reductions
from rlx.data.dataset import Dataset
from rlx.engine import sample as engine
from rlx.engine.sample import Decoding
from rlx.envs.text import Task
from rlx.models.transformer import TransformerConfig
from rlx.rewards.host import HostReward
from rlx.types import Batch, Score

_PROBLEMS_SEED = 0  # the held-out problems are the same for every run of a task


@dataclasses.dataclass(frozen=True, kw_only=True)
class Evaluation:
  """How a policy is examined.

  Attributes:
    ask: `params -> arrays`, pure.
    read: `arrays -> (metrics, transcripts)`, on the host. A transcript has `prompt`, `completion`, `solution`
      (what was expected, or '') and `correct`.
  """

  ask: Callable[[Any], Any]
  read: Callable[[Any], tuple[dict[str, float], list[dict]]]


def verified(
    task: Task, config: TransformerConfig, decoding: Decoding, transcripts: int, *, problems: int
) -> Evaluation:
  """Greedy decoding of held-out problems of a task that verifies completions itself.

  Args:
    task: where problems come from.
    config: shape of the policy.
    decoding: the run's; its chance is taken out.
    transcripts: how many are handed back to be read.
    problems: how many held-out problems are asked.
  """
  answer = lambda params, asked: _greedy(params, config, decoding, asked)
  return verified_by(task, answer, decoding, transcripts, problems=problems)


def verified_by(
    task: Task, answer: Callable[[Any, Batch], Batch], decoding: Decoding, transcripts: int, *, problems: int
) -> Evaluation:
  """`verified` with another way to answer.

  Args:
    task: where problems come from.
    answer: `(params, problems) -> rows`, a row a problem.
    decoding: says how long completions can be.
    transcripts: how many are handed back to be read.
    problems: how many held-out problems are asked.
  """

  def ask(params):
    asked = task.sample(jax.random.key(_PROBLEMS_SEED), problems, True)
    batch = answer(params, asked)
    completions = engine.completions_of(batch, decoding)
    rewards = task.verify(asked, completions)
    rows = {
        'prompts': asked['prompts'], 'completions': completions,
        'solutions': asked['solutions'], 'rewards': rewards,
    }
    metrics = {'eval/accuracy': rewards.mean(), **_lengths(batch)}
    return metrics, jax.tree.map(lambda a: a[:transcripts], rows)

  def read(answer):
    metrics, rows = answer
    return {name: float(x) for name, x in metrics.items()}, read_transcripts(task, rows)

  return Evaluation(ask=ask, read=read)


def rewarded(
    task: Dataset, config: TransformerConfig, decoding: Decoding, reward: HostReward, transcripts: int,
    *, problems: int, accuracy: str,
) -> Evaluation:
  """Greedy decoding of the first held-out rows of a data set, scored by the run's reward functions.

  Args:
    task: the data set.
    config: shape of the policy.
    decoding: the run's; its chance is taken out.
    reward: the reward of the run.
    transcripts: how many are handed back to be read.
    problems: how many held-out rows are asked.
    accuracy: name of the reward function whose mean is `eval/accuracy`.
  Raises:
    ValueError: there is no such function, or there are fewer held-out rows.
  """
  if accuracy not in reward.names:
    raise ValueError(f'eval.accuracy={accuracy!r} is none of the reward functions {sorted(reward.names)}')
  asked = task.held_out(problems)

  def ask(params):
    batch = _greedy(params, config, decoding, jax.tree.map(jnp.asarray, asked))
    return _lengths(batch), engine.completions_of(batch, decoding), batch['action_mask'].sum(axis=1)

  def read(answer):
    lengths, completions, counts = answer
    tokens = [row[:count].tolist() for row, count in zip(completions, counts, strict=True)]
    scores = reward.score(asked['rows'], tokens)
    metrics = {name: float(x) for name, x in lengths.items()}
    known = {name: x[~np.isnan(x)] for name, x in scores.values.items()}
    metrics |= {f'eval/{name}': float(x.mean()) for name, x in known.items() if len(x)}
    metrics['eval/reward'] = float(scores.totals[scores.scored].mean()) if scores.scored.any() else 0.0
    metrics['eval/failed'] = float(sum(x.sum() for x in scores.failed.values()))
    right = scores.values[accuracy] == 1
    metrics['eval/accuracy'] = float(right.mean())  # what could not be scored was not right
    texts = [task.decode(row) for row in tokens[:transcripts]]
    return metrics, _transcripts(task, asked, texts, right)

  return Evaluation(ask=ask, read=read)


def likelihood(
    task: Dataset, config: TransformerConfig, decoding: Decoding, score: Score, transcripts: int,
    *, problems: int,
) -> Evaluation:
  """Loss of the policy on held-out demonstrations, and greedy completions of the same rows to read.

  Args:
    task: the data set.
    config: shape of the policy.
    decoding: the run's; its chance is taken out of the completions.
    score: `(params, batch) -> (logprobs, entropy)`, each [B, T].
    transcripts: how many completions are made.
    problems: how many held-out rows are scored.
  Raises:
    ValueError: there are fewer held-out rows, or they have nothing to demonstrate.
  """
  shown = task.held_out(min(transcripts, problems))
  rows = task.held_out_demonstrations(problems)

  def ask(params):
    batch = jax.tree.map(jnp.asarray, rows)
    weights = reductions.token_mean(batch['action_mask'])
    nll = reductions.weighted_mean(-score(params, batch)[0], weights)
    answers = _greedy(params, config, decoding, jax.tree.map(jnp.asarray, shown))
    metrics = {'eval/nll': nll, 'eval/perplexity': jnp.exp(nll), **_lengths(answers)}
    return metrics, engine.completions_of(answers, decoding), answers['action_mask'].sum(axis=1)

  def read(answer):
    metrics, completions, counts = answer
    texts = [task.decode(row[:count]) for row, count in zip(completions, counts, strict=True)]
    solutions = task.solutions(shown['rows'])
    right = [text.strip() == solution.strip() for text, solution in zip(texts, solutions, strict=True)]
    return {name: float(x) for name, x in metrics.items()}, _transcripts(task, shown, texts, right)

  return Evaluation(ask=ask, read=read)


def _transcripts(task: Dataset, asked: Batch, texts: list[str], right) -> list[dict]:
  """Of the first held-out rows that were asked, as many as there are texts."""
  prompts = [
      task.decode(prompt[:length])
      for prompt, length in zip(asked['prompts'], asked['prompt_lengths'], strict=True)
  ]
  solutions = task.solutions(asked['rows'][: len(texts)])
  return [
      {'prompt': prompt, 'completion': text, 'solution': solution, 'correct': bool(correct)}
      for prompt, text, solution, correct in zip(prompts, texts, solutions, right, strict=False)
  ]


def _greedy(params, config, decoding: Decoding, asked: Batch) -> Batch:
  return engine.sample(
      params, config, asked['prompts'], asked['prompt_lengths'], jax.random.key(0),
      group_size=1, decoding=decoding.greedy,
  )


def _lengths(batch: Batch) -> dict[str, jax.Array]:
  return {
      'eval/response_tokens': batch['action_mask'].sum(axis=1).mean(dtype=jnp.float32),
      'eval/truncated_fraction': batch['truncated'].mean(dtype=jnp.float32),
  }


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

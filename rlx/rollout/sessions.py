"""Entries of a memory bank that a reranker takes, and an answerer that says which of them it has used."""

import jax
import jax.numpy as jnp

from rlx.engine import sample as engine
from rlx.engine.speaker import Speaker
from rlx.envs.sessions import SessionTask
from rlx.errors import at_least
from rlx.models.networks import Network
from rlx.types import Batch, Key, Models, StatefulRollout, World


def cited_entries(
    task: SessionTask, reranker: Network, answerer: Speaker, *, batch_size: int
) -> StatefulRollout:
  """Draws training problems, k entries for each by the reranker, and an answer to them with its citation.

  Entries are drawn without replacement: the k greatest of the scores with Gumbel noise.

  Args:
    task: questions and banks.
    reranker: scores the entries of a bank.
    answerer: reads entries and the question, in the order in which they lie in the bank.
    batch_size: rows B of the batch, one a question.
  Returns:
    A `rollout` function. Its rows are the answers; columns `queries`, `candidates` of the problem, `choices`
    [B, k] in the order in which they were drawn, and `cited` [B, k] bool, which of them the answer names;
    but neither the value nor which entry was needed. For the metrics, `memory/cited`, the share of answers
    that name one.
  """
  at_least(1, batch_size=batch_size)

  def draw(models: Models, world: World, key: Key) -> tuple[Batch, World]:
    problem_key, choice_key, answer_key = jax.random.split(key, 3)
    problems, world = task.draw(world, problem_key, batch_size)
    known = {name: problems[name] for name in ('queries', 'candidates')}
    scores = reranker.apply(models['reranker'], known['queries'], known['candidates'])
    noisy = scores + jax.random.gumbel(choice_key, scores.shape)
    choices = jax.lax.top_k(noisy, task.num_read)[1]
    prompts, lengths, shown = asked_with(task, known, choices)
    rows = answerer.sample(models['answerer'], prompts, lengths, answer_key, group_size=1)
    cited = choices == named(task, answerer, rows, shown)[:, None]
    told = {'memory/cited': jnp.any(cited, axis=1).astype(jnp.float32)}
    return {**rows, **known, 'choices': choices, 'cited': cited, **told}, world

  return StatefulRollout(begin=task.begin, draw=draw, data=task.data)


def asked_with(
    task: SessionTask, problems: Batch, choices: jax.Array
) -> tuple[jax.Array, jax.Array, jax.Array]:
  """Prompts [N, T] of questions behind the chosen entries [N, k], their lengths, and the entries as shown."""
  shown = jnp.sort(choices, axis=1)
  prompts = task.with_entries(problems['queries'], problems['candidates'], shown)
  return prompts, jnp.full(prompts.shape[0], prompts.shape[1]), shown


def named(task: SessionTask, answerer: Speaker, rows: Batch, shown: jax.Array) -> jax.Array:
  """[N] int32: which entry of its bank an answer cites of those [N, k] that were shown; -1 for none."""
  place = task.cited(engine.completions_of(rows, answerer.decoding))
  entry = jnp.take_along_axis(shown, jnp.maximum(place, 0)[:, None], axis=1)[:, 0]
  return jnp.where(place >= 0, entry, -1)

"""What a retriever takes for held-out files, and how far that helps the generator behind it."""

import jax
import jax.numpy as jnp
import numpy as np

from rlx.engine.speaker import Speaker
from rlx.envs.snippets import SnippetTask
from rlx.errors import at_least
from rlx.evaluation.evaluation import PROBLEMS_SEED, Evaluation
from rlx.models.networks import Network
from rlx.rewards.by_perplexity import perplexities
from rlx.rollout.snippets import behind_choices
from rlx.types import Models, World


def retrieval(
    task: SnippetTask, retriever: Network, generator: Speaker, transcripts: int, *, problems: int
) -> Evaluation:
  """The candidate with the highest score for each of some held-out files.

  Args:
    task: the world, which knows which snippet was needed.
    retriever: chooses.
    generator: whose perplexity of what comes next is measured.
    transcripts: how many files are handed back to be read.
    problems: how many held-out files are asked.
  Returns:
    The evaluation. Of files that need a snippet: `recall`, the share in which it was taken, `stops_short`, in
    which none was. Of files that need none: `stops_enough`, in which none was taken;
    `stops_apart` is how much more often that is. Of all: `taken`, the
    share with a snippet, and `perplexity`, the mean; `perplexity_enough` of those that need none.
  """
  at_least(1, problems=problems)

  def ask(models: Models, world: World):
    del world
    asked = task.sample(jax.random.key(PROBLEMS_SEED), problems, True)
    scores = retriever.apply(models['retriever'], asked['queries'], asked['candidates'])
    choices, gold = jnp.argmax(scores, axis=1), asked['gold']
    rows = behind_choices(task, asked, choices)
    surprise = perplexities(generator.score(models['generator'], rows)[0], rows['action_mask'])
    taken = rows['prompt_lengths'] > task.query_columns
    needs = gold >= 0
    enough, short = jnp.mean(~taken, where=~needs), jnp.mean(~taken, where=needs)
    metrics = {
        'recall': jnp.mean(choices == gold, where=needs), 'stops_short': short, 'stops_enough': enough,
        'stops_apart': enough - short, 'taken': jnp.mean(taken),
        'perplexity': surprise.mean(), 'perplexity_enough': jnp.mean(surprise, where=~needs),
    }
    shown = {'tokens': rows['tokens'], 'lengths': rows['prompt_lengths'], 'choices': choices, **asked}
    return metrics, jax.tree.map(lambda x: x[:transcripts], shown)

  def read(answer):
    metrics, rows = answer
    return {name: float(x) for name, x in metrics.items()}, [
        _transcript(task, {name: np.asarray(x[i]) for name, x in rows.items()})
        for i in range(len(rows['gold']))
    ]

  return Evaluation(ask=ask, read=read)


def _transcript(task: SnippetTask, row: dict) -> dict:
  """What was taken for a file, and what would have been needed."""
  spelt = [task.decode(x) for x in row['candidates']]
  return {
      'prompt': task.decode(row['queries']), 'completion': spelt[row['choices']],
      'solution': spelt[row['gold']] if row['gold'] >= 0 else '',
      'correct': bool(spelt[row['choices']] == (spelt[row['gold']] if row['gold'] >= 0 else '')),
  }

"""What a reranker takes out of memory banks for held-out questions, and what the answers come to."""

import jax
import jax.numpy as jnp
import numpy as np

from rlx.engine import sample as engine
from rlx.engine.speaker import Speaker
from rlx.envs.sessions import SessionTask
from rlx.errors import at_least
from rlx.evaluation.evaluation import PROBLEMS_SEED, Evaluation
from rlx.models.networks import Network
from rlx.rollout.sessions import asked_with, named
from rlx.types import Models, World


def recalled(
    task: SessionTask, reranker: Network, answerer: Speaker, transcripts: int, *, problems: int
) -> Evaluation:
  """The k entries with the highest scores for some held-out questions, and answers without chance.

  Args:
    task: questions and banks, which knows which entry was needed.
    reranker: chooses.
    answerer: reads and answers.
    transcripts: how many questions are handed back to be read.
    problems: how many held-out questions are asked.
  Returns:
    The evaluation. `recall`, the share in which the needed entry is among the k; `accuracy`, of right
    answers; `cited`, of answers that cite anything; and `precision`, of citations of the needed entry among
    these.
  """
  at_least(1, problems=problems)

  def ask(models: Models, world: World):
    del world
    asked = task.sample(jax.random.key(PROBLEMS_SEED), problems, True)
    scores = reranker.apply(models['reranker'], asked['queries'], asked['candidates'])
    choices, gold = jax.lax.top_k(scores, task.num_read)[1], asked['gold']
    prompts, lengths, shown = asked_with(task, asked, choices)
    rows = answerer.mode(models['answerer'], prompts, lengths)
    completions, entry = engine.completions_of(rows, answerer.decoding), named(task, answerer, rows, shown)
    right, cites = task.verify(asked, completions), entry >= 0
    metrics = {
        'recall': jnp.mean(jnp.any(choices == gold[:, None], axis=1)), 'accuracy': jnp.mean(right),
        'cited': jnp.mean(cites), 'precision': jnp.sum(cites & (entry == gold)) / jnp.maximum(cites.sum(), 1),
    }
    told = {'prompts': prompts, 'completions': completions, 'values': asked['value'], 'right': right}
    return metrics, jax.tree.map(lambda x: x[:transcripts], told)

  def read(answer):
    metrics, told = answer
    columns = (np.asarray(told[name]) for name in ('prompts', 'completions', 'values', 'right'))
    return {name: float(x) for name, x in metrics.items()}, [
        {
            'prompt': task.decode(prompt), 'completion': task.decode(completion),
            'solution': task.decode([value]), 'correct': bool(right),
        }
        for prompt, completion, value, right in zip(*columns, strict=True)
    ]

  return Evaluation(ask=ask, read=read)

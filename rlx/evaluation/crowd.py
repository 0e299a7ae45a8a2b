"""What several models know, each alone and all of them together, by the vote."""

from collections.abc import Mapping

import jax
import jax.numpy as jnp

from rlx.engine.speaker import Speaker
from rlx.envs.text import Task
from rlx.errors import at_least
from rlx.evaluation.evaluation import PROBLEMS_SEED, Evaluation
from rlx.rewards import labelfree
from rlx.rollout.crowd import answers_of_all
from rlx.types import Models, World


def members(
    task: Task, speakers: Mapping[str, Speaker], *, problems: int, group_size: int, answer_tokens: int
) -> Evaluation:
  """Models that answer held-out problems and vote on them, by weights of `labelfree.self_consistency`.

  Args:
    task: where problems come from; it verifies completions itself.
    speakers: name -> its model, by `names`; of one shape.
    problems: how many held-out problems are asked.
    group_size: samples of a problem and a model.
    answer_tokens: the answer is so many tokens before the end; 0 for the whole completion.
  Returns:
    The evaluation; its metrics are the share of right samples of each model by its name, `best`, `worst` and
    `mean` of them; `vote`, the share of problems whose winner is right, and `margin`, `vote - best`.
  """
  at_least(1, problems=problems, group_size=group_size)

  def ask(models: Models, world: World):
    del world
    problem_key, key = jax.random.split(jax.random.key(PROBLEMS_SEED))
    asked = task.sample(problem_key, problems, True)
    rows = answers_of_all(speakers, models, asked, key, group_size=group_size, num_slots=0)
    join = lambda column: jnp.concatenate([batch[column] for batch in rows.values()])
    batch = {name: join(name) for name in ('tokens', 'action_mask', 'prompt_lengths', 'groups')}
    groups = batch['groups']
    decoding = next(iter(speakers.values())).decoding
    completions, said, has_answer = labelfree.read(task, decoding, batch, answer_tokens=answer_tokens)
    right = task.verify(jax.tree.map(lambda x: x[groups], asked), completions)
    agents = jnp.arange(len(groups)) * len(rows) // len(groups)
    weights = labelfree.self_consistency(said, groups, agents) * has_answer
    elected = labelfree.weighted_vote(said, groups, weights) * has_answer
    vote = jax.ops.segment_max(elected * right, groups, num_segments=problems).mean()
    alone = right.reshape(len(rows), -1).mean(axis=1)
    return {
        **dict(zip(rows, alone, strict=True)), 'best': alone.max(), 'worst': alone.min(),
        'mean': alone.mean(), 'vote': vote, 'margin': vote - alone.max(),
    }

  def read(answer):
    return {name: float(x) for name, x in answer.items()}, []

  return Evaluation(ask=ask, read=read)

"""The reward of a task that checks completions itself, inside the compiled step."""

from rlx.engine import sample
from rlx.engine.speaker import Speaker
from rlx.envs.text import Task
from rlx.types import Annotate, Batch, Key, Models


def verifier(task: Task, policy: Speaker) -> Annotate:
  """Adds `rewards` [B]: 1 where the completion solves its problem, 0 elsewhere.

  Args:
    task: its `verify` reads the problem's columns, which the rollout has put into the batch.
    policy: says how long completions can be.
  """

  def reward(models: Models, batch: Batch, key: Key) -> Batch:
    del models, key
    return {**batch, 'rewards': task.verify(batch, sample.completions_of(batch, policy.decoding))}

  return reward

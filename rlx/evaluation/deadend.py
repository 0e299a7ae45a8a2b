"""What a policy says under the security bounds of a rectifier, of problems that are never trained on."""

import jax

from rlx.engine.speaker import Speaker
from rlx.envs.text import Task
from rlx.evaluation import text as evaluate
from rlx.evaluation.evaluation import Evaluation
from rlx.rollout import deadend
from rlx.types import Batch, Models


def rectified(
    task: Task, policy: Speaker, rectifier: Speaker, transcripts: int, *, problems: int
) -> Evaluation:
  """`text.sampled` under the bounds; `nll` and `entropy` are still those of the policy alone.

  Args:
    task: where problems come from; it verifies completions itself.
    policy: draws, with its own decoding.
    rectifier: caps it.
    transcripts: how many are handed back to be read.
    problems: how many held-out problems are asked.
  """

  def draw(models: Models, asked: Batch, key: jax.Array) -> Batch:
    prompts = asked['prompts'], asked['prompt_lengths']
    return deadend.sample(models, policy, rectifier, *prompts, key, group_size=1, greedy=False)

  return evaluate.sampled_by(task, draw, policy, transcripts, problems=problems)

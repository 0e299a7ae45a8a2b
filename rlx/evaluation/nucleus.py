"""What a policy says inside another one's nucleus, of problems that are never trained on."""

import jax

from rlx.engine.speaker import Speaker
from rlx.envs.text import Task
from rlx.evaluation import text as evaluate
from rlx.evaluation.evaluation import Evaluation
from rlx.rollout import nucleus
from rlx.types import Batch, Models


def verified_inside(
    task: Task, policy: Speaker, past: Speaker, transcripts: int, *, problems: int, top_p: float,
    min_kept: int,
) -> Evaluation:
  """`text.verified` of what is said as in training: the likeliest tokens of those that the past one leaves.

  A policy that learns inside a nucleus (`nlpo`) is never told what it says outside. Just after a copy of the
  policy into `past` there is no difference: its likeliest token is in its own nucleus.

  Args:
    task: where problems come from; it verifies completions itself.
    policy: what is examined, without filters of its own; the chance is taken out of its decoding.
    past: whose nucleus it is: `models['past']`.
    transcripts: how many are handed back to be read.
    problems: how many held-out problems are asked.
    top_p: in (0, 1], of the past policy; at 1 it is `text.verified`.
    min_kept: tokens that are left at least.
  """
  nucleus.check(policy, top_p, min_kept)

  def answer(models: Models, asked: Batch) -> Batch:
    return nucleus.sample(
        models, policy, past, asked['prompts'], asked['prompt_lengths'], jax.random.key(0), group_size=1,
        top_p=top_p, min_kept=min_kept, greedy=True,
    )

  return evaluate.verified_by(task, answer, policy, transcripts, problems=problems)

"""What a policy that reads hybrid inputs can do on problems that are never trained on."""

import jax

from rlx.engine.speaker import Speaker
from rlx.envs.text import Task
from rlx.evaluation import text as evaluate
from rlx.evaluation.evaluation import Evaluation
from rlx.rollout import latent
from rlx.types import Batch, Models


def verified_with_latents(
    task: Task, policy: Speaker, transcripts: int, *, problems: int, answer_start: str
) -> Evaluation:
  """`text.verified` with hybrid inputs: the likeliest tokens, and latents as in training.

  Args:
    task: where problems come from.
    policy: what is examined, with a gate.
    transcripts: how many are handed back to be read.
    problems: how many held-out problems are asked.
    answer_start: as for `rollout.latent.completions`.
  """
  answer_id = latent.token_of(task, answer_start)

  def answer(models: Models, asked: Batch) -> Batch:
    return latent.sample(
        models['policy'], policy.model, asked['prompts'], asked['prompt_lengths'], jax.random.key(0),
        group_size=1, decoding=policy.decoding, answer_id=answer_id, greedy=True,
    )

  return evaluate.verified_by(task, answer, policy, transcripts, problems=problems)

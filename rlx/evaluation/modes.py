"""What a policy says in a mode that is chosen for it, of problems that are never trained on."""

from collections.abc import Sequence

import jax
import jax.numpy as jnp

from rlx.engine.speaker import Speaker
from rlx.envs.text import Task
from rlx.evaluation import text as evaluate
from rlx.evaluation.evaluation import Evaluation
from rlx.rollout import modes as chosen
from rlx.types import Batch, Models


def in_mode(
    task: Task, policy: Speaker, transcripts: int, *, problems: int, modes: Sequence[str]
) -> Evaluation:
  """`text.verified` of answers that begin with the token of a mode.

  Args:
    task: where problems come from; it verifies completions itself.
    policy: what is examined; the chance is taken out of its decoding.
    transcripts: how many are handed back to be read.
    problems: how many held-out problems are asked.
    modes: the mode, as `rollout.modes.forced` has it; one.
  Raises:
    ValueError: there are several modes.
  """
  if len(modes) != 1:
    raise ValueError(f'modes={tuple(modes)}: answers begin with one; name an evaluation for each')
  marks, decoding = chosen.mode_tokens(task, modes), policy.decoding
  behind = policy.saying(max_tokens=decoding.max_tokens - 1, min_tokens=max(decoding.min_tokens - 1, 0))

  def answer(models: Models, asked: Batch) -> Batch:
    prompts = chosen.with_modes(asked['prompts'], asked['prompt_lengths'], marks)
    return chosen.as_action(behind.mode(models['policy'], *prompts), jnp.zeros(problems))

  return evaluate.verified_by(task, answer, policy, transcripts, problems=problems)

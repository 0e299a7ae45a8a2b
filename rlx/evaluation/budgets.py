"""What a policy answers when its thinking is cut short, of problems that are never trained on."""

from collections.abc import Sequence

import jax
import jax.numpy as jnp

from rlx.engine import sample as engine
from rlx.engine.probe import cut_rows, up_to_mark
from rlx.engine.speaker import Speaker
from rlx.envs.text import Task, one_token
from rlx.errors import at_least
from rlx.evaluation.evaluation import PROBLEMS_SEED, Evaluation
from rlx.rollout.prompts import columns_of
from rlx.types import Models, World


def anytime(
    task: Task, policy: Speaker, *, problems: int, budgets: Sequence[int], marker: str, summary_tokens: int
) -> Evaluation:
  """Greedy thinking, cut at each budget, and a greedy answer behind each cut.

  Args:
    task: verifies the answers, and says which token `marker` is.
    policy: what is examined; the chance is taken out of its decoding.
    problems: how many held-out problems are asked.
    budgets: m numbers of tokens of thinking.
    marker: what ends thinking; it is put behind thinking that is cut.
    summary_tokens: the longest answer behind it.
  Returns:
    The evaluation; its metrics are `accuracy_<budget>` and `accuracy`, their mean.
  Source: the curves of AnytimeReasoner, https://arxiv.org/abs/2505.13438.
  """
  at_least(1, problems=problems)
  mark, decoding = one_token(task, marker), policy.decoding
  brief = policy.saying(max_tokens=summary_tokens)

  def ask(models: Models, world: World) -> jax.Array:
    del world
    asked = task.sample(jax.random.key(PROBLEMS_SEED), problems, True)
    rows = policy.mode(models['policy'], asked['prompts'], asked['prompt_lengths'])
    _, kept = up_to_mark(rows, mark, decoding)
    cuts = jnp.minimum(kept[:, None], jnp.array(budgets)[None])
    said = brief.mode(models['policy'], *cut_rows(rows, cuts, jnp.array([mark])))
    whole = {'prompt_lengths': jnp.repeat(rows['prompt_lengths'], len(budgets))}
    completions = engine.actions(whole, said['tokens'], decoding.max_tokens + 1 + summary_tokens)
    right = task.verify(columns_of(asked, len(budgets)), completions)
    return right.reshape(problems, len(budgets)).mean(axis=0)

  def read(right: jax.Array):
    by_budget = {f'accuracy_{budget}': float(x) for budget, x in zip(budgets, right, strict=True)}
    return {'accuracy': float(right.mean()), **by_budget}, []

  return Evaluation(ask=ask, read=read)

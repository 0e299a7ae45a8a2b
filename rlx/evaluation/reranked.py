"""What a Q-function of tokens is good for once it is learnt: to choose among samples."""

import jax
import jax.numpy as jnp

from rlx.engine import sample as engine
from rlx.engine import token_q
from rlx.engine.speaker import Critic, Speaker
from rlx.envs.text import Task
from rlx.errors import at_least
from rlx.evaluation.evaluation import PROBLEMS_SEED, Evaluation
from rlx.evaluation.seats import chosen_by
from rlx.types import Models, World


def by_q(
    task: Task, policy: Speaker, value: Critic, *, problems: int, samples: int, scale: float
) -> Evaluation:
  """Samples of held-out problems, and of each problem the one whose last token has the largest Q.

  Args:
    task: a text task.
    policy: what is examined, with its own decoding.
    value: V.
    problems: how many held-out problems are asked.
    samples: of each.
    scale: α, as for `token_q.chosen_q`.
  Returns:
    The evaluation; its metrics are `one`, the share of samples that are right, `chosen`, that of those which
    are taken, `gain`, the difference, `any`, the share of problems with a right sample, `greedy`, that of
    greedy answers, and `over_greedy`, `chosen` less that.
  Source: the values as a second use of B-Coder, https://arxiv.org/abs/2310.03173. There a reward for each
    token is recovered from Q, and programs are ranked by its sum; here by Q of the end token, which is what
    the program will come to.
  """
  at_least(1, problems=problems, samples=samples)

  def ask(models: Models, world: World) -> dict[str, jax.Array]:
    del world
    problem_key, key = jax.random.split(jax.random.key(PROBLEMS_SEED))
    asked = task.sample(problem_key, problems, True)
    prompts = asked['prompts'], asked['prompt_lengths']
    rows = policy.sample(models['policy'], *prompts, key, group_size=samples)
    mask = rows['action_mask']
    last = mask & (jnp.cumsum(mask, axis=1) == mask.sum(axis=1, keepdims=True))
    q = token_q.chosen_q(policy, value, models, rows, scale=scale)
    right = task.verify(
        jax.tree.map(lambda x: jnp.repeat(x, samples, axis=0), asked),
        engine.completions_of(rows, policy.decoding),
    )
    chosen = chosen_by(*(x.reshape(problems, samples) for x in (jnp.where(last, q, 0).sum(axis=1), right)))
    said = policy.mode(models['policy'], *prompts)
    greedy = task.verify(asked, engine.completions_of(said, policy.decoding)).mean()
    return {**chosen, 'greedy': greedy, 'over_greedy': chosen['chosen'] - greedy}

  return Evaluation(ask=ask, read=lambda answer: ({name: float(x) for name, x in answer.items()}, []))

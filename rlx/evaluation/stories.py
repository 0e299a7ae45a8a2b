"""Stories (`envs/stories.py`), told in one pass and searched for, as readers like them."""

import jax
import jax.numpy as jnp

from rlx.engine import sample as engine
from rlx.engine.speaker import Speaker
from rlx.envs.stories import StoryTask, StoryValue
from rlx.errors import at_least
from rlx.evaluation.evaluation import PROBLEMS_SEED, SAMPLES_SEED, Evaluation
from rlx.rollout import stories as rollouts
from rlx.types import Models, World


def told(
    task: StoryTask, policy: Speaker, author: Speaker, judge: StoryValue, *, problems: int, beams: int,
    branches: int, target: float,
) -> Evaluation:
  """Held-out openings, continued in one pass and by the search.

  The metrics are `single` and `searched`, what readers make of them; `gain`, the second less the first;
  `moves`, the share of events of one pass that are fresh and follow; and `branches`, how many continuations
  of an event the search needs until readers like its story by `target`: the first of 1, 2, .. `branches` with
  one beam, and one more where none does.

  Args:
    task: whose readers are asked.
    policy: `models['policy']`, tells.
    author: `models['author']`, whom events surprise.
    judge: `models['judge']`, the value of the search.
    problems: how many openings.
    beams: of the search.
    branches: of the search.
    target: in the readers' units.
  """
  at_least(1, problems=problems, branches=branches)

  def ask(models: Models, world: World) -> dict[str, jax.Array]:
    del world
    asked = task.sample(jax.random.key(PROBLEMS_SEED), problems, True)
    key = jax.random.key(SAMPLES_SEED)
    said = lambda rows: engine.completions_of(rows, policy.decoding)
    plain = said(policy.sample(
        models['policy'], asked['prompts'], asked['prompt_lengths'], key, group_size=1
    ))
    value = rollouts.prefix_value(task, author, judge, models)
    search = lambda beams, branches: jax.tree.map(lambda x: x[::beams], rollouts.searched(
        task, policy, models['policy'], asked, key, value, beams, branches
    ))
    liked = lambda rows: task.liked(asked, said(rows))
    reached = jnp.stack([liked(search(1, k)) >= target for k in range(1, branches + 1)])
    needed = jnp.where(reached.any(axis=0), 1 + jnp.argmax(reached, axis=0), branches + 1)
    single, found = task.liked(asked, plain).mean(), liked(search(beams, branches)).mean()
    moves = task.moves(asked, plain).sum() / jnp.maximum((plain > task.eos_ids[0]).sum(), 1)
    return {
        'single': single, 'searched': found, 'gain': found - single, 'moves': moves,
        'branches': needed.astype(jnp.float32).mean(),
    }

  return Evaluation(ask=ask, read=lambda answer: ({name: float(x) for name, x in answer.items()}, []))

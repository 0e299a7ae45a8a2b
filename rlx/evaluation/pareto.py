"""What a policy with preferences reaches: the front over all weights, and the volume below it.

`hypervolumes` is an evaluation: a run reports `hypervolume`, and a search over hyper-parameters takes it as
the number to raise. The volume itself is `controllers.objectives.hypervolume`.
"""

from collections.abc import Sequence

import chex
import jax
import jax.numpy as jnp

from rlx.controllers.objectives import hypervolume
from rlx.envs.control.environment import Environment
from rlx.envs.control.preferences import preferring
from rlx.evaluation.episodes import EPISODES_SEED, numbers, play
from rlx.evaluation.evaluation import Evaluation
from rlx.models.networks import Policy
from rlx.types import Models, World


def undominated(points: jax.Array) -> jax.Array:
  """[N] bool, True where no other point [N, K] is at least as good in all objectives and better in one."""
  chex.assert_rank(points, 2)
  no_worse = jnp.all(points[:, None] >= points[None], axis=-1)  # [a, b]: a against b
  better = jnp.any(points[:, None] > points[None], axis=-1)
  return ~jnp.any(no_worse & better, axis=0)


def hypervolumes(
    env: Environment, policy: Policy, *, objectives: Sequence[str], reference: Sequence[float],
    num_preferences: int, max_steps: int,
) -> Evaluation:
  """One episode for each of evenly spaced weights of two objectives, by what the policy thinks best.

  Args:
    env: made by `with_preferences`; its `info` holds the objectives' returns when an episode ends.
    policy: what is examined.
    objectives: their names in `info`, in the order of the weights.
    reference: of the volume, for each objective.
    num_preferences: weights from (1, 0) to (0, 1), at least 2.
    max_steps: after which an episode is left.
  Raises:
    ValueError: there are not two objectives, or too few preferences.
  """
  if len(objectives) != 2 or len(reference) != 2 or num_preferences < 2:
    raise ValueError(
        f'objectives={tuple(objectives)}, reference={tuple(reference)}, num_preferences={num_preferences}: '
        'two objectives, a number for each, and at least 2'
    )

  def ask(models: Models, world: World):
    del world
    points = front_points(env, policy, models['policy'], objectives, num_preferences, max_steps)
    volume = hypervolume(points, jnp.array(reference), jnp.ones(num_preferences, bool))
    distinct = jnp.any(jnp.triu(jnp.all(points[:, None] == points[None], axis=-1), k=1), axis=0)
    return {'hypervolume': volume, 'front': jnp.sum(undominated(points) & ~distinct)}

  return Evaluation(ask=ask, read=numbers)


def front_points(
    env: Environment, policy: Policy, params, objectives: Sequence[str], num_preferences: int, max_steps: int
) -> jax.Array:
  """[num_preferences, 2] the returns in each objective, for weights from (1, 0) to (0, 1)."""
  act = lambda params, observations, key: policy.mode(params, observations)

  def played(share):
    chosen = preferring(env, jnp.stack([1 - share, share]))
    info = play(chosen, act, params, jax.random.key(EPISODES_SEED), 1, max_steps)
    return jnp.stack([info[name][0] for name in objectives])

  return jax.vmap(played)(jnp.linspace(0, 1, num_preferences))

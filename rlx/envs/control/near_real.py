"""Toys of the problems that controllers in service leave records of, and such records.

A mass is to be moved to a goal as in `pointmass`, and one thing makes each instance harder: actions act
`late`, the wind of `windy` pushes too, and in `limited` the drive trips, at a fine, once it has been too fast
for too long: a limit of the whole episode, of which an observation shows nothing. What there is to learn from
is what a cautious controller did (`data/behaviours.py`): far from the best, and much the same everywhere.

Source: the three difficulties and the conservative records are those of Gao et al., 2025 (NeoRL-2),
https://arxiv.org/abs/2503.19267, whose seven tasks are simulators of their own; these are not them.
"""

import jax
import jax.numpy as jnp

from rlx.envs.control import wrappers
from rlx.envs.control.environment import Environment
from rlx.envs.control.pointmass import pointmass

START, GOAL = (-0.7, -0.7), (0.7, 0.7)
SPEED_LIMIT = 0.5  # m / s
FINE = 100.0  # more than half of what random actions cost in a whole episode


def late(*, max_steps: int, steps: int) -> Environment:
  """Actions act `steps` steps later; those under way are seen.

  Args:
    max_steps: after which an episode is cut off; scores are of 100.
    steps: of the delay.
  """
  return wrappers.delayed(_plant(max_steps), steps=steps)


def windy(*, max_steps: int, std: float, persistence: float) -> Environment:
  """A wind that nobody controls is added to the actions; it is seen.

  Args:
    max_steps: as for `late`.
    std: of the wind, in units of the actions.
    persistence: how much of it is still there a step later.
  """
  return wrappers.disturbed(_plant(max_steps), std=std, persistence=persistence)


def limited(*, max_steps: int, limit: int) -> Environment:
  """An episode is over, at a fine, once more than `limit` of its steps were faster than `SPEED_LIMIT`.

  Args:
    max_steps: as for `late`.
    limit: in steps.
  """
  env = wrappers.constrained(_plant(max_steps), too_fast, limit=limit)
  return wrappers.tripping(env, fine=FINE)


def too_fast(observation: jax.Array, action: jax.Array) -> jax.Array:
  """[] 1 where a step ends, at [x, y, v_x, v_y], above the speed limit, and 0 elsewhere."""
  del action
  return jnp.where(jnp.linalg.norm(observation[2:4]) > SPEED_LIMIT, 1.0, 0.0)


def _plant(max_steps: int) -> Environment:
  return pointmass(
      max_steps=max_steps, friction=0.5, start=START, start_radius=0.2, goal=GOAL, obstacles=()
  )

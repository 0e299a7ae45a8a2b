"""A mass on a plane that accelerates where it is pushed and has to come to a goal, round obstacles if any.

`pointmass` pays minus the distance at each step and never ends by itself; `sparse_pointmass` pays 1 on
arrival, which ends the episode, and 0 before. The square is [-1, 1]² m; walls and obstacles stop the mass
dead. Two instances that differ in `friction` alone are a world and a simulator that is wrong about it.
"""

from collections.abc import Sequence
import math

import jax
import jax.numpy as jnp
import numpy as np

from rlx.envs.control import drawing
from rlx.envs.control.environment import Continuous, Environment, Timestep, timestep, with_time_limit
from rlx.types import Key

STEP_SECONDS = 0.1
MAX_ACCELERATION = 1.0  # m / s², along each axis
GOAL_RADIUS = 0.1  # m

Point = Sequence[float]  # x, y in m
Circle = Sequence[float]  # x, y, radius in m


def pointmass(
    *, max_steps: int, friction: float, start: Point, start_radius: float, goal: Point,
    obstacles: Sequence[Circle],
) -> Environment:
  """Observations [x, y, v_x, v_y], rewards -‖position - goal‖; nothing but the clock ends an episode.

  The returns behind a score, of random actions and of a linear controller, were measured with `friction=0.5`,
  `max_steps=100` from (-0.7, -0.7) to (0.7, 0.7) without obstacles, -181 and -25, and are taken to go with
  the distance; elsewhere a score is a scale and no claim.

  Args:
    max_steps: after which an episode is cut off; 100 is ample.
    friction: share of the speed that is lost in a second, at least 0: dv/dt = a - friction v.
    start: middle of the square in which episodes begin, at rest.
    start_radius: half the side of that square; 0 is always the same start.
    goal: where to go.
    obstacles: circles that the mass cannot enter; `()` for none.
  Raises:
    ValueError: a place is outside of the square or inside of an obstacle, or a number is negative.
  """
  distance = math.dist(start, goal)
  returns = -0.91 * max_steps * distance, -12.8 * distance

  def pay(position):
    return -jnp.linalg.norm(position - jnp.array(goal)), False

  env = _mass(pay, friction, start, start_radius, goal, obstacles, *returns)
  return with_time_limit(env, max_steps)


def sparse_pointmass(
    *, max_steps: int, friction: float, start: Point, start_radius: float, goal: Point,
    obstacles: Sequence[Circle],
) -> Environment:
  """`pointmass` that pays 1 within `GOAL_RADIUS` of the goal, where the episode ends, and 0 elsewhere."""

  def pay(position):
    arrived = jnp.linalg.norm(position - jnp.array(goal)) <= GOAL_RADIUS
    return arrived, arrived

  env = _mass(pay, friction, start, start_radius, goal, obstacles, 0.01, 1.0)
  return with_time_limit(env, max_steps)


def _mass(pay, friction, start, start_radius, goal, obstacles, random_return, expert_return) -> Environment:
  """The mass with `pay: position -> (reward, terminated)`."""
  _check(friction, start, start_radius, goal, obstacles)
  start, goal = jnp.array(start, jnp.float32), jnp.array(goal, jnp.float32)
  circles = jnp.array(obstacles, jnp.float32).reshape(-1, 3)

  def reset(key: Key):
    position = start + jax.random.uniform(key, (2,), minval=-start_radius, maxval=start_radius)
    state = jnp.concatenate([jnp.clip(position, -1, 1), jnp.zeros(2)])
    return state, state

  def step(state: jax.Array, action: jax.Array, key: Key) -> Timestep:
    del key
    position, velocity = state[:2], state[2:]
    acceleration = MAX_ACCELERATION * jnp.clip(action, -1, 1) - friction * velocity
    velocity = velocity + STEP_SECONDS * acceleration
    position, velocity = _stopped(position, position + STEP_SECONDS * velocity, velocity, circles)
    reward, terminated = pay(position)
    state = jnp.concatenate([position, velocity])
    arrived = jnp.linalg.norm(position - goal) <= GOAL_RADIUS
    return timestep(state, state, reward, terminated=terminated, success=arrived)

  def draw(state) -> np.ndarray:
    canvas = drawing.Canvas((-1.05, -1.05), (1.05, 1.05))
    canvas.disc(goal, GOAL_RADIUS, drawing.GREEN)
    for x, y, radius in obstacles:
      canvas.disc((x, y), radius, drawing.GREY)
    canvas.line(state[:2], state[:2] + 0.3 * state[2:], 0.02, drawing.GOLD)
    canvas.disc(state[:2], 0.05, drawing.BLUE)
    return canvas.image

  return Environment(
      reset=reset, step=step, observation_shape=(4,), actions=Continuous(2), random_return=random_return,
      expert_return=expert_return, draw=draw,
  )


def _stopped(position, wanted, velocity, circles):
  """Where the mass is after a move: at the wall that it ran into, or where it was before an obstacle."""
  inside = jnp.linalg.norm(wanted[None] - circles[:, :2], axis=-1) < circles[:, 2]
  blocked = inside.any()
  reached = jnp.where(blocked, position, jnp.clip(wanted, -1, 1))
  return reached, jnp.where(blocked | (jnp.abs(wanted) > 1), 0, velocity)


def _check(friction, start, start_radius, goal, obstacles):
  if friction < 0 or start_radius < 0:
    raise ValueError(f'friction={friction}, start_radius={start_radius}: both are at least 0')
  for name, place, room in (('start', start, start_radius), ('goal', goal, 0.0)):
    if max(abs(x) for x in place) > 1:
      raise ValueError(f'{name}={place} is outside of the square [-1, 1]²')
    for x, y, radius in obstacles:
      if math.dist(place, (x, y)) < radius + math.sqrt(2) * room:
        raise ValueError(f'{name}={place} meets the obstacle {(x, y, radius)}; move one of them')

"""A peg that is to go into a hole which only touch can find: a pad feels where it rests on the table.

The peg is round and held upright, by a gripper that yields: what it is pressed on the table with presses in a
soft pad between the two. What the pad feels is an image of depths, of the part of the peg's foot that rests
on the table and not above the hole; inside of the hole it feels nothing. The peg is never lifted off. An
observation holds two views side by side: `touch`, the image and the height of the gripper, and `privileged`,
the truth.

Source: the task is that of Akinola et al., 2024, https://arxiv.org/abs/2408.06506, with a pad in the place of
two camera sensors, and the penetration depth itself in the place of its picture.
"""

import jax
import jax.numpy as jnp
import numpy as np

from rlx.envs.control import drawing
from rlx.envs.control.environment import Continuous, Environment, Timestep, timestep, with_time_limit
from rlx.types import Key

RADIUS = 4.0  # mm, of the peg
CLEARANCE = 0.5  # mm, by which the hole is wider than the peg, on each side
MIN_PRESS, MAX_PRESS = 0.2, 1.0  # mm that the pad gives way
DEPTH = 3.0  # mm below the table, at which the peg is inserted
MAX_DISTANCE = 6.0  # mm of the peg from the hole, along either axis
STEP = 0.5  # mm, the furthest that an action moves the gripper along each axis
SOFTNESS = 0.2  # mm over which the edge of a contact is smeared
NUM_PRIVILEGED = 4


def tactile(
    *, max_steps: int, taxels: int, noise: float, start_radius: float, distance_cost: float, press_cost: float
) -> Environment:
  """Inserting pays 1 and ends an episode; every step costs by the distance from the hole and by the press.

  Actions are moves of the gripper along x, y and z. On the table the peg slides the less the more it is
  pressed, and not at all at `MAX_PRESS`. The returns behind a score were measured with 40 steps, 8 taxels,
  `start_radius=3` and both costs 0.02, the expert's being those of one who sees the truth.

  Args:
    max_steps: after which an episode is cut off.
    taxels: along a side of the image, at least 2.
    noise: standard deviation of each taxel, as a share of `MAX_PRESS`.
    start_radius: mm from the hole, up to which the peg begins.
    distance_cost: of a step at a distance of the peg's radius.
    press_cost: of a step at `MAX_PRESS`.
  Raises:
    ValueError: there are too few taxels, `noise` is negative, or the peg would begin outside of the table.
  """
  if taxels < 2 or noise < 0 or not 0 <= start_radius <= MAX_DISTANCE:
    raise ValueError(
        f'taxels={taxels}, noise={noise}, start_radius={start_radius}: at least 2, at least 0, and in '
        f'[0, {MAX_DISTANCE}]'
    )

  def observe(place: jax.Array, key: Key) -> jax.Array:
    image = footprint(place, taxels) * pressed(place) / MAX_PRESS
    image += noise * jax.random.normal(key, image.shape)
    scaled = place / jnp.array([RADIUS, RADIUS, DEPTH])
    return jnp.concatenate([image.reshape(-1), scaled[2:], scaled, pressed(place)[None] / MAX_PRESS])

  def reset(key: Key):
    radius_key, angle_key, noise_key = jax.random.split(key, 3)
    radius = start_radius * jnp.sqrt(jax.random.uniform(radius_key))
    angle = 2 * jnp.pi * jax.random.uniform(angle_key)
    place = jnp.stack([radius * jnp.cos(angle), radius * jnp.sin(angle), -MIN_PRESS])
    return place, observe(place, noise_key)

  def step(place: jax.Array, action: jax.Array, key: Key) -> Timestep:
    place = moved(place, STEP * jnp.clip(action, -1, 1))
    inserted = place[2] <= -DEPTH
    costs = distance_cost * jnp.linalg.norm(place[:2]) / RADIUS + press_cost * pressed(place) / MAX_PRESS
    return timestep(place, observe(place, key), inserted - costs, terminated=inserted, success=inserted)

  env = Environment(
      reset=reset, step=step, observation_shape=(taxels**2 + 1 + NUM_PRIVILEGED,), actions=Continuous(3),
      random_return=-0.87, expert_return=0.97, draw=_draw,
  )
  return with_time_limit(env, max_steps)


def touch(observations: jax.Array) -> jax.Array:
  """[..., taxels² + 1] what is felt, as shares of `MAX_PRESS`, and the gripper's height as one of `DEPTH`."""
  return observations[..., :-NUM_PRIVILEGED]


def privileged(observations: jax.Array) -> jax.Array:
  """[..., NUM_PRIVILEGED] x and y from the hole, the height and the press, each as a share of its scale."""
  return observations[..., -NUM_PRIVILEGED:]


def pressed(place: jax.Array) -> jax.Array:
  """[] mm that the pad gives way: what the gripper is below the table, where the peg is not in the hole."""
  is_inside = jnp.linalg.norm(place[:2]) <= CLEARANCE
  return jnp.where(is_inside, 0, -place[2])


def footprint(place: jax.Array, taxels: int) -> jax.Array:
  """[taxels, taxels] in [0, 1], the share of each taxel that is under the peg and above the table.

  Rows go along y and columns along x, from the peg's lower edges to its upper ones.
  """
  middles = ((np.arange(taxels) + 0.5) / taxels * 2 - 1) * RADIUS
  x, y = np.meshgrid(middles, middles)
  on_table = jnp.hypot(x + place[0], y + place[1]) - (RADIUS + CLEARANCE)
  return jnp.where(np.hypot(x, y) <= RADIUS, jax.nn.sigmoid(on_table / SOFTNESS), 0)


def moved(place: jax.Array, move: jax.Array) -> jax.Array:
  """[3] where a move [3] takes the peg, in mm: sideways first, then up or down."""
  is_deep = (place[2] < -MIN_PRESS) & (jnp.linalg.norm(place[:2]) <= CLEARANCE)
  sliding = 1 - pressed(place) / MAX_PRESS
  across = jnp.clip(place[:2] + sliding * move[:2], -MAX_DISTANCE, MAX_DISTANCE)
  # The wall of the hole holds a peg that is in it.
  distance = jnp.linalg.norm(across)
  across = jnp.where(is_deep & (distance > CLEARANCE), across * (0.99 * CLEARANCE / distance), across)
  lowest = jnp.where(jnp.linalg.norm(across) <= CLEARANCE, -DEPTH, -MAX_PRESS)
  height = jnp.clip(place[2] + move[2], lowest, -MIN_PRESS)
  return jnp.concatenate([across, height[None]])


def _draw(place) -> np.ndarray:
  """From above the hole and the peg's foot, redder the more it is pressed; beside them how deep it is."""
  reach = MAX_DISTANCE + RADIUS + 1
  canvas = drawing.Canvas((-reach, -reach), (reach + 3, reach), color=drawing.PALE)
  canvas.disc((0, 0), RADIUS + CLEARANCE, drawing.INK)
  is_inside = np.hypot(*place[:2]) <= CLEARANCE
  press = 0.0 if is_inside else min(-place[2] / MAX_PRESS, 1.0)
  canvas.disc(place[:2], RADIUS, drawing.shaded(press, drawing.GOLD, drawing.RED))
  depth = -place[2] / DEPTH if is_inside else 0.0
  canvas.box((reach + 1, reach - 1), (reach + 2, reach - 1 - depth * 2 * (reach - 1)), drawing.BLUE)
  return canvas.image

"""A corridor with a television at one end and noisy rooms at the other, each with a switch that calms it.

    television | start | hall ... | room 0 | room 1 | ...

The television is the noisiest place, nobody can turn it off, and one step leads away from it. A room is half
as noisy until its own switch is pressed in it; then it is silent for the rest of the episode. So who looks
for noise never leaves the television, and who wants to master noise has to learn each of the rooms.

Source: the idea is that of the rooms in Fickinger et al., 2021, https://arxiv.org/abs/2107.07394.
"""

import jax
import jax.numpy as jnp
import numpy as np

from rlx.envs.control import drawing
from rlx.envs.control.environment import Discrete, Environment, Timestep, timestep, with_time_limit
from rlx.types import Key

LEFT, RIGHT = 0, 1  # and then the switches
NUM_SWITCHES = 3  # that of room r is r modulo 3
START = 1


def noisy_rooms(*, num_rooms: int, hall: int, noise: int, max_steps: int) -> Environment:
  """Observations of 0 and 1: one-hot the cell, and what is heard there; calming a room pays 1 / num_rooms.

  The television makes all of `noise` numbers random at each step, a room that is not calm the first half of
  them; elsewhere they are 0. `info` has `room_r`, whether the episode has come to room r.

  Args:
    num_rooms: that can be calmed.
    hall: silent cells between the start and the first room.
    noise: numbers that the television makes random, even.
    max_steps: after which an episode is cut off; nothing else ends one.
  Raises:
    ValueError: a number is too small, or `noise` is odd.
  """
  if num_rooms < 1 or hall < 0 or noise < 2 or noise % 2:
    raise ValueError(
        f'num_rooms={num_rooms}, hall={hall}, noise={noise}: at least 1, 0 and 2, and the last even'
    )
  first_room = START + 1 + hall
  num_cells = first_room + num_rooms
  rooms = jnp.arange(first_room, num_cells)

  def observe(cell, calm, key: Key):
    loud = (rooms == cell) & ~calm
    heard = jnp.where(cell == 0, noise, jnp.where(loud.any(), noise // 2, 0))
    bits = jax.random.bernoulli(key, shape=(noise,)) & (jnp.arange(noise) < heard)
    return jnp.concatenate([jax.nn.one_hot(cell, num_cells), bits.astype(jnp.float32)])

  def reset(key: Key):
    state = (jnp.int32(START), jnp.zeros(num_rooms, bool), jnp.zeros(num_rooms, bool))
    return state, observe(*state[:2], key)

  def step(state, action: jax.Array, key: Key) -> Timestep:
    cell, calm, visited = state
    pressed = (action - RIGHT - 1) == jnp.arange(num_rooms) % NUM_SWITCHES
    calmed = (rooms == cell) & pressed & ~calm
    move = jnp.where(action == LEFT, -1, jnp.where(action == RIGHT, 1, 0))
    cell = jnp.clip(cell + move, 0, num_cells - 1)
    calm, visited = calm | calmed, visited | (rooms == cell)
    came = {f'room_{r}': visited[r] for r in range(num_rooms)}
    return timestep((cell, calm, visited), observe(cell, calm, key), calmed.sum() / num_rooms, **came)

  def draw(state) -> np.ndarray:
    """The corridor: red where there is noise, green where a room is calm."""
    cell, calm, _ = state
    colors = np.full((1, num_cells, 3), drawing.PALE)
    colors[0, 0] = drawing.RED
    colors[0, first_room:] = np.where(np.asarray(calm)[:, None], drawing.GREEN, drawing.GOLD)
    return drawing.cells(colors, [((0, int(cell)), drawing.INK)])

  env = Environment(
      reset=reset, step=step, observation_shape=(num_cells + noise,), actions=Discrete(2 + NUM_SWITCHES),
      random_return=0.0, expert_return=1.0, draw=draw,
  )
  return with_time_limit(env, max_steps)

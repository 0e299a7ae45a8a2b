"""A cue that is shown once and asked for later: what cannot remember earns 0 on average.

The observation is [cue, asked]: a cue of -1 or 1 at the first step and 0 behind it, and whether this is the
last step. The last action is paid 1 where it is the cue's (0 for -1, 1 for 1) and -1 where it is not; no
other action matters.
"""

import jax
import jax.numpy as jnp
import numpy as np

from rlx.envs.control import drawing
from rlx.envs.control.environment import Discrete, Environment, Timestep, timestep
from rlx.types import Key


def recall(*, num_steps: int) -> Environment:
  """The task above, of `num_steps` steps an episode.

  Raises:
    ValueError: there are fewer than two: then nothing has to be remembered.
  """
  if num_steps < 2:
    raise ValueError(f'num_steps={num_steps}: at least 2, the cue is shown at the first one')

  def observe(cue: jax.Array, count: jax.Array) -> jax.Array:
    return jnp.stack([jnp.where(count == 0, cue, 0), jnp.where(count == num_steps - 1, 1.0, 0.0)])

  def reset(key: Key):
    state = (jnp.where(jax.random.bernoulli(key), 1.0, -1.0), jnp.int32(0))
    return state, observe(*state)

  def step(state, action: jax.Array, key: Key) -> Timestep:
    del key
    cue, count = state
    last = count == num_steps - 1
    right = (action == 1) == (cue > 0)
    new = (cue, count + 1)
    return timestep(
        new, observe(*new), jnp.where(last, jnp.where(right, 1.0, -1.0), 0.0), terminated=last
    )

  def draw(state) -> np.ndarray:
    """The steps in a row, the present one dark; in front of them the cue, as long as it is in sight."""
    cue, count = state
    colors = np.full((1, num_steps + 1, 3), drawing.PALE)
    if count == 0:
      colors[0, 0] = drawing.BLUE if cue > 0 else drawing.RED
    colors[0, 1 + min(int(count), num_steps - 1)] = drawing.INK
    return drawing.cells(colors)

  return Environment(
      reset=reset, step=step, observation_shape=(2,), actions=Discrete(2), random_return=0.0,
      expert_return=1.0, draw=draw,
  )

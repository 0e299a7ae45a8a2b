"""A game of one move: two players choose at once, and a table says what each of them gets."""

import dataclasses

import jax
import jax.numpy as jnp
import numpy as np

from rlx.envs.control.environment import Discrete


@dataclasses.dataclass(frozen=True, eq=False)
class MatrixGame:
  """What both players see is nothing: an observation of one number, 1.

  Attributes:
    payoffs: [A, A, 2], of the first and the second player.
  """

  payoffs: np.ndarray

  @property
  def observation_shape(self) -> tuple[int, ...]:
    return (1,)

  @property
  def actions(self) -> Discrete:
    return Discrete(len(self.payoffs))

  def play(self, first: jax.Array, second: jax.Array) -> tuple[jax.Array, jax.Array]:
    """Payoffs [B] of both, for actions [B]."""
    both = jnp.asarray(self.payoffs)[first, second]
    return both[:, 0], both[:, 1]


def coordination(*, num_actions: int) -> MatrixGame:
  """Both get 1 where they choose the same, and 0 elsewhere: which one is for them to find.

  Args:
    num_actions: A, at least 2.
  """
  if num_actions < 2:
    raise ValueError(f'num_actions={num_actions}; at least 2')
  return MatrixGame(np.repeat(np.eye(num_actions, dtype=np.float32)[..., None], 2, axis=2))

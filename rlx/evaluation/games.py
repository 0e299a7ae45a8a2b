"""How two players of a game of one move do, exactly: over all pairs of actions."""

import jax
import jax.numpy as jnp

from rlx.envs.control.matrix_game import MatrixGame
from rlx.evaluation.evaluation import Evaluation
from rlx.models.networks import Policy
from rlx.types import Models, World


def expected_payoffs(env: MatrixGame, first: Policy, second: Policy) -> Evaluation:
  """`first` and `second`: what each of them can expect.

  Args:
    env: the game.
    first: a distribution of actions.
    second: likewise.
  """

  def chances(policy: Policy, params) -> jax.Array:
    actions = jnp.arange(env.actions.num)
    return jnp.exp(policy.score(params, jnp.ones((env.actions.num, 1)), actions)[0])

  def ask(models: Models, world: World) -> jax.Array:
    del world
    one, two = chances(first, models['first']), chances(second, models['second'])
    return jnp.einsum('a,b,abp->p', one, two, jnp.asarray(env.payoffs))

  def read(answer):
    return {'first': float(answer[0]), 'second': float(answer[1])}, []

  return Evaluation(ask=ask, read=read)

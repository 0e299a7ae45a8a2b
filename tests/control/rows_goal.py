"""Rows of the table: what is conditioned on a return, which is asked for at the end."""

import dataclasses

from agents import Agent, Row
import jax.numpy as jnp
from rows_core import SHAPE

from rlx.algorithms.control.rcsl import rcsl
from rlx.data import transitions as datasets
from rlx.envs.control.wrappers import commanded, with_return
from rlx.models import networks
from rlx.rollout.control.offline import offline


def rcsl_with(policy_of):
  def build(env):
    """The policy that is played is the conditioned one, always asked for 1, the best that a probe pays."""
    asked = commanded(env=lambda: env, target=1.0)
    rows = datasets.random(asked, num_envs=64, num_steps=32, discount=1.0, seed=7)
    conditioned = policy_of(asked)
    ask = lambda seen: with_return(jnp.append(seen, jnp.zeros((*seen.shape[:-1], 1)), axis=-1), 1.0)
    policy = dataclasses.replace(
        conditioned, mode=lambda params, seen: conditioned.mode(params, ask(seen))
    )
    return Agent(rcsl(offline(rows, batch_size=64), conditioned), policy, {'policy': conditioned}, {})

  return build


def gaussian(env):
  return networks.gaussian(env, initial_log_std=-1.0, **SHAPE)


ROWS = [
    Row('rcsl', rcsl_with(lambda env: networks.categorical(env, **SHAPE)), True, 1e-2, 300),
    Row('rcsl', rcsl_with(gaussian), False, 1e-2, 1000),
]

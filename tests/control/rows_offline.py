"""Rows of the table: what learns from a data set, here of uniformly random actions."""

import functools

from agents import Agent, Row
import jax
import jax.numpy as jnp
from rows_core import DISCOUNT, SHAPE, gaussian, state_values, values_of_the_mode

from rlx.algorithms.control.awac import awac
from rlx.algorithms.control.bc import bc
from rlx.algorithms.control.cal_ql import cal_ql
from rlx.algorithms.control.cql import cql
from rlx.algorithms.control.dual_rl import chi_square_rise
from rlx.algorithms.control.edac import edac
from rlx.algorithms.control.fdvl import fdvl
from rlx.algorithms.control.iql import iql
from rlx.algorithms.control.recoil import recoil
from rlx.algorithms.control.sac import sac
from rlx.algorithms.control.td3 import td3
from rlx.algorithms.control.td3_bc import td3_bc
from rlx.algorithms.control.xql import xql
from rlx.data import transitions as datasets
from rlx.models import networks
from rlx.rollout.control.offline import offline

TARGETS = dict(discount=DISCOUNT, target_rate=0.1)
WEIGHTED = dict(sharpness=30.0, weight_max=100.0, **TARGETS)
SOFT = dict(target_entropy=-3.0, **TARGETS)
PUSHED = dict(conservatism=0.02, num_actions=8)
SMOOTHED = dict(smoothing_noise=0.05, noise_clip=0.1, target_period=2, **TARGETS)


def transitions(env):
  rows = datasets.roll_out(
      env, datasets.random_actions(env), jax.random.key(7), num_envs=64, num_steps=32
  )
  return {**rows, 'returns_to_go': datasets.returns_to_go(rows, discount=DISCOUNT)}


def at_random(env):
  return offline(transitions(env), batch_size=64)


def of_the_best(env):
  """The actions that earned most, for what knows no rewards."""
  rows = transitions(env)
  best = jnp.argsort(-rows['rewards'])[:100]
  return offline(jax.tree.map(lambda x: x[best], rows), batch_size=64)


def with_marks(env):
  """Half of the rows are of the best actions, and marked as such."""
  rows = transitions(env)
  best = jnp.argsort(-rows['rewards'])[:100]
  marked = jax.tree.map(lambda x: jnp.concatenate([x[jnp.tile(best, 20)], x]), rows)
  return offline({**marked, 'preferred': jnp.arange(len(marked['rewards'])) < 2000}, batch_size=64)


def critics(env, num=2):
  return networks.critics(env, num=num, layer_norm=False, **SHAPE)


def build_bc(env):
  policy = gaussian(env)
  return Agent(bc(of_the_best(env), policy), policy, {'policy': policy}, {})


def soft(around, num=2):
  """Algorithms around SAC: `(parent, policy, critic) -> Algorithm`."""

  def build(env):
    policy, critic = networks.squashed_gaussian(env, **SHAPE), critics(env, num)
    temperature = networks.positive(initial=0.1)
    algorithm = around(sac(at_random(env), env, policy, critic, temperature, **SOFT), policy, critic)
    trained = {'policy': policy, 'critic': critic, 'temperature': temperature}
    return Agent(algorithm, policy, trained, {'target': 'critic'})

  return build


def in_sample(factory, rollout=at_random):
  """Algorithms that are made like IQL."""

  def build(env):
    policy, value, critic = gaussian(env), networks.state_value(env, **SHAPE), critics(env)
    algorithm = factory(rollout(env), policy, value, critic, **WEIGHTED)
    trained = {'policy': policy, 'value': value, 'critic': critic}
    return Agent(algorithm, policy, trained, {'target': 'critic'})

  return build


def build_awac(env):
  policy, critic = gaussian(env), critics(env)
  algorithm = awac(at_random(env), policy, critic, **WEIGHTED)
  return Agent(algorithm, policy, {'policy': policy, 'critic': critic}, {'target': 'critic'})


def build_td3_bc(env):
  policy, critic = networks.deterministic(env, exploration_noise=0.0, **SHAPE), critics(env)
  parent = td3(at_random(env), policy, critic, **SMOOTHED)
  algorithm = td3_bc(parent, policy, critic, greed=10.0)
  trained = {'policy': policy, 'critic': critic}
  return Agent(algorithm, policy, trained, {'target': 'critic', 'target_policy': 'policy'})


of = functools.partial
ROWS = [
    Row('bc', build_bc, False, 3e-3, 500),
    Row('cql', soft(of(cql, **PUSHED)), False, 3e-3, 1500, 1, values_of_the_mode),
    Row('cal_ql', soft(of(cal_ql, **PUSHED)), False, 3e-3, 1500, 1, values_of_the_mode),
    Row(
        'edac', soft(lambda parent, policy, critic: edac(parent, critic, diversity=0.01), num=5), False, 3e-3,
        1500, 1, values_of_the_mode,
    ),
    Row('td3_bc', build_td3_bc, False, 3e-3, 1500, 1, values_of_the_mode),
    Row('awac', build_awac, False, 3e-3, 1500, 1, values_of_the_mode),
    Row('iql', in_sample(of(iql, expectile=0.9)), False, 3e-3, 1500, 1, state_values),
    Row('xql', in_sample(of(xql, scale=0.2, exponent_max=5.0)), False, 3e-3, 1500, 1, state_values),
    Row('fdvl', in_sample(of(fdvl, rise=chi_square_rise, greed=0.9)), False, 3e-3, 1500, 1, state_values),
    # Its values are of how near the expert a row is, not of returns.
    Row(
        'recoil', in_sample(of(recoil, expectile=0.9, pseudo_reward=1.0, expert_weight=2.0), with_marks),
        False, 3e-3, 1500,
    ),
]

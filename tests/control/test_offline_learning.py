"""What offline algorithms get out of a data set of mixed quality, beside behaviour cloning: a point mass.

Two thirds of the streams are of random actions, at a score of 0, and one third of a noisy controller, whose
episodes score 84 to 91. A clone does something in between; whoever looks at the rewards finds the controller.
Seen, over five seeds: interquartile mean and worst score

    bc        0.0  -20.3        iql       91.4  84.6
    td3_bc   55.6   20.4        xql       88.8  82.9
    awac     85.9   78.5        fdvl-chi  90.3  89.9
    cql      90.6   81.3        fdvl-tv   90.5  89.2
    edac     77.7   73.6        cal_ql    91.6  81.3
"""

import functools

import agents
import jax
import numpy as np
import optax
import pytest

from rlx.algorithms.control.awac import awac
from rlx.algorithms.control.bc import bc
from rlx.algorithms.control.cal_ql import cal_ql
from rlx.algorithms.control.cql import cql
from rlx.algorithms.control.dual_rl import chi_square_rise, total_variation_rise
from rlx.algorithms.control.edac import edac
from rlx.algorithms.control.fdvl import fdvl
from rlx.algorithms.control.iql import iql
from rlx.algorithms.control.sac import sac
from rlx.algorithms.control.td3 import td3
from rlx.algorithms.control.td3_bc import td3_bc
from rlx.algorithms.control.xql import xql
from rlx.data.behaviours import steered
from rlx.envs.control.pointmass import pointmass
from rlx.evaluation import episodes as evaluation
from rlx.evaluation.aggregates import interquartile_mean
from rlx.models import networks
from rlx.rollout.control.offline import offline

SEEDS, STEPS, DISCOUNT = 5, 2000, 0.97
SHAPE = dict(hidden=(32, 32), activation='relu')
TARGETS = dict(discount=DISCOUNT, target_rate=0.01)
WEIGHTED = dict(sharpness=3.0, weight_max=100.0, **TARGETS)
SOFT = dict(target_entropy=-1.5, **TARGETS)
GOAL = (0.7, 0.7)


def environment():
  return pointmass(
      max_steps=100, friction=0.5, start=(-0.7, -0.7), start_radius=0.2, goal=GOAL, obstacles=()
  )


@functools.cache
def mixed():
  return steered(
      environment(), goal=GOAL, gain=0.8, damping=0.8, noise=0.5, random_share=0.67, num_envs=30,
      num_steps=200, discount=DISCOUNT, seed=0,
  )


def agent(name):
  """The algorithm of that name on the data, with its networks."""
  env, rollout = environment(), offline(mixed(), batch_size=128)
  gaussian = networks.gaussian(env, initial_log_std=-1.0, **SHAPE)
  squashed = networks.squashed_gaussian(env, **SHAPE)
  fixed = networks.deterministic(env, exploration_noise=0.0, **SHAPE)
  critics = lambda num: networks.critics(env, num=num, layer_norm=True, **SHAPE)
  value, temperature = networks.state_value(env, **SHAPE), networks.positive(initial=0.1)
  twin, many = critics(2), critics(6)
  conservative = dict(conservatism=1.0, num_actions=4)
  in_sample = (rollout, gaussian, value, twin)
  soft = lambda critic: sac(rollout, env, squashed, critic, temperature, **SOFT)
  made, policy, critic = {
      'bc': lambda: (bc(rollout, gaussian), gaussian, None),
      'td3_bc': lambda: (
          td3_bc(
              td3(rollout, fixed, twin, smoothing_noise=0.2, noise_clip=0.5, target_period=2, **TARGETS),
              fixed, twin, greed=2.5,
          ),
          fixed, twin,
      ),
      'awac': lambda: (awac(rollout, gaussian, twin, **WEIGHTED), gaussian, twin),
      'cql': lambda: (cql(soft(twin), squashed, twin, **conservative), squashed, twin),
      'cal_ql': lambda: (cal_ql(soft(twin), squashed, twin, **conservative), squashed, twin),
      'edac': lambda: (edac(soft(many), many, diversity=1.0), squashed, many),
      'iql': lambda: (iql(*in_sample, expectile=0.8, **WEIGHTED), gaussian, twin),
      'xql': lambda: (xql(*in_sample, scale=1.0, exponent_max=5.0, **WEIGHTED), gaussian, twin),
      'fdvl-chi': lambda: (fdvl(*in_sample, rise=chi_square_rise, greed=0.8, **WEIGHTED), gaussian, twin),
      'fdvl-tv': lambda: (fdvl(*in_sample, rise=total_variation_rise, greed=0.8, **WEIGHTED), gaussian, twin),
  }[name]()
  trained, slow = {'policy': policy}, {}
  if critic is not None:
    trained, slow = {**trained, 'critic': critic}, {'target': 'critic'}
  if name in ('iql', 'xql', 'fdvl-chi', 'fdvl-tv'):
    trained['value'] = value
  if name in ('cql', 'cal_ql', 'edac'):
    trained['temperature'] = temperature
  if name == 'td3_bc':
    slow['target_policy'] = 'policy'
  return agents.Agent(made, policy, trained, slow)


@functools.cache
def scores(name):
  """[SEEDS] normalised scores after training."""
  env, one = environment(), agent(name)
  state, _ = agents.trained(one, optax.adam(1e-3), jax.random.split(jax.random.key(1), SEEDS), STEPS)
  act = lambda params, observations, key: one.policy.mode(params, observations)
  play = lambda params: evaluation.play(env, act, params, jax.random.key(2), 16, 100)['return'].mean()
  returns = jax.jit(jax.vmap(play))(state.models['policy'])
  return np.asarray(env.score(returns))


@pytest.mark.slow
@pytest.mark.parametrize(
    'name', ['td3_bc', 'awac', 'cql', 'cal_ql', 'edac', 'iql', 'xql', 'fdvl-chi', 'fdvl-tv']
)
def test_it_gets_more_out_of_mixed_data_than_cloning(name):
  mine, cloned = scores(name), scores('bc')
  assert interquartile_mean(mine) > interquartile_mean(cloned) + 10, (mine, cloned)

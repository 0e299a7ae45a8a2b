"""Rows of the table: algorithms of papers on exploration, privileged critics and written rewards."""

from agents import Agent, Row
from rows_core import DISCOUNT, SHAPE, state_values

from rlx.algorithms.control import dqn
from rlx.algorithms.control.mex import mex
from rlx.algorithms.control.rnd import rnd
from rlx.models import networks
from rlx.rollout.control.replay import replay
from rlx.rollout.control.unroll import unroll


def rnd_with(spread):
  def build(env):
    policy, value = networks.categorical(env, **SHAPE), networks.state_value(env, **SHAPE)
    features = networks.outputs_of(env, num=4, layer_norm=False, **SHAPE)
    algorithm = rnd(
        unroll(env, policy, num_envs=16, num_steps=4), policy, value, value, features, features,
        clip_low=0.2, clip_high=0.2, entropy_coef=0.0, value_coef=0.5, value_clip=10.0, discount=DISCOUNT,
        lambda_=0.9, bonus_coef=0.1, bonus_discount=DISCOUNT, spread=spread,
    )
    models = dict(policy=policy, value=value, bonus_value=value, predictor=features, target=features)
    return Agent(algorithm, policy, models, {})

  return build


def build_mex(env):
  table = lambda env: networks.action_values(env, layer_norm=False, **SHAPE)
  policy = networks.epsilon_greedy(env, network=table, epsilon=0.3)
  rollout = replay(
      env, policy, num_envs=4, num_steps=1, capacity=4096, warmup_steps=64, batch_size=64
  )
  parent = dqn.dqn(
      rollout, policy, target=dqn.max_target, discount=DISCOUNT, huber_delta=1.0, target_period=10
  )
  return Agent(mex(parent, policy, optimism=0.01), policy, {'policy': policy}, {'target': 'policy'})


def value_of_the_best(agent, models, observations):
  return agent.policy.values(models['policy'], observations).max(axis=-1)


ROWS = [
    Row('rnd', rnd_with(0.0), True, 1e-2, 200, 4, state_values),
    Row('rdd', rnd_with(0.1), True, 1e-2, 200, 4, state_values),
    Row('mex', build_mex, True, 3e-3, 700, 1, value_of_the_best),
]

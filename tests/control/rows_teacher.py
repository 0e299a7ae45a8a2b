"""Rows of the table: what is drawn towards a teacher, here the policy that the run began with."""

from agents import Agent, Row
from rows_core import DISCOUNT, SHAPE, gaussian, state_values

from rlx.algorithms.control.ppo import ppo
from rlx.algorithms.control.tacsl import tacsl
from rlx.models import networks
from rlx.rollout.control.unroll import unroll


def tacsl_with(policy_of):
  def build(env):
    policy, value = policy_of(env), networks.state_value(env, **SHAPE)
    parent = ppo(
        unroll(env, policy, num_envs=16, num_steps=4), policy, value, clip_low=0.2, clip_high=0.2,
        entropy_coef=0.0, value_coef=0.5, value_clip=10.0, discount=DISCOUNT, lambda_=0.9,
    )
    algorithm = tacsl(parent, policy, policy, teacher_coef=1e-3)
    return Agent(algorithm, policy, {'policy': policy, 'value': value}, {'teacher': 'policy'})

  return build


def categorical(env):
  return networks.categorical(env, **SHAPE)


ROWS = [
    Row('tacsl', tacsl_with(categorical), True, 1e-2, 150, 4, state_values),
    Row('tacsl', tacsl_with(gaussian), False, 5e-3, 500, 4, state_values),
]

"""Rows of the table: PPO and SAC."""

from agents import Agent, Row

from rlx.algorithms.control.ppo import ppo
from rlx.algorithms.control.sac import sac
from rlx.models import networks
from rlx.rollout.control.replay import replay
from rlx.rollout.control.unroll import unroll

SHAPE = dict(hidden=(16,), activation='tanh')
DISCOUNT = 0.5


def ppo_with(policy_of):
  def build(env):
    policy, value = policy_of(env), networks.state_value(env, **SHAPE)
    algorithm = ppo(
        unroll(env, policy, num_envs=16, num_steps=4), policy, value, clip_low=0.2, clip_high=0.2,
        entropy_coef=0.0, value_coef=0.5, value_clip=10.0, discount=DISCOUNT, lambda_=0.9,
    )
    return Agent(algorithm, policy, {'policy': policy, 'value': value}, {})

  return build


def gaussian(env):
  return networks.gaussian(env, initial_log_std=-1.0, **SHAPE)


def build_sac(env):
  policy = networks.squashed_gaussian(env, **SHAPE)
  critic = networks.critics(env, num=2, layer_norm=False, **SHAPE)
  temperature = networks.positive(initial=0.1)
  rollout = replay(
      env, policy, num_envs=4, num_steps=1, capacity=4096, warmup_steps=64, batch_size=64
  )
  algorithm = sac(
      rollout, env, policy, critic, temperature, discount=DISCOUNT, target_rate=0.1, target_entropy=-3.0
  )
  trained = {'policy': policy, 'critic': critic, 'temperature': temperature}
  return Agent(algorithm, policy, trained, {'target': 'critic'})


def state_values(agent, models, observations):
  return agent.networks['value'].apply(models['value'], observations)


def values_of_the_mode(agent, models, observations):
  """min Q(s, π(s)) of an actor and an ensemble of critics."""
  actions = agent.policy.mode(models['policy'], observations)
  return agent.networks['critic'].apply(models['critic'], observations, actions).min(axis=0)


AT_ONCE = [
    Row('ppo', ppo_with(lambda env: networks.categorical(env, **SHAPE)), True, 1e-2, 150, 4, state_values),
]
ROWS = [
    *AT_ONCE,
    Row('ppo', ppo_with(gaussian), False, 5e-3, 250, 4, state_values),
    Row('sac', build_sac, False, 3e-3, 1500, 1, values_of_the_mode),
]

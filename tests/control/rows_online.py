"""Rows of the table: what learns online, beside PPO and SAC."""

import functools

from agents import Agent, Row
import jax
import jax.numpy as jnp
from rows_core import DISCOUNT, SHAPE, gaussian, state_values, values_of_the_mode

from rlx.advantages import off_policy
from rlx.algorithms.control import c51, dqn, droq, dsac_t, iqn, munchausen_dqn, qr_dqn, tqc
from rlx.algorithms.control.a2c import a2c
from rlx.algorithms.control.ddpg import ddpg
from rlx.algorithms.control.impala import impala
from rlx.algorithms.control.mpo import mpo
from rlx.algorithms.control.ppo_recurrent import ppo_recurrent
from rlx.algorithms.control.pqn import pqn
from rlx.algorithms.control.redq import redq
from rlx.algorithms.control.td3 import td3
from rlx.models import critics as of_returns
from rlx.models import networks, recurrent
from rlx.models.networks import Policy
from rlx.rollout.control import replay
from rlx.rollout.control.recurrent import recurrent as recurrent_unroll
from rlx.rollout.control.unroll import unroll

STORE = dict(num_envs=4, num_steps=1, capacity=4096, warmup_steps=64, batch_size=64)
ATOMS = dict(num_atoms=31, low=-1.5, high=1.5)
QUANTILES = 8


def build_ddpg(env):
  policy, critic = deterministic(env), critics(env, 1)
  algorithm = ddpg(replay.replay(env, policy, **STORE), policy, critic, discount=DISCOUNT, target_rate=0.1)
  return actor_critic(algorithm, policy, critic)


def build_td3(env):
  policy, critic = deterministic(env), critics(env, 2)
  algorithm = td3(
      replay.replay(env, policy, **STORE), policy, critic, discount=DISCOUNT, smoothing_noise=0.1,
      noise_clip=0.2, target_rate=0.1, target_period=2,
  )
  return actor_critic(algorithm, policy, critic)


def deterministic(env):
  return networks.deterministic(env, exploration_noise=0.3, **SHAPE)


def critics(env, num):
  return networks.critics(env, num=num, layer_norm=False, **SHAPE)


def actor_critic(algorithm, policy, critic):
  lagging = {'target': 'critic', 'target_policy': 'policy'}
  return Agent(algorithm, policy, {'policy': policy, 'critic': critic}, lagging)


def dqn_with(network, target, rollout_of):
  def build(env):
    q = functools.partial(network, layer_norm=False, **SHAPE)
    policy = networks.epsilon_greedy(env, network=q, epsilon=0.3)
    algorithm = dqn.dqn(
        rollout_of(env, policy), policy, target=target, discount=DISCOUNT, huber_delta=1.0, target_period=10
    )
    return Agent(algorithm, policy, {'policy': policy}, {'target': 'policy'})

  return build


def uniform(env, policy):
  return replay.replay(env, policy, **STORE)


def n_step(env, policy):
  return replay.n_step_replay(env, policy, n=3, discount=DISCOUNT, **STORE)


def prioritised(env, policy):
  return replay.prioritised_replay(env, policy, alpha=0.6, beta=0.4, n=1, discount=DISCOUNT, **STORE)


def build_c51(env):
  policy = of_returns.greedy_on_atoms(env, layer_norm=False, epsilon=0.3, **ATOMS, **SHAPE)
  algorithm = c51.c51(uniform(env, policy), policy, discount=DISCOUNT, target_period=10, **ATOMS)
  return Agent(algorithm, policy, {'policy': policy}, {'target': 'policy'})


def build_qr_dqn(env):
  policy = of_returns.greedy_on_quantiles(
      env, layer_norm=False, num_quantiles=QUANTILES, epsilon=0.3, **SHAPE
  )
  algorithm = qr_dqn.qr_dqn(
      uniform(env, policy), policy, discount=DISCOUNT, huber_delta=0.1, target_period=10
  )
  return Agent(algorithm, policy, {'policy': policy}, {'target': 'policy'})


def build_iqn(env):
  policy = of_returns.greedy_on_implicit_quantiles(
      env, layer_norm=False, num_cosines=8, num_quantiles=QUANTILES, epsilon=0.3, **SHAPE
  )
  algorithm = iqn.iqn(
      uniform(env, policy), policy, num_levels=8, num_target_levels=8, discount=DISCOUNT, huber_delta=0.1,
      target_period=10,
  )
  return Agent(algorithm, policy, {'policy': policy}, {'target': 'policy'})


def build_munchausen_dqn(env):
  q = functools.partial(networks.action_values, layer_norm=False, **SHAPE)
  policy = networks.epsilon_greedy(env, network=q, epsilon=0.3)
  algorithm = munchausen_dqn.munchausen_dqn(
      uniform(env, policy), policy, alpha=0.5, tau=0.01, lowest=-1.0, discount=DISCOUNT, huber_delta=1.0,
      target_period=1, target_rate=0.1,
  )
  return Agent(algorithm, policy, {'policy': policy}, {'target': 'policy'})


SOFT = dict(discount=DISCOUNT, target_rate=0.1, target_entropy=-3.0)


def build_redq(env):
  policy, temperature = networks.squashed_gaussian(env, **SHAPE), networks.positive(initial=0.1)
  critic = critics(env, 4)
  algorithm = redq(uniform(env, policy), env, policy, critic, temperature, subset=2, **SOFT)
  return soft(algorithm, policy, critic, temperature)


def build_droq(env):
  policy, temperature = networks.squashed_gaussian(env, **SHAPE), networks.positive(initial=0.1)
  critic = of_returns.dropout_critics(env, num=2, rate=0.01, **SHAPE)
  algorithm = droq.droq(uniform(env, policy), env, policy, critic, temperature, num_critics=2, **SOFT)
  return soft(algorithm, policy, critic, temperature)


def build_tqc(env):
  policy, temperature = networks.squashed_gaussian(env, **SHAPE), networks.positive(initial=0.1)
  critic = of_returns.quantile_critics(env, num=2, num_quantiles=QUANTILES, **SHAPE)
  algorithm = tqc.tqc(uniform(env, policy), env, policy, critic, temperature, dropped=1, **SOFT)
  return soft(algorithm, policy, critic, temperature)


def build_dsac_t(env):
  policy, temperature = networks.squashed_gaussian(env, **SHAPE), networks.positive(initial=0.1)
  critic = of_returns.gaussian_critics(env, num=2, **SHAPE)
  algorithm = dsac_t.dsac_t(
      uniform(env, policy), env, policy, critic, temperature, critic_loss=dsac_t.gaussian_loss, **SOFT
  )
  return soft(algorithm, policy, critic, temperature)


def soft(algorithm, policy, critic, temperature):
  models = {'policy': policy, 'critic': critic, 'temperature': temperature}
  return Agent(algorithm, policy, models, {'target': 'critic'})


def build_mpo(env):
  policy, critic = networks.squashed_gaussian(env, **SHAPE), critics(env, 1)
  names = ('temperature', 'mean_multiplier', 'spread_multiplier')
  duals = {name: networks.positive(initial=1.0) for name in names}
  store = {**STORE, 'batch_size': 32}
  algorithm = mpo(
      replay.stretch_replay(env, policy, length=2, **store), policy, critic, *duals.values(), num_actions=16,
      epsilon=0.3, mean_limit=0.03, spread_limit=3e-3, discount=DISCOUNT, lambda_=1.0, target_rate=0.1,
  )
  models = {'policy': policy, 'critic': critic, **duals}
  return Agent(algorithm, policy, models, {'target': 'critic', 'target_policy': 'policy'})


def a2c_with(policy_of):
  def build(env):
    policy, value = policy_of(env), networks.state_value(env, **SHAPE)
    algorithm = a2c(
        unroll(env, policy, num_envs=16, num_steps=4), policy, value, entropy_coef=0.0, value_coef=0.5,
        discount=DISCOUNT, lambda_=1.0,
    )
    return Agent(algorithm, policy, {'policy': policy, 'value': value}, {})

  return build


def build_impala(env):
  policy, value = networks.categorical(env, **SHAPE), networks.state_value(env, **SHAPE)
  algorithm = impala(
      unroll(env, policy, num_envs=16, num_steps=4), policy, value, entropy_coef=0.0, value_coef=0.5,
      discount=DISCOUNT, lambda_=1.0, clip_rho=1.0, clip_c=1.0,
  )
  return Agent(algorithm, policy, {'policy': policy, 'value': value}, {})


def pqn_with(target, **numbers):
  """λ-returns of an ε-greedy policy's steps, judged as those of a greedier one."""

  def build(env):
    policy = networks.epsilon_greedy(
        env, network=lambda env: networks.action_values(env, layer_norm=False, **SHAPE), epsilon=0.3
    )
    algorithm = pqn(
        unroll(env, policy, num_envs=16, num_steps=4), policy, epsilon=0.0,
        target=functools.partial(target, discount=DISCOUNT, lambda_=0.65),
    )
    return Agent(algorithm, policy, {'policy': policy}, {})

  return build


def build_ppo_recurrent(env):
  network = recurrent.gru(env, size=16)
  rollout = recurrent_unroll(env, network, num_envs=16, num_steps=4)
  algorithm = ppo_recurrent(
      rollout, network, clip_low=0.2, clip_high=0.2, entropy_coef=0.0, value_coef=0.5, discount=DISCOUNT,
      lambda_=0.9,
  )

  def mode(params, observations):  # at the start of an episode, which is all that the probes play
    _, logits, _ = network.step(params, jnp.zeros((*observations.shape[:-1], network.size)), observations)
    return jnp.argmax(logits, axis=-1)

  policy = Policy(init=network.init, sample=None, mode=mode, score=None)
  return Agent(algorithm, policy, {'policy': network}, {})


def value_of_two_steps(agent, models, observations):
  """V of each observation, the last one behind the first one: those of `later` are an episode."""
  network, carry = agent.networks['policy'], jnp.zeros((1, agent.networks['policy'].size))
  if observations.shape[0] == 2 and observations[0, 0] == 0:
    carry, _, first = network.step(models['policy'], carry, observations[:1])
    return jnp.concatenate([first, network.step(models['policy'], carry, observations[1:])[2]])
  carry = jnp.broadcast_to(carry, (observations.shape[0], network.size))
  return network.step(models['policy'], carry, observations)[2]


def distribution_of_the_mode(agent, models, observations):
  """The lower mean of Gaussian critics."""
  actions = agent.policy.mode(models['policy'], observations)
  return agent.networks['critic'].apply(models['critic'], observations, actions)[0].min(axis=0)


def quantiles_of_the_mode(agent, models, observations):
  """The mean of all quantiles of all critics."""
  actions = agent.policy.mode(models['policy'], observations)
  return agent.networks['critic'].apply(models['critic'], observations, actions).mean(axis=(0, 2))


def mean_of_the_mode(agent, models, observations):
  """The mean of an ensemble, as its policy climbs it."""
  actions = agent.policy.mode(models['policy'], observations)
  return agent.networks['critic'].apply(models['critic'], observations, actions).mean(axis=0)


def dropped_mean_of_the_mode(agent, models, observations):
  """The mean of an ensemble with dropout, over many draws of it."""
  actions = agent.policy.mode(models['policy'], observations)
  apply = agent.networks['critic'].apply
  draw = lambda key: apply(models['critic'], observations, actions, key)
  return jax.vmap(draw)(jax.random.split(jax.random.key(0), 64)).mean(axis=(0, 1))


def value_of_the_best(agent, models, observations):
  return agent.policy.values(models['policy'], observations).max(axis=-1)


ROWS = [
    Row('ddpg', build_ddpg, False, 3e-3, 1000, 1, values_of_the_mode),
    Row('td3', build_td3, False, 3e-3, 1000, 1, values_of_the_mode),
    Row('dqn', dqn_with(networks.action_values, dqn.max_target, uniform), True, 3e-3, 700, 1,
        value_of_the_best),
    Row('double-dueling-dqn', dqn_with(networks.dueling, dqn.double_target, uniform), True, 3e-3, 700, 1,
        value_of_the_best),
    Row('n-step-dqn', dqn_with(networks.action_values, dqn.max_target, n_step), True, 3e-3, 700, 1,
        value_of_the_best),
    Row('prioritised-dqn', dqn_with(networks.action_values, dqn.max_target, prioritised), True, 3e-3, 700, 1,
        value_of_the_best),
    Row('c51', build_c51, True, 3e-3, 700, 1, value_of_the_best),
    Row('qr_dqn', build_qr_dqn, True, 3e-3, 700, 1, value_of_the_best),
    Row('iqn', build_iqn, True, 3e-3, 700, 1, value_of_the_best),
    Row('munchausen_dqn', build_munchausen_dqn, True, 3e-3, 700, 1, value_of_the_best),
    Row('redq', build_redq, False, 3e-3, 1500, 1, mean_of_the_mode),
    Row('droq', build_droq, False, 3e-3, 1500, 1, dropped_mean_of_the_mode),
    Row('tqc', build_tqc, False, 3e-3, 1500, 1, quantiles_of_the_mode),
    Row('dsac_t', build_dsac_t, False, 3e-3, 1500, 1, distribution_of_the_mode),
    Row('mpo', build_mpo, False, 3e-3, 1000, 1, values_of_the_mode),
    Row('a2c', a2c_with(lambda env: networks.categorical(env, **SHAPE)), True, 1e-2, 400, 1, state_values),
    Row('a2c', a2c_with(gaussian), False, 3e-3, 800, 1, state_values),
    Row('impala', build_impala, True, 1e-2, 150, 4, state_values),
    Row('pqn', pqn_with(off_policy.peng_q_lambda), True, 3e-3, 300, 4, value_of_the_best),
    Row('retrace-pqn', pqn_with(off_policy.retrace), True, 3e-3, 300, 4, value_of_the_best),
    Row('ppo_recurrent', build_ppo_recurrent, True, 1e-2, 150, 4, value_of_two_steps),
]

"""FamO2O: IQL for a whole family of policies at once, and a second policy that picks one for each state.

How far a policy may go from the data is a number β, which IQL fixes for all states. Here the policy is told
β, and learns all of them:

    L_π = -mean min(exp(β (Q - V)), w) log π(a | s, β),   β uniform in [β₋, β₊] for each row
    L_b = mean (α log b(β | s) - min_i Q_i(s, ã)),   ã ~ π(· | s, β), β ~ b(· | s)
    L_α = log α · mean (-log b(β | s) - H̄)

V and Q are those of IQL. Nothing changes from offline to online. β is told as a number in [-1, 1], with which
the density b is written too; the paper tells it by sines and cosines.

Source: Wang et al., 2023, https://arxiv.org/abs/2310.17966, and the authors' code for IQL. That the
members go on with uniform β online is our reading.
"""

import dataclasses

import jax
import jax.numpy as jnp

from rlx import tracking
from rlx.algorithms.control.iql import regression_on_values
from rlx.envs.control.environment import Continuous, Environment
from rlx.losses import value as value_losses
from rlx.models import networks
from rlx.models.networks import Network, Policy
from rlx.types import Algorithm, Batch, Key, Models, Rollout


@dataclasses.dataclass(frozen=True, kw_only=True, eq=False)
class Family(Policy):
  """A policy for each balance, with the one that picks balances; as a `Policy` it is what they do together.

  Balances are numbers in [-1, 1], [..., 1] as actions are. Parameters are `{'members', 'balance'}`.

  Attributes:
    members: of observations with the balance behind them (`told`), parameters `params['members']`.
    balance: of observations, parameters `params['balance']`.
  """

  members: Policy
  balance: Policy


def famo2o(
    rollout: Rollout,
    policy: Family,
    value: Network,
    critic: Network,
    temperature: Network,
    *,
    discount: float,
    target_rate: float,
    expectile: float,
    lowest: float,
    highest: float,
    weight_max: float,
    target_entropy: float,
) -> Algorithm:
  """Trains `policy`, `value`, `critic` and `temperature`, and `slow['target']` follows `critic`.

  Args:
    rollout: yields transitions, offline or online.
    policy: `family`.
    value: V(s).
    critic: an ensemble of Q(s, a).
    temperature: a positive number, α, of the balance alone.
    discount: γ per step.
    target_rate: share of the critic that the target takes on after each update.
    expectile: τ of V.
    lowest: β₋, one over the units of returns.
    highest: β₊.
    weight_max: w, the largest weight of an action.
    target_entropy: H̄ of b, in nats, of a number in [-1, 1]; uniform is log 2.
  """
  held = jax.lax.stop_gradient

  def loss(models: Models, batch: Batch, key: Key):
    member_key, balance_key, action_key = jax.random.split(key, 3)
    observations, actions = batch['observations'], batch['actions']
    judged = held(critic.apply(models['target'], observations, actions).min(axis=0))
    advantages = judged - value.apply(models['value'], observations)
    value_loss = value_losses.expectile_error(advantages, expectile=expectile).mean()
    critic_loss = regression_on_values(critic, value, models, batch, discount)

    given = jax.random.uniform(member_key, (*advantages.shape, 1), minval=-1.0, maxval=1.0)
    logprobs, _ = policy.members.score(models['policy']['members'], told(observations, given), actions)
    sharpness = coefficient(given, lowest=lowest, highest=highest)
    weights = value_losses.exponential_weights(advantages * sharpness, sharpness=1.0, weight_max=weight_max)
    members_loss = -jnp.mean(weights * logprobs)

    alpha = temperature.apply(models['temperature'])
    picked, surprise = policy.balance.sample(models['policy']['balance'], observations, balance_key)
    tried, _ = policy.members.sample(
        held(models['policy']['members']), told(observations, picked), action_key
    )
    worth = value_losses.lowest(critic.apply(held(models['critic']), observations, tried), axis=0)
    balance_loss = jnp.mean(held(alpha) * surprise - worth)
    temperature_loss = -jnp.log(alpha) * held(jnp.mean(surprise) + target_entropy)
    metrics = {
        'loss/value': value_loss,
        'loss/critic': critic_loss,
        'loss/policy': members_loss,
        'loss/balance': balance_loss,
        'critic/mean': judged.mean(),
        'policy/sharpness': coefficient(picked, lowest=lowest, highest=highest).mean(),
        'policy/temperature': alpha,
    }
    return value_loss + critic_loss + members_loss + balance_loss + temperature_loss, metrics

  return Algorithm(rollout=rollout, loss=loss, track=tracking.polyak({'target': 'critic'}, rate=target_rate))


def family(env: Environment, *, hidden: tuple[int, ...], activation: str, initial_log_std: float) -> Family:
  """Gaussian members, and a squashed Gaussian that picks.

  As a `Policy`, `sample` draws a balance and then an action, whose log-probability is the member's; `mode`
  and `score` take the balance's mode.

  Args:
    env: observations are vectors; actions continuous.
    hidden: units of each hidden layer, of both.
    activation: between layers.
    initial_log_std: of the members.
  """
  size = env.observation_shape[0]
  shape = dict(hidden=hidden, activation=activation)
  aware = dataclasses.replace(env, observation_shape=(size + 1,))
  members = networks.gaussian(aware, initial_log_std=initial_log_std, **shape)
  balance = networks.squashed_gaussian(dataclasses.replace(env, actions=Continuous(1)), **shape)
  best = lambda params, observations: balance.mode(params['balance'], observations)

  def init(key: Key):
    members_key, balance_key = jax.random.split(key)
    return {'members': members.init(members_key), 'balance': balance.init(balance_key)}

  def sample(params, observations, key):
    balance_key, action_key = jax.random.split(key)
    picked, _ = balance.sample(params['balance'], observations, balance_key)
    return members.sample(params['members'], told(observations, picked), action_key)

  def mode(params, observations):
    return members.mode(params['members'], told(observations, best(params, observations)))

  def score(params, observations, actions):
    return members.score(params['members'], told(observations, best(params, observations)), actions)

  return Family(init=init, sample=sample, mode=mode, score=score, members=members, balance=balance)


def told(observations: jax.Array, balance: jax.Array) -> jax.Array:
  """[..., O + 1] observations [..., O] with the balance [..., 1] behind them."""
  return jnp.concatenate([observations, balance], axis=-1)


def coefficient(balance: jax.Array, *, lowest: float, highest: float) -> jax.Array:
  """[...] β of balances [..., 1] in [-1, 1]."""
  return lowest + (balance[..., 0] + 1) / 2 * (highest - lowest)

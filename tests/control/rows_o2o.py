"""Rows of the table: what goes from a data set to learning online by one loss, here on the data set alone."""

from agents import Agent, Row
from rows_core import DISCOUNT, SHAPE, state_values, values_of_the_mode
from rows_offline import at_random, critics

from rlx.algorithms.control.famo2o import famo2o
from rlx.algorithms.control.ro2o import ro2o
from rlx.algorithms.control.sac import sac
from rlx.models import networks
from rlx.models.family import balance as balance_policy
from rlx.models.family import family, family_members


def build_ro2o(env):
  policy, critic = networks.squashed_gaussian(env, **SHAPE), critics(env, num=3)
  temperature = networks.positive(initial=0.1)
  parent = sac(
      at_random(env), env, policy, critic, temperature, discount=DISCOUNT, target_rate=0.1,
      target_entropy=-3.0,
  )
  algorithm = ro2o(
      parent, policy, critic, radius=0.02, num_perturbations=2, asymmetry=0.2, value_smoothness=0.01,
      policy_smoothness=0.01, doubt_coef=0.01, doubt_deviations=0.5,
  )
  trained = {'policy': policy, 'critic': critic, 'temperature': temperature}
  return Agent(algorithm, policy, trained, {'target': 'critic'})


def build_famo2o(env):
  members, balance = family_members(env, initial_log_std=-1.0, **SHAPE), balance_policy(env, **SHAPE)
  value, critic = networks.state_value(env, **SHAPE), critics(env)
  temperature = networks.positive(initial=0.1)
  algorithm = famo2o(
      at_random(env), members, balance, value, critic, temperature, discount=DISCOUNT, target_rate=0.1,
      expectile=0.9, lowest=10.0, highest=30.0, weight_max=100.0, target_entropy=0.0,
  )
  trained = {
      'members': members, 'balance': balance, 'value': value, 'critic': critic, 'temperature': temperature,
  }
  pair = family(members, balance)
  return Agent(algorithm, pair.functions, trained, {'target': 'critic'}, {'policy': pair})


ROWS = [
    Row('ro2o', build_ro2o, False, 3e-3, 1500, 1, values_of_the_mode),
    Row('famo2o', build_famo2o, False, 3e-3, 1500, 1, state_values),
]

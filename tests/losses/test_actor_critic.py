"""Losses of critics: targets, ensembles and masks by hand. The soft maximum is in tests/control."""

import inspect

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from rlx.losses import actor_critic
from rlx.models.networks import Network
from rlx.names import PACKAGES, resolve

WITH_CRITICS = (
    'archer', 'ppo', 'turn_ppo', *(
        f'control.{name}' for name in ('a2c', 'adversarial_surprise', 'impala', 'ppo', 'ppo_recurrent', 'rnd')
    ),
)

BATCH = {
    'observations': jnp.array([[1.0], [2.0]]), 'next_observations': jnp.array([[2.0], [3.0]]),
    'actions': jnp.array([[0.5], [-0.5]]), 'rewards': jnp.array([1.0, 2.0]),
    'terminated': jnp.array([False, True]),
}


def test_nothing_comes_behind_an_end():
  targets = actor_critic.bootstrapped(BATCH, jnp.array([10.0, 10.0]), discount=0.5)
  np.testing.assert_array_equal(targets, [1 + 5, 2])
  slope = jax.grad(lambda x: actor_critic.bootstrapped(BATCH, x, discount=0.5).sum())(jnp.ones(2))
  np.testing.assert_array_equal(slope, 0)


def test_errors_are_averaged_over_rows_and_summed_over_members():
  values, targets = jnp.array([[1.0, 2.0], [3.0, 5.0]]), jnp.array([1.0, 4.0])
  np.testing.assert_allclose(actor_critic.ensemble_error(values, targets), (0 + 4) / 2 + (4 + 1) / 2)


def test_a_critic_is_drawn_to_the_values_behind_and_they_are_not_drawn_to_it():
  """V(s) = v s and Q(s, a) = q s: targets are 1 + 0.5 · 2 v and 2."""
  value = Network(init=None, apply=lambda v, s: v * s[:, 0])
  critic = Network(init=None, apply=lambda q, s, a: (q * s[:, 0])[None])
  loss = lambda models: actor_critic.regression_on_values(critic, value, models, BATCH, discount=0.5)
  models = {'value': jnp.float32(3.0), 'critic': jnp.float32(2.0)}
  found, slope = jax.value_and_grad(loss)(models)
  np.testing.assert_allclose(found, ((2 - 4) ** 2 + (4 - 2) ** 2) / 2)
  np.testing.assert_allclose(slope['critic'], (2 - 4) * 1 + (4 - 2) * 2)
  assert slope['value'] == 0


def test_means_are_of_what_counts_and_of_nothing_they_are_0():
  x = jnp.array([[1.0, 3.0, 9.0], [2.0, 6.0, jnp.nan]])
  mean = lambda mask: actor_critic.mean_where(x, jnp.array(mask))
  np.testing.assert_array_equal(mean([True, True, False]), [2, 4])
  np.testing.assert_array_equal(mean([False] * 3), [0, 0])


@pytest.mark.parametrize('name', WITH_CRITICS)
def test_a_weight_of_the_critic_below_0_is_refused(name):
  make = resolve(name, *PACKAGES['algorithm'])
  asked = [x for x, p in inspect.signature(make).parameters.items() if p.default is p.empty]
  with pytest.raises(ValueError, match=r'^value_coef=-1.0: at least 0$'):
    make(**{**dict.fromkeys(asked, 1.0), 'value_coef': -1.0})

"""Every control algorithm on the probe environments, whose right answers are known."""

import agents
from control_table import each
import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest
import rows_core

from rlx.envs.control import probes
from rlx.evaluation import episodes as evaluation
from tests.cases import cases

DISCOUNT = rows_core.DISCOUNT
PROBES = {  # name -> (environment, observations whose values are known, those values)
    'constant': (probes.constant, [0.0], [1.0]),
    'seen': (probes.seen, [-1.0, 1.0], [-1.0, 1.0]),
    'later': (probes.later, [0.0, 1.0], [DISCOUNT, 1.0]),
}


def played(row, probe):
  """The agent, its trained models and what its policy earns in a thousand episodes."""
  env = probe(discrete=row.discrete)
  agent = row.build(env)
  state, _ = agents.trained(
      agent, optax.adam(row.learning_rate), jax.random.split(jax.random.key(0), 3), row.steps,
      minibatches=row.minibatches,
  )
  act = lambda params, observations, key: agent.policy.mode(params, observations)
  play = lambda params: evaluation.play(env, act, params, jax.random.key(1), 1000, 2)['return'].mean()
  return agent, state, np.asarray(jax.vmap(play)(agent.seen(state.models)['policy']))


@each(lambda row: row.value)
@pytest.mark.parametrize('name', cases(PROBES, at_once=['later']))
def test_values_are_those_of_the_probe(row, name):
  probe, observations, values = PROBES[name]
  agent, state, _ = played(row, probe)
  observations = jnp.array(observations)[:, None]
  known = jax.vmap(lambda models: row.value(agent, agent.seen(models), observations))(state.models)
  np.testing.assert_allclose(known, np.broadcast_to(values, known.shape), atol=0.15)


BEST = [probes.better, probes.matching]


@pytest.mark.slow
@each()
@pytest.mark.parametrize('probe', BEST, ids=lambda probe: probe.__name__)
def test_the_policy_finds_the_best_action(row, probe):
  _, _, returns = played(row, probe)
  assert returns.min() > 0.9, 'the best return is 1; an action that is 0.32 beside the best one earns 0.9'

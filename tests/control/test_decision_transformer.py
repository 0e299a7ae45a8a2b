"""The decision transformer: which stretches it reads, what it may look at, what it is shown when it acts."""

import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest

from rlx.algorithms.control.decision_transformer import decision_transformer
from rlx.algorithms.control.rcsl import rcsl
from rlx.data import transitions as datasets
from rlx.envs.control.environment import Continuous, Environment, timestep
from rlx.envs.control.recall import recall
from rlx.envs.control.wrappers import commanded
from rlx.evaluation.episodes import play as play_memoryless
from rlx.evaluation.history import play
from rlx.models import networks
from rlx.models.history import INPUTS, History, causal
from rlx.rollout.control.offline import offline, offline_stretches
from tests.control import agents

NUM_STEPS, SEEDS, UPDATES = 4, 5, 1000
RECALL = recall(num_steps=NUM_STEPS)
SHAPE = dict(width=16, num_layers=1, num_heads=2)
ENDS = jnp.array([0, 0, 1, 1, 0, 0, 0, 0], bool)  # episodes of 3, 1 and 4 steps, the last without an end


def dataset():
  number = jnp.arange(8.0)
  return {
      'observations': number[:, None], 'actions': jnp.arange(8), 'rewards': number, 'terminated': ENDS,
      'truncated': jnp.zeros(8, bool), 'returns_to_go': 10 * number,
  }


def test_stretches_stay_in_their_episodes():
  def draw(key):
    rollout = offline_stretches(dataset(), length=3, batch_size=100)
    return rollout.draw({}, {'data': rollout.data}, key)

  batch, world = jax.jit(draw)(jax.random.key(0))
  assert world == {}
  steps, left = np.array([0, 1, 2, 0, 0, 1, 2, 3]), np.array([3, 2, 1, 1, 4, 3, 2, 1])
  first = np.asarray(batch['actions'][:, 0])
  assert set(first) == set(range(8))
  for row, begin in enumerate(first):
    count = min(3, left[begin])
    along = begin + np.arange(count)
    np.testing.assert_array_equal(batch['valid'][row], np.arange(3) < count)
    np.testing.assert_array_equal(batch['actions'][row, :count], along)
    np.testing.assert_array_equal(batch['observations'][row, :count, 0], along)
    np.testing.assert_array_equal(batch['wanted'][row, :count], 10 * along)
    np.testing.assert_array_equal(batch['steps'][row, :count], steps[along])


@pytest.mark.slow
def test_an_output_depends_on_what_is_before_it_and_on_no_action_from_there_on():
  """Twelve rows in which one number of one input at one of four steps is another one, and the row itself."""
  policy = causal(RECALL, length=4, max_steps=4, return_scale=1.0, **SHAPE)
  rng = np.random.default_rng(0)
  normal = {'wanted': rng.normal(size=4), 'observations': rng.normal(size=(4, 2))}
  one = {**normal, 'actions': rng.integers(2, size=4)}
  changes = [(name, place) for name in one for place in range(4)]
  rows = {name: np.stack([x] * 13) for name, x in one.items()}
  for row, (name, place) in enumerate(changes):
    rows[name][row, place] = 1 - rows[name][row, place]
  rows = {name: jnp.asarray(x, jnp.int32 if name == 'actions' else jnp.float32) for name, x in rows.items()}
  rows['steps'] = jnp.tile(jnp.arange(4), (13, 1))
  outputs = jax.jit(lambda key: policy.apply(policy.init(key), *(rows[name] for name in INPUTS)))(
      jax.random.key(0)
  )
  changed = np.abs(outputs - outputs[-1:]).max(axis=2) > 1e-6
  for row, (name, place) in enumerate(changes):
    expected = np.arange(4) >= place + (name == 'actions')
    np.testing.assert_array_equal(changed[row], expected, err_msg=f'{name} at {place}')


CLOCK = Environment(  # the observation and the reward are the number of the step, actions 10 + that
    reset=lambda key: (jnp.zeros(()), jnp.zeros(1)),
    step=lambda state, action, key: timestep(
        state + 1, state[None] + 1, state, terminated=state >= 4, wrong=jnp.abs(action[0] - 10 - state)
    ),
    observation_shape=(1,), actions=Continuous(1), random_return=0.0, expert_return=1.0,
)


def check_window(wanted, observations, actions, steps):
  """At each step of the clock; raises where what is shown is not its last three steps."""
  now = int(steps.max())
  shown = np.arange(max(0, now - 2), now + 1)
  count = len(shown)
  np.testing.assert_array_equal(steps[0, :count], shown)
  np.testing.assert_array_equal(observations[0, :count, 0], shown)
  np.testing.assert_array_equal(wanted[0, :count], 100 - shown * (shown - 1) / 2)  # 0 + 1 + ... was earned
  np.testing.assert_array_equal(actions[0, : count - 1, 0], 10 + shown[:-1])
  return np.float32(now)


def test_who_acts_sees_the_last_steps_and_what_is_still_wanted():
  asked = []

  def apply(params, wanted, observations, actions, steps):
    del params
    def look(*window):
      asked.append(check_window(*window))
      return asked[-1]

    now = jax.pure_callback(look, jax.ShapeDtypeStruct((), jnp.float32), wanted, observations, actions, steps)
    return jnp.full((1, 3, 1), 10 + now)

  policy = History(init=None, apply=apply, length=3)
  returns = play(CLOCK, policy, {}, jax.random.key(0), target=100.0, num=1, max_steps=6)
  np.testing.assert_array_equal(returns, [0 + 1 + 2 + 3 + 4])
  assert asked == [0, 1, 2, 3, 4, 5]


def test_only_valid_steps_count_and_rows_count_alike():
  """Errors of 1/2 at the first step and 1 at the others: a row of one step and a row of three."""
  found = jnp.array([[[0.5], [9.0], [9.0]], [[0.5], [1.0], [1.0]]])
  batch = {
      'wanted': jnp.zeros((2, 3)), 'observations': jnp.zeros((2, 3, 1)), 'actions': jnp.zeros((2, 3, 1)),
      'steps': jnp.zeros((2, 3), int), 'valid': jnp.array([[True, False, False], [True, True, True]]),
  }
  policy = History(init=None, apply=lambda params, *window: params, length=3)
  algorithm = decision_transformer(None, CLOCK, policy)
  loss, _ = algorithm.loss({'policy': found}, batch, None)
  np.testing.assert_allclose(loss, (0.25 + (0.25 + 1 + 1) / 3) / 2, rtol=1e-6)


@pytest.mark.slow
def test_discrete_actions_have_likelihoods():
  logits = jnp.log(jnp.array([[[0.25, 0.75], [0.5, 0.5]]]))
  batch = {
      'wanted': jnp.zeros((1, 2)), 'observations': jnp.zeros((1, 2, 2)), 'actions': jnp.array([[1, 0]]),
      'steps': jnp.zeros((1, 2), int), 'valid': jnp.ones((1, 2), bool),
  }
  policy = History(init=None, apply=lambda params, *window: params, length=2)
  loss, _ = decision_transformer(None, RECALL, policy).loss({'policy': logits}, batch, None)
  np.testing.assert_allclose(loss, -(np.log(0.75) + np.log(0.5)) / 2, rtol=1e-6)


@pytest.mark.parametrize('bad', [{'width': 15}, {'length': 0}, {'return_scale': 0.0}])
def test_bad_shapes_are_refused(bad):
  numbers = dict(length=2, max_steps=2, return_scale=1.0, **SHAPE) | bad
  with pytest.raises(ValueError, match=next(iter(bad))):
    causal(RECALL, **numbers)


# --- what can be remembered ---------------------------------------------------------------------------------


def rows(env):
  return datasets.random(env, num_envs=100, num_steps=10 * NUM_STEPS, discount=1.0, seed=0)


def earned(length):
  """[2, SEEDS] mean returns of 64 episodes where 1 and where -1 is asked for."""
  policy = causal(RECALL, length=length, max_steps=NUM_STEPS, return_scale=1.0, **SHAPE)
  rollout = offline_stretches(rows(RECALL), length=length, batch_size=64)
  algorithm = decision_transformer(rollout, RECALL, policy)
  agent = agents.Agent(algorithm, policy, {'policy': policy}, {})
  state, _ = agents.trained(agent, optax.adam(3e-3), jax.random.split(jax.random.key(1), SEEDS), UPDATES)
  ask = lambda params, target: play(
      RECALL, policy, params, jax.random.key(2), target=target, num=64, max_steps=NUM_STEPS
  ).mean()
  ask = jax.jit(jax.vmap(jax.vmap(ask, (0, None)), (None, 0)))
  return np.asarray(ask(state.params['policy'], jnp.array([1.0, -1.0])))


def earned_without_memory():
  env = commanded(env=lambda: RECALL, target=1.0)
  policy = networks.categorical(env, hidden=(32,), activation='tanh')
  algorithm = rcsl(offline(rows(env), batch_size=512), policy)
  agent = agents.Agent(algorithm, policy, {'policy': policy}, {})
  state, _ = agents.trained(agent, optax.adam(3e-3), jax.random.split(jax.random.key(1), SEEDS), UPDATES)
  act = lambda params, seen, key: policy.sample(params, seen, key)[0]
  each = lambda params: play_memoryless(env, act, params, jax.random.key(2), 64, NUM_STEPS)['return'].mean()
  return np.asarray(jax.jit(jax.vmap(each))(state.params['policy']))


@pytest.mark.slow
def test_it_remembers_what_it_was_shown_and_does_what_is_asked():
  """From random actions on the memory task of 4 steps: asked for 1 it earns 1 in all 5 seeds, asked for -1 it
  earns -1 in all of them. RCSL, which sees a step and the same return, earns -0.22 to -0.19, which is
  chance: 64 episodes have a standard error of 0.125. With 8 steps, 600 updates were too few: of 5 seeds 2
  earned 1, and another one -1."""
  asked_well, asked_badly = earned(NUM_STEPS)
  without = earned_without_memory()
  assert asked_well.min() > 0.9 and asked_badly.max() < -0.9, (asked_well, asked_badly)
  assert np.abs(without).max() < 0.4, without

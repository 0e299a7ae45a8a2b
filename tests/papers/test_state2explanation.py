"""State2Explanation (S058): an embedding that explains moves on a board, and an agent that it pays."""

import functools
from types import SimpleNamespace

import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest
import staged

from rlx.algorithms.control import state2explanation
from rlx.algorithms.control.ppo import ppo
from rlx.data import transitions as datasets
from rlx.envs.control import connect
from rlx.envs.control.conformance import check_environment
from rlx.envs.control.environment import Continuous, Discrete
from rlx.models import joint, networks
from rlx.models.networks import Network
from rlx.rewards.explained import explained
from rlx.rollout.control.offline import offline
from rlx.rollout.control.unroll import unroll

SEEDS, LENGTH = 5, 3
BOARD = connect.connect(rows=4, columns=5, length=LENGTH, sight=1.0)
WINS, BLOCKS, THREATENS, CENTRE, LETS, WASTED = range(len(connect.CONCEPTS))


def board(*rows):
  """Stones [R, C, 2] of a drawing, its highest row first: `o` the agent's own, `x` the other's."""
  marks = np.array([list(row) for row in reversed(rows)])
  return jnp.stack([marks == 'o', marks == 'x'], axis=-1).astype(jnp.float32)


# --- the game -----------------------------------------------------------------------------------------------


@pytest.mark.slow
def test_connect_keeps_the_contract():
  check_environment(connect.connect(rows=3, columns=3, length=3, sight=0.5), num_steps=9)


# A board, a move, its reward where that does not depend on the reply, and what holds of it.
MOVES = {
    'a level row': (board('.....', 'xx...', 'oo...'), 2, 1, {WINS, CENTRE}),
    'an upright row': (board('.....', 'o....', 'o....'), 0, 1, {WINS}),
    'a row to the right and up': (board('.....', '.oo..', 'oxx..'), 2, 1, {WINS, CENTRE}),
    'a row to the left and up': (board('.....', '..oo.', '..xxo'), 2, 1, {WINS, CENTRE}),
    'a row that is a block': (board('.....', '.....', 'oo.xx'), 2, 1, {WINS, BLOCKS, CENTRE}),
    'a quiet move': (board('.....', '.....', '.x...'), 4, 0, set()),
    'a stone on another': (board('.....', '.....', '..x..'), 2, 0, {CENTRE}),
    'a threat': (board('.....', '.....', '.o...'), 2, 0, {THREATENS, CENTRE}),
    'a block that is a threat': (board('.....', '.....', 'xx..o'), 2, 0, {BLOCKS, THREATENS, CENTRE}),
    'a win that is left to the other': (board('.....', '.....', 'xx...'), 4, None, {LETS}),
    'a cell that no stone falls into': (board('.....', 'xx...', 'oo..x'), 3, 0, set()),
    'a full column': (board('x....', 'o....', 'x....'), 0, 0, {WASTED}),
    'a full column, and the other wins': (board('x.o', 'oxx', 'oxo'), 0, -1, {WASTED, LETS}),
    'the last cell': (board('xo.', 'oxx', 'oxo'), 2, 0, set()),
}


@functools.cache
def moves():
  """name -> (timestep, concepts); boards of a size are one program."""
  found = {}
  for columns in (5, 3):
    names = [name for name, (stones, *_) in MOVES.items() if stones.shape[1] == columns]
    stones, actions = (jnp.stack([jnp.asarray(MOVES[name][k]) for name in names]) for k in (0, 1))
    env = connect.connect(rows=3, columns=columns, length=LENGTH, sight=0.0)
    step = jax.vmap(lambda s, a, env=env: env.step(s, a, jax.random.key(0)))
    both = jax.jit(lambda s, a, step=step: (step(s, a), connect.concepts(s, a, length=LENGTH)))
    new, concepts = jax.device_get(both(stones, actions))
    found |= {name: (jax.tree.map(lambda x, i=i: x[i], new), concepts[i]) for i, name in enumerate(names)}
  return found


@pytest.mark.parametrize('name', MOVES)
def test_moves_by_hand(name):
  stones, action, reward, holds = MOVES[name]
  new, concepts = moves()[name]
  assert set(np.flatnonzero(concepts)) == holds
  if reward is not None:
    assert new.reward == reward
    assert new.terminated == (reward != 0 or name == 'the last cell')
    assert new.info['success'] == (reward == 1)
  added = new.observation - np.asarray(stones)
  assert added.min() >= 0 and added[..., connect.OWN].sum() == (WASTED not in holds)
  assert added[..., connect.OTHER].sum() == (reward != 1 and name != 'the last cell')
  if WASTED not in holds:
    assert added[int(stones[:, action].sum()), action, connect.OWN] == 1


def test_the_other_begins_every_other_game():
  env = connect.connect(rows=3, columns=3, length=LENGTH, sight=0.0)
  states, _ = jax.jit(jax.vmap(env.reset))(jax.random.split(jax.random.key(0), 64))
  begun = np.asarray(states[..., connect.OTHER].sum(axis=(1, 2)))
  assert set(begun) == {0, 1} and 16 < begun.sum() < 48
  assert states[:, 0].sum() == begun.sum(), 'it lies in the lowest row, and nothing else does'


@pytest.mark.parametrize('length', [1, 4])
def test_a_row_that_does_not_fit_is_refused(length):
  with pytest.raises(ValueError, match=f'length={length} on a board of 3 x 5'):
    connect.connect(rows=3, columns=5, length=length, sight=0.0)


def test_sight_that_is_no_probability_is_refused():
  with pytest.raises(ValueError, match='sight=2.0: it is a probability'):
    connect.connect(rows=3, columns=5, length=3, sight=2.0)


def test_an_explanation_in_words():
  said = np.zeros(len(connect.CONCEPTS))
  assert connect.sentence(said) == 'this move is a quiet one'
  said[[BLOCKS, CENTRE]] = 1
  assert connect.sentence(said) == 'this move blocks the other and takes the centre'


# --- explanations as rewards --------------------------------------------------------------------------------

CODES = jnp.array([[0.0, 0.0], [1.0, 0.0], [1.0, 1.0]])
TOLD = Network(init=None, apply=lambda params, observations, actions: params[actions])


def paid(similarities, actions, worths=(0.5, -1.5)):
  """What moves without a reward are paid, by the similarities of each action to each of `CODES`."""
  reward = explained(TOLD, explanations=lambda: CODES, worths=worths)
  batch = {'observations': actions[..., None], 'actions': actions, 'rewards': jnp.ones(actions.shape)}
  return reward({'explainer': similarities}, batch, None)['rewards'] - 1


def test_a_move_is_paid_what_its_explanation_is_worth():
  """Worths of the codes are 0, 1/2 and -1."""
  similarities = jnp.log(jnp.array([[1.0, 2.0, 1.0], [2.0, 1.0, 5.0]]))
  expected = 0.5 * np.array([(2 - 2) / 4, (1 - 10) / 8])
  for actions in (jnp.array([0, 1]), jnp.array([[0, 1, 1], [1, 1, 0]])):
    np.testing.assert_allclose(paid(similarities, actions), expected[np.asarray(actions)], atol=1e-6)
  sure = paid(1e3 * similarities, jnp.array([0, 1]))
  np.testing.assert_allclose(sure, [0.5, -1.0], atol=1e-6)  # of the explanations that would be retrieved
  np.testing.assert_array_equal(paid(similarities, jnp.array([0, 1]), (0, 0)), 0)


def test_worths_that_are_no_concepts_are_refused():
  with pytest.raises(ValueError, match='of 2 concepts'):
    explained(TOLD, explanations=lambda: CODES, worths=(1.0,))


def test_the_loss_knows_a_moves_own_explanation():
  """The concepts of action 0 are none, of 1 both, of 2 the second alone, which is no explanation."""
  held = jnp.array([[False, False], [True, True], [False, True]])
  algorithm = state2explanation.explaining(
      None, TOLD, concepts=lambda observations, actions: held[actions], explanations=lambda: CODES
  )
  actions = jnp.array([0, 1, 2])
  params = jnp.log(jnp.array([[1.0, 2.0, 1.0], [2.0, 1.0, 5.0], [1.0, 1.0, 1.0]]))
  batch = {'observations': actions[:, None], 'actions': actions}
  loss, metrics = algorithm.loss({'explainer': params}, batch, None)
  np.testing.assert_allclose(loss, (np.log(4 / 1) + np.log(8 / 5) + 0) / 3, rtol=1e-6)
  np.testing.assert_allclose(metrics['explainer/top_1'], 1 / 3, rtol=1e-6)


@pytest.mark.parametrize('actions', [Discrete(3), Continuous(2)])
@pytest.mark.slow
def test_similarities_are_cosines(actions):
  """Two copies of an explanation are as near to a move as each other, and nothing is nearer than κ."""
  env = SimpleNamespace(observation_shape=(2, 2), actions=actions)
  codes = jnp.concatenate([CODES, CODES[1:2]])
  network = joint.joint(
      env, explanations=lambda: codes, hidden=(8,), size=4, activation='relu', sharpness=7.0
  )
  params = jax.jit(network.init)(jax.random.key(0))
  seen = jax.random.normal(jax.random.key(1), (5, 3, 2, 2))
  done = jax.vmap(jax.vmap(actions.sample))(jax.random.split(jax.random.key(2), (5, 3)))
  apply = jax.jit(network.apply)
  found = apply(params, seen, done)
  assert found.shape == (5, 3, 4) and jnp.abs(found).max() <= 7 + 1e-5
  np.testing.assert_allclose(found[..., 1], found[..., 3], rtol=1e-6)
  params['moves']['layers'][-1]['kernel'] *= 3  # a direction has no length
  np.testing.assert_allclose(apply(params, seen, done), found, rtol=1e-5, atol=1e-5)


# --- learning -----------------------------------------------------------------------------------------------

WORTHS = (1.0, 0.5, 0.5, 0.0, -1.0, -1.0)
EXPLAINER = joint.joint(
    BOARD, explanations=connect.explanations, hidden=(128,), size=32, activation='relu', sharpness=10.0
)
SHAPE = dict(hidden=(64, 64), activation='tanh')
POLICY, VALUE = networks.categorical(BOARD, **SHAPE), networks.state_value(BOARD, **SHAPE)


@functools.cache
def explainers():
  """[SEEDS, ...] parameters, learnt from random moves."""
  records = datasets.random(BOARD, num_envs=200, num_steps=200, discount=1.0, seed=0)
  algorithm = state2explanation.explaining(
      offline(records, batch_size=256), EXPLAINER, explanations=connect.explanations,
      concepts=functools.partial(connect.concepts, length=LENGTH),
  )
  params = staged.begun({'explainer': EXPLAINER}, jax.random.key(0), SEEDS)
  adam = optax.adam(optax.cosine_decay_schedule(3e-3, 2000))
  models, _ = staged.stage(algorithm, params, {}, optimizer=adam, steps=2000, key=jax.random.key(1))
  return models['explainer']


@pytest.mark.slow
def test_the_explanation_that_is_retrieved_is_the_moves_own():
  """One of 22, for 10,000 random moves of other games: top-1 is 0.917 (median of 5 seeds; worst 0.915), and
  0.42 for who always names the commonest. What happens seldom is told worse: against a random opponent, where
  the whole was 0.87, quiet moves were 0.97, plain wins 0.76, and blocks that are threats 0.25."""
  records = datasets.random(BOARD, num_envs=100, num_steps=100, discount=1.0, seed=1)
  held = connect.concepts(records['observations'], records['actions'], length=LENGTH)
  own = (held[:, None] == (connect.explanations() > 0)[None]).all(axis=-1)
  assert (own.sum(axis=-1) == 1).all(), 'every move has one explanation'
  similar = lambda params: EXPLAINER.apply(params, records['observations'], records['actions'])
  found = jax.jit(jax.vmap(lambda params: state2explanation.top_1(similar(params), own).mean()))(explainers())
  commonest = np.asarray(own).mean(axis=0).max()
  assert found.min() > 0.85 and commonest < 0.5


def games_until(worths, level, steps=50):
  """[SEEDS] games that are played until the mean return of the environment is above a level."""
  reward = explained(EXPLAINER, explanations=connect.explanations, worths=worths)
  parent = ppo(
      unroll(BOARD, POLICY, num_envs=16, num_steps=16), POLICY, VALUE, clip_low=0.2, clip_high=0.2,
      entropy_coef=0.01, value_coef=0.5, value_clip=10.0, discount=0.99, lambda_=0.95,
  )
  algorithm = state2explanation.state2explanation(parent, reward)
  params = staged.begun({'policy': POLICY, 'value': VALUE}, jax.random.key(2), SEEDS)
  _, metrics = staged.stage(
      algorithm, params, {'explainer': explainers()}, optimizer=optax.adam(1e-3), steps=steps,
      key=jax.random.key(3), epochs=4, minibatches=4,
  )
  games = np.cumsum(metrics['env/steps'] / metrics['episode/length'], axis=1)
  smooth = lambda x: np.convolve(x + 1, np.ones(5) / 5)[: len(x)] - 1  # -1 before the first one
  returns = np.stack([smooth(x) for x in metrics['episode/return']])
  reached = lambda played, x: played[x > level][0] if (x > level).any() else np.inf
  return np.array([reached(*both) for both in zip(games, returns, strict=True)])


@pytest.mark.slow
def test_an_agent_that_is_paid_for_good_moves_needs_fewer_games():
  """Games until the mean of the environment's own returns is above -1/2 (that of random moves is -0.86), by
  seed: 1160, 1346, 1170, 1109, 1038 where good moves are paid, 1801, 1599, 2027, 1615, 1284 where
  they are not. The policies begin alike, and each seed needs fewer.

  The lead does not last: to a mean of 0 it is 2313 games (median) against about 2460, and after 6,000 games
  those who were paid were behind, 0.32 against 0.40 (with the concepts themselves in place of the embedding):
  they like threats too much. Against an opponent who plays at random nothing is gained at all.
  """
  paid, plain = (games_until(worths, -0.5) for worths in (WORTHS, (0.0,) * len(WORTHS)))
  assert np.median(paid) < 0.85 * np.median(plain) and (paid < plain).all()

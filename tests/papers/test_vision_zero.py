"""Vision-Zero: who is paid for votes, the best of the game, and turns of self-play and of the puzzle."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from rlx.advantages import seats
from rlx.envs.conformance import check_task
from rlx.envs.seat_conformance import check_seat_task
from rlx.envs.worlds import spy as spies
from rlx.experiments.configs.selfplay import spy_vision_zero

SCENES = {'kinds': 3, 'values': 4, 'held_out_share': 0.1}
PAY = {'stakes': 1.0, 'personal': 1.0, 'verdict': 1.0}


def game(*, civilians=2, skill=1.0, frank=1.0):
  return spies.spy(civilians=civilians, skill=skill, frank=frank, **PAY, **SCENES)


@pytest.mark.parametrize(('votes', 'expected'), [
    ([2, 0, 0], [-2, 1, 1]),  # v̄ = 0, gap 2
    ([1, 1, 0], [-0.5, 0.25 - 0.5, 0.25 + 0.5]),  # v̄ = 1/2, gap 1/2
    ([0, 1, 1], [1, -0.5, -0.5]),
    ([1, 2, 0, 0], [-1 / 3, 1 / 9 - 4 / 3, 1 / 9 + 2 / 3, 1 / 9 + 2 / 3]),
])
def test_the_sides_have_opposite_stakes_and_a_civilian_that_is_voted_for_loses(votes, expected):
  paid = spies.of_votes(jnp.array(votes), stakes=1.0, personal=1.0)
  np.testing.assert_allclose(paid, expected, atol=1e-6)
  assert abs(float(paid.sum())) < 1e-6


def played(words):
  """All see `afi`, the spy `aei`; the first civilian reads the spy first, the second one last."""
  world = game()
  state = {
      'scenes': jnp.array([[0, 4, 8], [0, 5, 8], [0, 5, 8]]), 'orders': jnp.array([[0, 2], [1, 0]]),
      'phase': jnp.int32(0), 'clues': jnp.full((3, 2), -1), 'votes': jnp.zeros(3, jnp.int32),
  }
  total, read, act = np.zeros(3), {}, jax.jit(world.act)
  for word in words:
    action = np.asarray([*world.encode(word), 1])
    reply = act(state, jnp.asarray(action), jnp.int32(2), jax.random.key(0))
    for seat in np.flatnonzero(reply.lengths):
      read[int(seat)] = world.decode(np.asarray(reply.observations[seat])[: int(reply.lengths[seat])])
    state, total = reply.state, total + np.asarray(reply.rewards)
  return total, bool(reply.ended), read, {name: float(x) for name, x in reply.info.items()}


def test_a_game_by_hand():
  paid, ended, read, told = played(['ea', 'fi', 'af', '1', '2'])
  assert ended and read == {1: '1ea2af', 2: '1fi2ea'}  # the spy hears nothing, and nobody its own clue
  np.testing.assert_allclose(paid, [-2, 1 + 1, 1 + 1])
  assert told == {'success': 1.0, 'detected': 1.0, 'exposed': 1.0, 'frank': 1.0}


def test_votes_for_each_other_and_a_lie():
  paid, ended, _, told = played(['ai', 'bi', 'af', '2', '1'])
  assert ended and told['exposed'] == 0 and told['detected'] == 0 and told['frank'] == pytest.approx(2 / 3)
  np.testing.assert_allclose(paid, [1, -0.5 - 1, -0.5 - 1])


@pytest.mark.parametrize('words', [['ab'], ['a'], ['ea', 'fi', 'af', 'a']])  # of one kind, too short, no name
def test_what_is_no_clue_or_no_vote_ends_the_game_at_its_speakers_cost(words):
  paid, ended, *_ = played(words)
  assert ended and paid[(len(words) - 1) % 3 + (len(words) == 4)] == -1 and np.sum(paid != 0) == 1


@pytest.mark.slow
@pytest.mark.parametrize(
    ('civilians', 'skill', 'expected'), [(2, 1.0, 5 / 6), (3, 1.0, 7 / 9), (2, 0.0, 0.5)],
)
def test_the_expert_finds_the_spy_as_often_as_can_be(civilians, skill, expected):
  world, num = game(civilians=civilians, skill=skill), 3000
  problems = world.sample(jax.random.key(0), num, False)

  def episode(problem, key):
    state, total = world.start(problem), 0.0
    for phase in range(len(world.order)):
      action, length = world.expert(state, jax.random.fold_in(key, phase))
      reply = world.act(state, action, length, key)
      state, total = reply.state, total + reply.rewards
    return reply.info['detected'], reply.info['exposed'], total

  found, exposed, paid = jax.jit(jax.vmap(episode))(problems, jax.random.split(jax.random.key(1), num))
  assert abs(float(found.mean()) - expected) < 0.03 and abs(float(exposed.mean()) - 2 / 3) < 0.03
  if skill:
    assert expected == pytest.approx(spies.best_detection(civilians=civilians, kinds=3))
  # Verdicts aside nobody wins what another does not lose.
  verdicts = civilians * (2 * np.asarray(found) - 1)
  np.testing.assert_allclose(np.asarray(paid).sum(axis=1) - verdicts, 0, atol=1e-5)


def test_advantages_are_of_a_role_and_not_of_all():
  """Spies that get -2 and -1, civilians that always get 2: compared with all, both spies did badly."""
  rewards = jnp.array([[-2.0], [-1.0], [2.0], [2.0]])
  turns, mask = jnp.zeros((4, 1), jnp.int32), jnp.ones((4, 1), bool)
  by_role = seats.by_seat(rewards, turns, mask, jnp.array([0, 0, 1, 1]), discount=1.0)[:, 0]
  of_all = seats.of_all_seats(rewards, turns, mask, discount=1.0)[:, 0]
  assert by_role[0] < 0 < by_role[1] and jnp.abs(by_role[2:]).max() < 1e-5
  assert of_all[0] < of_all[1] < 0 < of_all[2]


@pytest.mark.slow
def test_the_clue_that_does_not_fit_is_that_of_who_sees_another_scene():
  puzzle, world = spies.odd_clue(civilians=2, **SCENES), game()
  drawn = lambda task, *how: jax.jit(task.sample, static_argnums=(1, 2))(jax.random.key(0), *how)
  asked = drawn(puzzle, 100, True)
  prompts = [puzzle.decode(row) for row in np.asarray(asked['prompts'])]
  answers = [puzzle.decode(row) for row in np.asarray(asked['solutions'])[:, :1]]
  held = set()
  for prompt, answer in zip(prompts, answers, strict=True):
    scene, own, clues = set(prompt[1:4]), prompt[4:6], {prompt[6]: prompt[7:9], prompt[9]: prompt[10:12]}
    assert set(own) <= scene and prompt[0] == 'C' and len(prompt) == 12
    odd = [name for name, clue in clues.items() if not set(clue) <= scene]
    assert odd == [answer]
    held.add(''.join(sorted(scene)) + next(x for x in clues[answer] if x not in scene))
  trained = np.asarray(drawn(world, 1000, False)['prompts'])
  known = set()
  for spy, civilian in zip(trained[:, 0, 1:], trained[:, 1, 1:], strict=True):
    scene, other = set(world.decode(civilian)), set(world.decode(spy))
    known.add(''.join(sorted(scene)) + (other - scene).pop())
  assert held and not held & known  # what the game is trained on
  check_task(puzzle)


def test_self_play_and_the_puzzle_take_turns_of_as_many_tokens():
  config, alone = spy_vision_zero.get_config(), spy_vision_zero.get_config('alone=True')
  assert set(config.stages[2::2]) == {'main'} and set(config.stages[1::2]) == {'puzzle'}
  assert config.keeps and config.puzzle.keeps and set(alone.stages[1:]) == {'main'}
  steps = lambda config: sum((config if name == 'main' else config[name]).steps for name in config.stages)
  assert steps(config) == steps(alone)
  episode = (4 + 2) + 2 * (4 + 2 + 6 + 2)  # the spy's row, and those of two civilians
  assert config.puzzle.rollout.batch_size * (12 + 2) <= config.rollout.episodes * episode


@pytest.mark.slow
@pytest.mark.parametrize('civilians', [2, 3])
def test_the_world_keeps_the_contract(civilians):
  check_seat_task(game(civilians=civilians), num=256, max_turns=2 * civilians + 1)

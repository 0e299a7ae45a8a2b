"""CoMAS: the judge's score is split between solver and critic, all that they get; agents change seats."""

import functools

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from rlx.envs.seat_conformance import check_seat_task
from rlx.envs.worlds.discussion import discussion, interaction
from rlx.experiments.configs.selfplay import discussion_comas

HOW = {'modulus': 7, 'letters': 4, 'domains': ('ab', 'cd'), 'skill': 0.6}
world = functools.partial(discussion, **HOW)


def payoffs(words, *, heeded=1.0, seed=0):
  """What solver, critic and judge get where the answer is 3 and these words are said, and what is told."""
  task = world(heeded=heeded)
  state, total = task.start({'answer': jnp.int32(3)}), np.zeros(3)
  for word, key in zip(words, jax.random.split(jax.random.key(seed), 3), strict=False):
    reply = task.act(state, jnp.asarray(task.encode(word)), jnp.int32(1), key)
    state, total = reply.state, total + np.asarray(reply.rewards)
  assert bool(reply.ended)
  return total.tolist(), {name: float(x) for name, x in reply.info.items()}


@pytest.mark.parametrize(('words', 'expected'), [
    ('35+', [1.0, 0.0, 0.0]), ('53-', [0.0, 1.0, 0.0]), ('56?', [0.5, 0.5, 0.0]),
    ('53+', [1.0, 0.0, 0.0]),  # the judge errs, and nobody tells it: there are no labels
    ('35-', [0.0, 1.0, 0.0]),
    ('353', [0.0, 0.0, -1.0]), ('35S', [0.0, 0.0, -1.0]),  # no scores: neither gets anything
    ('+', [0.0, 0.0, 0.0]), ('3a', [0.0, 0.0, 0.0]),  # no answer, and no critique
])
def test_what_a_score_gives_the_solver_it_takes_from_the_critic(words, expected):
  assert payoffs(words)[0] == expected


def test_rewards_of_a_score_have_one_sum_and_those_of_none_go_to_neither():
  for score in range(3):
    paid = interaction(jnp.int32(score), jnp.bool_(True))
    assert float(paid[:2].sum()) == 1.0 and float(paid[0]) == score / 2 and float(paid[2]) == 0
    np.testing.assert_array_equal(interaction(jnp.int32(score), jnp.bool_(False)), [0, 0, -1])


def test_with_the_mechanism_off_the_judge_is_not_heeded_and_the_sum_stays():
  drawn = np.array([payoffs('35+', heeded=0.0, seed=seed)[0] for seed in range(40)])
  assert set(drawn[:, 0]) == {0.0, 0.5, 1.0} and (drawn[:, 0] + drawn[:, 1] == 1).all()
  assert payoffs('353', heeded=0.0)[0] == [0.0, 0.0, -1.0]  # form is still asked for


def test_the_answer_is_told_of_and_paid_for_by_nobody():
  _, right = payoffs('35-')
  _, wrong = payoffs('53-')
  assert (right['success'], right['corrected'], right['judged'], right['score']) == (1, 0, 0, 0)
  assert (wrong['success'], wrong['corrected'], wrong['judged']) == (0, 1, 1)


def test_each_hears_what_was_said_before_it_and_the_solver_nothing():
  task = world(heeded=1.0)
  state = task.start({'answer': jnp.int32(3)})
  heard = []
  for word in '52':
    reply = task.act(state, jnp.asarray(task.encode(word)), jnp.int32(1), jax.random.key(0))
    state, said = reply.state, reply.observations[:, 0]
    heard.append(reply.lengths.tolist())
    assert (said == task.encode(word)[0]).all()
  assert heard == [[0, 1, 1], [0, 0, 1]]


def test_the_experts_judge_is_right_and_its_answers_as_often_as_is_said():
  task = world(heeded=1.0)
  state = lambda solution, critique: jax.tree.map(
      jnp.int32, {'answer': 3, 'phase': 2, 'solution': solution, 'critique': critique})
  says = lambda *said: task.decode(task.expert(state(*said), jax.random.key(0))[0])
  assert [says(3, 5), says(5, 3), says(5, 6), says(3, 3)] == ['+', '-', '?', '+']
  keys = jax.random.split(jax.random.key(0), 2000)
  first = {**state(0, 0), 'phase': jnp.int32(0)}
  answers = jax.jit(jax.vmap(lambda key: task.expert(first, key)[0][0]))(keys)
  assert abs(float((answers == task.encode('3')[0]).mean()) - HOW['skill']) < 0.04


def test_no_problem_is_both_trained_on_and_held_out():
  task = world(heeded=1.0)
  asked = lambda held_out: {
      task.decode(row) for row in np.asarray(task.sample(jax.random.key(1), 2000, held_out)['prompts'][:, 0])
  }
  assert not asked(True) & asked(False) and len(asked(True)) == 28 and len(asked(False)) == 84


def test_every_agent_has_a_learner_of_its_own_and_takes_every_seat():
  config, claimed = discussion_comas.get_config(), discussion_comas.claim()
  trained = [config.learners[name].trained for name in config.learners.order]
  assert trained == [('one',), ('two',), ('three',)] and config.rollout.period == 1
  assert set(config.rollout.learners) == set(config.rollout.names.values()) == set(discussion_comas.AGENTS)
  assert [dict(arm.overrides) for arm in claimed.controls] == [{'task.heeded': 0.0}]
  rows = {
      name: len(one['learnt']) * one['episodes']
      for name, one in claimed.baseline.overrides['rollout'].items() if name != 'name'
  }
  assert rows == dict.fromkeys(discussion_comas.AGENTS, config.rollout.episodes)  # equal to the run's


@pytest.mark.slow
def test_the_world_keeps_the_contract():
  check_seat_task(world(heeded=1.0), num=64, max_turns=6)

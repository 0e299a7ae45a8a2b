"""CPMobius: an instruction says how hard the player's problems are, and is paid a step later."""

import functools
import types

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from rlx.advantages import groups
from rlx.envs.skills import skills
from rlx.errors import ConfigError
from rlx.experiments.configs.selfplay import coach_cpmobius
from rlx.rewards.of_world import of_chance
from rlx.rollout import coached

TASK = skills(modulus=7, num_skills=4, used=(0, 1, 2, 3), min_steps=1, max_steps=4, held_out_share=0.2)
PERFORMANCES = (0.25, 0.5, 0.375, 0.75)  # of the player before each of four instructions


class Coach:
  """Says the token that is its parameters."""

  def saying(self, *, max_tokens):
    assert max_tokens == 1
    return self

  def sample(self, params, prompts, lengths, key, *, group_size):
    del lengths, key
    assert prompts.shape == (1, 1) and group_size == 1
    return {
        'tokens': jnp.stack([prompts[:, 0], params], axis=1), 'sampler_logprobs': jnp.array([[0.0, -1.5]])
    }


class Player:
  """Says nothing; the chance of any solution is its parameter."""

  def sample(self, params, prompts, lengths, key, *, group_size, num_slots):
    del params, lengths, key, num_slots
    return {'tokens': jnp.repeat(prompts, group_size, axis=0)}

  def score(self, params, rows):
    counts = rows['action_mask'].sum(axis=1, keepdims=True)
    return jnp.where(rows['action_mask'], jnp.log(params) / counts, 7.0), None


@functools.cache
def played(*tokens):
  """What the learners are handed in each step, where the coach says these tokens."""
  rollout = coached.coached(
      TASK, {'coach': Coach(), 'player': Player()}, batch_size=8, group_size=2, num_slots=0, validation=6,
      window=3,
  )
  draw = jax.jit(rollout.draw)
  world, handed = rollout.begin(jax.random.key(0)), []
  for step, (token, performance) in enumerate(zip(tokens, PERFORMANCES, strict=True)):
    models = {'coach': jnp.array([token]), 'player': jnp.float32(performance)}
    rows, world = draw(models, world, jax.random.key(step))
    handed.append(rows)
  return handed


def test_an_instruction_is_paid_a_step_later_by_what_the_player_has_gained():
  handed = played(8, 9, 10, 11)
  paid = [dict(zip(rows['coach']['tokens'][:, 1].tolist(), rows['coach']['rewards'].tolist(), strict=True))
          for rows in handed]
  assert all(np.isnan(reward) for reward in paid[0].values())  # nothing was said before
  assert paid[1][8] == pytest.approx(0.25)
  assert paid[2][8] == pytest.approx(0.25) and paid[2][9] == pytest.approx(-0.125)
  assert set(paid[3]) == {8, 9, 10} and paid[3][10] == pytest.approx(0.375)


def test_the_last_instructions_are_each_others_baseline():
  rows = played(8, 9, 10, 11)[3]['coach']
  assert (rows['groups'] == 0).all() and (rows['sampler_logprobs'][:, 1] == -1.5).all()
  assert rows['action_mask'].tolist() == [[False, True]] * 3
  by_token = dict(zip(rows['tokens'][:, 1].tolist(), groups.centred(rows['rewards'], rows['groups']).tolist(),
                      strict=True))
  assert by_token == pytest.approx({8: 0.25 - 1 / 6, 9: -0.125 - 1 / 6, 10: 0.375 - 1 / 6}, abs=1e-6)


def test_what_is_not_paid_yet_teaches_nothing():
  rows = played(8, 9, 10, 11)[1]['coach']
  advantages = np.asarray(groups.centred(rows['rewards'], rows['groups']))
  assert np.isnan(rows['rewards']).sum() == 2 and (advantages == 0).all()  # a group of one
  unpaid = of_chance(share=0.0)({}, played(8, 9, 10, 11)[3]['coach'], jax.random.key(0))
  assert (groups.normalised(unpaid['rewards'], unpaid['groups']) == 0).all()  # the mechanism off


def test_the_players_problems_have_as_many_operations_as_the_coach_says():
  blank = TASK.encode('?')[0]
  for token, rows in zip((8, 9, 10, 11), played(8, 9, 10, 11), strict=True):
    level = 1 + token % 4
    called = np.asarray(rows['player']['tokens'])[:, 1:5] != blank
    assert (called.sum(axis=1) == level).all() and (rows['player']['coach/level'] == level).all()


@pytest.mark.slow
def test_performance_is_the_mean_chance_of_solutions_and_levels_are_said_by_all_tokens():
  problems = jax.jit(lambda key: TASK.sample(key, 5, False))(jax.random.key(3))
  assert float(coached.expected_accuracy(Player(), jnp.float32(0.3), problems)) == pytest.approx(0.3)
  assert coached.level_of(jnp.arange(8), 4).tolist() == [1, 2, 3, 4, 1, 2, 3, 4]


def test_coach_and_player_are_both_named():
  how = dict(batch_size=8, group_size=2, num_slots=0, validation=6, window=3)
  with pytest.raises(ConfigError, match='coach and player'):
    coached.coached(TASK, {'player': types.SimpleNamespace()}, **how)


def test_no_label_reaches_the_player_and_the_control_pays_the_coach_nothing():
  config, (control,) = coach_cpmobius.get_config(), coach_cpmobius.claim().controls
  assert config.reward.player.name == 'labelfree.majority' and config.reward.coach.name == 'of_world'
  assert dict(control.overrides) == {'reward.coach': {'name': 'of_chance', 'share': 0.0}}
  assert config.learners.coach.trained == ('coach',) and config.learners.player.trained == ('player',)

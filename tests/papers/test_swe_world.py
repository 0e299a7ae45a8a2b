"""SWE-World: the agent reads and is paid what a surrogate says of a run, which is never shown to it."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from rlx.envs.seat_conformance import check_seat_task
from rlx.envs.worlds.repair import printing
from rlx.envs.worlds.surrogate import surrogate
from rlx.evaluation.seats import chosen_by
from rlx.experiments.configs.selfplay import repair_swe_world

PROGRAMS = {'operations': 2, 'modulus': 5, 'tests': 2, 'held_out_share': 0.3}
REAL = printing(**PROGRAMS)
WORLD = surrogate(**PROGRAMS, skill=0.5, chance=0.0, pass_rate=0.5)
# `+d` of 0 and 1 is 2 and 4, and `-d` is 3 (that is -2) and 0.
PROBLEM = {'program': jnp.array([1, 2]), 'right': jnp.array([0, 2])}
ACT, START, EDIT = jax.jit(WORLD.act), jax.jit(WORLD.start), jax.jit(REAL.act)


def tokens_of(word):
  return jnp.asarray(np.pad(REAL.encode(word), (0, 5 - len(word)))), jnp.int32(len(word))


def played(*words):
  """What the world replies to the words of both seats, in turn."""
  state, replies = START(PROBLEM), []
  for word in words:
    replies.append(ACT(state, *tokens_of(word), jax.random.key(0)))
    state = replies[-1].state
  return replies


def heard(reply, seat):
  return REAL.decode(reply.observations[seat, : reply.lengths[seat]])


@pytest.mark.parametrize(('edit', 'prints', 'passes'), [
    ('Bh', '-h40?', False),  # `-h`: -1 and 0
    ('A+', '+d24:', True),
    ('Ah', 'hd02?', False),  # `hd`: 0 and 2
    ('dd', '-d30?', False),  # no edit: the program is as it was
])
def test_the_interpreter_prints_what_the_edited_program_makes(edit, prints, passes):
  reply = EDIT(REAL.start(PROBLEM), *tokens_of(edit), jax.random.key(0))
  assert REAL.decode(reply.observation[: reply.length]) == prints
  assert (bool(reply.ended), float(reply.reward)) == (passes, float(passes))


@pytest.mark.parametrize(('edit', 'run', 'paid', 'real', 'outputs', 'verdicts'), [
    ('Bh', '-h24:', 1, 0, 0, 0),  # it does not pass, and is called passing
    ('A+', '+d24?', 0, 1, 1, 0),  # it passes, and nobody is paid
    ('A+', '+d24:', 1, 1, 1, 1),
    ('Bh', '-h40?', 0, 0, 1, 1),
    ('Bh', '-h41?', 0, 0, 0, 1),
    ('A+', '+d2:4', 0, 1, 0, 0),  # no run at all
    ('A+', '-d24:', 1, 1, 0, 1),  # another program
])
def test_the_agent_is_paid_by_what_the_surrogate_says(edit, run, paid, real, outputs, verdicts):
  first, second = played(edit, run)
  assert not bool(first.ended) and first.rewards.tolist() == [0.0, 0.0]
  assert second.rewards.tolist() == [paid, 0.0] and bool(second.ended) == bool(paid)
  told = {name: float(x) for name, x in second.info.items()}
  assert told == {
      'success': real, 'passed': paid, 'outputs': outputs, 'verdicts': verdicts,
      'foreseen': outputs * verdicts,
  }


def test_the_shares_are_of_all_runs_so_far():
  *_, last = played('Bh', '-h40?', 'Bd', '-d31?')  # the second one prints `-d30?` again
  assert float(last.info['outputs']) == 0.5 and float(last.info['verdicts']) == 1.0


def test_each_seat_reads_what_the_other_has_said_and_nothing_of_the_interpreter():
  first, second = played('Bh', '-h11?')
  assert [heard(first, seat) for seat in (0, 1)] == ['', 'Bh']
  assert [heard(second, seat) for seat in (0, 1)] == ['-h11?', '']


def test_the_surrogates_expert_is_the_interpreter_or_chance():
  state = played('A+')[0].state
  keys = jax.random.split(jax.random.key(0), 2000)
  say = lambda world: np.asarray(jax.jit(jax.vmap(world.expert, (None, 0)))(state, keys)[0])
  assert {WORLD.decode(word) for word in say(WORLD)} == {'+d24:'}
  drawn = [WORLD.decode(word) for word in say(surrogate(**PROGRAMS, skill=0.5, chance=1.0, pass_rate=0.3))]
  assert set(drawn) == {'+d24:', '+d24?'} and abs(np.mean([word == '+d24:' for word in drawn]) - 0.3) < 0.04


def test_the_agents_expert_is_as_skilled_as_is_said():
  keys = jax.random.split(jax.random.key(0), 2000)
  said = np.asarray(jax.jit(jax.vmap(WORLD.expert, (None, 0)))(START(PROBLEM), keys)[0])
  right = np.mean([WORLD.decode(word) == 'A+' for word in said])
  assert abs(right - (0.5 + 0.5 / 12)) < 0.04  # any edit is the right one as well, one time in twelve


def test_of_several_episodes_the_one_is_taken_that_the_surrogate_calls_passing():
  payoffs, success = jnp.array([[0.0, 1, 1], [0, 0, 0]]), jnp.array([[0.0, 1, 0], [1, 0, 0]])
  told = {name: float(x) for name, x in chosen_by(payoffs, success).items()}
  chosen = (1 / 2 + 1 / 3) / 2
  assert told == pytest.approx({'one': 1 / 3, 'chosen': chosen, 'gain': chosen - 1 / 3, 'any': 1.0})
  assert float(chosen_by(jnp.zeros((2, 3)), success)['gain']) == pytest.approx(0)


def test_the_control_is_shown_other_verdicts_and_nothing_else():
  (control,) = repair_swe_world.claim().controls
  assert control.overrides == {'transitions.task.chance': 1.0}
  config, real = repair_swe_world.get_config(), repair_swe_world.get_config('real=True')
  assert config.transitions.task.chance == config.task.chance == 0.0
  assert real.task == config.evals.real.task and real.drill == config.drill


@pytest.mark.slow
def test_the_world_keeps_the_contract():
  short = {**PROGRAMS, 'operations': 1, 'tests': 1}  # random words are a run at times
  check_seat_task(surrogate(**short, skill=0.5, chance=0.0, pass_rate=0.5), num=1024, max_turns=8)

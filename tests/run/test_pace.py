"""What the live line says of the time that is left, by a clock that is turned by hand."""

import io

import jax
import numpy as np
import pytest

from rlx.run.pace import Pace, compilation
from rlx.run.writers import LiveLine


class Clock:
  """Seconds that pass when a test says so, some of them on compiling."""

  def __init__(self):
    self.now, self.compiled = 100.0, 0.0

  def __call__(self):
    return self.now

  def after(self, seconds, *, compiling=0.0):
    self.now += seconds
    self.compiled += compiling

  def pace(self):
    return Pace(lambda: self.compiled, self)


@pytest.fixture
def clock():
  return Clock()


def test_all_stages_are_counted_with_their_own_speeds(clock):
  pace = clock.pace()
  clock.after(50)  # files are read
  pace.start()
  clock.after(2)
  pace.lap('sft', 20)  # 0.1 s a step
  assert pace.left([('sft', 80), ('main', 1000)]) == (pytest.approx(8.0), ('main',))
  pace.start()
  clock.after(5)
  pace.lap('main', 10)  # 0.5 s a step
  assert pace.left([('main', 90), ('sft', 10)]) == (pytest.approx(46.0), ())


def test_what_is_compiled_is_left_out(clock):
  pace = clock.pace()
  pace.start()
  clock.after(30, compiling=29)
  pace.lap('main', 10)
  assert pace.left([('main', 90)]) == (None, ())
  clock.after(1)
  pace.lap('main', 10)
  clock.after(30, compiling=20)  # an evaluation, for the first time
  pace.lap('main', 10)
  assert pace.left([('main', 70)]) == (pytest.approx(7.0), ())


def test_a_little_compilation_spoils_no_lap(clock):
  pace = clock.pace()
  clock.after(10, compiling=0.1)
  assert pace.so_far() == 10
  clock.after(10, compiling=2)
  assert pace.so_far() is None


def test_compilations_are_heard():
  with compilation() as compiled:
    program = jax.jit(lambda x: x + 17.25)
    program(np.ones(3))
    first = compiled()
    program(np.ones(3))
    assert compiled() == first > 0
  jax.jit(lambda x: x + 18.25)(np.ones(3))
  assert compiled() == first


def test_evaluations_and_checkpoints_are_part_of_a_lap(clock):
  pace = clock.pace()
  pace.start()
  for seconds in (1, 1, 4):  # the last with an evaluation
    clock.after(seconds)
    pace.lap('main', 10)
  assert pace.left([('main', 30)]) == (pytest.approx(6.0), ())


def test_stages_that_were_not_measured_are_named_and_not_guessed(clock):
  pace = clock.pace()
  pace.start()
  clock.after(1)
  pace.lap('explore', 10)
  ahead = [('explore', 10), ('refine', 10), ('explore', 10), ('main', 5)]
  assert pace.left(ahead) == (pytest.approx(1.0), ('refine', 'explore', 'main'))
  assert pace.left(ahead[1:]) == (None, ('explore', 'main'))


def shown(**changes):
  stream = io.StringIO()
  progress = {
      'stage': 'sft', 'step': 20, 'num_steps': 100, 'reward': None, 'headline': None,
      'tokens_per_second': None, 'env_steps_per_second': None, 'seconds_left': None,
  }
  LiveLine(stream, quiet=False).update(**progress | changes)
  return stream.getvalue().strip()


def test_the_line_says_whose_time_it_is():
  assert shown(seconds_left=125.0) == 'sft   20/100  2:05 left'
  assert shown(seconds_left=23.0, then=('main',)) == 'sft   20/100  0:23 left of sft, then main'
  assert shown(then=('main',)) == 'sft   20/100'


def test_a_reward_that_is_not_there_yet_is_not_shown():
  assert shown(reward=float('nan')) == 'sft   20/100'

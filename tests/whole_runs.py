"""Whole runs, in one go or stopped, for tests of what they leave."""

from collections.abc import Iterator
import contextlib
import os
from pathlib import Path

import jax
import pytest

from rlx.run import train
from rlx.run.build import build

ROOT = Path(__file__).parents[1]


def run_in(config, workdir, *, stops=()):
  """Trains, in one go or stopped behind some steps and started again; the metrics and the last state."""
  show = train._Session._show

  def stopped(session, position, rows, seconds):
    show(session, position, rows, seconds)
    session.stopping.extend([1] * (position.step in stops))

  with pytest.MonkeyPatch.context() as patch:
    patch.setattr(train._Session, '_show', stopped)
    outcome = train.train(config, workdir, quiet=True, command='')
    times = 1
    while not outcome.finished:
      outcome, times = train.train(config, workdir, quiet=True, command=''), times + 1
  assert times == len(stops) + 1
  state, position = train.restore(build(config), workdir)
  return (workdir / 'metrics.jsonl').read_bytes(), state, position


def numbers(state):
  """The whole state on the host, to be compared to the bit."""
  return jax.device_get(state.replace(key=jax.random.key_data(state.key)))


@contextlib.contextmanager
def in_the_repository() -> Iterator[None]:
  """Paths in the configs are relative to it."""
  before = Path.cwd()
  os.chdir(ROOT)
  try:
    yield
  finally:
    os.chdir(before)

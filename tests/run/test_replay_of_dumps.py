"""`rlx replay`: the first value that is not finite, by its piece of the step, its name and its line."""

import dataclasses

import jax
import jax.numpy as jnp
import pytest

from rlx.errors import ConfigError
from rlx.experiments import launch
from rlx.run import train
from rlx.run.replay import _line, replay
from tests.run.points import HERE, config_of, spoilt_gradients, spoilt_weights, stage


@pytest.fixture(autouse=True)
def pieces(monkeypatch):
  """Configs here name functions of `pieces.py`."""
  monkeypatch.syspath_prepend(HERE)


def given_up(config, workdir):
  with pytest.raises(train.NonFiniteError):
    train.train(config, workdir, quiet=True, command='')
  return workdir / 'nonfinite'


@pytest.mark.slow
def test_a_gradient_is_found_with_its_line(tmp_path, capsys):
  dump = given_up(spoilt_gradients(1.0, steps=40), tmp_path)
  assert launch.main(['replay', str(dump), '--disable_jit']) == launch.EXIT_DONE
  said = capsys.readouterr().out.splitlines()
  assert said[0] == f'{dump}: the state behind step 18, whose weights are finite'
  assert said[1] == 'step 19: the first values that are not finite are of the gradient of point'
  assert 'nan' in said[2] and 'hostile.py' in said[3] and 'jnp.nan' in said[4]


def test_weights_that_are_spoilt_are_followed_back_to_the_update_that_did_it(tmp_path):
  dump = given_up(spoilt_weights(4, steps=40), tmp_path)
  said = []
  found = replay(dump, disable_jit=False, say=said.append)
  assert (found.step, found.piece, found.names) == (5, 'update', ('point',))
  assert 'whose weights are not finite: point' in said[0] and 'checkpoint of step 4' in said[1]


def test_rows_are_looked_at_before_the_loss(tmp_path, monkeypatch):
  config = spoilt_gradients(1.0, steps=40)
  dump = given_up(config, tmp_path)
  import pieces as parts

  monkeypatch.setattr(parts, 'nearer', parts.nearer_nan)
  found = replay(dump, disable_jit=False)
  assert (found.piece, found.names) == ('advantage', ('seen',))


def test_episodes_that_have_not_ended_are_no_fault(tmp_path, monkeypatch):
  train.train(config_of(('main',), main=stage(steps=4)), tmp_path, quiet=True, command='')
  import pieces as parts

  plain = parts.nearer

  def nearer(rollout, point, *, target: float):
    unended = lambda models, batch, key: {**batch, 'episode/return': batch['seen'] * jnp.nan}
    return dataclasses.replace(plain(rollout, point, target=target), advantage=unended)

  monkeypatch.setattr(parts, 'nearer', nearer)
  assert replay(tmp_path, disable_jit=False) is None


def test_where_everything_is_finite_it_says_so(tmp_path, capsys):
  train.train(config_of(('main',), main=stage(steps=4)), tmp_path, quiet=True, command='')
  assert launch.main(['replay', str(tmp_path)]) == launch.EXIT_DONE
  assert capsys.readouterr().out.splitlines()[-1] == 'every value of these steps is finite'
  with pytest.raises(ConfigError, match='there is no such dump'):
    replay(tmp_path / 'nonfinite', disable_jit=False)


def test_a_nan_is_not_blamed_on_the_infinity_that_a_softmax_begins_with():
  def spoilt(x):
    return jax.nn.log_softmax(x) + jnp.sqrt(x)

  said = _line(spoilt, jnp.array([-1.0, 2.0]), infinite=False)
  assert 'jnp.sqrt(x)' in said and 'nan' in said

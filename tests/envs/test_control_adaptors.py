"""Adaptors to the environments of other projects, where those are installed, and the pool on the host."""

import random
import sys
import threading
import time

import jax
import numpy as np
import pytest

from rlx.envs.control.adaptors.brax import from_brax
from rlx.envs.control.adaptors.gymnasium import Pool
from rlx.envs.control.adaptors.gymnax import from_gymnax
from rlx.envs.control.conformance import check_environment
from rlx.names import resolve

RETURNS = dict(random_return=0.0, expert_return=1.0)


@pytest.mark.parametrize('problem', ['CartPole-v1', 'Pendulum-v1'])
def test_gymnax_keeps_the_contract(problem):
  pytest.importorskip('gymnax')
  check_environment(from_gymnax(problem=problem, max_steps=20, **RETURNS), num_steps=20)


@pytest.mark.parametrize(('name', 'package', 'packages'), [
    ('gymnax:CartPole-v1', 'gymnax', ('rlx.envs',)), ('brax:ant', 'brax', ('rlx.envs',)),
    ('gymnasium:CartPole-v1', 'gymnasium', ('rlx.envs',)), ('minari:some/thing-v0', 'minari', ('rlx.data',)),
])
def test_a_short_name_is_the_function_of_its_project_and_a_missing_one_is_one_line(
    monkeypatch, name, package, packages
):
  monkeypatch.setitem(sys.modules, package, None)
  function = resolve(name, *packages)
  numbers = dict(discount=0.9) if package == 'minari' else {}
  with pytest.raises(ValueError, match=r"pip install 'rlx\[\w+\]'") as error:
    function(*[None] * len(numbers), **numbers)
  assert package in str(error.value) and '\n' not in str(error.value)


@pytest.mark.slow
@pytest.mark.filterwarnings('ignore')  # what Brax stands on is no longer maintained, and says so
def test_brax_keeps_the_contract():
  pytest.importorskip('brax')
  with jax.numpy_rank_promotion('allow'):  # Brax adds arrays of different ranks
    env = from_brax(problem='inverted_pendulum', backend='spring', max_steps=20, **RETURNS)
    check_environment(env, num_steps=20)


class Walk:
  """An environment with gymnasium's methods: a random walk that ends beyond 2, and takes a while."""

  def __init__(self, seconds=lambda: 0.0):
    self.seconds, self.closed = seconds, False

  def reset(self, *, seed=None):
    if seed is not None:
      self.random = np.random.default_rng(seed)
    self.x = self.random.normal(size=1).astype(np.float32)
    return self.x, {}

  def step(self, action):
    time.sleep(self.seconds())
    self.x = self.x + action + self.random.normal(size=1).astype(np.float32)
    return self.x, float(-self.x[0]), bool(abs(self.x[0]) > 2), False, {}

  def close(self):
    self.closed = True


def alone(seed, num_steps):
  """What an environment goes through by itself."""
  env, rows = Walk(), []
  observation, _ = env.reset(seed=seed)
  for _ in range(num_steps):
    led_to, reward, terminated, _, _ = env.step(-0.5 * observation)
    rows.append((led_to[0], np.float32(reward), terminated))
    observation = env.reset()[0] if terminated else led_to
  return rows


def test_each_environment_does_what_it_would_do_alone():
  makers = [lambda: Walk(lambda: random.uniform(0, 2e-3))] * 5
  seen, begun = [[] for _ in makers], set()
  with Pool(makers, batch_size=2, num_threads=5, seed=7) as pool:
    for _ in range(60):
      answers = pool.receive()
      assert len(set(answers.indices)) == 2
      columns = answers.first, answers.next_observations[:, 0], answers.rewards, answers.terminated
      for index, first, *row in zip(answers.indices, *columns, strict=True):
        assert first == (index not in begun)
        begun.add(index)
        if not first:
          seen[index].append(tuple(row))
      pool.send(-0.5 * answers.observations, answers.indices)
  assert sum(map(len, seen)) == 60 * 2 - 5
  for index, rows in enumerate(seen):
    assert rows == alone(7 + index, len(rows))
  assert any(terminated for rows in seen for *_, terminated in rows), 'no episode has ended'


def test_a_batch_is_whoever_answers_first():
  """One environment is held up until all is over; with M < N the others go on."""
  hold = threading.Event()
  makers = [lambda: Walk(hold.wait), Walk, Walk]
  with Pool(makers, batch_size=1, num_threads=3, seed=0) as pool:
    for _ in range(3):
      answers = pool.receive()
      pool.send(answers.observations, answers.indices)
    for _ in range(20):
      answers = pool.receive()
      assert answers.indices[0] != 0
      pool.send(answers.observations, answers.indices)
    hold.set()
    envs = pool._envs
  assert all(env.closed for env in envs)


def test_what_an_environment_raises_is_raised_by_receive():
  def broken():
    raise RuntimeError('the simulator fell over')

  with Pool([lambda: Walk(broken)], batch_size=1, num_threads=1, seed=0) as pool:
    answers = pool.receive()
    pool.send(answers.observations, answers.indices)
    with pytest.raises(RuntimeError, match='fell over'):
      pool.receive()


@pytest.mark.parametrize('changes', [dict(batch_size=0), dict(batch_size=3), dict(num_threads=0)])
def test_pool_refuses_sizes_that_cannot_be(changes):
  with pytest.raises(ValueError, match='with 2 environments'):
    Pool([Walk, Walk], **{'batch_size': 1, 'num_threads': 1, 'seed': 0, **changes})

"""A control config as a run: what a stage begins with, what is refused, and resuming."""

from pathlib import Path

import chex
import jax
import numpy as np
import pytest

from rlx import config as configs
from rlx.errors import ConfigError
from rlx.run import states, train
from rlx.run.build import build
from rlx.run.writers import read_metrics

FOLDER = Path(__file__).parent.parent.parent / 'experiments/configs/control'


def smoke(name):
  return configs.load(f'{FOLDER}/{name}.py:smoke').unlock()


def test_a_target_begins_as_a_copy_of_what_it_follows():
  run = build(smoke('sac_pendulum'))
  state = states.begin(run, 0, {}, 0)
  chex.assert_trees_all_equal(state.slow['target'], state.params['critic'])
  store = state.world['store']
  assert int(store['size']) == run.config.rollout.warmup_steps
  handed_on = jax.tree.map(lambda x: x + 1, state.models)
  later = states.begin(run, 0, handed_on, 5)
  chex.assert_trees_all_equal(later.params['critic'], handed_on['critic'])
  chex.assert_trees_all_equal(later.slow['target'], handed_on['critic'])


def test_no_number_of_a_state_is_weakly_typed():
  """One that is makes the second dispatch another program, which is compiled again."""
  run = build(smoke('ppo_cartpole'))
  with jax.set_mesh(run.mesh):
    state = states.begin(run, 0, {}, 0)
  weak = [path for path, x in jax.tree_util.tree_leaves_with_path(state) if getattr(x, 'weak_type', False)]
  assert weak == []


@pytest.mark.slow
def test_a_run_writes_its_returns_and_goes_on_as_if_never_stopped(tmp_path):
  whole = train.train(smoke('ppo_cartpole'), tmp_path / 'whole', quiet=True, command='')
  assert whole.finished and whole.metric == 'eval/episodes/return' and whole.after > 0
  rows = read_metrics(tmp_path / 'whole' / 'metrics.jsonl')
  assert rows[-1]['env/steps'] == 64
  reported = {f'eval/episodes/{name}' for name in ('return_worst', 'score', 'length')}
  assert reported | {'episode/return'} <= rows[-1].keys()
  again = train.train(smoke('ppo_cartpole'), tmp_path / 'whole', quiet=True, command='')
  assert again.finished and again.after == whole.after
  assert read_metrics(tmp_path / 'whole' / 'metrics.jsonl') == rows or np.isnan(
      rows[1]['episode/return']
  )  # nan is not equal to itself


@pytest.mark.parametrize(('change', 'message'), [
    (lambda c: c.models.policy.update(hidden=(8,), width=3), "did you mean|width"),
    (lambda c: c.models.policy.update(activation='softmax'), "activation='softmax'"),
    (lambda c: c.update(trained=('policy', 'actor')), r"\['actor'\]; config.models has"),
    (lambda c: c.rollout.update(num_envs=0), 'num_envs=0'),
    (lambda c: c.log.update(samples=2), 'log.samples=2'),
    (lambda c: c.env.update(name='cartpolle'), "did you mean 'cartpole'"),
    (lambda c: c.algorithm.update(name='sac', target_rate=0.1), 'algorithm'),
    (lambda c: c.update(env={'name': 'pendulum', 'max_steps': 10}), 'categorical: actions are Continuous'),
])
def test_a_mistake_is_one_clear_line(change, message):
  config = smoke('ppo_cartpole')
  change(config)
  with pytest.raises(ConfigError, match=message) as error:
    build(config)
  assert '\n' not in str(error.value)

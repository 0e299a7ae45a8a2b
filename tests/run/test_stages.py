"""Stages that are entered several times: what is handed over, kept, taken, and let go."""

import contextlib
import functools
import json

import chex
import jax
from ml_collections import ConfigDict
import numpy as np
import pytest

from rlx import config as configs
from rlx.errors import ConfigError
from rlx.run import nonfinite, states, train
from rlx.run.build import build
from rlx.run.writers import read_metrics
from tests.run.points import ADAM, EVERY, HERE, config_of, stage
from tests.whole_runs import numbers, run_in

BOTH = ('point', 'other')  # models


@pytest.fixture(autouse=True)
def pieces(monkeypatch):
  """Configs here name functions of `pieces.py`."""
  monkeypatch.syspath_prepend(HERE)


def explore_refine(population=1) -> ConfigDict:
  """Two stages by turns, one of which keeps its optimizer and world; `other` is not named meanwhile."""
  return config_of(
      ('first', *('explore', 'refine') * 3, 'main'), population=population, models=BOTH,
      first=stage('other', target=5.0), explore=stage('point', target=1.0, keeps=True),
      refine=stage('point', target=-1.0, takes=('seen',)), main=stage('other', target=2.0),
  )


@pytest.mark.slow
@pytest.mark.parametrize(('population', 'devices'), [(1, 1), (3, 1), (1, 2)])
def test_stopped_five_times_it_is_the_same_to_the_bit(tmp_path, population, devices):
  config = explore_refine(population)
  config.mesh.data = devices
  metrics, state, position = run_in(config, tmp_path / 'whole')
  again, resumed, _ = run_in(config, tmp_path / 'stopped', stops=(2, 8, 14, 20, 26))
  assert position.step == 32 and metrics == again
  chex.assert_trees_all_equal(numbers(state), numbers(resumed))


@functools.cache
def states_of_all(stages_of=explore_refine):
  """The state at the start and at the end of every entry."""
  run = build(stages_of())
  seen, state = [], None
  with jax.set_mesh(run.mesh):
    for entry, one in enumerate(run.stages):
      at_step = 4 * entry
      state = states.begin(run, 0, {}, 0) if entry == 0 else states.hand_over(run, entry, state, at_step)
      start = numbers(state)
      for _ in range(one.num_steps // EVERY):
        state, _ = one.program.dispatch(state, None)
      seen.append((start, numbers(state)))
  return run, seen


def test_models_that_a_later_stage_wants_pass_through_the_others():
  _, seen = states_of_all()
  (_, first), (_, explored), (refining, refined) = seen[:3]
  assert set(explored.carried) == {'other'} and set(explored.params) == {'point'}
  chex.assert_trees_all_equal(explored.carried['other'], first.params['other'])
  chex.assert_trees_all_equal(refining.params['point'], explored.params['point'])
  chex.assert_trees_all_equal(seen[-1][0].params['other'], first.params['other'])
  assert not seen[-1][0].carried and not seen[-1][0].parked  # the rest is let go
  assert set(refined.carried) == {'other'}


def test_a_stage_that_keeps_finds_its_optimizer_and_its_world_again():
  _, seen = states_of_all()
  (first_in, first_out), (again_in, again_out) = seen[1], seen[3]
  chex.assert_trees_all_equal(again_in.opt_state, first_out.opt_state)
  chex.assert_trees_all_equal(again_in.world, first_out.world)
  assert first_in.world['count'] == 0 and again_out.world['count'] == 8
  refine_in, refine_again = seen[2][0], seen[4][0]  # it does not keep
  assert not np.any(jax.tree.leaves(refine_again.opt_state)[0]) and refine_again.world['count'] == 0
  assert set(seen[2][0].parked) == {'explore'} and not seen[1][0].parked
  assert refine_in.world['count'] == 0


def test_memories_are_taken_from_the_stage_before():
  _, seen = states_of_all()
  explored, refining = seen[1][1], seen[2][0]
  np.testing.assert_array_equal(refining.world['seen'], explored.world['seen'])
  assert refining.world['count'] == 0


@pytest.mark.slow
def test_extended_it_ends_where_it_would_have_ended(tmp_path):
  """The evaluation that is made because a shorter run ends there does not count for the stop rule."""
  rule = {'name': 'plateau', 'metric': 'eval/all/models', 'patience': 2, 'min_rise': 0.0}  # over at 12
  config = lambda steps: config_of(('main',), main=stage(steps=steps, stop=rule))
  run_in(config(6), tmp_path / 'extended')
  rows, state, position = run_in(config(20), tmp_path / 'extended', stops=(8,))
  whole_rows, whole, whole_position = run_in(config(20), tmp_path / 'whole')
  assert position == whole_position and position.step == 12 and position.ended
  chex.assert_trees_all_equal(numbers(state), numbers(whole))
  early = 6
  differs = [a != b for a, b in zip(rows.splitlines(), whole_rows.splitlines(), strict=True)]
  assert [step for step, other in enumerate(differs) if other] == [early]  # which was measured besides
  again, _, position = run_in(config(40), tmp_path / 'extended')  # the rule has ended it
  assert position == whole_position and again == rows


def test_a_stage_that_is_visited_twice_cannot_be_extended(tmp_path):
  config = lambda steps: config_of(('main', 'between', 'main'), main=stage(steps=steps), between=stage())
  (tmp_path / 'config.json').write_text(config(4).to_json())
  with pytest.raises(ConfigError, match="every visit of 'main'"):
    train.train(config(8), tmp_path, quiet=True, command='')


def test_entered_again_it_has_other_keys():
  _, seen = states_of_all()
  keys = [start.key for start, _ in seen]
  assert not np.array_equal(keys[1], keys[3]) and not np.array_equal(keys[3], keys[5])
  np.testing.assert_array_equal(keys[0], keys[1])  # the first time each has that of the run


@contextlib.contextmanager
def compilations():
  """A list that grows by one for each program that is compiled."""
  compiled = []

  def listen(event, duration, **kwargs):
    del duration, kwargs
    if event == '/jax/core/compile/backend_compile_duration':
      compiled.append(event)

  jax.monitoring.register_event_duration_secs_listener(listen)
  try:
    yield compiled
  finally:
    jax.monitoring.unregister_event_duration_listener(listen)


def test_entered_again_nothing_is_compiled(tmp_path):
  """The programs that a first and a later entry run are the same ones."""
  run = build(config_of(('explore', 'refine') * 4 + ('main',), explore=stage(keeps=True), refine=stage()))
  with jax.set_mesh(run.mesh):
    state, counts = states.begin(run, 0, {}, 0), []
    with compilations() as compiled:
      for entry, one in enumerate(run.stages[:-1]):
        before = len(compiled)
        if entry:
          state = states.hand_over(run, entry, state, 4 * entry)
        for _ in range(2):
          state, _ = one.program.dispatch(state, None)
        counts.append(len(compiled) - before)
  assert counts[0] > 0 and counts[1] > 0
  assert counts[4:] == [0] * 4, counts  # the third time of each, and the fourth


@pytest.mark.parametrize('population', [1, 2])
def test_a_model_that_begins_with_a_weak_type_compiles_its_stage_once(population):
  config = config_of(('main',), population=population)
  config.models.point.name = 'pieces.middle'
  run = build(config)
  with jax.set_mesh(run.mesh):
    state, _ = run.stages[0].program.dispatch(states.begin(run, 0, {}, 0), None)
    with compilations() as compiled:
      run.stages[0].program.dispatch(state, None)
  assert not compiled


@pytest.mark.slow
def test_a_stage_can_train_nothing_and_remember(tmp_path):
  """It gathers; the next stage takes the memory; stopped, it goes on to the bit."""
  look = stage(
      trained=(), optimizer=None, updates=None, algorithm={'name': 'gather'}, reward={'name': 'pieces.none'}
  )
  config = config_of(('look', 'main'), look=look, main=stage(takes=('seen', 'count')))
  metrics, state, _ = run_in(config, tmp_path / 'whole')
  again, resumed, _ = run_in(config, tmp_path / 'stopped', stops=(2,))
  assert metrics == again
  chex.assert_trees_all_equal(numbers(state), numbers(resumed))
  assert state.world['count'] == 8
  manifest = json.loads((tmp_path / 'whole/checkpoints/2/manifest.json').read_text())
  assert not any(path.startswith('params') for path in manifest['arrays'])


@pytest.mark.slow
def test_a_stop_rule_sees_the_rows_so_far(tmp_path):
  config = config_of(
      ('first', 'main'), first=stage(steps=20, stop={'name': 'pieces.after_six'}), main=stage(steps=2)
  )
  metrics, _, position = run_in(config, tmp_path / 'whole')
  assert position.step == 8
  again, _, _ = run_in(config, tmp_path / 'stopped', stops=(2, 4))
  assert metrics == again
  rows = read_metrics(tmp_path / 'whole/metrics.jsonl')
  assert [row['stage'] for row in rows if row['step'] in (6, 7)] == ['first', 'nearer']


@pytest.mark.parametrize(
    ('rule', 'values', 'over'),
    [
        ({'name': 'reached', 'metric': 'x', 'at_least': 0.5}, [0.1, 0.4], False),
        ({'name': 'reached', 'metric': 'x', 'at_least': 0.5}, [0.1, 0.5], True),
        ({'name': 'reached', 'metric': 'x', 'at_least': 0.5}, [0.6, None], False),
        ({'name': 'plateau', 'metric': 'x', 'patience': 2, 'min_rise': 0.1}, [0.1, 0.15, 0.3, 0.35], False),
        ({'name': 'plateau', 'metric': 'x', 'patience': 2, 'min_rise': 0.1}, [0.1, 0.3, 0.35, 0.2], True),
        ({'name': 'plateau', 'metric': 'x', 'patience': 2, 'min_rise': 0.1}, [0.3, 0.35, 0.2, None], False),
    ],
)
def test_stop_rules(rule, values, over):
  from rlx.run.parts import build_section

  rows = [{} if value is None else {'x': value} for value in values]
  assert build_section(rule, 'stop', {}, ('rlx.run.stop',))(rows) == over


@pytest.mark.slow
def test_a_train_step_of_a_paper_is_run_as_any_other(tmp_path):
  """By hand it does what the same algorithm does; it is resumed; `updates` beside it are refused."""
  own = {'name': 'pieces.nearer_by_hand', 'target': 1.0}
  by_hand = config_of(('main',), main=stage(algorithm=own, updates=None, steps=8))
  plain = config_of(('main',), main=stage(steps=8))
  metrics, state, _ = run_in(by_hand, tmp_path / 'own')
  again, resumed, _ = run_in(by_hand, tmp_path / 'stopped', stops=(4,))
  _, same, _ = run_in(plain, tmp_path / 'plain')
  assert metrics == again
  chex.assert_trees_all_equal(numbers(state), numbers(resumed))
  chex.assert_trees_all_close(state.params, same.params, rtol=1e-6)
  with pytest.raises(configs.ConfigError, match='makes its own updates'):
    build(config_of(('main',), main=stage(algorithm=own)))


def test_members_of_a_population_see_each_other(tmp_path):
  together = {'name': 'pieces.nearer_together', 'target': 1.0}
  config = config_of(('main',), population=4, main=stage(algorithm=together))
  run_in(config, tmp_path)
  run = build(config)
  with jax.set_mesh(run.mesh):
    state = states.begin(run, 0, {}, 0)
    rows, _ = run.stages[0].program.collect(state, None, {})
    _, metrics = run.stages[0].program.dispatch(state, None)
  assert rows['x'].shape[1:] == (3,)  # one member's, gathered inside
  seen = np.asarray(metrics['seen'])
  np.testing.assert_allclose(seen, np.broadcast_to(seen[:1], seen.shape), rtol=1e-6)
  alone = config_of(('main',), main=stage(algorithm=together))
  with pytest.raises(configs.ConfigError, match='population.size'):
    train.check(build(alone))


@pytest.mark.slow
def test_a_config_can_sample_on_other_devices_and_ahead(tmp_path):
  """With lag 0 the same as on one mesh; ahead, it says how old rows are, and resumes to the bit."""
  around = {'name': 'pieces.around', 'rows': 8, 'size': 3}
  config_with = lambda **more: config_of(('main',), main=stage(rollout=around, steps=8, **more))
  two = {'data': 2, 'fsdp': 1, 'tensor': 1}
  here, plain, _ = run_in(config_with(), tmp_path / 'here')
  _, away, _ = run_in(config_with(sampling={'lag': 0, 'mesh': two}), tmp_path / 'away')
  chex.assert_trees_all_close(away.params, plain.params, rtol=1e-6)
  config = config_with(sampling={'lag': 1, 'mesh': two})
  ahead, state, _ = run_in(config, tmp_path / 'ahead')
  again, resumed, _ = run_in(config, tmp_path / 'stopped', stops=(2, 4))
  assert ahead == again and ahead != here
  chex.assert_trees_all_equal(numbers(state), numbers(resumed))
  rows = read_metrics(tmp_path / 'ahead/metrics.jsonl')
  assert [row['rollout/policy_lag'] for row in rows[1:5]] == [0, 1, 0, 1]
  assert rows[1]['sampling/weights_bytes'] == 3 * 4
  timing = (tmp_path / 'ahead/timing.jsonl').read_text().splitlines()
  assert json.loads(timing[0])['time/weights_seconds'] > 0
  with pytest.raises(configs.ConfigError, match='are free'):
    build(config_with(sampling={'lag': 0, 'mesh': {'data': 64, 'fsdp': 1, 'tensor': 1}}))


def learners(**changes) -> dict:
  """A stage in which two points learn."""
  one = lambda name, target: {
      'algorithm': {'name': 'pieces.nearer', 'target': target, 'names': {'point': name}}, 'trained': (name,),
      'optimizer': ADAM, 'updates': {'epochs': 1, 'minibatches': 1, 'microbatches': 1}, 'every': 1,
  }
  noise = {'name': 'pieces.noise', 'rows': 8, 'size': 3}
  made = {
      'steps': 4, 'stop': {}, 'slow': {}, 'rollout': {'name': 'each', 'one': noise, 'two': noise},
      'learners': {
          'order': ('one', 'two'), 'shared': (), 'one': one('point', 1.0), 'two': one('other', -1.0),
          **changes,
      },
  }
  return made


def test_two_learners_of_a_config_are_run_and_resumed(tmp_path):
  config = config_of(('main',), main=learners(), models=BOTH)
  metrics, state, _ = run_in(config, tmp_path / 'whole')
  again, resumed, _ = run_in(config, tmp_path / 'stopped', stops=(2,))
  assert metrics == again
  chex.assert_trees_all_equal(numbers(state), numbers(resumed))
  rows = read_metrics(tmp_path / 'whole/metrics.jsonl')
  assert rows[-1]['one/place'] > rows[1]['one/place'] and rows[-1]['two/place'] < rows[1]['two/place']
  assert {'one/optimizer/grad_norm', 'two/optimizer/nonfinite_updates'} <= set(rows[-1])


def test_a_learner_that_is_not_finite_is_told_by_name(tmp_path, monkeypatch):
  config = config_of(('main',), main=learners(), models=BOTH)
  config.learners.two.algorithm.target = float('inf')
  config.steps = 40
  monkeypatch.setattr(nonfinite, 'MAX_UPDATES', 6)
  with pytest.raises(train.NonFiniteError, match="learner 'two'"):
    train.train(config, tmp_path, quiet=True, command='')


def two_learners() -> ConfigDict:
  return config_of(('main',), main=learners(), models=BOTH)


def one_stage(**more) -> ConfigDict:
  return config_of(('main',), **more)


def changed(config, path, value):
  *sections, last = path.split('.')
  section = functools.reduce(lambda at, name: at[name], sections, config)
  if value is None:
    del section[last]
  else:
    section[last] = value
  return config


@pytest.mark.parametrize(
    ('config', 'path', 'value', 'words'),
    [
        (two_learners, 'learners.two.trained', ('point',), 'and shared=()'),
        (two_learners, 'learners.shared', ('point',), 'several train []'),
        (two_learners, 'learners.order', ('one',), "but the sections are"),
        (two_learners, 'learners.two', None, "but the sections are"),
        (two_learners, 'learners.one.every', 0, 'at least 1'),
        (two_learners, 'learners.one.trained', (), 'trains something'),
        (two_learners, 'learners.one.taste', 3, "has ['taste']"),
        (two_learners, 'trained', ('point',), "has ['trained']"),
        (two_learners, 'rollout.three', {'name': 'pieces.noise', 'rows': 2, 'size': 3}, "rows for ['three']"),
        (two_learners, 'rollout.two', None, 'gets no rows'),
        (explore_refine, 'stages', ('first', 'explore', 'main'), "nobody enters ['refine']"),
        (explore_refine, 'first.keeps', True, 'entered once only'),
        (explore_refine, 'refine.takes', ('lost',), "remembers ['count', 'seen']"),
        (explore_refine, 'refine.rollout.size', 1, 'other shapes'),
        (explore_refine, 'first.takes', ('seen',), 'no stage is before it'),
        (explore_refine, 'first.trained', (), "has ['optimizer', 'updates']"),
        (one_stage, 'stop', {'name': 'reached', 'metric': 'eval/b/x', 'at_least': 1.0}, 'none of'),
        (one_stage, 'sampling', {'lag': 2}, 'log.steps_per_dispatch'),
        (one_stage, 'sampling', {'lag': -1}, 'lag=-1'),
        (one_stage, 'sampling', {'lag': 0, 'mesh': {'data': 1, 'fsdp': 1, 'tensor': 1}},
         'remembers what became'),
        (one_stage, 'sampling', {'lags': 1}, "did you mean 'lag'?"),
        (functools.partial(one_stage, population=2), 'sampling', {'lag': 1}, 'population.size=2'),
    ],
)
def test_what_cannot_run_is_one_line(config, path, value, words):
  with pytest.raises(configs.ConfigError) as error:
    train.check(build(changed(config().unlock(), path, value)))
  assert words in str(error.value) and '\n' not in str(error.value), str(error.value)

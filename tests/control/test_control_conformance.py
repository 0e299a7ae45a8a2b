"""Every control algorithm keeps what the train step relies on: see `test_conformance.py` for the others."""

import agents
import chex
from control_table import FAMILIES, each
import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest

from rlx import step
from rlx.envs.control import probes
from rlx.run.checkpoint import Checkpoints
from rlx.types import check, stateful

ADAM = optax.adam(1e-3)


def begun(row, key=0):
  """The agent on the probe that depends on what is seen, its state, and twenty compiled steps."""
  agent = row.build(probes.matching(discrete=row.discrete))
  train_step = step.make_train_step(
      agent.seeing, ADAM, epochs=1, minibatches=row.minibatches, microbatches=1
  )
  data = stateful(agent.algorithm.rollout).data
  program = jax.jit(step.repeat(train_step, 20))
  return agent, agents.initial_state(agent, ADAM, jax.random.key(key)), lambda state: program(state, data)


@each()
def test_steps_keep_the_state_and_stay_finite(row):
  _, state, dispatch = begun(row)
  describe = lambda state: jax.tree.map(lambda x: (x.shape, x.dtype), jax.eval_shape(lambda: state))
  for _ in range(3):
    after, metrics = dispatch(state)
    assert describe(after) == describe(state)
    state = after
  chex.assert_tree_all_finite((state.params, state.slow))
  unknown = {name for name, x in metrics.items() if not np.isfinite(x).all()}
  assert not {name for name in unknown if not name.startswith('episode/')}


@each()
def test_a_batch_keeps_the_table_and_its_loss_is_a_mean_over_rows(row):
  agent, state, dispatch = begun(row)
  state, _ = dispatch(state)  # behind the first steps, so that nothing is zero by construction
  data = stateful(agent.algorithm.rollout).data
  batch = jax.jit(lambda state: step.collect(agent.seeing, state, data))(state)
  check(batch)
  loss = jax.jit(lambda batch, key: agent.seeing.loss(state.models, batch, jax.random.key(key))[0])
  whole = loss(batch, 0)
  assert whole.shape == () and whole.dtype == jnp.float32 and np.isfinite(whole)
  if whole == loss(batch, 1):  # else its noise is drawn in the shape of the batch, and parts draw another
    half = jax.tree.leaves(batch)[0].shape[0] // 2
    parts = [jax.tree.map(lambda x, rows=rows: x[rows], batch) for rows in (slice(half), slice(half, None))]
    np.testing.assert_allclose((loss(parts[0], 0) + loss(parts[1], 0)) / 2, whole, rtol=1e-4, atol=1e-6)


@each()
def test_control_resumes_bitwise(row, tmp_path):
  _, state, dispatch = begun(row)
  middle, _ = dispatch(state)
  uninterrupted, _ = dispatch(middle)
  with Checkpoints(tmp_path / 'checkpoints', keep=2) as checkpoints:
    checkpoints.save(middle, extra={})
  like = jax.eval_shape(lambda: begun(row)[1])
  with Checkpoints(tmp_path / 'checkpoints', keep=2) as checkpoints:
    restored, _ = checkpoints.restore(lambda step, extra: like, lambda text: None)
  resumed, _ = dispatch(restored)
  raw = lambda state: jax.device_get(state.replace(key=jax.random.key_data(state.key)))
  chex.assert_trees_all_equal(raw(resumed), raw(uninterrupted))


def test_every_control_algorithm_has_a_row_or_a_paper_test():
  """An algorithm that no probe fits is tried by its paper's claim alone."""
  from pathlib import Path
  import pkgutil

  from rlx.algorithms import control

  modules = {module.name for module in pkgutil.iter_modules(control.__path__)}
  rows = {row.name for family in FAMILIES for row in family.ROWS}
  tests = Path(__file__).parent.parent.rglob('test_*.py')
  text = '\n'.join(path.read_text() for path in tests)
  untested = {name for name in modules - rows if f'control.{name} import' not in text
              and f'control import {name}' not in text}
  assert not untested, f'{sorted(untested)} have neither'


@pytest.mark.parametrize('minibatches', [3])
def test_rows_that_do_not_divide_are_refused(minibatches):
  from rows_core import build_sac

  agent = build_sac(probes.matching(discrete=False))
  train_step = step.make_train_step(
      agent.algorithm, ADAM, epochs=1, minibatches=minibatches, microbatches=1
  )
  with pytest.raises(ValueError, match='minibatches=3 does not divide the 64 rows'):
    jax.eval_shape(train_step, agents.initial_state(agent, ADAM, jax.random.key(0)))

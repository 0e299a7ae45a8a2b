"""A reference that is looked up says what the model would have said, of the rows of its data set alone."""

import dataclasses
import json
import logging
from pathlib import Path
import shutil

import algorithms_table as table
import jax
import jax.numpy as jnp
import numpy as np
import pytest

from rlx import sharding
from rlx.algorithms.kto import mismatched
from rlx.config import load
from rlx.data.dataset import dataset
from rlx.engine.speaker import Speaker, in_stage
from rlx.errors import ConfigError
from rlx.experiments.data import FOLDER
from rlx.models import hf
from rlx.rollout import pairs
from rlx.run import costs
from rlx.run import stored as stored_module
from rlx.run.build import build
from rlx.run.stored import stored

SHAPE = {
    'context_length': 0, 'dtype': 'float32', 'param_dtype': 'float32', 'remat': False, 'attention': 'auto',
    'decode_attention': 'auto',
}
TINY = f'{FOLDER}/tiny_model'


def task_of(train, held_out='', directory=TINY):
  return dataset(
      directory=directory, train=train, held_out=held_out, columns={}, chat=False, system='',
      max_prompt_tokens=64, max_completion_tokens=64, malformed='strict',
  )


@pytest.fixture(scope='module')
def some(tmp_path_factory):
  """A task of step pairs, few rows of it, and the live reference."""
  folder = tmp_path_factory.mktemp('rows')
  for part, num in (('train', 5), ('test', 3)):
    lines = Path(f'{FOLDER}/step_pairs_{part}.jsonl').read_text().splitlines()[:num]
    (folder / f'{part}.jsonl').write_text('\n'.join(lines))
  task = task_of(str(folder / 'train.jsonl'), str(folder / 'test.jsonl'))
  model = hf.hf(directory=TINY, **SHAPE)
  decoding = dataclasses.replace(
      table.DECODING, max_tokens=task.answer_columns, eos_ids=task.eos_ids, pad_id=task.pad_id
  )
  live = Speaker(model=model.functions, decoding=decoding, scoring=table.SCORING)
  return task, live, model.load(MESH), str(folder / 'kept.npz')


MESH = sharding.make_mesh(data=1, fsdp=1, tensor=1)


def drawn(task, policy, num):
  """Training rows and held-out ones, whole and parted."""
  whole = pairs.comparisons(task, policy, batch_size=num)
  world = {**task.begin(jax.random.key(3)), 'data': task.data}
  held_out = jax.tree.map(jnp.asarray, task.held_out_demonstrations(4))
  parted = pairs.parting_steps(whole).draw({}, world, jax.random.key(0))[0]
  return whole.draw({}, world, jax.random.key(0))[0], parted, held_out


def test_it_says_what_the_model_says(some):
  task, live, params, file = some
  model = stored(task, live.model, file=file, batch_size=3)
  kept = model.load(MESH)
  shapes = lambda tree: jax.tree.map(lambda x: (x.shape, x.dtype), tree)
  assert shapes(model.init(jax.random.key(0), {})) == shapes(kept)
  live_score, score = jax.jit(live.score), jax.jit(model.functions.score)
  for batch in drawn(task, live, 4):  # of one shape
    names = ('tokens', 'valid', 'action_mask', 'prompt_lengths', 'rows', 'preferred')
    batch = {name: batch[name] for name in names}
    looked_up, _ = score(kept, batch)
    expected, _ = live_score(params, batch)
    assert float(jnp.abs(expected).sum()) > 100
    np.testing.assert_allclose(looked_up, expected, atol=1e-4)


def test_the_file_is_read_where_its_digest_is_that_of_model_and_rows(some, monkeypatch, caplog, tmp_path):
  task, live, _, _ = some
  file, scored = str(tmp_path / 'there/kept.npz'), []

  def watched(*arguments):
    scored.append(arguments)
    return np.full((16, task.answer_columns), len(scored), np.float32)

  monkeypatch.setattr(stored_module, '_scored', watched)
  kept = lambda task, model: stored(task, model, file=file, batch_size=3).load(MESH)['logprobs'][0, 0]
  assert [kept(task, live.model), kept(task, live.model)] == [1, 1] and len(scored) == 1
  shorter = dataclasses.replace(task, data={**task.data, 'tokens': task.data['tokens'] + 1})
  with caplog.at_level(logging.WARNING):
    assert kept(shorter, live.model) == 2
  assert 'of another model or other rows (digest' in caplog.text and caplog.text.count('\n') == 1
  half = live.model.replace(dtype='bfloat16')
  assert kept(shorter, dataclasses.replace(half, directory=TINY)) == 3
  directory = tmp_path / 'other'
  shutil.copytree(TINY, directory)
  settings = json.loads((directory / 'config.json').read_text())
  (directory / 'config.json').write_text(json.dumps({**settings, 'comment': 'other bytes'}))
  assert kept(shorter, dataclasses.replace(live.model, directory=str(directory))) == 4
  (tmp_path / 'there/kept.npz').write_bytes(b'PK damaged')
  with pytest.raises(ValueError, match=r'kept.npz holds no stored log-probs \(.*delete it, or name another'):
    kept(task, live.model)


@pytest.mark.parametrize('sizes', [(8, 1, 1), (2, 2, 2), (1, 4, 2)])
def test_a_mesh_shares_the_table_and_says_the_same(some, sizes):
  """Each device has its part of the answers, and what is sent is what was looked up."""
  task, live, _, file = some
  model = stored(task, live.model, file=file, batch_size=3)
  batch, _, _ = drawn(task, live, 8)
  alone, _ = jax.jit(model.functions.score)(model.load(MESH), batch)
  mesh = sharding.make_mesh(data=sizes[0], fsdp=sizes[1], tensor=sizes[2])
  with jax.set_mesh(mesh):
    kept = model.load(mesh)
    whole = sum(leaf.nbytes for leaf in kept.values())
    places = jax.tree.map(lambda leaf: leaf.sharding, kept)
    assert sharding.bytes_per_device(kept, places) == whole // (sizes[0] * sizes[1])
    score = jax.jit(lambda kept, batch: model.functions.score(kept, sharding.shard_rows(batch))[0])
    compiled = score.lower(kept, batch).compile()
    together = compiled(kept, batch)
  np.testing.assert_array_equal(together, alone)
  sent = sum(x.num_bytes for x in costs.read(compiled.as_text()).collectives)
  assert sent < len(batch['tokens']) * (2 * task.answer_columns + 1) * 4 < whole


def test_rows_of_other_making_are_refused_or_no_numbers(some):
  task, live, _, file = some
  model = stored(task, live.model, file=file, batch_size=3)
  kept = model.load(MESH)
  batch, _, _ = drawn(task, live, 8)
  with pytest.raises(ValueError, match='not of the data set have no stored log-probs; take a live'):
    model.functions.score(kept, mismatched(batch, batch['tokens'].shape[1]))
  column = int(batch['prompt_lengths'][0]) + 1
  other = {**batch, 'tokens': batch['tokens'].at[0, column].add(1)}
  unknown = jnp.isnan(model.functions.score(kept, other)[0])
  assert bool(unknown[0, column]) and int(unknown.sum()) == 1


@pytest.mark.slow
def test_single_answers_with_labels_are_looked_up_too(tmp_path, some):
  _, live, params, _ = some
  path = tmp_path / 'rows.jsonl'
  rows = [{'prompt': f'{i}?', 'completion': f' {i} plus {i}', 'label': i % 2 == 0} for i in range(4)]
  path.write_text('\n'.join(map(json.dumps, rows)))
  task = task_of(str(path))
  model = stored(task, live.model, file=str(tmp_path / 'kept.npz'), batch_size=8)
  batch, _ = task.demonstrate({**task.begin(jax.random.key(0)), 'data': task.data}, None, 4)
  np.testing.assert_allclose(
      model.functions.score(model.load(MESH), batch)[0], live.score(params, batch)[0], atol=1e-4
  )


def test_what_cannot_be_stored_is_refused(some, tmp_path):
  task, live, _, file = some
  path = tmp_path / 'rows.jsonl'
  path.write_text('{"prompt": "How?"}')
  for other, model, name, words in (
      (task, dataclasses.replace(live.model, directory=''), file, 'begins from a directory'),
      (task_of(str(path)), live.model, file, "no 'dataset' of answers that are all in memory"),
      (task, live.model, 'kept.txt', 'ends in .npz'),
  ):
    with pytest.raises(ValueError, match=words):
      stored(other, model, file=name, batch_size=2)
  functions = stored(task, live.model, file=file, batch_size=2).functions
  warm = dataclasses.replace(live.decoding, temperature=0.7)
  with pytest.raises(ValueError, match='those of the model itself; set min_tokens=0, temperature=1'):
    in_stage(functions, lambda: warm, lambda: table.SCORING)
  assert in_stage(functions, lambda: live.decoding, lambda: table.SCORING) is functions


@pytest.mark.parametrize(('which', 'words'), [
    ('kto', 'needs a Speaker'), ('reward', 'which no stage has'), ('dpo', ''), ('step_dpo', ''),
])
def test_configs_take_it_or_refuse_it(which, words, tmp_path):
  config = load(f'preferences/{which}:smoke,stored={tmp_path}/kept.npz')
  if not words:
    assert build(config).stages[-1].frozen == ('stored',)
    return
  with pytest.raises(ConfigError, match=words):
    build(config)

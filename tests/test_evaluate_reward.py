"""`rlx evaluate --reward=DIR`: accuracy, ranks, and what has no number."""

import json
from pathlib import Path

import jax
import numpy as np
import pytest

from rlx import sharding
from rlx.evaluation.preferences import described
from rlx.experiments import evaluate
from rlx.experiments.commands import CommandError
from rlx.models import heads, hf

FOLDER = Path(__file__).parents[1] / 'experiments/data'


@pytest.fixture(scope='module')
def judge(tmp_path_factory):
  decoder = hf.hf(
      directory=str(FOLDER / 'tiny_model'), context_length=0, dtype='float32', param_dtype='float32',
      remat=False, attention='reference', decode_attention='reference',
  )
  mesh = sharding.make_mesh(data=1, fsdp=1, tensor=1)
  model = heads.reward_head(decoder.functions)
  own = model.init(jax.random.key(1), {'policy': decoder.load(mesh)})
  (folder,) = model.save(tmp_path_factory.mktemp('run') / 'judge', own, {})
  return str(folder)


def test_pairs_and_ranks(judge, tmp_path, capsys):
  rows = [json.loads(line) for line in (FOLDER / 'pairs_test.jsonl').read_text().splitlines()[:3]]
  data, output = tmp_path / 'pairs.jsonl', tmp_path / 'out.jsonl'
  data.write_text(''.join(json.dumps(row) + '\n' for row in [*rows, {**rows[0], 'rejected': ''}]))
  assert evaluate.main([f'--reward={judge}', f'--data={data}', f'--output={output}', '--batch_size=4']) == 0
  said = dict(line.split(maxsplit=1) for line in capsys.readouterr().out.splitlines() if 'error' not in line)
  out = [json.loads(line) for line in output.read_text().splitlines()]
  assert said['pairs'] == '3' and len(out) == 6
  right = np.mean([out[i]['reward'] > out[i + 1]['reward'] for i in (0, 2, 4)])
  assert said['accuracy'] == f'{100 * right:.1f} %'
  assert all({out[i]['rank'], out[i + 1]['rank']} == {1, 2} for i in (0, 2, 4))
  assert out[0]['completion'].startswith(rows[0]['chosen'])
  prompts = tmp_path / 'prompts.jsonl'
  prompts.write_text(json.dumps({'prompt': 'Hi'}) + '\n')
  with pytest.raises(CommandError, match='holds prompts only; it needs chosen and rejected'):
    evaluate.main([f'--reward={judge}', f'--data={prompts}'])
  with pytest.raises(CommandError, match='there is no such directory'):
    evaluate.main([f'--reward={judge}_', f'--data={prompts}'])


def test_what_is_said_of_rewards_by_hand():
  lengths = np.array([3, 5, 4, 4, 9, 2])
  found = described(np.array([1.0, 0.0, 0.0, 1.0, np.nan, 0.0]), lengths)
  assert found['accuracy'] == 0.5 and found['margin'] == 0 and found['mean'] == 0.5
  assert found['shorter'] == pytest.approx((1 + 0.5 + 0) / 3)
  sure = 1 / (1 + np.exp(-1.0))
  assert found['calibration_error'] == pytest.approx(sure - 0.5)
  with pytest.raises(ValueError, match='none of 1 pairs has two rewards that are numbers'):
    described(np.array([np.nan, 1.0]), np.array([1, 1]))

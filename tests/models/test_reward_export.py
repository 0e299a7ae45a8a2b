"""A reward model as a directory for sequence classification, and back: the same rewards."""

import json
from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from rlx import sharding
from rlx.models import classifier, heads, hf

TINY = str(Path(__file__).parents[2] / 'experiments/data/tiny_model')
NUMERICS = {
    'context_length': 0, 'dtype': 'float32', 'param_dtype': 'float32', 'remat': False,
    'attention': 'reference',
}
ROWS = np.random.default_rng(0).integers(3, 384, (4, 12))
LENGTHS = np.array([12, 7, 2, 9])


@pytest.fixture(scope='module')
def exported(tmp_path_factory):
  """A reward model on the tiny decoder, written; its rewards of some rows."""
  mesh = sharding.make_mesh(data=1, fsdp=1, tensor=1)
  decoder = hf.hf(directory=TINY, decode_attention='reference', **NUMERICS)
  judge = heads.reward_head(decoder.functions)
  own = judge.init(jax.random.key(1), {'policy': decoder.load(mesh)})
  (folder,) = judge.save(tmp_path_factory.mktemp('run') / 'judge', own, {})
  return folder, judge.functions.read(own, jnp.asarray(ROWS), jnp.asarray(LENGTHS))


def test_a_reward_model_is_written_as_a_classifier_and_read_back(exported, tmp_path):
  folder, expected = exported
  settings = json.loads((folder / 'config.json').read_text())
  assert settings['architectures'] == ['Qwen2ForSequenceClassification'] and len(settings['id2label']) == 1
  model = classifier.classifier(directory=str(folder), **NUMERICS)
  own = model.load(sharding.make_mesh(data=1, fsdp=1, tensor=1))
  np.testing.assert_allclose(
      model.functions.read(own, jnp.asarray(ROWS), jnp.asarray(LENGTHS)), expected, rtol=1e-6
  )
  (again,) = model.save(tmp_path / 'judge', own, {})
  assert (again / 'model.safetensors').read_bytes() == (folder / 'model.safetensors').read_bytes()


def test_a_head_of_another_width_is_refused(exported, tmp_path):
  from safetensors.numpy import load_file, save_file

  folder, _ = exported
  tensors = load_file(folder / 'model.safetensors')
  save_file({**tensors, 'score.weight': np.zeros((1, 16), np.float32)}, tmp_path / 'model.safetensors')
  (tmp_path / 'config.json').write_text((folder / 'config.json').read_text())
  with pytest.raises(ValueError, match=r'score.weight is \[1, 16\]; a reward model has one label, \[1, 32\]'):
    classifier.classifier(directory=str(tmp_path), **NUMERICS)


def test_an_implicit_reward_is_written_as_a_decoder(tmp_path):
  decoder = hf.hf(directory=TINY, decode_attention='reference', **NUMERICS)
  judge = heads.implicit_reward(decoder.functions, decoder.functions, beta=0.1)
  own = decoder.init(jax.random.key(1), {})
  assert judge.save(tmp_path, own, {}) == (tmp_path / 'model',)
  jax.tree.map(np.testing.assert_array_equal, hf.load(tmp_path / 'model', decoder.functions.shape), own)


@pytest.mark.parity
def test_transformers_reads_the_same_rewards(exported):
  torch, transformers = pytest.importorskip('torch'), pytest.importorskip('transformers')
  folder, expected = exported
  theirs = transformers.AutoModelForSequenceClassification.from_pretrained(folder).eval()
  rows = np.where(np.arange(12) < LENGTHS[:, None], ROWS, 0)
  with torch.no_grad():
    mask = torch.tensor(rows > 0).long()
    found = theirs(torch.tensor(rows), attention_mask=mask).logits[:, 0].numpy()
  np.testing.assert_allclose(found, expected, atol=1e-5)

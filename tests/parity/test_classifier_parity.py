"""A reward model of transformers, and ours from its directory: the same score of every row."""


import jax.numpy as jnp
import numpy as np
import pytest

from rlx import sharding
from rlx.models import classifier

torch = pytest.importorskip('torch')
transformers = pytest.importorskip('transformers')

pytestmark = pytest.mark.parity


@pytest.mark.parametrize('family', ['Llama', 'Qwen2', 'Qwen3'])
def test_a_classifier_scores_rows_as_transformers_does(family, tmp_path):
  torch.manual_seed(0)
  config = getattr(transformers, f'{family}Config')(
      vocab_size=96, hidden_size=32, intermediate_size=48, num_hidden_layers=2, num_attention_heads=4,
      num_key_value_heads=2, max_position_embeddings=64, bos_token_id=None, eos_token_id=None, pad_token_id=0,
      num_labels=1,
  )
  theirs = getattr(transformers, f'{family}ForSequenceClassification')(config).eval()
  theirs.save_pretrained(tmp_path)
  model = classifier.classifier(
      directory=str(tmp_path), context_length=0, dtype='float32', param_dtype='float32', remat=False,
      attention='reference',
  )
  params = model.load(sharding.make_mesh(data=1, fsdp=1, tensor=1))
  tokens, lengths = np.random.default_rng(0).integers(1, 96, (4, 12)), np.array([12, 7, 1, 9])
  rows = np.where(np.arange(12) < lengths[:, None], tokens, 0)  # the padding is at the end
  with torch.no_grad():
    expected = theirs(torch.tensor(rows), attention_mask=torch.tensor(rows > 0).long()).logits[:, 0].numpy()
  ours = model.functions.read(params, jnp.asarray(rows), jnp.asarray(lengths))
  np.testing.assert_allclose(ours, expected, atol=1e-5)
  assert np.ptp(expected) > 1e-3, 'rows are told apart'


def test_a_head_of_several_labels_is_refused(tmp_path):
  config = transformers.LlamaConfig(
      vocab_size=32, hidden_size=16, intermediate_size=16, num_hidden_layers=1, num_attention_heads=2,
      num_key_value_heads=2, max_position_embeddings=16, num_labels=3, pad_token_id=0,
  )
  transformers.LlamaForSequenceClassification(config).save_pretrained(tmp_path)
  with pytest.raises(ValueError, match=r'\[3, 16\]; a reward model has one label'):
    classifier.classifier(
        directory=str(tmp_path), context_length=0, dtype='float32', param_dtype='float32', remat=False,
        attention='reference',
    )

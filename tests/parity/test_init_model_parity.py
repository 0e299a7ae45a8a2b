"""A directory of `rlx init-model` as transformers sees it: the same logits, and nothing to warn of."""

import jax.numpy as jnp
import numpy as np
import pytest

from rlx.experiments.init_model import init_model
from rlx.models import hf, transformer

pytestmark = pytest.mark.parity

torch = pytest.importorskip('torch')
transformers = pytest.importorskip('transformers')


@pytest.mark.parametrize('family', ['qwen2', 'gemma3_text', 'gpt2'])
def test_transformers_computes_the_same_and_warns_of_nothing(tmp_path, caplog, capsys, family):
  (tmp_path / 'text.txt').write_text('How many dogs are there? 12.\n' * 30)
  init_model(
      [tmp_path / 'text.txt'], tmp_path / 'model', family=family, vocab_size=280, layers=2, width=16, heads=2,
      kv_heads=0, mlp_size=24, context_length=64, chat_template='chatml', seed=0, dtype='float32',
  )
  transformers.utils.logging.disable_progress_bar()
  model = transformers.AutoModelForCausalLM.from_pretrained(tmp_path / 'model')
  tokenizer = transformers.AutoTokenizer.from_pretrained(tmp_path / 'model')
  talk = [{'role': 'user', 'content': 'How many dogs?'}, {'role': 'assistant', 'content': '12.'}]
  ids = tokenizer.apply_chat_template(talk, return_dict=False)
  theirs = model(torch.tensor([ids])).logits.detach().numpy()
  config = hf.shape_of(
      directory=str(tmp_path / 'model'), context_length=0, dtype='float32', param_dtype='float32',
      remat=False, attention='reference', decode_attention='reference',
  )
  params = hf.load(tmp_path / 'model', config)
  hidden, _ = transformer.forward(params, config, jnp.array([ids]))
  np.testing.assert_allclose(transformer.logits(params, config, hidden), theirs, atol=1e-4)
  assert model.generation_config.eos_token_id == [0, 2]
  assert not caplog.records and not capsys.readouterr().err

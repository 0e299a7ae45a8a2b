"""KTO's divergence: of prompts with the answers to others, by hand."""

import jax.numpy as jnp
import numpy as np

from rlx.algorithms.kto import mismatched


def test_each_prompt_gets_the_answer_two_rows_before_it():
  """Of unlike lengths; nothing of the own answer is left, nothing of the other is lost."""
  prompts = [[11], [21, 22], [31, 32, 33], [41]]
  answers = [[1, 2, 3], [4], [5, 6], [7, 8]]
  width = max(len(p) + len(a) for p, a in zip(prompts, answers, strict=True))
  row = lambda p, a: p + a + [0] * (width - len(p) - len(a))
  tokens = np.array([row(p, a) for p, a in zip(prompts, answers, strict=True)])
  lengths = np.array([len(p) + len(a) for p, a in zip(prompts, answers, strict=True)])
  starts = np.array([len(p) for p in prompts])
  columns = np.arange(width)[None]
  valid = columns < lengths[:, None]
  batch = {
      'tokens': jnp.asarray(tokens), 'valid': jnp.asarray(valid), 'prompt_lengths': jnp.asarray(starts),
      'action_mask': jnp.asarray(valid & (columns >= starts[:, None])),
  }
  found = mismatched(batch, width=3 + 3)
  for i in range(4):
    expected = prompts[i] + answers[i - 2]
    assert found['tokens'][i][found['valid'][i]].tolist() == expected
    assert found['tokens'][i][found['action_mask'][i]].tolist() == answers[i - 2]
  assert found['prompt_lengths'].tolist() == starts.tolist() and len(set(found['groups'].tolist())) == 4

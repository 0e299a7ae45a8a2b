"""FARE: who judges right chooses the best of several; who always says the same chooses at random."""

import dataclasses

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from rlx.engine.decoding import Decoding
from rlx.envs.evaluating import evaluating
from rlx.envs.text import EOS_ID
from rlx.evaluation.evaluating import reranking

TASK = evaluating(modulus=7, length=3, held_out_share=0.2)
PROBLEMS, CANDIDATES = 40, 4
ZERO, MARKER = int(TASK.encode('0')[0]), int(TASK.encode('#')[0])


@dataclasses.dataclass(frozen=True)
class Adder:
  """Reads `f342=376?` and says whether the last digit is the sum; or that it is, whatever it reads."""

  looks: bool
  decoding: Decoding = Decoding(
      max_tokens=3, min_tokens=0, temperature=1.0, top_k=0, top_p=1.0, sampler='gumbel', eos_ids=(EOS_ID,),
      pad_id=0,
  )

  def sample(self, params, prompts, lengths, key, *, group_size):
    del params, key
    assert np.all(np.asarray(lengths) == 9)
    right = (prompts[:, 1:4] - ZERO).sum(axis=1) % 7 == prompts[:, 7] - ZERO
    verdict = ZERO + jnp.where(self.looks, right, True).astype(jnp.int32)
    said = jnp.stack([jnp.full(len(prompts), MARKER), verdict, jnp.full(len(prompts), EOS_ID)], axis=1)
    tokens = jnp.concatenate([prompts[:, :9], said], axis=1)
    mask = jnp.broadcast_to(jnp.arange(12)[None] >= 9, tokens.shape)
    rows = {'tokens': tokens, 'action_mask': mask, 'prompt_lengths': lengths}
    return jax.tree.map(lambda x: jnp.repeat(x, group_size, axis=0), rows)


def chosen_by(speaker):
  evaluation = reranking(TASK, speaker, problems=PROBLEMS, candidates=CANDIDATES, votes=2)
  return evaluation.read(evaluation.ask({'policy': {}}, {}))[0]


@pytest.mark.slow
def test_who_judges_right_chooses_what_is_there():
  found = chosen_by(Adder(looks=True))
  assert found['chosen'] == found['oracle'] > found['single'] and found['share'] == 1


def test_who_calls_everything_right_chooses_the_first():
  found = chosen_by(Adder(looks=False))
  drawn = TASK.solve(jax.random.key(0), PROBLEMS, True, CANDIDATES)
  assert found['chosen'] == np.mean(drawn['ends_right'][:, 0])
  assert found['oracle'] == np.mean(drawn['ends_right'].any(axis=1))

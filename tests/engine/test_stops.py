"""Stop strings: whatever the edges of tokens, a row ends with the token that completes one."""

import dataclasses
import random

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from rlx.engine import sample as engine
from rlx.engine.decoding import Decoding
from rlx.engine.stops import automaton
from rlx.models.language import LanguageModel
from rlx.models.transformer import TransformerConfig
from tests.cases import cases

WORDS = [b'', b'', b'a', b'b', b'ab', b'ba', b'aab', b'c', b'abca', 'é'.encode(), b'=', b'a=b']
EOS = 1


def first_end(tokens, strings):
  """By hand: the index of the token whose bytes complete a string for the first time."""
  for end in range(1, len(tokens) + 1):
    text = b''.join(WORDS[token] for token in tokens[:end])
    if any(string.encode() in text for string in strings):
      return end - 1
  return None


@pytest.mark.parametrize('strings', [('aba',), ('=', 'bb'), ('aab', 'abc', 'caa'), ('é',)])
def test_the_automaton_finds_what_a_search_in_the_text_finds(strings):
  stops, chance = automaton(strings, WORDS), random.Random(0)
  rows = [[chance.randrange(len(WORDS)) for _ in range(9)] for _ in range(300)]
  found = np.asarray(stops.completed(jnp.array(rows)))
  wanted = [first_end(row, strings) for row in rows]
  assert None in wanted and len({*wanted}) > 4
  for row, ends, end in zip(rows, found, wanted, strict=True):
    assert (not ends.any()) if end is None else ends.argmax() == end, (row, end)


@pytest.mark.parametrize('strings', [(), ('',), ('a' * 300,)])
def test_strings_that_cannot_stop_anything_are_refused(strings):
  with pytest.raises(ValueError, match='stop='):
    automaton(strings, WORDS)


MODEL = LanguageModel(TransformerConfig(
    vocab_size=len(WORDS), num_layers=1, width=16, num_heads=2, num_kv_heads=2, head_size=8, mlp_size=32,
    context_length=32,
))
DECODING = Decoding(
    max_tokens=12, min_tokens=0, temperature=1.0, top_k=0, top_p=1.0, sampler='gumbel', eos_ids=(EOS,),
    pad_id=0,
)


@pytest.mark.parametrize('num_slots', cases([0, 3], at_once=[0]))
def test_rows_end_with_the_token_that_completes_a_string(num_slots):
  strings = ('ab', 'c')
  stopping = dataclasses.replace(DECODING, stop=strings, stops=automaton(strings, WORDS))
  params, prompts, lengths = MODEL.init(jax.random.key(0)), jnp.full((4, 2), 2), jnp.full(4, 2)
  sample = lambda decoding: jax.device_get(jax.jit(lambda: engine.sample(
      params, MODEL, prompts, lengths, jax.random.key(1), group_size=4, decoding=decoding, num_slots=num_slots
  ))())
  free, rows = sample(DECODING), sample(stopping)
  cut = 0
  for row in range(16):
    said = free['tokens'][row][free['action_mask'][row]].tolist()
    end = first_end(said, strings)
    wanted = said if end is None else said[: end + 1]
    assert rows['tokens'][row][rows['action_mask'][row]].tolist() == wanted
    assert rows['truncated'][row] == (end is None and EOS not in said)
    cut += len(wanted) < len(said)
  assert cut > 4, 'no string was said: no test'

"""Diseases are found by similar cases and by guidelines: `xba?` -> `sba` -> `:CC` -> `gC` -> `:ab` -> `=C`.

The prompt has the complaints of a patient, each of another disease, as some symptoms. Two of them are typical
of it, and of no other are both; the rest are common ones, which anybody has. Which symptoms are common is the
same everywhere, and has to be known. Which are typical of what is another matter in each corpus, and has to
be looked up. A corpus has past cases of each disease, with its typical symptoms and common ones, and a
guideline for each disease.

`s` and two symptoms search for similar cases, and show the diseases of the two that have most of both; `g`
and a disease show its typical symptoms, and `=` names a disease for each complaint and ends the episode.
"""

import itertools

import jax
import jax.numpy as jnp
import numpy as np

from rlx.envs import text
from rlx.envs.turns import SUCCESS, Reply, TurnTask, index_in, said, with_end
from rlx.errors import between
from rlx.types import Batch

_MARKS, _TYPICAL, _COMMON, _DISEASES = ':!?sg=', 'abcdef', 'wxyz', 'ABCDEFGH'
_SEED = 0  # of what stands in the corpora
_SHOWN = 2  # cases that a search shows, and past cases of a disease


def clinic(
    *, complaints: int, diseases: int, typical: int, common: int, noise: int, corpora: int,
    held_out_share: float,
) -> TurnTask:
  """Episodes of a patient; the reward is 1 where all diseases are right, whatever was looked up.

  `info` has what a composite reward is made of: `format`, the share of turns that were understood, 0 where
  nothing is named in the end; `hit_rate`, of how many of the right diseases a search has shown a case;
  `structure`, half for what a search has shown before it was named, and half for what the guideline was read
  of. It has `searches`, how many were made.

  Args:
    complaints: K of a patient, each of another disease, 1 or 2.
    diseases: D of a corpus, in 2..8.
    typical: symptoms that can be, in 3..6; D pairs of them are typical of a disease.
    common: symptoms that are never typical, in 1..4.
    noise: how many of those a complaint has, and each case, in 1..common.
    corpora: how many there are; nothing tells which one it is.
    held_out_share: in (0, 1), the part of all corpora that is never trained on.
  Raises:
    ValueError: an argument out of its range.
  """
  between(1, 2, complaints=complaints)
  between(3, len(_TYPICAL), typical=typical)
  between(2, min(len(_DISEASES), typical * (typical - 1) // 2), diseases=diseases)
  between(1, len(_COMMON), common=common)
  between(1, common, noise=noise)
  between(2, 10**6, corpora=corpora)
  alphabet = _MARKS + _TYPICAL[:typical] + _COMMON[:common] + _DISEASES[:diseases]
  fine, wrong, asked, searches, guides, answers = text.characters(_MARKS, alphabet)
  signs = text.characters(_TYPICAL[:typical] + _COMMON[:common], alphabet)
  names = text.characters(_DISEASES[:diseases], alphabet)
  num_signs = 2 + noise
  columns = complaints * (num_signs + 1)
  pairs = jnp.array(list(itertools.combinations(range(num_signs), 2)))
  contents = _corpora(corpora, diseases, typical, common, noise)

  def sample(key: jax.Array, num: int, held_out: bool) -> Batch:
    keys = jax.random.split(key, 5)
    corpus = text.draw_indices(
        keys[0], num, num_problems=corpora, held_out=held_out, held_out_share=held_out_share
    )
    known = {name: x[corpus] for name, x in contents.items()}
    shuffled = lambda key, x: jax.random.permutation(key, x, axis=-1, independent=True)
    rows = lambda x: jnp.broadcast_to(x, (num, complaints, x.shape[0]))
    disease = shuffled(keys[1], rows(jnp.arange(diseases))[:, 0])[:, :complaints]
    own = jnp.take_along_axis(known['guidelines'], disease[..., None], axis=1)
    others = shuffled(keys[2], rows(typical + jnp.arange(common)))[..., :noise]
    symptoms = shuffled(keys[3], jnp.concatenate([own, others], axis=2))
    prompts = jnp.pad(signs[symptoms], ((0, 0), (0, 0), (0, 1)), constant_values=asked)
    return {
        **known, 'disease': disease, 'symptoms': symptoms,
        'tries': shuffled(keys[4], rows(jnp.arange(len(pairs)))),  # an order in which the expert searches
        'prompts': prompts.reshape(num, columns).astype(jnp.int32), 'prompt_lengths': jnp.full(num, columns),
    }

  def start(problem: Batch):
    known = {name: problem[name] for name in (*contents, 'disease', 'symptoms', 'tries')}
    none, count = jnp.zeros(diseases, bool), jnp.float32(0)
    return {**known, 'shown': none, 'read': none, 'turns': count, 'understood': count, 'searches': count}

  def act(state, action: jax.Array, length: jax.Array, key: jax.Array) -> Reply:
    del key
    word = said(action, length, 4)
    signs_said, is_sign = jax.vmap(lambda token: index_in(signs, token))(word[1:3])
    named, is_name = jax.vmap(lambda token: index_in(names, token))(word[1 : 1 + complaints])
    seeks = (word[0] == searches) & is_sign.all() & (word[1] != word[2]) & (word[3] == text.PAD_ID)
    reads = (word[0] == guides) & is_name[0] & (word[2] == text.PAD_ID)
    ends = (word[0] == answers) & is_name.all() & (word[1 + complaints] == text.PAD_ID)
    found = state['owners'][jax.lax.top_k(state['cases'][:, signs_said].sum(axis=1), _SHOWN)[1]]
    understood = seeks | reads | ends
    after = {
        **state, 'shown': state['shown'].at[found].max(seeks), 'read': state['read'].at[named[0]].max(reads),
        'turns': state['turns'] + 1, 'understood': state['understood'] + understood,
        'searches': state['searches'] + seeks,
    }
    note = jnp.where(seeks, names[found], signs[state['guidelines'][named[0]]])
    known = seeks | reads
    told = jnp.where(known, jnp.concatenate([fine[None], note]), jnp.array([wrong, text.PAD_ID, text.PAD_ID]))
    right = (ends & (named == state['disease']).all()).astype(jnp.float32)
    info = {
        SUCCESS: right, 'format': ends * after['understood'] / after['turns'],
        'hit_rate': after['shown'][state['disease']].mean(),
        'structure': ends * (after['shown'][named].mean() + after['read'][named].mean()) / 2,
        'searches': after['searches'],
    }
    return Reply(after, told.astype(jnp.int32), jnp.where(known, 3, 1), right, ends, understood, info)

  def expert(state):
    """Searches with any two symptoms until the disease is shown; it does not know which ones are common."""
    disease, pad = state['disease'], jnp.int32(text.PAD_ID)
    found, read = state['shown'][disease], state['read'][disease]
    due, unread = jnp.argmin(found), jnp.argmin(read)
    pair = pairs[state['tries'][due, state['searches'].astype(jnp.int32) % len(pairs)]]
    search = jnp.concatenate([searches[None], signs[state['symptoms'][due, pair]]])
    guide = jnp.stack([guides, names[disease[unread]], pad])
    answer = jnp.pad(jnp.concatenate([answers[None], names[disease]]), (0, 2 - complaints))
    told = jnp.where(read.all(), answer, guide)
    length = jnp.where(read.all(), 1 + complaints, 2)
    return with_end(jnp.where(found.all(), told, search), jnp.where(found.all(), length, 3), 4)

  return TurnTask(
      alphabet=alphabet, prompt_columns=columns, answer_columns=4, sample=sample, observation_columns=3,
      start=start, act=act, expert=expert, expert_return=1.0,
  )


def _corpora(corpora: int, diseases: int, typical: int, common: int, noise: int) -> dict[str, jax.Array]:
  """`guidelines` [N, D, 2], `cases` [N, R, symptoms] of 0 and 1, and whose case each is, `owners` [N, R]."""
  rng = np.random.default_rng(_SEED)
  shuffled = lambda *shape: rng.permuted(np.broadcast_to(np.arange(shape[-1]), shape), axis=-1)
  all_pairs = np.array(list(itertools.combinations(range(typical), 2)))
  guidelines = all_pairs[shuffled(corpora, len(all_pairs))[:, :diseases]]
  num_cases = _SHOWN * diseases
  owners = shuffled(corpora, num_cases) % diseases
  own = np.take_along_axis(guidelines, owners[..., None], axis=1)
  others = typical + shuffled(corpora, num_cases, common)[..., :noise]
  cases = np.zeros((corpora, num_cases, typical + common), np.int32)
  np.put_along_axis(cases, np.concatenate([own, others], axis=2), 1, axis=2)
  found = {'guidelines': guidelines, 'cases': cases, 'owners': owners}
  return {name: jnp.asarray(x, jnp.int32) for name, x in found.items()}

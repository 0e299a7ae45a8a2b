"""A disease is found by similar cases and by guidelines: `xbya?` -> `sba` -> `:CC` -> `gC` -> `:ab` -> `=C`.

The prompt has the symptoms of a patient. Two of them are typical of the disease, and no other disease has
both; the others are common ones, which anybody has. Which symptoms are common is the same everywhere, and has
to be known. Which are typical of what is another matter in each corpus, and has to be looked up. A corpus has
past cases of each disease, with its typical symptoms and common ones, and a guideline for each disease.

`s` and two symptoms search for similar cases, and show the diseases of the two that have most of both; `g`
and a disease show its typical symptoms, and `=` answers and ends the episode.
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
    *, diseases: int, typical: int, common: int, noise: int, corpora: int, held_out_share: float
) -> TurnTask:
  """Episodes of a patient; the reward is 1 for the right disease, whatever was looked up.

  `info` has what a composite reward is made of: `format`, the share of turns that were understood, 0 where no
  disease is named in the end; `hit_rate`, whether a search has shown a case of the right disease;
  `structure`, half for a disease that a search has shown before it was named, and half for one whose
  guideline was read. It has `searches`, how many were made.

  Args:
    diseases: D of a corpus, in 2..8.
    typical: symptoms that can be, in 3..6; D pairs of them are typical of a disease.
    common: symptoms that are never typical, in 1..4.
    noise: how many of those a patient has, and each case, in 1..common.
    corpora: how many there are; nothing tells which one it is.
    held_out_share: in (0, 1), the part of all corpora that is never trained on.
  Raises:
    ValueError: an argument out of its range.
  """
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
  pairs = jnp.array(list(itertools.combinations(range(num_signs), 2)))
  contents = _corpora(corpora, diseases, typical, common, noise)

  def sample(key: jax.Array, num: int, held_out: bool) -> Batch:
    keys = jax.random.split(key, 5)
    corpus = text.draw_indices(
        keys[0], num, num_problems=corpora, held_out=held_out, held_out_share=held_out_share
    )
    known = {name: x[corpus] for name, x in contents.items()}
    shuffled = lambda key, x: jax.random.permutation(key, x, axis=1, independent=True)
    rows = lambda x: jnp.broadcast_to(x, (num, x.shape[0]))
    disease = jax.random.randint(keys[1], (num,), 0, diseases)
    own = known['guidelines'][jnp.arange(num), disease]
    others = shuffled(keys[2], rows(typical + jnp.arange(common)))[:, :noise]
    symptoms = shuffled(keys[3], jnp.concatenate([own, others], axis=1))
    return {
        **known, 'disease': disease, 'symptoms': symptoms,
        'tries': shuffled(keys[4], rows(jnp.arange(len(pairs)))),  # an order in which the expert searches
        'prompts': jnp.pad(signs[symptoms], ((0, 0), (0, 1)), constant_values=asked).astype(jnp.int32),
        'prompt_lengths': jnp.full(num, num_signs + 1),
    }

  def start(problem: Batch):
    known = {name: problem[name] for name in (*contents, 'disease', 'symptoms', 'tries')}
    none, count = jnp.zeros(diseases, bool), jnp.float32(0)
    return {**known, 'shown': none, 'read': none, 'turns': count, 'understood': count, 'searches': count}

  def act(state, action: jax.Array, length: jax.Array, key: jax.Array) -> Reply:
    del key
    word = said(action, length, 4)
    signs_said, is_sign = jax.vmap(lambda token: index_in(signs, token))(word[1:3])
    named, is_name = index_in(names, word[1])
    seeks = (word[0] == searches) & is_sign.all() & (word[1] != word[2]) & (word[3] == text.PAD_ID)
    alone = is_name & (word[2] == text.PAD_ID)
    reads, ends = (word[0] == guides) & alone, (word[0] == answers) & alone
    found = state['owners'][jax.lax.top_k(state['cases'][:, signs_said].sum(axis=1), _SHOWN)[1]]
    understood = seeks | reads | ends
    after = {
        **state, 'shown': state['shown'].at[found].max(seeks), 'read': state['read'].at[named].max(reads),
        'turns': state['turns'] + 1, 'understood': state['understood'] + understood,
        'searches': state['searches'] + seeks,
    }
    note = jnp.where(seeks, names[found], signs[state['guidelines'][named]])
    known = seeks | reads
    told = jnp.where(known, jnp.concatenate([fine[None], note]), jnp.array([wrong, text.PAD_ID, text.PAD_ID]))
    right = (ends & (named == state['disease'])).astype(jnp.float32)
    info = {
        SUCCESS: right, 'format': ends * after['understood'] / after['turns'],
        'hit_rate': after['shown'][state['disease']].astype(jnp.float32),
        'structure': ends * (0.5 * after['shown'][named] + 0.5 * after['read'][named]),
        'searches': after['searches'],
    }
    return Reply(after, told.astype(jnp.int32), jnp.where(known, 3, 1), right, ends, understood, info)

  def expert(state):
    """Searches with any two symptoms until the disease is shown; it does not know which ones are common."""
    disease, pad = state['disease'], jnp.int32(text.PAD_ID)
    pair = pairs[state['tries'][state['searches'].astype(jnp.int32) % len(pairs)]]
    search = jnp.concatenate([searches[None], signs[state['symptoms'][pair]]])
    name = lambda mark: jnp.stack([mark, names[disease], pad])
    told = jnp.where(state['read'][disease], name(answers), name(guides))
    found = state['shown'][disease]
    return with_end(jnp.where(found, told, search), jnp.where(found, 2, 3), 4)

  return TurnTask(
      alphabet=alphabet, prompt_columns=num_signs + 1, answer_columns=4, sample=sample, observation_columns=3,
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

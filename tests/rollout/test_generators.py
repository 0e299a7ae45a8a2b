"""Problems made to measure: of families of skills at their level, and of the skills that fail."""

import functools

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from rlx.controllers import prompts as rules
from rlx.engine.decoding import Decoding
from rlx.engine.speaker import Scoring, Speaker
from rlx.envs.skills import skills
from rlx.models.language import LanguageModel
from rlx.models.transformer import TransformerConfig
from rlx.rollout import generators, synthesis
from rlx.types import check
from tests.once import once

TASK = skills(modulus=3, num_skills=4, used=(0, 1, 2, 3), min_steps=2, max_steps=3, held_out_share=0.34)
MODEL = LanguageModel(TransformerConfig(
    vocab_size=TASK.vocab_size, num_layers=1, width=16, num_heads=2, num_kv_heads=2, head_size=8, mlp_size=16,
    context_length=16,
))
DECODING = Decoding(
    max_tokens=TASK.answer_columns, min_tokens=0, temperature=1.0, top_k=0, top_p=1.0, sampler='gumbel',
    eos_ids=TASK.eos_ids, pad_id=0,
)
POLICY = Speaker(model=MODEL, decoding=DECODING, scoring=Scoring(chunk_tokens=64, packing=None))
SIZES = dict(batch_size=32, group_size=2, num_slots=0)
MODELS = once(lambda: {'policy': MODEL.init(jax.random.key(0))})
ADAPTIVE = dict(
    families=('ab', 'd', 'c'), num_active=2, first_level=2.0, target=0.5, rate=1.0, min_rise=0.1, patience=1
)


@pytest.mark.slow
def test_families_are_asked_at_their_level():
  rollout = generators.adaptive(TASK, POLICY, **SIZES, **ADAPTIVE)
  world = rollout.begin(jax.random.key(0))
  draw = jax.jit(rollout.draw)
  batch, world = draw(MODELS(), world, jax.random.key(1))
  check(batch)
  families, skill = np.asarray(batch['families']), np.asarray(batch['skills'])
  assert np.bincount(families).tolist() == [16, 16] and (batch['levels'] == 2).all()
  used = lambda family: set(np.unique(skill[families == family]))
  assert used(0) == {-1, 0, 1} and used(1) == {-1, 3}
  assert ((skill >= 0).sum(axis=1) == 2).all()
  world = jax.jit(rollout.observe)(world, {**batch, 'rewards': (batch['families'] == 0).astype(jnp.float32)})
  np.testing.assert_allclose(world['difficulty'].levels, [2.5, 1.5, 2.0])
  batch, _ = draw(MODELS(), world, jax.random.key(2))
  assert set(np.unique(batch['families'])) == {0, 2}, 'the second family fell, and made room'
  assert set(np.unique(batch['levels'][batch['families'] == 0])) == {2, 3}


def test_bad_families_are_refused():
  for change, message in (
      ({'families': ('ab', 'e')}, "all of 'abcd'"), ({'families': ('',)}, 'a letter or more'),
      ({'first_level': 4.0}, 'first_level=4.0'),
  ):
    with pytest.raises(ValueError, match=message):
      generators.adaptive(TASK, POLICY, **SIZES, **{**ADAPTIVE, **change})


def test_weaknesses_by_hand():
  asked = jnp.array([[0, 0, 1], [1, -1, -1], [1, 2, -1], [0, 2, 1]])
  failures = jnp.array([0.0, 0.2, 1.0, 0.6])
  weights = synthesis.weaknesses(failures, asked, num_skills=4)
  np.testing.assert_allclose(weights, [0.6 / 2, 1.8 / 4, 1.6 / 2, 0], rtol=1e-6)


def synthesised(**changes):
  sizes = dict(num_problems=40, num_synthetic=5, min_steps=3, max_steps=3, keep=0.5)
  failures = functools.partial(rules.persistent_failures, best_below=0.5, min_tries=2)
  return synthesis.synthesised(
      TASK, POLICY, **{**SIZES, **sizes, 'failures': failures, **changes}
  )


@pytest.mark.slow
def test_problems_are_made_of_what_fails():
  """Whoever needs the last skill fails; before that is known, all problems are seeds."""
  rollout = synthesised()
  draw, observe = jax.jit(rollout.draw), jax.jit(rollout.observe)
  world = rollout.begin(jax.random.key(0))
  seeds = np.asarray(rollout.data['skills'])
  for i in range(12):
    batch, world = draw(MODELS(), {**world, 'data': rollout.data}, jax.random.key(i))
    assert 'data' not in world
    made, rows = np.asarray(batch['synthesis/made']), np.asarray(batch['rows'])
    np.testing.assert_array_equal(np.asarray(batch['skills'])[~made], seeds[rows[~made]])
    assert (rows[made] == 40).all() and made.sum() == (10 if i else 0)
    weak = (batch['skills'] == 3).any(axis=1)
    world = observe(world, {**batch, 'rewards': 1.0 - weak})
  check(batch)
  assert world['statistics'].tries.sum() == 32 + 11 * 22, 'made problems are nobody`s row'
  found = rules.persistent_failures(world['statistics'], best_below=0.5, min_tries=2)
  weights = synthesis.weaknesses(found, jnp.asarray(seeds), num_skills=4)
  assert int(jnp.argmax(weights)) == 3 and float(weights[3]) > 1.5 * float(jnp.sort(weights)[-2])
  made = np.asarray(batch['skills'])[made]
  assert (made == 3).mean() > 0.35 and (made >= 0).all()


@pytest.mark.parametrize('change, message', [
    ({'num_synthetic': 17}, 'num_synthetic=17'), ({'min_steps': 0}, 'min_steps=0'),
    ({'max_steps': 4}, 'max_steps=4'), ({'group_size': 5}, 'group_size=5'),
])
def test_bad_sizes_are_refused(change, message):
  with pytest.raises(ValueError, match=message):
    synthesised(**change)

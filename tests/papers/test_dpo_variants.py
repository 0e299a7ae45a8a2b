"""S147: losses of preferences from several starts and sizes. https://arxiv.org/abs/2404.14723"""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from rlx.envs import gold
from rlx.experiments.studies import starts

KEY = jax.random.key(0)
WHOLE = jax.jit(gold.gold_worlds(**starts.WORLD).make)(KEY)


@pytest.mark.slow
def test_starts_are_the_base_model_and_what_demonstrations_make_of_it():
  worlds = starts.started(WHOLE, KEY, rate=1e-2)
  mine, others = starts.halves(WHOLE)
  np.testing.assert_allclose(worlds.base[0], mine.base, rtol=1e-5)
  assert mine.gold.shape == others.gold.shape == (starts.PROMPTS, starts.WORLD['num_answers'])
  of_base, of_sft, of_instructed = (float(gold.gain(mine, base)) for base in worlds.base)
  assert abs(of_base) < 1e-5 and of_sft > 0.1 and of_instructed > 0.1
  np.testing.assert_allclose(jnp.exp(worlds.base).sum(axis=2), 1, rtol=1e-4)


def test_a_size_sees_the_first_comparisons_alone():
  data = gold.labelled(starts.halves(WHOLE)[0], KEY, num=20, sharpness=1.0)
  batch, _ = starts.recorded({}, {'data': {'rows': data, 'size': jnp.int32(3)}}, KEY)
  drawn = {tuple(row) for row in np.asarray(batch['tokens'])}
  assert drawn == {tuple(row) for row in np.asarray(data['tokens'][:6])}
  preferred = np.asarray(batch['preferred'])
  assert preferred[0::2].all() and not preferred[1::2].any()

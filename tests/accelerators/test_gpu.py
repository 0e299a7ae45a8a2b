"""What runs on an NVIDIA GPU that is here: `make test-gpu`. Kernels against plain formulas in float64."""

import functools
import json
import os
import subprocess
import sys

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from rlx.kernels import switch
from rlx.kernels.decode_attention import attend, decode_attention
from rlx.kernels.linear_logprob import linear_logprob
from rlx.kernels.packed_attention import packed_attention
from rlx.kernels.sampler import inverse_cdf
from tests.kernels.test_decode_attention import arguments, by_hand, prefix_of
from tests.kernels.test_packed_attention import fields, sight, vectors, with_gradient

pytestmark = [
    pytest.mark.gpu,
    pytest.mark.filterwarnings('ignore:The Pallas Triton backend'),
    pytest.mark.skipif(jax.default_backend() != 'gpu', reason='there is no GPU'),
]
EVERYTHING = 10**6
SMALL = 1e-2  # relative error of products of bfloat16


def error(ours, exact):
  ours, exact = (np.asarray(x, np.float64) for x in (ours, exact))
  assert np.isfinite(ours).all()
  return np.linalg.norm(ours - exact) / np.linalg.norm(exact)


DECODING = [
    ('reference', 64, 1, 0.0), ('blockwise', 64, 3, 1.5), ('cudnn', 64, 1, 0.0), ('cudnn', 128, 1, 0.0),
    ('mosaic', 64, 1, 0.0), ('mosaic', 128, 1, 0.0), ('mosaic', 64, 3, 1.5),
]


@pytest.mark.parametrize(('name', 'size', 'queries', 'softcap'), DECODING)
def test_decoding_attends_as_it_should(name, size, queries, softcap):
  """Of rows of every length, 14 heads over 2."""
  _needs_hopper(name)
  query, keys, values, positions = arguments(
      rows=9, queries=queries, heads=14, kv_heads=2, columns=640, size=size, dtype=jnp.bfloat16
  )
  options = {'scale': size**-0.5, 'softcap': softcap, 'window': EVERYTHING, 'implementation': name}
  out = jax.jit(functools.partial(decode_attention, **options))(query, keys, values, positions)
  scaled = np.asarray(query * jnp.asarray(size**-0.5, query.dtype), np.float64)
  exact, lse = by_hand(scaled, keys, values, np.asarray(positions), EVERYTHING, softcap)
  assert error(out, exact) < SMALL
  if name != 'cudnn':  # that keeps the log-sum-exp
    said = jax.jit(functools.partial(attend, **options))(query, keys, values, positions)[1]
    np.testing.assert_allclose(said, lse, rtol=1e-2, atol=1e-2)


@pytest.mark.parametrize('name', ['blockwise', 'mosaic'])
def test_a_prefix_is_attended_to(name):
  _needs_hopper(name)
  query, keys, values, positions = arguments(
      rows=6, heads=8, kv_heads=2, columns=256, size=64, dtype=jnp.bfloat16
  )
  rows = np.arange(6) % 2
  prefix = prefix_of(keys, lengths=[70, 128], rows=rows, columns=128)
  positions += prefix.lengths[prefix.rows][:, None]
  options = {'scale': 0.125, 'softcap': 0.0, 'window': EVERYTHING, 'prefix': prefix}
  args = query, keys, values, positions
  ours, plain = (
      jax.jit(functools.partial(decode_attention, **options, implementation=way))(*args)
      for way in (name, 'reference')
  )
  assert error(ours, plain) < SMALL


PACKED = [
    ('blockwise', 64, 0.0, EVERYTHING), ('cudnn', 64, 0.0, EVERYTHING), ('cudnn', 128, 0.0, 100),
    ('triton', 64, 0.0, EVERYTHING), ('triton', 128, 0.0, EVERYTHING), ('triton', 64, 1.5, 100),
    ('triton', 96, 0.0, EVERYTHING), ('triton', 256, 0.0, EVERYTHING),
]
ROWS = [(40, (130, 60, 7)), (100, (90, 90))], [(700, ())]


@pytest.mark.parametrize(('name', 'size', 'softcap', 'window'), PACKED)
def test_packed_rows_attend_as_they_should_with_their_gradient(name, size, softcap, window):
  """Rows of groups and of one long sequence, with padding behind both, against float32 on the CPU."""
  length = 740
  heads = vectors(length, heads=8, kv_heads=2, size=size, dtype=jnp.bfloat16)
  own = fields(sight(length, *ROWS))
  options = {'scale': size**-0.5, 'softcap': softcap, 'window': window}
  attend_by = lambda way: lambda *args: packed_attention(*args[:3], **args[3], **options, implementation=way)
  ours = with_gradient(attend_by(name), heads, own)
  with jax.default_device(jax.devices('cpu')[0]):
    exact = with_gradient(attend_by('reference'), *jax.device_put(
        (tuple(x.astype(jnp.float32) for x in heads), own), jax.devices('cpu')[0]
    ))
  for x, y in zip(jax.tree.leaves(ours), jax.tree.leaves(exact), strict=True):
    assert error(x, y) < 2 * SMALL


def test_scores_and_draws_are_those_of_the_cpu():
  rng = np.random.default_rng(0)
  hidden, weights = (jnp.array(rng.normal(size=x), jnp.float32) for x in ((300, 64), (1000, 64)))
  targets, uniforms = jnp.array(rng.integers(0, 1000, 300)), jnp.array(rng.uniform(size=300), jnp.float32)

  def both(hidden, weights, targets, uniforms):
    with jax.default_matmul_precision('highest'):
      logprobs = linear_logprob(hidden, weights, targets, chunk_size=128).logprobs
      return logprobs, inverse_cdf(3 * hidden @ weights.T / 8, uniforms)

  here = jax.jit(both)(hidden, weights, targets, uniforms)
  with jax.default_device(jax.devices('cpu')[0]):
    there = jax.jit(both)(*jax.device_put((hidden, weights, targets, uniforms), jax.devices('cpu')[0]))
  np.testing.assert_allclose(here[0], there[0], rtol=1e-4, atol=1e-4)
  assert np.mean(np.asarray(here[1]) == np.asarray(there[1])) > 0.99  # rounding may move a border


@pytest.mark.parametrize('config', ['quickstart/arithmetic:smoke', 'control/ppo_cartpole:smoke'])
def test_a_run_is_repeated_to_the_bit(config, tmp_path):
  """With the flag that takes sums whose order may change out of what the compiler chooses from."""
  flags = '--xla_gpu_exclude_nondeterministic_ops=true'
  environment = {**os.environ, 'XLA_FLAGS': flags, 'XLA_PYTHON_CLIENT_PREALLOCATE': 'false'}
  rows = []
  for name in ('a', 'b'):
    options = f'--config={config}', f'--workdir={tmp_path / name}'
    subprocess.run([sys.executable, '-m', 'rlx.experiments.launch', *options], check=True, env=environment)
    rows.append((tmp_path / name / 'metrics.jsonl').read_text())
  assert rows[0] == rows[1] and json.loads(rows[0].splitlines()[0])


def _needs_hopper(name):
  if name == 'mosaic' and switch.no_hopper():
    pytest.skip(switch.no_hopper())

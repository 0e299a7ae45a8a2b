"""What drawing a token costs: samplers and filters in turn, A B A B in one run, medians and ratios printed.

python -m rlx.kernels.benchmarks.sampler
"""

import argparse

import jax
import jax.numpy as jnp

from rlx.kernels import sampler, sampler_reference
from rlx.kernels.benchmarks import turns

K, P = 50, 0.9


def pairs(key: jax.Array, logits: jax.Array) -> dict[str, tuple]:
  """By name of the comparison: the old way and the new one, compiled, on [rows, V] logits."""
  keys = jax.random.split(key, logits.shape[0])
  gumbel = lambda x: jax.vmap(jax.random.categorical)(keys, x)
  inverse_cdf = lambda x: sampler.inverse_cdf(x, jax.vmap(jax.random.uniform)(keys))
  programs = {
      'gumbel, inverse_cdf': (gumbel, inverse_cdf),
      'top-k: sort, halving': (
          lambda x: sampler_reference.top_k_threshold_reference(x, K),
          lambda x: sampler.top_k_threshold(x, K),
      ),
      'top-p: sort, halving': (
          lambda x: sampler_reference.top_p_threshold_reference(x, P),
          lambda x: sampler.top_p_threshold(x, P),
      ),
  }
  return {name: tuple(map(jax.jit, both)) for name, both in programs.items()}


def main() -> None:
  arguments = _parser().parse_args()
  for vocab_size in arguments.vocab_sizes:
    key, logits_key = jax.random.split(jax.random.key(0))
    logits = 3 * jax.random.normal(logits_key, (arguments.rows, vocab_size), jnp.float32)
    for name, programs in pairs(key, logits).items():
      both = dict(zip(('old', 'new'), programs, strict=True))
      first, second = turns.seconds(both, (logits,), arguments.rounds).values()
      print(
          f'V {vocab_size:>7}  {name:<21} {1e3 * first:9.3f} ms {1e3 * second:9.3f} ms  '
          f'new / old {second / first:.2f}',
          flush=True,
      )


def _parser() -> argparse.ArgumentParser:
  parser = argparse.ArgumentParser(description='Samplers and filters in turn.')
  parser.add_argument('--vocab_sizes', type=int, nargs='+', default=[512, 32_000, 152_000])
  parser.add_argument('--rows', type=int, default=16)
  parser.add_argument('--rounds', type=int, default=15)
  return parser


if __name__ == '__main__':
  main()

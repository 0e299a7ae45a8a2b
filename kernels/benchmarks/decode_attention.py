"""How long a step of decoding attends, by implementation, size of the cache and live share.

Run as `python -m rlx.kernels.benchmarks.decode_attention`. All implementations take turns on the same arrays,
A B A B, so that what else the machine does falls on all alike. The table gives medians, the time of the
reference over that of each, and how many GB of live keys and values a second that is. The longest row fills
the given share of the cache, the shortest half as much.
"""

import argparse
import functools
import itertools

import jax
import jax.numpy as jnp

from rlx.kernels.benchmarks import turns
from rlx.kernels.decode_attention import decode_attention

EVERYTHING = 2**30


def arrays(args, slots, columns, share):
  """Queries, keys, values and positions."""
  dtype = jnp.dtype(args.dtype)
  keys = jax.random.split(jax.random.key(0), 3)
  cache = (slots, columns, args.kv_heads, args.head_size)
  shapes = (slots, 1, args.heads, args.head_size), cache, cache
  vectors = [jax.random.normal(key, shape, dtype) for key, shape in zip(keys, shapes, strict=True)]
  longest = max(int(share * columns), 1)
  lengths = jnp.linspace(max(longest // 2, 1), longest, slots).astype(jnp.int32)
  return *vectors, lengths[:, None] - 1


def main():
  parser = argparse.ArgumentParser(description='Times a step of decoding attention.')
  parser.add_argument('--implementations', nargs='+', default=['reference', 'blockwise'])
  parser.add_argument('--slots', nargs='+', type=int, default=[8, 32])
  parser.add_argument('--columns', nargs='+', type=int, default=[512, 2048])
  parser.add_argument('--shares', nargs='+', type=float, default=[0.1, 0.5, 1.0])
  parser.add_argument('--heads', type=int, default=8)
  parser.add_argument('--kv-heads', type=int, default=2)
  parser.add_argument('--head-size', type=int, default=64)
  parser.add_argument('--dtype', default='float32')
  parser.add_argument('--rounds', type=int, default=20)
  args = parser.parse_args()
  options = {'scale': args.head_size**-0.5, 'softcap': 0.0, 'window': EVERYTHING}
  steps = {
      name: jax.jit(functools.partial(decode_attention, **options, implementation=name))
      for name in args.implementations
  }
  heads = f'{args.heads}/{args.kv_heads} heads of {args.head_size}'
  print(f'{jax.devices()[0].device_kind}, {args.dtype}, {heads}')
  print('slots columns share implementation       ms  reference/this  live GB/s')
  for slots, columns, share in itertools.product(args.slots, args.columns, args.shares):
    inputs = arrays(args, slots, columns, share)
    live = int(jnp.sum(inputs[3] + 1)) * args.kv_heads * args.head_size * 2 * inputs[1].dtype.itemsize
    medians = turns.seconds(steps, inputs, args.rounds)
    for name, median in medians.items():
      ratio = f'{medians["reference"] / median:.2f}' if 'reference' in medians else '-'
      numbers = f'{1e3 * median:8.3f} {ratio:>15} {live / median / 1e9:10.2f}'
      print(f'{slots:5} {columns:7} {share:5.2f} {name:14} {numbers}', flush=True)


if __name__ == '__main__':
  main()

"""How long attention of packed rows takes, alone and with its gradient, by implementation.

Run as `python -m rlx.kernels.benchmarks.packed_attention`. All implementations take turns on the same arrays,
A B A B, so that what else the machine does falls on all alike. A row is filled with groups of a prompt and
its completions. The table gives medians, the time of the first implementation over that of each, and the
products between a query and the keys that it sees, as TFLOP/s (four for each number of a head, and ten more
for the gradient). What cannot run here is said and left out.
"""

import argparse
import itertools

import jax
import jax.numpy as jnp
import numpy as np

from rlx.kernels import switch
from rlx.kernels.benchmarks.decode_attention import seconds
from rlx.kernels.packed_attention import packed_attention

EVERYTHING = 2**30
FORWARD, BOTH = 4, 14  # FLOPs of a query, a key and a number of the head


def rows_of_groups(
    rows: int, columns: int, prompt: int, completion: int, group: int
) -> dict[str, np.ndarray]:
  """Where the columns of every row stand, [rows, columns], as `packed_attention` asks for it."""
  fields = []
  while len(fields) < columns:
    start = len(fields)
    end = start + prompt
    fields += [(c - start, start, end, start) for c in range(start, end)]
    for begin in range(end, end + group * completion, completion):
      fields += [(prompt + i, start, end, begin) for i in range(completion)]
  names = 'positions', 'starts', 'shared_ends', 'own_starts'
  whole = np.broadcast_to(np.array(fields[:columns], np.int32), (rows, columns, len(names)))
  return {name: whole[..., index] for index, name in enumerate(names)}


def pairs_seen(places: dict[str, np.ndarray]) -> int:
  """Pairs of a query and a key that it sees, of all rows."""
  columns = np.arange(places['starts'].shape[1])[None]
  shared = np.minimum(places['shared_ends'], columns + 1) - places['starts']
  own = columns + 1 - np.maximum(places['own_starts'], np.minimum(places['shared_ends'], columns + 1))
  return int(shared.sum() + own.sum())


def programs(name: str, options: dict):
  """Attention by an implementation, and its gradient, compiled; of queries, keys, values and places."""
  attend = lambda *vectors: packed_attention(*vectors[:3], **vectors[3], **options, implementation=name)
  total = lambda *vectors: attend(*vectors).astype(jnp.float32).sum()
  return jax.jit(attend), jax.jit(jax.grad(total, argnums=(0, 1, 2)))


def main():
  args = _parser().parse_args()
  options = {'scale': args.head_size**-0.5, 'softcap': 0.0, 'window': EVERYTHING}
  heads = f'{args.heads}/{args.kv_heads} heads of {args.head_size}'
  group = f'a group is {args.prompt} + {args.group} x {args.completion}'
  print(f'{switch.device().kind}, {args.dtype}, {heads}; {group}')
  print(f'rows columns implementation  ms {args.implementations[0]}/this TFLOP/s, with its gradient the same')
  for rows, columns in itertools.product(args.rows, args.columns):
    places = rows_of_groups(rows, columns, args.prompt, args.completion, args.group)
    flops = pairs_seen(places) * args.heads * args.head_size
    keys = jax.random.split(jax.random.key(0), 3)
    shape = lambda heads, rows=rows, columns=columns: (rows, columns, heads, args.head_size)
    shapes = shape(args.heads), shape(args.kv_heads), shape(args.kv_heads)
    vectors = [jax.random.normal(key, x, args.dtype) for key, x in zip(keys, shapes, strict=True)]
    vectors.append(jax.tree.map(jnp.asarray, places))
    forward, both = {}, {}
    for name in args.implementations:
      try:
        forward[name], both[name] = programs(name, options)
        jax.block_until_ready(both[name](*vectors))
      except (ValueError, jax.errors.JaxRuntimeError) as error:
        del forward[name], both[name]
        print(f'{rows:4} {columns:7} {name:14} {str(error).splitlines()[0]}', flush=True)
    times = [seconds(steps, vectors, args.rounds) for steps in (forward, both)]
    for name in forward:
      print(f'{rows:4} {columns:7} {name:14}', *_columns(name, times, flops), flush=True)


def _columns(name: str, times: list[dict[str, float]], flops: int):
  """What is printed of an implementation: alone, and with the gradient."""
  for of_all, products in zip(times, (FORWARD, BOTH), strict=True):
    first, own = next(iter(of_all.values())), of_all[name]
    yield f'{1e3 * own:9.3f} {first / own:6.2f} {products * flops / own / 1e12:7.1f}'


def _parser() -> argparse.ArgumentParser:
  parser = argparse.ArgumentParser(description='Attention of packed rows, by implementation, in turn.')
  parser.add_argument('--implementations', nargs='+', default=['blockwise', 'reference'])
  parser.add_argument('--rows', nargs='+', type=int, default=[2])
  parser.add_argument('--columns', nargs='+', type=int, default=[512, 1024])
  parser.add_argument('--prompt', type=int, default=64)
  parser.add_argument('--completion', type=int, default=48)
  parser.add_argument('--group', type=int, default=8)
  parser.add_argument('--heads', type=int, default=8)
  parser.add_argument('--kv-heads', type=int, default=2)
  parser.add_argument('--head-size', type=int, default=64)
  parser.add_argument('--dtype', default='float32')
  parser.add_argument('--rounds', type=int, default=10)
  return parser


if __name__ == '__main__':
  main()

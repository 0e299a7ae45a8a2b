"""What a train step costs on eight devices beside one, in CPU-seconds: work that is not shared costs more.

    python -m rlx.experiments.benchmarks.mesh_cost [--meshes 8,1,1 1,8,1] [--kinds plain 'slots and packs']

Eight devices are made of the cores that are here, so a step that is shared without loss takes the CPU-seconds
of one device, and one that every device takes in full takes eight times as many. The step is GRPO's, of a
decoder of some width on rows of unlike lengths, all meshes in turn (A B C A B C) in one process.
"""

import argparse
import time

import jax
import jax.numpy as jnp
import numpy as np
import optax

from rlx import sharding
from rlx.algorithms.grpo import grpo
from rlx.engine.decoding import Decoding
from rlx.engine.packing import Packing
from rlx.engine.speaker import Scoring, Speaker
from rlx.envs.arithmetic import arithmetic
from rlx.losses.anchors import no_kl
from rlx.models.families import llama
from rlx.rollout import prompts
from rlx.step import begin, make_train_step

TASK = arithmetic(min_operand=10, max_operand=99, operators='+', held_out_share=0.1)
KINDS = {'plain': (0, None), 'slots and packs': (32, Packing(columns=96, rows=1, share_prompts=False))}
ROWS, NEW_TOKENS = 128, 24


def main() -> None:
  arguments = _parser().parse_args()
  jax.config.update('jax_num_cpu_devices', 8)
  meshes = [(1, 1, 1), *(tuple(int(n) for n in mesh.split(',')) for mesh in arguments.meshes)]
  model = llama(
      TASK, num_layers=arguments.layers, width=arguments.width, num_heads=8, num_kv_heads=8,
      mlp_size=4 * arguments.width, context_length=64, rope_theta=100.0, tied=True, dtype='float32',
      remat=False, attention='reference',
  )
  for kind in arguments.kinds:
    runs = {sizes: _Run(model, sizes, *KINDS[kind]) for sizes in meshes}
    seconds = {sizes: [] for sizes in meshes}
    for _ in range(arguments.rounds):
      for sizes, run in runs.items():
        seconds[sizes].append(run.step())
    one = np.median(seconds[1, 1, 1])
    for sizes in meshes:
      each = np.median(seconds[sizes])
      print(f'{kind}: {sizes}: {each:.2f} CPU-s a step, {each / one:.2f} of one device', flush=True)


class _Run:
  """A train step on a mesh, compiled."""

  def __init__(self, model, sizes: tuple[int, int, int], num_slots: int, packing: Packing | None):
    decoding = Decoding(
        max_tokens=NEW_TOKENS, min_tokens=0, temperature=1.0, top_k=0, top_p=1.0, sampler='inverse_cdf',
        eos_ids=TASK.eos_ids, pad_id=TASK.pad_id,
    )
    policy = Speaker(model=model, decoding=decoding, scoring=Scoring(chunk_tokens=4096, packing=packing))
    rollout = prompts.completions(TASK, policy, batch_size=ROWS, group_size=8, num_slots=num_slots)
    reward = lambda models, batch, key: {**batch, 'rewards': (batch['tokens'].sum(axis=1) % 7) * 1.0}
    algorithm = grpo(rollout, reward, policy, no_kl(), clip_low=0.2, clip_high=0.2, entropy_coef=0.0)
    optimizer = optax.adam(0.0)  # every step is the same
    self._mesh = sharding.make_mesh(**dict(zip(sharding.MESH_AXES, sizes, strict=True)))
    params = {'policy': model.init(jax.random.key(0))}
    state = begin(algorithm, optimizer, params, {}, jax.random.key(1))
    places = sharding.state_shardings(state, self._mesh, {'policy': model.axes})
    train_step = make_train_step(algorithm, optimizer, epochs=1, minibatches=1, microbatches=1)
    with jax.set_mesh(self._mesh):
      self._state = jax.device_put(jax.tree.map(jnp.copy, state), places)
      self._program = jax.jit(train_step, donate_argnums=0, out_shardings=(places, None))
      self.step()  # compiles

  def step(self) -> float:
    """CPU-seconds of a train step, of all threads."""
    began = time.process_time()
    with jax.set_mesh(self._mesh):
      self._state, _ = jax.block_until_ready(self._program(self._state))
    return time.process_time() - began


def _parser() -> argparse.ArgumentParser:
  parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
  parser.add_argument('--meshes', nargs='+', default=['8,1,1', '1,8,1', '1,1,8', '2,2,2'])
  parser.add_argument('--kinds', nargs='+', default=list(KINDS), choices=list(KINDS))
  parser.add_argument('--width', type=int, default=256)
  parser.add_argument('--layers', type=int, default=4)
  parser.add_argument('--rounds', type=int, default=5)
  return parser


if __name__ == '__main__':
  main()

"""What a step of SAC costs as its replay store grows: nothing, where the store is updated in place.

    python -m rlx.experiments.benchmarks.replay_cost

The same step at several capacities, A B C A B C in one process, 100 steps a dispatch with the state donated,
as `rlx` runs them. Prints milliseconds a step (the best of all rounds) and ratios to the smallest store, and
the temporary memory of each program beside the bytes of its store: a store that is copied would be in it.

On a CPU with two cores: x1.06 at 100,000 and x0.65 (noise) at 1,000,000 of the time at 10,000, with 0.76 MiB
of temporary memory each; with goals in hindsight x1.19 and x1.03, and 0.70 MiB. Where the drawn rows are not
read in a loop (`replay.rows_at`) half of the store is copied at each step: x5.5 at 1,000,000.
"""

import argparse
import dataclasses
import time
from typing import NamedTuple

import jax
import jax.numpy as jnp
import optax

from rlx import step
from rlx.algorithms.control.sac import sac
from rlx.envs.control import maze
from rlx.envs.control.pendulum import pendulum
from rlx.models import networks
from rlx.rollout.control import replay

SHAPE = dict(hidden=(64, 64), activation='relu')
PRIORITISED = dict(alpha=0.6, beta=0.4, n=1, discount=0.99)
MAZE = dict(layout='u', starts='S', goals='SM.G', max_steps=50)
HINDSIGHT = dict(goal_size=2, share=0.8, horizon=50)
MIB = 2**20


class Side(NamedTuple):
  """A compiled dispatch and the state that it goes on from."""

  program: jax.stages.Compiled
  state: list  # of one: it is donated, and replaced
  store_bytes: int
  temporary_bytes: int


def main() -> None:
  arguments = _parser().parse_args()
  sides = {
      (kind, capacity): _side(kind, capacity, arguments.steps)
      for kind in arguments.kinds.split(',') for capacity in map(int, arguments.capacities.split(','))
  }
  best = {name: float('inf') for name in sides}
  for _ in range(arguments.rounds):
    for name, side in sides.items():
      began = time.perf_counter()
      side.state[0], _ = jax.block_until_ready(side.program(side.state[0]))
      best[name] = min(best[name], (time.perf_counter() - began) / arguments.steps)
  for (kind, capacity), side in sides.items():
    smallest = next(best[name] for name in sides if name[0] == kind)
    print(
        f'{kind:12} {capacity:>9,}  {1e3 * best[kind, capacity]:7.3f} ms a step  '
        f'x{best[kind, capacity] / smallest:.2f}  store {side.store_bytes / MIB:7.2f} MiB, '
        f'temporary {side.temporary_bytes / MIB:7.2f} MiB'
    )


def _side(kind: str, capacity: int, num_steps: int) -> Side:
  env = maze.maze(**MAZE) if kind == 'hindsight' else pendulum(max_steps=200)
  policy = networks.squashed_gaussian(env, **SHAPE)
  critic = networks.critics(env, num=2, layer_norm=False, **SHAPE)
  temperature = networks.positive(initial=1.0)
  numbers = dict(num_envs=1, num_steps=1, capacity=capacity, warmup_steps=1000, batch_size=128)
  if kind == 'prioritised':
    rollout = replay.prioritised_replay(env, policy, **PRIORITISED, **numbers)
  elif kind == 'hindsight':
    rollout = replay.hindsight_replay(env, policy, relabel=maze.relabel, **HINDSIGHT, **numbers)
  else:
    rollout = replay.replay(env, policy, **numbers)
  algorithm = sac(
      rollout, env, policy, critic, temperature, discount=0.99, target_rate=0.005, target_entropy=-1.0
  )
  # Any number costs what a priority does, and a column that nobody reads costs nothing.
  algorithm = dataclasses.replace(
      algorithm, advantage=lambda models, batch, key: {**batch, 'priorities': jnp.abs(batch['rewards'])}
  )
  optimizer = optax.adam(1e-3)
  train_step = step.make_train_step(algorithm, optimizer, epochs=1, minibatches=1, microbatches=1)

  def begin(key):
    keys = jax.random.split(key, 4)
    parts = {'policy': policy, 'critic': critic, 'temperature': temperature}
    params = {name: part.init(k) for (name, part), k in zip(parts.items(), keys[:3], strict=True)}
    return step.begin(algorithm, optimizer, params, {'target': critic.init(keys[1])}, keys[3])

  state = jax.jit(begin)(jax.random.key(0))
  program = jax.jit(step.repeat(train_step, num_steps), donate_argnums=0).lower(state).compile()
  store = jax.tree.leaves(state.world['store'])
  return Side(
      program, [state], sum(x.nbytes for x in store), program.memory_analysis().temp_size_in_bytes
  )


def _parser() -> argparse.ArgumentParser:
  parser = argparse.ArgumentParser(description='Cost of a step at several sizes of the replay store.')
  parser.add_argument('--kinds', default='uniform,prioritised,hindsight', help='of these three')
  parser.add_argument('--capacities', default='10000,100000,1000000', help='transitions')
  parser.add_argument('--steps', type=int, default=100, help='in one program')
  parser.add_argument('--rounds', type=int, default=10)
  return parser


if __name__ == '__main__':
  main()

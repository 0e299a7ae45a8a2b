"""PPO on CartPole and SAC on Pendulum against rejax, interleaved in one process: environment steps per
CPU-second, and ratios.

    pip install rejax==0.1.3                    # in an environment with rlx
    pip install --no-deps gymnax==0.0.9         # rejax does not know what later ones return
    python -m rlx.experiments.benchmarks.control_speed

Both sides take the same numbers: environments, steps, epochs, minibatches, widths, batch size and size of the
store; both run many train steps in one program, without evaluation, alone and as 16 seeds under `vmap`. What
differs is what they compute: rlx bootstraps what a time limit cut off (one more pass of the critic), reports
a dozen metrics a step, and guards against infinite updates; rejax does none of these. `rlx bare` drops the
metrics, and with them what only they need.
"""

import argparse
import statistics
import time

import jax
import jax.numpy as jnp

from rlx import config as configs
from rlx import step
from rlx.run import states
from rlx.run.build import build

SAC_STEPS = 500  # train steps a measurement
PPO = dict(num_envs=8, num_steps=128, num_epochs=4, num_minibatches=4)
PPO_ROWS = PPO['num_envs'] * PPO['num_steps']
SAC = dict(num_envs=1, buffer_size=16_384, fill_buffer=1024, batch_size=128)
HIDDEN = (64, 64)


def main() -> None:
  arguments = _parser().parse_args()
  for name, make_rlx, make_rejax, env_steps in (
      ('PPO, CartPole', rlx_ppo, rejax_ppo, lambda seeds: ppo_steps(seeds) * PPO_ROWS),
      ('SAC, Pendulum', rlx_sac, rejax_sac, lambda seeds: SAC_STEPS * SAC['num_envs']),
  ):
    for seeds in arguments.seeds:
      sides = {
          'rlx': make_rlx(seeds), 'rlx bare': make_rlx(seeds, metrics=False), 'rejax': make_rejax(seeds),
      }
      show(name, seeds, env_steps(seeds) * seeds, interleaved(sides, arguments.rounds))


def ppo_steps(seeds: int) -> int:
  """Train steps a measurement, which take two seconds or more."""
  return max(400 // seeds, 50)


def interleaved(sides, rounds: int) -> dict[str, list[tuple[float, float]]]:
  """CPU- and wall seconds of each call, the sides in turn; the first calls compile and are left out."""
  seconds = {name: [] for name in sides}
  for index in range(rounds + 1):
    for name, run in sides.items():
      cpu, wall = time.process_time(), time.monotonic()
      run()
      if index:
        seconds[name].append((time.process_time() - cpu, time.monotonic() - wall))
  return seconds


def show(name: str, seeds: int, env_steps: int, seconds) -> None:
  """A line a side, and the ratio of their medians."""
  medians = {}
  for side, pairs in seconds.items():
    cpu, wall = (statistics.median(column) for column in zip(*pairs, strict=True))
    medians[side] = cpu
    print(f'{name}, {seeds:>2} seeds  {side:<9}{env_steps / cpu:>12,.0f} env steps / CPU-s  {wall:8.3f} s')
  for side in ('rlx', 'rlx bare'):
    print(f'{name}, {seeds:>2} seeds  {side} / rejax: {medians["rejax"] / medians[side]:.2f}x', flush=True)


class _Runner:
  """A donated state that goes on from call to call."""

  def __init__(self, program, state):
    self.program, self.state = program, state

  def __call__(self):
    self.state = jax.block_until_ready(self.program(self.state))


def rlx_ppo(seeds: int, metrics: bool = True):
  config = configs.load('control/ppo_cartpole').unlock()
  config.rollout.update(num_envs=PPO['num_envs'], num_steps=PPO['num_steps'])
  config.updates.update(epochs=PPO['num_epochs'], minibatches=PPO['num_minibatches'])
  return _rlx(config, seeds, ppo_steps(seeds), metrics)


def rlx_sac(seeds: int, metrics: bool = True):
  config = configs.load('control/sac_pendulum').unlock()
  config.rollout.update(
      num_envs=SAC['num_envs'], num_steps=1, capacity=SAC['buffer_size'], warmup_steps=SAC['fill_buffer'],
      batch_size=SAC['batch_size'],
  )
  config.models.policy.hidden = config.models.critic.hidden = HIDDEN
  config.updates.update(epochs=1, minibatches=1)
  return _rlx(config, seeds, SAC_STEPS, metrics)


def _rlx(config, seeds: int, num_steps: int, metrics: bool):
  config.population.size = seeds
  config.steps = config.checkpoint.every = config.log.steps_per_dispatch = num_steps
  config.evals.episodes.every = num_steps
  run = build(config)
  state = states.begin(run, 0, {}, 0)
  program = step.repeat(run.stages[0].train_step, num_steps)
  program = jax.vmap(program) if seeds > 1 else program
  jitted = jax.jit(lambda state: program(state) if metrics else (program(state)[0], None), donate_argnums=0)
  return _Runner(lambda state: jitted(state)[0], state)


def rejax_ppo(seeds: int):
  import rejax

  return _rejax(
      rejax.get_algo('ppo').create(
          env='CartPole-v1', agent_kwargs={'hidden_layer_sizes': HIDDEN, 'activation': 'tanh'}, gamma=0.99,
          learning_rate=1e-3, max_grad_norm=0.5, **PPO,
      ),
      seeds, ppo_steps(seeds),
  )


def rejax_sac(seeds: int):
  import rejax

  algorithm = rejax.get_algo('sac').create(
      env='Pendulum-v1', hidden_layer_sizes=HIDDEN, gamma=0.99, learning_rate=1e-3, num_epochs=1,
      polyak=0.995, **SAC,
  )
  # Without this, its first train steps fill the store and update nothing.
  fill = SAC['fill_buffer'] // SAC['num_envs'] + 1
  return _rejax(algorithm, seeds, SAC_STEPS, before=fill)


def _rejax(algorithm, seeds: int, num_steps: int, before: int = 0):
  keys = jax.random.split(jax.random.key(0), seeds)
  several = lambda f: f if seeds == 1 else jax.vmap(f)
  begin = several(algorithm.init_state)
  state = jax.jit(begin)(keys if seeds > 1 else keys[0])
  steps = lambda n: several(
      lambda state: jax.lax.fori_loop(0, n, lambda _, s: algorithm.train_iteration(s), state)
  )
  if before:
    state = jax.jit(steps(before))(state)
  return _Runner(jax.jit(steps(num_steps), donate_argnums=0), jax.tree.map(jnp.asarray, state))


def _parser() -> argparse.ArgumentParser:
  parser = argparse.ArgumentParser(description='Control in rlx and rejax in turn.')
  parser.add_argument('--seeds', type=int, nargs='+', default=[1, 16])
  parser.add_argument('--rounds', type=int, default=7)
  return parser


if __name__ == '__main__':
  main()

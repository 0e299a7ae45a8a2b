"""PPO on CartPole as one program, and as a loop in Python around the same functions: their speed.

    python -m rlx.experiments.benchmarks.python_loop

Both take the same numbers and the same noise, and end with the same returns and parameters up to rounding.
The loop is how simulators and learners are put together in Python: a call chooses actions and steps the
environments (compiled, but for one step), what came of it is copied to the host, and the rows of all steps
are handed to a compiled update. The one program is what `rlx --config=control/ppo_cartpole` runs.

After Galactic (S017), https://arxiv.org/abs/2306.07552: simulator, policy and learner on one device.
"""

import argparse
import functools
import statistics
import time

import jax
import numpy as np

from rlx import config as configs
from rlx import step
from rlx.envs.control.cartpole import cartpole
from rlx.envs.control.stepping import advance, episode_columns
from rlx.run import states
from rlx.run.build import build


def main() -> None:
  arguments = _parser().parse_args()
  print('environments | one program | loop in Python | ratio (env steps a second; medians) | returns')
  for num_envs in arguments.num_envs:
    program, loop, start = make(num_envs, arguments.num_steps, arguments.train_steps)
    taken = num_envs * arguments.num_steps * arguments.train_steps
    seconds, ends = {program: [], loop: []}, {}
    for index in range(arguments.rounds + 1):  # the first compiles
      for train in (program, loop):
        began = time.monotonic()
        ends[train] = jax.block_until_ready(train(start()))
        if index:
          seconds[train].append(time.monotonic() - began)
    fast, slow = (taken / statistics.median(seconds[train]) for train in (program, loop))
    returns = [float(np.mean(ends[train][1]['episode/return'])) for train in (program, loop)]
    params = (jax.tree.leaves(ends[train][0].params) for train in (program, loop))
    for one, other in zip(*params, strict=True):
      np.testing.assert_allclose(one, other, rtol=1e-3, atol=1e-4)
    print(f'{num_envs} | {fast:,.0f} | {slow:,.0f} | {fast / slow:.1f} | {returns[0]:.2f} {returns[1]:.2f}')


def make(num_envs: int, num_steps: int, train_steps: int):
  """`state -> (state, metrics)` in one program and by a loop, and what makes a state to begin from."""
  config = configs.load('control/ppo_cartpole').unlock()
  config.rollout.update(num_envs=num_envs, num_steps=num_steps)
  config.steps = config.checkpoint.every = config.log.steps_per_dispatch = train_steps
  config.evals.episodes.every = train_steps
  config.mesh.data = 1
  run = build(config)
  train_step, policy = run.stages[0].train_step, run.stages[0].models['policy'].model.functions
  one_program = jax.jit(step.repeat(train_step, train_steps))
  one_step = jax.jit(functools.partial(_one_step, cartpole(max_steps=500), policy))
  learn = jax.jit(train_step.learn)

  def loop(state):
    metrics = []
    for _ in range(train_steps):
      agents, rows = state.world['agents'], []
      for key in jax.random.split(step.keys_of(state)[0], num_steps):
        agents, row = one_step(state.params['policy'], agents, key)
        rows.append(jax.device_get(row))
      batch = jax.tree.map(lambda *x: np.stack(x, axis=1), *rows)
      batch['env/steps'] = np.full((num_envs, num_steps), num_envs * num_steps, np.float32)
      state, row = learn(state.replace(world={**state.world, 'agents': agents}), batch, None)
      metrics.append(jax.device_get(row))
    return state, jax.tree.map(lambda *x: np.stack(x), *metrics)

  return one_program, loop, functools.partial(states.begin, run, 0, {}, 0)


def _one_step(env, policy, params, agents, key):
  """As `unroll` does, once."""
  action_key, env_key = jax.random.split(key)
  actions, logprobs = policy.sample(params, agents.observations, action_key)
  agents, transitions = advance(env, agents, actions, env_key)
  return agents, {**transitions, 'sampler_logprobs': logprobs, **episode_columns(agents)}


def _parser() -> argparse.ArgumentParser:
  parser = argparse.ArgumentParser(description='One program beside a loop in Python.')
  parser.add_argument('--num_envs', type=int, nargs='+', default=[8, 64])
  parser.add_argument('--num_steps', type=int, default=128, help='of each environment, a train step')
  parser.add_argument('--train_steps', type=int, default=5)
  parser.add_argument('--rounds', type=int, default=3)
  return parser


if __name__ == '__main__':
  main()

"""PPO beside that of rejax: its own numbers on both sides, ten seeds, whole curves; one page.

    pip install 'rlx[brax,gymnax]' rejax==0.1.3
    pip install --no-deps gymnax==0.0.9         # rejax does not know what later ones return
    python -m rlx.experiments.studies.control --folder=runs/control

Environments, networks and numbers are those of rejax's files; both sides train their seeds side by side, and
are examined by episodes of sampled actions at the same steps of the environment. What is done stays done:
the same command goes on where it stopped, and `--problems` takes some of them.

Source of the numbers: https://github.com/keraJLi/rejax, configs/gymnax, configs/brax, benchmark/breakout_1m.
"""

import argparse
from collections.abc import Mapping
import dataclasses
import json
from pathlib import Path
import textwrap
import time
from typing import Any

import jax
from ml_collections import ConfigDict
import numpy as np

from rlx import config as configs
from rlx.evaluation import aggregates
from rlx.experiments.studies import common
from rlx.run import examining, states, style
from rlx.run.build import build

POINTS, EPISODES, SEEDS = 10, 32, 10  # of a curve; of an examination; side by side
SIDES = ('rlx', 'rejax')


@dataclasses.dataclass(frozen=True)
class Problem:
  """An environment and rejax's numbers for it.

  Attributes:
    ours: section `env` of a config.
    theirs: its name in rejax.
    env_steps: about so many; what POINTS train steps divide is taken.
    max_steps: of an episode.
    numbers: of rejax's `PPO.create`.
  """

  ours: Mapping[str, Any]
  theirs: str
  env_steps: int
  max_steps: int
  numbers: Mapping[str, Any]

  @property
  def rows(self) -> int:
    """Steps of the environment in a train step."""
    return self.numbers['num_envs'] * self.numbers['num_steps']

  @property
  def every(self) -> int:
    """Train steps between two points of the curve."""
    return round(self.env_steps / self.rows / POINTS)


def _numbers(
    *, envs, steps, epochs, minibatches, rate, clip, gamma, lambda_=0.95, entropy=0.01, activation='tanh',
    normalised=False,
) -> dict[str, Any]:
  return dict(
      num_envs=envs, num_steps=steps, num_epochs=epochs, num_minibatches=minibatches, learning_rate=rate,
      max_grad_norm=clip, gamma=gamma, gae_lambda=lambda_, clip_eps=0.2, ent_coef=entropy, vf_coef=0.5,
      normalize_observations=normalised, activation=activation,
  )


def _brax(name: str, **numbers) -> Problem:
  return Problem(
      {'name': f'brax:{name}', 'backend': 'spring'}, f'brax/{name}', 1_000_000, 1000,
      _numbers(normalised=True, **numbers),
  )


def _minatar(game: str) -> Problem:
  numbers = _numbers(envs=32, steps=32, epochs=4, minibatches=4, rate=2.5674e-4, clip=1.0, gamma=0.995)
  return Problem({'name': f'gymnax:{game}-MinAtar'}, f'{game}-MinAtar', 1_000_000, 1000, numbers)


_POLE = dict(envs=5, steps=100, epochs=5, minibatches=5, rate=7.5e-4, clip=0.5, gamma=0.99)
PROBLEMS = {
    'CartPole': Problem(
        {'name': 'cartpole', 'max_steps': 500}, 'CartPole-v1', 100_000, 500, _numbers(**_POLE)
    ),
    'Acrobot': Problem(
        {'name': 'acrobot', 'max_steps': 500}, 'Acrobot-v1', 100_000, 500, _numbers(**_POLE, normalised=True)
    ),
    'Pendulum': Problem(
        {'name': 'pendulum', 'max_steps': 200}, 'Pendulum-v1', 200_000, 200, _numbers(
            envs=100, steps=100, epochs=10, minibatches=10, rate=1e-3, clip=10.0, gamma=0.995, entropy=0.0,
            activation='silu', normalised=True,
        ),
    ),
    **{f'{game} (MinAtar)': _minatar(game) for game in ('Breakout', 'Asterix', 'SpaceInvaders')},
    'Hopper (Brax)': _brax(
        'hopper', envs=32, steps=32, epochs=9, minibatches=2, rate=2.5674e-4, clip=1.0, gamma=0.995
    ),
    'HalfCheetah (Brax)': _brax(
        'halfcheetah', envs=32, steps=32, epochs=2, minibatches=2, rate=1.72034e-3, clip=5.0,
        gamma=0.99, lambda_=0.8,
    ),
    'Ant (Brax)': _brax(
        'ant', envs=64, steps=64, epochs=8, minibatches=16, rate=1.08386e-4, clip=0.5, gamma=0.98,
        lambda_=0.8,
    ),
}


def config_of(problem: Problem, seeds: int) -> ConfigDict:
  """rlx's run with rejax's numbers."""
  numbers, config = problem.numbers, configs.load('control/ppo_cartpole').unlock()
  config.env, config.population.size = dict(problem.ours), seeds
  policy, value = config.models.policy, config.models.value
  policy.activation = value.activation = numbers['activation']
  if not problem.ours['name'].endswith(('cartpole', 'acrobot', 'MinAtar')):
    policy.update(name='gaussian', initial_log_std=0.0)
  rollout = {'name': 'unroll', 'num_envs': numbers['num_envs'], 'num_steps': numbers['num_steps']}
  if numbers['normalize_observations']:
    rollout = {'name': 'with_moments', 'inner': rollout}
    normalised = {
        name: {'name': 'normalised', 'network': network.to_dict(), 'clip': 10.0}
        for name, network in config.models.items()
    }
    config.models = {'moments': {'name': 'moments'}, **normalised}
    config.slow = {'moments': 'moments'}
  config.rollout = rollout
  config.algorithm.update(
      clip_low=numbers['clip_eps'], clip_high=numbers['clip_eps'], value_clip=numbers['clip_eps'],
      entropy_coef=numbers['ent_coef'], value_coef=numbers['vf_coef'], discount=numbers['gamma'],
      lambda_=numbers['gae_lambda'],
  )
  config.updates.update(epochs=numbers['num_epochs'], minibatches=numbers['num_minibatches'])
  config.optimizer.update(
      learning_rate=numbers['learning_rate'], clip_norm=numbers['max_grad_norm'], warmup_steps=0,
      decay_steps=0, eps=1e-8,
  )
  config.steps, config.checkpoint.every = POINTS * problem.every, POINTS * problem.every
  config.log.steps_per_dispatch = problem.every
  config.evals.episodes.update(
      name='sampled_episodes', every=problem.every, episodes=EPISODES, max_steps=problem.max_steps
  )
  return config


def ours(problem: Problem, seeds: int) -> np.ndarray:
  """Returns [points, seeds] of rlx: before the first train step, and after each tenth of them."""
  run = build(config_of(problem, seeds))
  with jax.set_mesh(run.mesh):
    stage, exam = run.stages[0], next(exam for exam in run.evals if exam.name == 'episodes')
    state, ask = states.begin(run, 0, {}, 0), examining.make_ask(run, stage, exam)
    look = lambda state: np.asarray(ask(state.models, state.world, {})['return'])
    seen = [look(state)]
    for _ in range(POINTS):
      state, _ = stage.program.dispatch(state, stage.rollout.data, {})
      seen.append(look(state))
  return np.stack(seen)


def theirs(problem: Problem, seeds: int) -> np.ndarray:
  """As `ours`, of rejax."""
  import rejax
  from rejax.evaluate import evaluate

  numbers = {k: x for k, x in problem.numbers.items() if k != 'activation'}
  if 'backend' in problem.ours:
    numbers['env_params'] = {'backend': problem.ours['backend']}

  def examined(algorithm, state, key):
    act = algorithm.make_act(state)
    return evaluate(act, key, algorithm.env, algorithm.env_params, EPISODES, problem.max_steps)[1]

  every = problem.every * problem.rows
  algorithm = rejax.get_algo('ppo').create(
      env=problem.theirs, agent_kwargs={'activation': problem.numbers['activation']},
      total_timesteps=POINTS * every, eval_freq=every, **numbers,
  ).replace(eval_callback=examined)
  _, returns = jax.jit(jax.vmap(algorithm.train))(jax.random.split(jax.random.key(0), seeds))
  return np.asarray(returns).mean(axis=-1).T


def main(argv: list[str] | None = None) -> None:
  """Runs what is missing, and writes the page and its figure when all is there."""
  arguments = _parser().parse_args(argv)
  folder = Path(arguments.folder)
  folder.mkdir(parents=True, exist_ok=True)
  for name in arguments.problems:
    for side, play in zip(SIDES, (ours, theirs), strict=True):
      file, began = _file(folder, name, side), time.process_time()
      if side in arguments.sides and not file.exists():
        returns = play(PROBLEMS[name], SEEDS)
        found = {'returns': np.round(returns, 3).tolist(), 'seconds': round(time.process_time() - began)}
        file.write_text(json.dumps(found))
        print(f'{found["seconds"]:5.0f} CPU-s  {name}, {side}: {_cell(returns[-1])}', flush=True)
  files = {(name, side): _file(folder, name, side) for name in PROBLEMS for side in SIDES}
  if all(file.exists() for file in files.values()):
    _write(Path(arguments.output), {key: json.loads(file.read_text()) for key, file in files.items()})


def _file(folder: Path, name: str, side: str) -> Path:
  return folder / f'{name.split()[0].lower()}_{side}.json'


def _write(output: Path, found: Mapping[tuple[str, str], Mapping[str, Any]]) -> None:
  curves = {key: np.array(one['returns']) for key, one in found.items()}
  rows = []
  for name, problem in PROBLEMS.items():
    ours, theirs = (curves[name, side] for side in SIDES)
    rows.append(
        f'| {name} | {POINTS * problem.every * problem.rows:,} | {_cell(ours[-1])} | {_cell(theirs[-1])} '
        f'| {ours.mean():.1f} | {theirs.mean():.1f} | {_beside(ours[-1], theirs[-1])} |'
    )
  minutes = sum(one['seconds'] for one in found.values()) / 60
  page = '\n'.join(textwrap.wrap(' '.join(PAGE.format(
      seeds=SEEDS, episodes=EPISODES, minutes=minutes, points=POINTS,
  ).split()), 110))
  _draw(output.with_suffix('.png'), curves)
  table = '\n'.join((*HEAD, *rows))
  output.with_suffix('.md').write_text(
      f"# PPO beside rejax's\n\n{page}\n\n![returns over training]({output.name}.png)\n\n{table}\n"
  )


def _cell(returns: np.ndarray) -> str:
  return f'{aggregates.interquartile_mean(returns[:, None]):.1f}, {returns.min():.1f}'


def _beside(ours: np.ndarray, theirs: np.ndarray) -> str:
  """How often a seed of ours ends above one of theirs, with its 95 % interval over seeds of both."""
  share = lambda pairs: aggregates.probability_of_improvement(pairs[..., :1], pairs[..., 1:])
  low, high = aggregates.bootstrap_interval(np.stack([ours, theirs], axis=1), share)
  return f'{share(np.stack([ours, theirs], axis=1)):.2f} ({low:.2f} to {high:.2f})'


def _draw(path: Path, curves: Mapping[tuple[str, str], np.ndarray]) -> None:
  figure = style.figure(9, 6.4)
  figure.set_layout_engine('constrained')
  panels = figure.subplots(3, 3).ravel()
  for panel, (name, problem) in zip(panels, PROBLEMS.items(), strict=True):
    style.axes(panel, size=8)
    steps = np.arange(POINTS + 1) * problem.every * problem.rows / 1000
    for side, color in zip(SIDES, style.COLORS, strict=False):
      returns = curves[name, side]
      panel.plot(steps, np.median(returns, axis=1), label=side, linewidth=1.6, color=color)
      style.band(panel, steps, returns.min(axis=1), returns.max(axis=1), color)
    panel.set_title(name, fontsize=9, color=style.TEXT, loc='left')
  panels[0].set_xlabel('thousand steps', fontsize=8, color=style.FAINT, loc='left')
  style.legend(panels[0], size=8)
  path.write_bytes(style.image(figure))


HEAD = (
    '| | env steps | rlx, at the end | rejax, at the end | rlx, mean of the curve | rejax, mean of the curve '
    '| a seed of rlx ends above one of rejax |',
    '|---|---|---|---|---|---|---|',
)
PAGE = """Written by `python -m rlx.experiments.studies.control`; {minutes:.0f} CPU-minutes. PPO on both
sides with the numbers of rejax's files, rejax 0.1.3 with gymnax 0.0.9, Brax 0.14.2 with its spring
physics; {seeds} seeds side by side, {episodes} episodes of sampled actions before the first step and
after each tenth of them. Interquartile mean over seeds, and the worst; lines are medians, shades reach
from the worst to the best. What differs, as far as was looked: rlx takes returns past a time limit from
the critic, rejax counts it as an end; rlx bounds the norm of the whole gradient, rejax each of its
numbers; rlx normalises a step's observations by what it had seen before that step, rejax by all so far;
rlx normalises advantages over the batch, rejax over each minibatch; the last layers of rlx's policies
begin with small weights; rlx has its own CartPole, Acrobot and Pendulum. A deviation of 1 is all of
Pendulum's torque in rlx, where actions reach from -1 to 1, and half of it in rejax. Of MinAtar rejax has
numbers for Breakout, which are taken for all of its games; its file for Pendulum stops at 150,000 steps,
those for Brax at 5.2 million. Networks are two hidden layers of 64 on both sides, of MinAtar's pictures,
too."""


def _parser() -> argparse.ArgumentParser:
  parser = argparse.ArgumentParser(prog='control', description=__doc__.partition('\n')[0])
  parser.add_argument('--folder', required=True, help='where the curves are kept')
  parser.add_argument('--output', default=str(common.RESULTS / 'control'))
  parser.add_argument('--problems', nargs='+', default=list(PROBLEMS), choices=list(PROBLEMS), metavar='NAME')
  parser.add_argument('--sides', nargs='+', default=list(SIDES), choices=SIDES)
  return parser


if __name__ == '__main__':
  main()

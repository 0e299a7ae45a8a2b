"""What five kinds of people type in their first hour, each from an installed wheel in an empty folder.

    python -m tests.journeys.journeys

walks all of them and writes `docs/journeys.md` with the time that each line took.
"""

import datetime
import os
from pathlib import Path
import subprocess
import sys
import tempfile
import time

from tests import wheels

OUTPUT = wheels.ROOT / 'docs' / 'journeys.md'
HEAD = """# First hours

What people with different pasts type first, from an installed wheel in an empty folder, and how long each
line took. Written by `python -m tests.journeys.journeys` on {date}: {cores} cores, Python {python}; nothing
was compiled before the first line. `make test-slow` walks the same ways.
"""

ROWS = r"""
import json
with open('rows.jsonl', 'w') as file:
  for i in range(40):
    file.write(json.dumps({'prompt': f'{i} plus {i} is', 'answer': str(2 * i)}) + '\n')
"""
REWARD = """
def digits(completions, **columns):
  return [sum(c.isdigit() for c in text) / max(len(text), 1) for text in completions]
"""
NOTEBOOK = """
import rlx

def digits(completions, **columns):
  return [sum(c.isdigit() for c in text) / max(len(text), 1) for text in completions]

rows = [{'prompt': f'{i} plus {i} is', 'answer': str(2 * i)} for i in range(40)]
run = rlx.finetune(MODEL, [digits], rows, workdir='runs/notebook', steps=2, overrides={
    'rollout.batch_size': 8, 'rollout.group_size': 4, 'decoding.max_tokens': 8, 'log.steps_per_dispatch': 1,
})
for metrics in run:
  print(metrics['step'], metrics['reward/mean'])
"""
ENVIRONMENT = """
import jax.numpy as jnp
from rlx.envs.control.environment import Discrete, Environment, timestep, with_time_limit

def line(*, length, max_steps):
  observe = lambda place: jnp.array([place / length], jnp.float32)
  def step(place, action, key):
    place = jnp.clip(place + 2 * action - 1, 0, length)
    return timestep(place, observe(place), (place == length) - 0.01, terminated=place == length)
  env = Environment(reset=lambda key: (jnp.int32(0), observe(0)), step=step, observation_shape=(1,),
                    actions=Discrete(2), random_return=0.0, expert_return=1.0)
  return with_time_limit(env, max_steps)
"""

# Who: what they type, line by line; `python` is that of the environment, FILE <- text writes a file.
JOURNEYS = {
    'A newcomer': [
        'rlx --help',
        'rlx list algorithms',
        'rlx --config=quickstart/arithmetic:smoke --workdir=runs/first',
        'rlx --config=quickstart/arithmetic:smoke --workdir=runs/clip --config.algorithm.clip_high=0.28',
        'rlx compare runs/first runs/clip --output=runs/compared',
        'rlx report --workdir=runs/first',
    ],
    'Somebody from TRL': [
        ('rows.py', ROWS), 'python rows.py', ('mine.py', REWARD),
        'rlx --config=llm/grpo:smoke,train=rows.jsonl,reward=mine.digits --workdir=runs/grpo',
        'rlx generate --model=runs/grpo/model --prompt=2',
        ('notebook.py', NOTEBOOK), 'python notebook.py',
    ],
    'Somebody from CleanRL': [
        'rlx --config=control/gym_ppo_cartpole:smoke --workdir=runs/gym',
        'rlx --config=control/ppo_cartpole:smoke --workdir=runs/jax --config.population.size=2',
        'rlx evaluate --workdir=runs/jax',
        'rlx play --workdir=runs/jax --episodes=1 --max_steps=20',
        'rlx export --workdir=runs/jax --output=exported',
    ],
    'Somebody with a problem of their own': [
        ('mine.py', ENVIRONMENT),
        """rlx --config=control/ppo_cartpole:smoke --workdir=runs/mine """
        """--config.env={'name':'mine.line','length':8,'max_steps':20}""",
        'rlx --config=runs/mine/config.json --workdir=runs/mine --config.steps=8',
    ],
    'A researcher who reproduces a paper': [
        'rlx list configs 2503.14476',
        'rlx show policy_gradient/dapo_arithmetic',
        'rlx --config=policy_gradient/dapo_arithmetic:smoke --workdir=runs/dapo --dry_run',
        'rlx --config=policy_gradient/dapo_arithmetic:smoke --workdir=runs/dapo',
        'rlx report --workdir=runs/dapo',
    ],
}


def walk(lines: list, where: Path, programs: Path) -> list[tuple[str, float]]:
  """Types the lines in a folder; each with the seconds that it took.

  Raises:
    RuntimeError: one goes wrong; with what it said.
  """
  told, tiny = [], _tiny_model(programs, where)
  for line in lines:
    if isinstance(line, tuple):
      name, text = line
      (where / name).write_text(text.replace('MODEL', repr(tiny)))
      continue
    program, *words = line.split(' ')
    began = time.monotonic()
    done = subprocess.run(
        [programs / program, *words], cwd=where, text=True, capture_output=True, check=False,
        env={**wheels.quiet(), 'XDG_CACHE_HOME': str(where / 'cache')},
    )
    if done.returncode:
      raise RuntimeError(f'{line}\n{done.stdout[-2000:]}\n{done.stderr[-4000:]}')
    told.append((line, time.monotonic() - began))
  return told


def _tiny_model(programs: Path, where: Path) -> str:
  """The random model that comes with rlx."""
  command = [programs / 'python', '-c', 'from rlx.experiments.data import FOLDER; print(FOLDER)']
  done = subprocess.run(command, check=True, text=True, capture_output=True, cwd=where, env=wheels.quiet())
  return f'{done.stdout.strip()}/tiny_model'


def main() -> None:
  with tempfile.TemporaryDirectory() as folder:
    programs = wheels.install(wheels.build(Path(folder)), Path(folder) / 'venv')
    head = HEAD.format(
        date=datetime.date.today(), cores=os.cpu_count(), python=sys.version.split()[0]
    )
    text = [head]
    for who, lines in JOURNEYS.items():
      where = Path(folder) / who.replace(' ', '_')
      where.mkdir()
      told = walk(lines, where, programs)
      rows = '\n'.join(f'| `{line}` | {seconds:.0f} |' for line, seconds in told)
      total = f'{sum(seconds for _, seconds in told):.0f} s'
      text.append(f'## {who}\n\n| line | seconds |\n|---|---|\n{rows}\n\nAll: {total}.\n')
      print(who, total, flush=True)
  OUTPUT.write_text('\n'.join(text))


if __name__ == '__main__':
  main()

"""A run as a task of SkyPilot: what it needs from a file of SkyPilot's or from options, what it does from us.

A task is sent as a managed job: where hosts are lost SkyPilot finds others, and a run that ends with the exit
code for `start the same command again` is started again. Its workdir therefore lies where all hosts of all
times see it, such as a mounted bucket or volume.
"""

import argparse
from collections.abc import Sequence
from pathlib import Path
import shlex
from typing import Any

from rlx import names
from rlx.experiments.commands import EXIT_REQUEUE, CommandError

RESOURCES = '--skypilot.'  # what options of `resources` begin with
_PORT = 8476
_OURS = ('name', 'num_nodes', 'run')  # parts of a task that are said otherwise


def make(arguments: argparse.Namespace, resources: Sequence[str], command: Sequence[str], *, name: str):
  """A `sky.Task` that runs a command line of `rlx` on each of its nodes.

  Args:
    arguments: `task` (a YAML file, or ''), `nodes`, `setup`.
    resources: `--skypilot.KEY=VALUE` as they stand, over those of the file.
    command: of `rlx`.
    name: of the task.
  Raises:
    CommandError: the file is none of a task, or says what is ours to say, or SkyPilot refuses it.
    ConfigError: SkyPilot is missing.
  """
  sky = names.imported('sky', extra='skypilot', who='--cluster=skypilot')
  config = {'workdir': '.', **(_read(arguments.task) if arguments.task else {})}
  recovery = {'job_recovery': {'recover_on_exit_codes': [EXIT_REQUEUE]}}
  config['resources'] = {**recovery, **config.get('resources', {}), **_options(resources)}
  setup = [*config.get('setup', '').splitlines(), *arguments.setup]
  if setup:
    config['setup'] = '\n'.join(setup)
  config |= {'name': name, 'num_nodes': arguments.nodes, 'run': _script(command, arguments.nodes)}
  try:
    return sky.Task.from_yaml_config(config)
  except (ValueError, AssertionError) as error:  # with the schema, over many lines
    said = ' '.join(str(error).split())
    raise CommandError(f'SkyPilot refuses the task: {said}') from error


def as_yaml(task) -> str:
  """A task as SkyPilot reads it: `sky launch FILE`, `sky jobs launch FILE`."""
  import yaml

  return yaml.safe_dump(_public(task.to_yaml_config()), sort_keys=False)


def _public(tree: Any) -> Any:
  """A tree without what SkyPilot notes for itself."""
  if isinstance(tree, list):
    return [_public(x) for x in tree]
  if isinstance(tree, dict):
    return {key: _public(x) for key, x in tree.items() if not key.startswith('_')}
  return tree


def launch(task) -> str:
  """Sends a managed job; says how to see what becomes of it."""
  import sky
  from sky import jobs

  numbers, _ = sky.stream_and_get(jobs.launch(task, name=task.name))
  return f'managed job {numbers[0]}; what it prints: sky jobs logs {numbers[0]}'


def _read(path: str) -> dict[str, Any]:
  import yaml

  try:
    config = yaml.safe_load(Path(path).read_text())
  except yaml.YAMLError as error:
    raise CommandError(f'--task={path}: {" ".join(str(error).split())}') from error
  if not isinstance(config, dict):
    raise CommandError(f'--task={path} holds no task of SkyPilot: a mapping of resources, file_mounts, ..')
  if said := [key for key in _OURS if key in config]:
    raise CommandError(f'--task={path} has {", ".join(said)}: say --nodes, and what to run behind --')
  return config


def _options(words: Sequence[str]) -> dict[str, Any]:
  """`KEY=VALUE` of resources; values are written as in YAML."""
  import yaml

  parts = [word.removeprefix(RESOURCES).partition('=') for word in words]
  return {key: yaml.safe_load(value) for key, _, value in parts}


def _script(command: Sequence[str], nodes: int) -> str:
  """What each node runs; on several each is told which it is, but where the command says that itself."""
  if nodes == 1 or '--distributed' in command:
    return f'exec rlx {shlex.join(command)}\n'
  return (
      'first=$(echo "$SKYPILOT_NODE_IPS" | head -n 1)\n'
      f'exec rlx --distributed --coordinator="$first:{_PORT}" --num_processes="$SKYPILOT_NUM_NODES" '
      f'--process_id="$SKYPILOT_NODE_RANK" {shlex.join(command)}\n'
  )

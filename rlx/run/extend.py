"""More steps, or another mesh, for a run that is there: what may change of its config, and what cannot.

A stage does not know how many steps it will take, so that the state of a run that was asked for 100 steps
and then for 200 is that of one that was asked for 200 at once, to the bit, so long as every other value of
the two configs is the same. A schedule with a length of its own (`optimizer.decay_steps`) is such a value: it
stays, and the run goes on where it has ended. A config that derives it from `steps` asks for another one,
under which the steps that were taken would have been others: that is refused.

A mesh changes no formula: on another one a run goes on from the same bits, and its numbers agree with those
of the mesh before up to rounding.
"""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from rlx import config as configs
from rlx.errors import ConfigError


def extension(workdir: Path, old: Mapping[str, Any], new: Mapping[str, Any]) -> str:
  """What is to be said of a run that is asked for more steps of its last stage.

  Args:
    workdir: of the run, for errors.
    old: the config that it was started with.
    new: the one that it is to go on with.
  Raises:
    ConfigError: something else has changed, or the steps cannot.
  """
  changed = changes({**old, 'steps': new['steps']}, new)
  if changed and new['steps'] > old['steps']:
    raise ConfigError(
        f'--workdir={workdir} can go on from steps={old["steps"]} to {new["steps"]} only where nothing else '
        f'changes what was done ({_few(changed)}); keep the old values, or choose another directory'
    )
  if changed:
    raise ConfigError(
        f'--workdir={workdir} holds a run of another config ({_few(changes(old, new))}); choose '
        'another directory, or delete this one'
    )
  if new['steps'] < old['steps']:
    raise ConfigError(
        f'--workdir={workdir} holds a run of steps={old["steps"]}, and {new["steps"]} are fewer: a run can '
        'only be made longer; choose another directory'
    )
  if list(new['stages']).count('main') > 1:
    raise ConfigError(
        f"--workdir={workdir}: steps={old['steps']} -> {new['steps']} would change every visit of 'main', "
        'which stages names several times; choose another directory'
    )
  lengths = _lengths(new)
  keeps = f'; the rate keeps its schedule ({", ".join(lengths)} updates), and its value behind it'
  return f'{workdir} goes on from steps={old["steps"]} to {new["steps"]}{keeps if lengths else ""}'


def changes(old: Mapping[str, Any], new: Mapping[str, Any]) -> list[str]:
  """What differs between two configs of a run, but for who is told of it, and when, and the mesh."""
  free = ('log.writers:', 'log.stuck_seconds:', 'mesh.')
  return [change for change in configs.differences(old, new) if not change.startswith(free)]


def _few(changed: list[str]) -> str:
  return f'{"; ".join(changed[:5])}{", ..." if len(changed) > 5 else ""}'


def _lengths(config: Mapping[str, Any]) -> list[str]:
  """The lengths of the learning rate's schedules in the last stage, `path=value`, in updates."""
  others = tuple(f'{stage}.' for stage in config['stages'] if stage != 'main')
  return [
      f'{path}={value}' for path, value in configs.flat(config)
      if 'optimizer' in path.split('.') and path.endswith('decay_steps') and value
      and not path.startswith(others)
  ]

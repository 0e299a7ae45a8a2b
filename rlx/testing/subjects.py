"""The runs that are hit: the smallest of each kind, and those whose parts misbehave."""

from collections.abc import Mapping
import dataclasses
from pathlib import Path
import shutil

from rlx.experiments.data import FOLDER

# Every kind of run writes a checkpoint at each second step, and keeps two.
_CONTROL = ('--config.steps=40', '--config.evals.episodes.every=8')
_PROBLEMS = '--config.evals.held_out.problems=8'
_ARITHMETIC = (
    '--config.population.size=1', '--config.steps=24', '--config.sft.steps=4',
    '--config.evals.held_out.every=4',
)


@dataclasses.dataclass(frozen=True)
class Subject:
  """A run.

  Attributes:
    algorithm: what it is, for the table.
    arguments: of the launcher, without the directory; `{train}` and `{held_out}` are copies of small files.
    steps: train steps that it takes.
  """

  algorithm: str
  arguments: tuple[str, ...]
  steps: int

  def command(self, workdir: Path, data: Path) -> list[str]:
    """The whole command line; copies the data where it has none yet."""
    files = {'train': data / 'train.jsonl', 'held_out': data / 'held_out.jsonl'}
    if any('{train}' in argument for argument in self.arguments):
      data.mkdir(parents=True, exist_ok=True)
      for name, source in (('train', 'word_problems_train'), ('held_out', 'word_problems_test')):
        if not files[name].exists():
          shutil.copy(Path(FOLDER) / f'{source}.jsonl', files[name])
    # Others have braces of their own.
    fill = lambda argument: argument.format(**files) if '{train}' in argument else argument
    return [*map(fill, self.arguments), f'--workdir={workdir}']


def _run(algorithm: str, config: str, *arguments: str, steps: int) -> Subject:
  return Subject(algorithm, (f'--config={config}', *arguments, '--config.log.writers=()'), steps)


def _section(path: str, section: Mapping) -> str:
  """An option that puts a section into a config; without blanks, which would make it a word of its own."""
  return f'--config.{path}={dict(section)!r}'.replace(' ', '')


_HOSTILE = 'rlx.testing.hostile_tools'


def _tools(algorithm: str, tool: Mapping, calls: str, *arguments: str) -> Subject:
  """A run in which most turns call a tool."""
  return _run(
      algorithm, 'tools/word_problems_grpo:smoke=True,train={train},held_out={held_out}', '--config.steps=12',
      '--config.sft.steps=2', _PROBLEMS, _section('toolbox.tools', {'late': tool}),
      _section('toolbox.calls', {'name': calls}), *arguments, steps=14,
  )


SUBJECTS: Mapping[str, Subject] = {
    'sft': _run(
        'SFT on a file', 'sft/gsm8k:smoke=True,train={train},held_out={held_out}', '--config.steps=16',
        _PROBLEMS, steps=16,
    ),
    'grpo': _run(
        'GRPO with a curriculum (MoPPS)', 'curriculum/mopps_arithmetic:smoke', *_ARITHMETIC, steps=28
    ),
    'dpo': _run('DPO on a file', 'preferences/dpo:smoke', '--config.steps=16', steps=16),
    'ppo': _run('PPO with a critic', 'policy_gradient/ppo_arithmetic:smoke', *_ARITHMETIC, steps=28),
    'episodes': _run(
        'GRPO in a world of turns', 'agents/rooms_grpo:smoke', '--config.steps=12', _PROBLEMS, steps=16
    ),
    'tools': _tools(
        'GRPO with tools and a world in Python', {'name': f'{_HOSTILE}.late'}, f'{_HOSTILE}.anything',
        _section('toolbox.environments', {'sum': {'name': f'{_HOSTILE}.Sum'}}),
    ),
    'sac': _run('SAC', 'control/sac_pendulum:smoke', *_CONTROL, steps=40),
    'iql': _run('IQL, offline', 'offline/iql_pointmass:smoke', *_CONTROL, steps=40),
}

_POISONED = {
    'name': 'rlx.testing.hostile.nan_weights', 'at_update': 8,
    'optimizer': {'name': 'adam', 'learning_rate': 1e-3, 'b1': 0.9, 'b2': 0.999, 'eps': 1e-8},
}
_IQL = {
    'name': 'iql', 'discount': 0.97, 'target_rate': 0.01, 'expectile': 0.8, 'sharpness': 3.0,
    'weight_max': 100.0,
}


def _nan_gradients(share: float) -> Subject:
  section = {'name': 'rlx.testing.hostile.nan_gradients', 'share': share, 'parent': _IQL}
  return _run(
      f'IQL, {share:.0%} of the losses NaN', 'offline/iql_pointmass:smoke', *_CONTROL,
      _section('algorithm', section), steps=40,
  )


NAN: Mapping[str, Subject] = {  # survived, and said
    'gradients': _nan_gradients(0.3),
    'rewards': _run(
        'GRPO, every third reward NaN', 'quickstart/arithmetic:smoke', *_ARITHMETIC,
        _section('reward', {'name': 'rlx.testing.hostile.nan_rewards', 'share': 0.3}), steps=28,
    ),
}
NAN_FOR_GOOD: Mapping[str, Subject] = {  # refused
    'all_gradients': _nan_gradients(1.0),
    'weights': _run(
        'IQL, weights NaN from update 8 on', 'offline/iql_pointmass:smoke', *_CONTROL,
        _section('optimizer', _POISONED), steps=40,
    ),
}


def _host(function: str, what: str, every: int) -> Subject:
  section = {'math': {'name': f'rlx.testing.hostile_rewards.{function}', 'weight': 1.0, 'every': every}}
  return _run(
      f'GRPO, reward {what}', 'math/gsm8k_grpo:smoke=True,train={train},held_out={held_out}',
      '--config.steps=8', '--config.sft.steps=2', _PROBLEMS, _section('reward.functions', section),
      '--config.reward.timeout_seconds=5.0', '--config.reward.rows_per_call=4', steps=10,
  )


REWARDS: Mapping[str, Subject] = {
    'raises': _host('raises', 'raises', 9),
    'hangs': _host('hangs', 'hangs', 40),
    'dies': _host('dies', 'ends its process', 9),
    'not_numbers': _host('not_numbers', 'is NaN', 5),
    'wrong_lengths': _host('wrong_lengths', 'has a value too many', 9),
    'wrong_types': _host('wrong_types', 'is a list of lists', 5),
}


def _tool(what: str, tool: Mapping, calls: str = 'one') -> Subject:
  section = {'name': f'{_HOSTILE}.{tool["name"]}', **{key: tool[key] for key in tool if key != 'name'}}
  timeout = '--config.toolbox.timeout_seconds=0.5'
  return _tools(f'GRPO, a tool {what}', section, f'{_HOSTILE}.{calls}', timeout)


TOOLS: Mapping[str, Subject] = {
    'tool_raises': _tool('raises', {'name': 'raises', 'every': 3}),
    'tool_hangs': _tool('hangs', {'name': 'hangs', 'every': 12}),
    'tool_dies': _tool('ends its process', {'name': 'dies', 'every': 6}),
    'tool_floods': _tool('says a million characters', {'name': 'floods', 'every': 3}),
    'tool_babbles': _tool('says what is no text', {'name': 'babbles', 'every': 3}),
    'tool_nonsense': _tool('is called with nonsense', {'name': 'late'}, 'nonsense'),
}

PEERS: Mapping[str, Subject] = {  # in two processes of four devices, which share rows and weights
    'peers': _run(
        'GRPO in two processes', 'quickstart/arithmetic:smoke', *_ARITHMETIC, '--config.mesh.fsdp=2', steps=28
    ),
}

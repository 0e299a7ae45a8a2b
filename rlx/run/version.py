"""Which rlx it is that runs: its version, and the commit where it runs from a checkout."""

import functools
import importlib.metadata
from pathlib import Path
import subprocess


@functools.cache
def of_rlx() -> dict[str, str]:
  """`rlx`: the version; `commit`: of the checkout, with `, changed` where files differ from it, or ''."""
  try:
    version = importlib.metadata.version('rlx')
  except importlib.metadata.PackageNotFoundError:  # found by PYTHONPATH
    version = ''
  return {'rlx': version, 'commit': _commit(Path(__file__).parents[2])}


def _commit(checkout: Path) -> str:
  if not (checkout / '.git').exists():  # installed: a repository around it is somebody else's
    return ''
  how = {'capture_output': True, 'text': True, 'check': True, 'timeout': 10}  # seconds
  ask = lambda *words: subprocess.run(['git', '-C', str(checkout), *words], **how).stdout.strip()
  try:
    commit = ask('rev-parse', '--short=12', 'HEAD')
    return f'{commit}, changed' if ask('status', '--porcelain', '-uno') else commit
  except (OSError, subprocess.SubprocessError):  # no git, or not ours to read
    return ''

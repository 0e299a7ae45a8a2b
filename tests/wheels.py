"""A wheel of this tree, and an environment that it is installed in, without the network."""

import os
from pathlib import Path
import shutil
import subprocess
import sys
import venv

ROOT = Path(__file__).parents[1]
IN_A_WHEEL = ('rlx', 'experiments', 'kernels', 'setup.cfg', 'pyproject.toml', 'README.md', 'LICENSE')


def build(folder: Path) -> Path:
  """The wheel, made of a copy in `folder`: setuptools leaves files behind."""
  tree, output = folder / 'tree', folder / 'wheel'
  tree.mkdir()
  for name in IN_A_WHEEL:
    copy = shutil.copytree if (ROOT / name).is_dir() else shutil.copy
    copy(ROOT / name, tree / name)
  options = ['--quiet', '--no-deps', '--no-build-isolation', '--no-index', f'--wheel-dir={output}']
  subprocess.run([sys.executable, '-m', 'pip', 'wheel', *options, str(tree)], check=True, env=quiet())
  (path,) = output.glob('*.whl')
  return path


def install(wheel: Path, folder: Path) -> Path:
  """The `bin` of an environment with the wheel, and the libraries of this one."""
  venv.create(folder, symlinks=True)
  (packages,) = folder.glob('lib/python*/site-packages')
  paths = [path for path in sys.path if path.endswith('site-packages')]
  (packages / 'libraries.pth').write_text('\n'.join(paths) + '\n')
  target = ['--no-deps', '--no-index', '--ignore-installed', '--no-compile', f'--prefix={folder}', str(wheel)]
  python = str(folder / 'bin/python')
  subprocess.run([python, '-m', 'pip', 'install', '--quiet', *target], check=True, env=quiet())
  return folder / 'bin'


def quiet() -> dict[str, str]:
  """The environment of a user who has not the repository on the path."""
  kept = {key: value for key, value in os.environ.items() if key not in ('PYTHONPATH', 'XLA_FLAGS')}
  return {**kept, 'PIP_DISABLE_PIP_VERSION_CHECK': '1', 'PYTHONDONTWRITEBYTECODE': '1'}

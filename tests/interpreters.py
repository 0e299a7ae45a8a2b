"""Interpreters for sandboxes of the tier 'seccomp', which needs one that every user can read."""

import os
import subprocess
import sys


def readable_interpreter():
  """An interpreter of this version that every user may start, or None."""
  name = 'python{}.{}'.format(*sys.version_info)
  for prefix in (sys.base_prefix, '/usr', '/usr/local'):
    path = os.path.realpath(os.path.join(prefix, 'bin', name))
    command = [path, '-c', 'import ctypes, sys; print(sys.base_prefix)']
    user = {'user': 65534, 'group': 65534, 'extra_groups': []} if os.geteuid() == 0 else {}
    try:
      said = subprocess.run(command, capture_output=True, text=True, cwd='/', check=True, **user).stdout
      return path, said.strip()
    except (OSError, subprocess.CalledProcessError):
      continue
  return None

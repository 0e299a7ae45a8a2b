"""Prints the flags that halve what compiling the tests costs, those of them that the installed jaxlib knows.

The older emitters of fusions compile twice as fast as those through MLIR, which is most of these tests' time.
A small program that is cut into pieces, to be compiled side by side, costs a quarter more than in one piece,
and the cores are busy. Later versions of jaxlib have lost the first flag, and one that XLA does not know ends
the process: each is tried.
"""

import os
import subprocess
import sys

FLAGS = ('--xla_cpu_use_fusion_emitters=false', '--xla_cpu_parallel_codegen_split_count=1')


def known(flag: str) -> bool:
  """Whether XLA starts with it."""
  environment = {**os.environ, 'XLA_FLAGS': flag, 'JAX_PLATFORMS': 'cpu'}
  command = [sys.executable, '-c', 'import jax; jax.devices()']
  return subprocess.run(command, env=environment, capture_output=True, check=False).returncode == 0


def main() -> None:
  print(*filter(known, FLAGS))


if __name__ == '__main__':
  main()

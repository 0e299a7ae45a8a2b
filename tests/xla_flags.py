"""Prints the flag that halves what compiling the tests costs, where the installed jaxlib knows it.

The older emitters of fusions compile twice as fast as those through MLIR, which is most of these tests' time.
Later versions of jaxlib have lost the flag, and one that XLA does not know ends the process: it is tried.
"""

import os
import subprocess
import sys

FLAG = '--xla_cpu_use_fusion_emitters=false'


def main() -> None:
  environment = {**os.environ, 'XLA_FLAGS': FLAG, 'JAX_PLATFORMS': 'cpu'}
  command = [sys.executable, '-c', 'import jax; jax.devices()']
  if subprocess.run(command, env=environment, capture_output=True, check=False).returncode == 0:
    print(FLAG)


if __name__ == '__main__':
  main()

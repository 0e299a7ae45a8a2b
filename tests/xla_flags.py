"""Prints the flag that halves what compiling the tests costs, where the installed jaxlib knows it.

The older emitters of fusions compile twice as fast as those through MLIR, which is most of these tests' time.
Later versions of jaxlib have lost the flag, and a flag that XLA does not know ends the process.
"""

import mmap
import pathlib

import jaxlib

FLAG = 'xla_cpu_use_fusion_emitters'


def main() -> None:
  for path in pathlib.Path(jaxlib.__file__).parent.rglob('*.so*'):
    with path.open('rb') as file, mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as library:
      if library.find(FLAG.encode()) >= 0:
        print(f'--{FLAG}=false')
        return


if __name__ == '__main__':
  main()

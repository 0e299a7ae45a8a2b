"""Generation against that of transformers and tunix, interleaved: A B C A B C in one run.

    python3 -m venv trl && trl/bin/pip install trl==1.16.0 torch==2.13.0
    python3 -m venv tunix && tunix/bin/pip install google-tunix==0.1.7
    python -m rlx.experiments.benchmarks.generate --transformers_python=trl/bin/python \\
        --tunix_python=tunix/bin/python

Model, prompts, samples and the workloads W and R are those of `grpo_step.py`; all sides load one directory
and draw at temperature 1 without filters. A side whose interpreter is not given is left out.
"""

import argparse
from pathlib import Path
import sys
import tempfile

from rlx.experiments.benchmarks.grpo_step import HERE, interleaved, show, write_job, write_model


def main() -> None:
  arguments = _parser().parse_args()
  others = {'transformers': arguments.transformers_python, 'tunix': arguments.tunix_python}
  with tempfile.TemporaryDirectory() as folder:
    write_model(Path(folder))
    for workload in arguments.workloads:
      write_job(Path(folder), workload, sampler=arguments.sampler, whole_step=False)
      sides = {'rlx': [sys.executable, '-m', 'rlx.experiments.benchmarks.rlx_side', folder]}
      sides |= {
          name: [python, str(HERE / f'{name}_side.py'), folder] for name, python in others.items() if python
      }
      show(workload, ('generate',), interleaved(sides, arguments.rounds))


def _parser() -> argparse.ArgumentParser:
  parser = argparse.ArgumentParser(description='Generation of rlx, transformers and tunix in turn.')
  parser.add_argument('--transformers_python', default='', help='of an environment with it and torch')
  parser.add_argument('--tunix_python', default='', help='of an environment with tunix')
  parser.add_argument('--workloads', default='WR', help='of W and R')
  parser.add_argument('--sampler', default='gumbel', choices=['gumbel', 'inverse_cdf'], help='of rlx')
  parser.add_argument('--rounds', type=int, default=5)
  return parser


if __name__ == '__main__':
  main()

"""Programming problems in the form of HumanEval: SFT on solutions, then GRPO with unit tests in a sandbox.

    rlx --config=code/humaneval_grpo:model=DIR,train=F,held_out=F --workdir=runs/code

Rows have `prompt`, `canonical_solution`, `test`, `entry_point`. HumanEval itself is a test set: to train on a
part of it is a trial of the pipeline, not a result. The sandbox needs bubblewrap (`apt install bubblewrap`).
Data: Chen et al., 2021, https://arxiv.org/abs/2107.03374.

Result: the pipeline, not the task: 640 completions of a random model of 1.1 M parameters, after 40 steps of
SFT on 96 of HumanEval's problems, were run against their tests in the sandbox; none failed to be judged, one
passed; none of 32 held-out problems was solved. 15 minutes on two busy cores (AMD EPYC), ten GRPO steps.

The reference solutions of 55 of the problems all get 1; `pass`, `return True` and `return []` get 0 on all.
"""

from ml_collections import ConfigDict

from rlx.experiments.configs.math import gsm8k_grpo
from rlx.experiments.data import FOLDER


def get_config(arg: str = '') -> ConfigDict:
  """Arguments: those of `sft/gsm8k.py`."""
  data = f'{FOLDER}/programs'
  config = gsm8k_grpo.get_config(arg, train=f'{data}_train.jsonl', held_out=f'{data}_test.jsonl')
  config.task.columns = {'prompt': '{prompt}', 'completion': '{canonical_solution}'}
  config.task.max_prompt_tokens = 512
  config.score.packed_columns = 1024
  config.reward.functions = {
      'tests': {
          'name': 'code.humaneval',
          'weight': 1.0,
          'timeout_seconds': 5.0,
          'memory_bytes': 2**29,
          'tier': 'bubblewrap',
      },
  }
  config.reward.rows_per_call = 1  # a program that hangs costs its row alone
  config.evals.held_out.accuracy = 'tests'
  config.evals.held_out.problems //= 2  # each is a program to run
  return config

"""EVOL-RL on the fork task without its answers: letters are the reasons, the digit behind them is the answer.

    rlx --config=policy_gradient/evol_rl_fork --workdir=runs/evol_rl

Paper: https://arxiv.org/abs/2509.15194

Result: not run yet.

Tried in the small setting for 100 steps: of three seeds, right in 67, 48 and 90 % after SFT, two fell to 18
and 0 % within 30 steps, and the third from 55 to 0 % at the end.
"""

from ml_collections import ConfigDict

from rlx.experiments.configs.credit import tempo_fork


def get_config(arg: str = '') -> ConfigDict:
  """Arguments: `smoke` (seconds, learns nothing), `small` (as in `tempo_fork.py`)."""
  config = tempo_fork.get_config(arg, before=4, after=0)  # nothing stands behind the answer
  config.sft.task.right_share = 0.5  # there are no labels: what most answer has to be right,
  config.sft.stop.at_least = 0.5  # for most problems
  config.reward = {
      'name': 'diversity.evol',
      'answer_tokens': 1,
      'mean_share': 0.5,  # of the mean similarity, the rest of the greatest one
  }
  config.algorithm = {
      'name': 'grpo',
      'clip_low': 0.2,
      'clip_high': 0.28,  # wider upward, as in the paper
      'kl': {'name': 'no_kl'},  # 0.001 in the authors' scripts
      'entropy_coef': 0.003,  # the largest that the authors' scripts name
  }
  config.evals.found = {**config.evals.held_out, 'name': 'repeated', 'samples': 16}
  config.evals.found.problems //= 10
  return config

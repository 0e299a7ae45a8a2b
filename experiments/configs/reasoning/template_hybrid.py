"""GRPO with or without a thinking template: every row begins with the mark that asks for steps, or with none.

    rlx --config=reasoning/template_hybrid --workdir=runs/template_think
    rlx --config=reasoning/template_hybrid:think=0 --workdir=runs/template_direct

Paper: RLVER, https://arxiv.org/abs/2507.03112, which trains either way and compares; its simulated users are
not part of it here. The task is that of `hgpo_hybrid.py`. `reward/mean` is that of the template; when it is
evaluated the policy chooses its first token itself.

Result: not run yet.
"""

from ml_collections import ConfigDict

from rlx.config import parse_arg
from rlx.experiments.configs.quickstart import arithmetic
from rlx.experiments.configs.reasoning import hgpo_hybrid


def get_config(arg: str = '') -> ConfigDict:
  """Arguments: `smoke` (seconds, learns nothing); `think` (steps before the answer, or the answer alone)."""
  arg = parse_arg(arg, smoke=False, think=True)
  smoke = 'smoke' if arg.smoke else ''
  config = hgpo_hybrid.get_config(smoke)
  config.slow = ConfigDict()
  config.rollout.modes = ('?',) if arg.think else ('!',)
  config.algorithm = arithmetic.get_config(smoke).algorithm
  return config

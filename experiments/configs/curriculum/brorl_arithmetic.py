"""BroRL on two-digit addition: one problem in sixteen of a usual batch, with 128 samples each.

    rlx --config=curriculum/brorl_arithmetic --workdir=runs/brorl

Paper: https://arxiv.org/abs/2510.01180. There hundreds of samples (512) come on top of a batch that
stays as broad; here the number of rows is that of the quickstart.

Result: not run yet.
"""

from ml_collections import ConfigDict

from rlx.experiments.configs.curriculum import mopps_arithmetic


def get_config(arg: str = '') -> ConfigDict:
  """Arguments: those of the quickstart (`smoke`, `digits`, `operators`)."""
  config = mopps_arithmetic.get_config(arg)
  config.rollout.scores = {'name': 'controllers.prompts.everywhere'}
  config.rollout.num_prompts = max(config.rollout.batch_size // 128, 1)
  return config

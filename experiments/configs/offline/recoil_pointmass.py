"""ReCOIL: four good episodes among sixty bad ones are imitated without any reward.

Paper: Sikchi et al., 2023, https://arxiv.org/abs/2302.08560

    rlx --config=offline/recoil_pointmass --workdir=runs/recoil_pointmass

Result: after 2,000 updates the interquartile mean of ten seeds returns -40.1, the worst -45.9: a score
of 90, where random actions have 0 and a controller 100 (`python -m rlx.experiments.control_table`).
"""

from ml_collections import ConfigDict

from rlx.experiments.configs.offline import iql_pointmass as parent


def get_config(arg: str = '') -> ConfigDict:
  """Arguments: those of iql_pointmass."""
  config = parent.get_config(arg)
  good = config.data.to_dict()
  good.update(gain=2.0, damping=2.0, noise=0.1, random_share=0.0, num_envs=4, num_steps=100)
  config.data = {'name': 'transitions.demonstrated', 'expert': good, 'others': config.data.to_dict()}
  config.algorithm = {
      'name': 'recoil',
      'discount': 0.97,
      'target_rate': 0.01,
      'expectile': 0.8,
      'sharpness': 0.3,  # per unit of pseudo-return; values lie within ±33
      'weight_max': 100.0,
      'pseudo_reward': 1.0,
      'expert_weight': 16.0,  # one row in 16 is the expert's
  }
  return config

"""SAC swings gymnasium's pendulum up: environments in Python on the host, the store on the device.

Paper: Haarnoja et al., 2018, https://arxiv.org/abs/1812.05905

    pip install 'rlx[gym]'
    rlx --config=control/gym_sac_pendulum --workdir=runs/gym_sac_pendulum

Result: after 5,000 steps of the environment the interquartile mean of five seeds is -132, the worst -133
(`python -m rlx.experiments.control_table --seeds 5`), from starts that are not those of `sac_pendulum`.
"""

from ml_collections import ConfigDict

from rlx.config import parse_arg
from rlx.experiments.configs.control import sac_pendulum


def get_config(arg: str = '') -> ConfigDict:
  """Arguments: `smoke` (seconds, learns nothing), `env` (any id of gymnasium with continuous actions)."""
  arg = parse_arg(arg, smoke=False, env='Pendulum-v1')
  config = sac_pendulum.get_config('smoke' if arg.smoke else '')
  config.mesh.data = 1  # environments on the host feed one device
  config.env = {'name': f'gymnasium:{arg.env}', 'random_return': -1220.0, 'expert_return': -145.0}
  return config

"""PPO balances gymnasium's pole: environments in Python on the host, stepped from inside the compiled step.

Paper: Schulman et al., 2017, https://arxiv.org/abs/1707.06347

    pip install 'rlx[gym]'
    rlx --config=control/gym_ppo_cartpole --workdir=runs/gym_ppo_cartpole

Result: after 204,800 steps of the environment five seeds return 500 of 500, the worst 500
(`python -m rlx.experiments.control_table --seeds 5`).
"""

from ml_collections import ConfigDict

from rlx.config import parse_arg
from rlx.experiments.configs.control import ppo_cartpole


def get_config(arg: str = '') -> ConfigDict:
  """Arguments: `smoke` (seconds, learns nothing), `env` (any id of gymnasium with discrete actions)."""
  arg = parse_arg(arg, smoke=False, env='CartPole-v1')
  config = ppo_cartpole.get_config('smoke' if arg.smoke else '')
  config.mesh.data = 1  # environments on the host feed one device
  config.env = {'name': f'gymnasium:{arg.env}', 'random_return': 22.0, 'expert_return': 500.0}
  return config

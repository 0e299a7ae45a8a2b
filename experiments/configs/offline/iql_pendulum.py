"""IQL on what a half-trained policy did with a pendulum, as it is and normalised as its authors do.

Paper: Kostrikov et al., 2021, https://arxiv.org/abs/2110.06169

    rlx --config=control/sac_pendulum --workdir=runs/half --config.steps=1000 \
        --config.checkpoint.every=250 --config.evals.episodes.every=250
    rlx make-dataset --workdir=runs/half --source=sampled --num_steps=1250 --output=runs/half.npz
    rlx --config=offline/iql_pendulum --workdir=runs/iql_pendulum

Networks see observations by the moments of the data set, and returns are scaled to a span of 1000: what is
in units of returns then means the same for any data set.

Result: after 4,000 updates on records that return -765, five seeds, interquartile mean and worst
(`python -m rlx.experiments.control_table --seeds 5`): -870 and -1122. With nothing normalised
(`moments=0,span=0`) -1015 and -1095, below behaviour cloning, which has -905 and -935. With a span of 30 -893
and -922, and there the moments change nothing (`moments=0,span=30.0`: -890 and -934). So the scale of rewards
is what brings IQL above cloning, by little; nobody comes to the records, whose actions were drawn by chance.
"""

from ml_collections import ConfigDict

from rlx.config import parse_arg
from rlx.experiments.configs.offline import iql_pointmass as parent

NETWORKS = ('policy', 'value', 'critic')


def get_config(arg: str = '') -> ConfigDict:
  """Arguments: `smoke` (random actions), `moments` and `span` (0 for rewards as they are) as below."""
  arg = parse_arg(arg, smoke=False, moments=True, span=1000.0)
  config = parent.get_config('smoke' if arg.smoke else '')
  config.env = {'name': 'pendulum', 'max_steps': 200}
  config.data = {'name': 'file', 'path': 'runs/half.npz', 'discount': 0.99}  # 20,000 transitions
  if arg.smoke:
    config.data = {'name': 'random', 'num_envs': 2, 'num_steps': 300, 'discount': 0.99, 'seed': 0}
  if arg.span:
    config.data = {'name': 'rescaled', 'data': config.data.to_dict(), 'span': arg.span}
  if arg.moments:
    for name in NETWORKS:
      config.models[name] = {'name': 'normalised', 'network': config.models[name].to_dict(), 'clip': 10.0}
    config.models.moments = {'name': 'moments_of'}
    config.slow.moments = 'moments'
  config.algorithm.update(discount=0.99, target_rate=0.005, expectile=0.7, sharpness=3.0)
  if not arg.smoke:
    config.steps = 4000
    config.evals.episodes.update(max_steps=200, every=2000)
    config.checkpoint.every = 2000
  return config

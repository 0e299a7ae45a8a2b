"""Learning to Fly: a quadrotor hovers by noisy sensors; its critic sees the truth.

Paper: Eschmann et al., 2023, https://arxiv.org/abs/2311.13081

    rlx --config=control/learning_to_fly_quadrotor --workdir=runs/learning_to_fly

Result: it shows. Mean over the run of eval/episodes/return after 20,000 train steps, median of 5 seeds
(worst): 164.7 (148.1), 'a critic of sensors' 43.14 (3.392). Claimed, and got (95 % interval over seeds):
above 'a critic of sensors', got 129.2 (102.4 to 157.9). 264 CPU-s on 2 cores of a CPU;
`rlx reproduce control/learning_to_fly_quadrotor`.
"""

from ml_collections import ConfigDict

from rlx.config import parse_arg
from rlx.envs.control import quadrotor
from rlx.experiments.claims import Arm, Claim, above, mean
from rlx.experiments.configs.control import td3_pendulum

HISTORY = 4  # actions
SENSORS = quadrotor.NUM_POSE + 2 * HISTORY


def get_config(arg: str = '') -> ConfigDict:
  """Arguments: `smoke` (seconds, learns nothing), `critic` (sees the 'truth', or the 'sensors')."""
  arg = parse_arg(arg, smoke=False, critic='truth')
  config = td3_pendulum.get_config('smoke' if arg.smoke else '')
  config.env = {
      'name': 'quadrotor', 'max_steps': 250, 'history': HISTORY, 'noise': 0.1, 'randomisation': 0.1,
      **quadrotor.REWARD_COSTS,
  }
  views = {'sensors': (0, SENSORS), 'truth': (SENSORS, SENSORS + quadrotor.NUM_PRIVILEGED)}
  for name, view in (('policy', 'sensors'), ('critic', arg.critic)):
    first, last = views[view]
    network = config.models[name]
    config.models[name] = {'name': 'views.sees', 'network': network, 'first': first, 'last': last}
  config.algorithm = {
      'name': 'learning_to_fly', 'parent': config.algorithm, 'initial_share': 0.1,
      'curriculum_steps': 10_000, **quadrotor.REWARD_COSTS,
  }
  if not arg.smoke:
    config.steps = 20_000
    config.rollout.update(num_envs=2, capacity=40_000, warmup_steps=1000)
    config.evals.episodes.update(max_steps=250, every=1000)
  return config


def claim() -> Claim:
  """The same critic, with what the policy senses and no more."""
  return Claim(
      paper='S024',
      says='a critic that sees the truth hovers sooner than one that sees noisy sensors',
      reading=mean('eval/episodes/return'),
      asserts=(above('a critic of sensors'),),
      controls=(Arm('a critic of sensors', config='control/learning_to_fly_quadrotor:critic=sensors'),),
      minutes=8.0,
  )

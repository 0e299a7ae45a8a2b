"""CaRL: a car learns from route completion alone, in large batches.

The reward is that of the environment `driving`: progress along the route, multiplied by a factor for each
fault; accidents end the episode. The rival, `rival=shaped`, is the same PPO on `shaped_driving`, which adds
up progress, position, heading and nearness. Both are measured by `eval/episodes/route_completion`.

Paper: Jaeger et al., 2025, https://arxiv.org/abs/2504.17838

    rlx --config=control/carl_driving --workdir=runs/carl_driving

Result: it does not show. Final eval/episodes/route_completion after 2,457,600 env/steps, median of 5 seeds
(worst): 0.3193 (0.284), 'shaped' 1 (1). Claimed, and got (95 % interval over seeds): above 'shaped', got
-0.6817 (-0.7075 to -0.2269), the reverse holds. 258 CPU-s on 2 cores of a CPU;
`rlx reproduce control/carl_driving`.

Four of five seeds end at the pace of the first slow car, 1.1 m/s, about 40 m behind it, until the time
is over; the fifth passes and arrives. On a shorter route with more cars (`tests/papers/test_carl.py`) the
simple reward covers nearly all of it.
"""

from ml_collections import ConfigDict

from rlx.config import parse_arg
from rlx.experiments.claims import Arm, Claim, above, final
from rlx.experiments.configs.control import ppo_cartpole


def get_config(arg: str = '') -> ConfigDict:
  """Arguments: `smoke` (seconds, learns nothing), `rival` ('simple' reward, or 'shaped')."""
  arg = parse_arg(arg, smoke=False, rival='simple')
  config = ppo_cartpole.get_config('smoke' if arg.smoke else '')
  name = {'simple': 'driving', 'shaped': 'shaped_driving'}[arg.rival]
  config.env = {'name': name, 'max_steps': 200, 'route_length': 150.0, 'num_cars': 2}
  config.models.policy = {
      'name': 'gaussian', 'hidden': (64, 64), 'activation': 'tanh', 'initial_log_std': -0.5,
  }
  if not arg.smoke:
    config.rollout.update(num_envs=128, num_steps=64)
    config.updates.minibatches = 2  # of 4096 transitions
    config.steps = 300
    config.optimizer.decay_steps = 2400  # updates
    config.evals.episodes.update(max_steps=200)
  config.algorithm.update(value_clip=100.0, entropy_coef=0.001)
  config.log.headline = 'eval/episodes/route_completion'
  return config


def claim() -> Claim:
  """Beside the reward with shaping terms, both in large minibatches."""
  return Claim(
      paper='S072',
      says='route completion alone as the reward completes more of the route than a shaped one',
      reading=final('eval/episodes/route_completion'),
      asserts=(above('shaped'),),
      baseline=Arm('shaped', config='control/carl_driving:rival=shaped'),
      budget='env/steps',
      minutes=8.0,
  )

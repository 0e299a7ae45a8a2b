"""CaRL: a car learns from route completion alone, in large batches.

The reward is that of the environment `driving`: progress along the route, multiplied by a factor for each
fault; accidents end the episode. The rival, `rival=shaped`, is the same PPO on `shaped_driving`, the reward
of the paper's rival, Roach, which adds up speed, position and heading and wants one to stand close behind a
car. Both are measured by `eval/episodes/route_completion`.

Paper: Jaeger et al., 2025, https://arxiv.org/abs/2504.17838

    rlx --config=control/carl_driving --workdir=runs/carl_driving

Result: it shows. Final eval/episodes/route_completion after 1,310,700 env/steps, median of 5 seeds (worst):
0.9552 (0.8568), 'shaped' 0.3598 (0.356). Claimed, and got (95 % interval over seeds): above 'shaped', got
0.6106 (0.5318 to 0.6399). 157 CPU-s on 1 cores of a CPU; `rlx reproduce control/carl_driving`.

Tried: on a route of 150 m with two cars, in 200 steps, four of five seeds of the simple reward ended behind
the first slow car (0.32), and the reverse held beside a shaped reward that paid progress less |d| / 8,
|ψ| / 2, nearness and a fine of 10: with that one a car passes and arrives, here as well
(`tests/papers/test_carl.py`). Beside Roach's, three trial seeds of 100 train steps ended at 0.975 (0.737, 1),
and at 0.35 (0.34, 0.37) with the shaped one, which stays behind the first car in minibatches of 512 as well
(0.35). So it is not the large batches alone that the shaped reward does not bear.
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
  config.env = {'name': name, 'max_steps': 100, 'route_length': 100.0, 'num_cars': 3}
  config.models.policy = {
      'name': 'gaussian', 'hidden': (64, 64), 'activation': 'tanh', 'initial_log_std': -0.5,
  }
  if not arg.smoke:
    config.rollout.update(num_envs=128, num_steps=64)
    config.updates.minibatches = 2  # of 4096 transitions
    config.steps = 160  # 1,310,720 steps of the environment
    config.optimizer.decay_steps = 1280  # updates
    config.evals.episodes.update(max_steps=100)
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

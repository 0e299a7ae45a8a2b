"""EPO on two-digit addition: an entropy bonus, and a band of half to twice what the entropy has been.

    rlx --config=policy_gradient/epo_entropy_arithmetic --workdir=runs/epo

Paper: https://arxiv.org/abs/2509.22576. There agents act for thirty turns before they hear of success; the
penalty outside the band is a constant, here it is the distance from the band.

Result: it does not show. Mean of the last 10 eval/held_out/accuracy after 360 train steps, median of 5 seeds
(worst): 0.6613 (0.3173), 'GRPO' 0.6843 (0.3103), 'the bonus alone' 0.686 (0.338). Claimed, and got (95 %
interval over seeds): above 'GRPO', got 0.009223 (-0.01878 to 0.03788), the seeds leave it open; above 'the
bonus alone', got -0.00678 (-0.05245 to 0.01622), the run fails it. 380 CPU-s on 2 cores of a CPU;
`rlx reproduce policy_gradient/epo_entropy_arithmetic`.
"""

from ml_collections import ConfigDict

from rlx.experiments.claims import Arm, Claim, above, mean
from rlx.experiments.configs.quickstart import arithmetic


def get_config(arg: str = '') -> ConfigDict:
  """Arguments: those of the quickstart (`smoke`, `small`, `digits`, `operators`)."""
  config = arithmetic.get_config(arg, steps=600)
  config.population.size = 3
  config.algorithm = {
      'name': 'epo_entropy',
      'clip_low': 0.2,
      'clip_high': 0.2,
      'entropy_coef': 0.01,
      'smooth_coef': 4.0,
      'ratio_low': 0.5,  # 0 in the authors' scripts: no floor
      'ratio_high': 2.0,
      'window': config.steps,  # all of them, as in the authors' code
      'phase': {
          'name': 'controllers.schedules.two_phases',
          'kept': 0.8,
          'slow_rate': 2.0,
          'fast_rate': 3.0,
          'num_steps': config.steps,
      },
  }
  return config


def claim() -> Claim:
  """Beside GRPO, and a bonus without the band."""
  return Claim(
      paper='S073',
      says='a band around past entropy ends above GRPO and above the bonus alone',
      argument='small',
      reading=mean('eval/held_out/accuracy', last=10),
      asserts=(above('GRPO'), above('the bonus alone')),
      baseline=Arm('GRPO', {'algorithm': arithmetic.GRPO}),
      beside=(Arm('the bonus alone', {'algorithm.smooth_coef': 0.0}),),
      minutes=8.0,
  )

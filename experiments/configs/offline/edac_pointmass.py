"""EDAC on mixed data: SAC with six critics that are kept from leaning the same way.

Paper: An et al., 2021, https://arxiv.org/abs/2110.01548

    rlx --config=offline/edac_pointmass --workdir=runs/edac_pointmass

Result: it shows. Final eval/episodes/return after 3000 train steps, median of 10 seeds (worst): -62.45
(-82.01), 'behaviour cloning' -143.8 (-148.7), 'no diversity' -158.4 (-211.6). Claimed, and got (95 % interval
over seeds): above 'behaviour cloning' by 30, got 83.26 (67.29 to 92.21). 113 CPU-s on 1 cores of a CPU;
`rlx reproduce offline/edac_pointmass`.

On mixed data, two thirds of which are random, six critics do without it: -58.47 (-73.18), median and worst of
ten seeds, -55.89 (-56.92) with no diversity, -176.8 (-207.3) by cloning.

With two drivers, on five trial seeds each, a diversity of 1 ended from -48 to -238 where they sway by 0.3,
5 from -53 to -70 and 20 from -50 to -124 where by 0.4.
"""

from ml_collections import ConfigDict

from rlx.config import parse_arg
from rlx.experiments.claims import Arm, Claim, above, final
from rlx.experiments.configs.offline import cql_pointmass as parent

STEPS = 3000


def get_config(arg: str = '') -> ConfigDict:
  """Arguments: those of cql_pointmass; two drivers sway a little more here, and there are more updates."""
  config = parent.get_config(arg)
  config.models.critic.num = 6
  config.algorithm = {'name': 'edac', 'parent': config.algorithm.parent, 'diversity': 1.0}
  arg = parse_arg(arg, smoke=False, drivers=False)
  if arg.drivers:
    config.algorithm.diversity = 5.0
    config.data.first.noise = config.data.second.noise = 0.4
  if arg.drivers and not arg.smoke:
    config.steps = STEPS
  return config


def claim() -> Claim:
  """Beside cloning of the same records; with no diversity the mechanism is off."""
  records = get_config('drivers').data.to_dict()
  return Claim(
      paper='',
      says='from records of two drivers, of whom one goes astray, critics that are kept from leaning the '
      'same way learn what cloning does not',
      argument='drivers',
      reading=final('eval/episodes/return'),
      asserts=(above('behaviour cloning', by=30.0),),
      baseline=Arm('behaviour cloning', {'data': records, 'steps': STEPS}, 'offline/bc_pointmass'),
      controls=(Arm('no diversity', {'algorithm.diversity': 0.0}),),
      seeds=10,
      minutes=3.0,
  )

"""EDAC on mixed data: SAC with six critics that are kept from leaning the same way.

Paper: An et al., 2021, https://arxiv.org/abs/2110.01548

    rlx --config=offline/edac_pointmass --workdir=runs/edac_pointmass

Result: it does not show. Final eval/episodes/return after 2000 train steps, median of 10 seeds (worst):
-58.47 (-73.18), 'behaviour cloning' -176.8 (-207.3), 'no diversity' -55.89 (-56.92). Claimed, and got (95 %
interval over seeds): above 'behaviour cloning' by 30, got 118.5 (110.9 to 133.5), without the mechanism it
holds as well: 'no diversity'. 246 CPU-s on 2 cores of a CPU; `rlx reproduce offline/edac_pointmass`.

With less noise in the controller and critics without layer norm, six critics do without diversity as well:
two trial seeds end at -50 and -40, of EDAC at -48 and -47.
"""

from ml_collections import ConfigDict

from rlx.experiments.claims import Arm, Claim, above, final
from rlx.experiments.configs.offline import cql_pointmass as parent


def get_config(arg: str = '') -> ConfigDict:
  """Arguments: those of cql_pointmass."""
  config = parent.get_config(arg)
  config.models.critic.num = 6
  config.algorithm = {'name': 'edac', 'parent': config.algorithm.parent, 'diversity': 1.0}
  return config


def claim() -> Claim:
  """Beside cloning of the same records; with no diversity the mechanism is off."""
  return Claim(
      paper='',
      says='critics that are kept from leaning the same way learn from mixed data',
      reading=final('eval/episodes/return'),
      asserts=(above('behaviour cloning', by=30.0),),
      baseline=Arm('behaviour cloning', config='offline/bc_pointmass'),
      controls=(Arm('no diversity', {'algorithm.diversity': 0.0}),),
      seeds=10,
      minutes=2.0,
  )

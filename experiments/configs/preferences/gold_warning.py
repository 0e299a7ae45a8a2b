"""An early warning: DPO ends where the policy has become narrow, before its true reward has fallen.

    rlx --config=preferences/gold_warning --workdir=runs/gold_warning

The paper finds that entropy over the likeliest tokens falls first. Here it is that of all 32 answers, 2.9
nats under the reference; 2 nats end the run. Nobody sees the true reward.

Paper: https://arxiv.org/abs/2410.11677

Result: it shows. Final eval/gold/gain after 120 train steps, median of 10 seeds (worst): 0.7757 (0.6965), 'no
warning' 0.46 (0.1962), 'SLiC' 0.7368 (0.6751), 'SLiC, no warning' 0.5621 (0.3113), 'no hump' 1.141 (0.9604),
'no hump, no warning' 1.733 (1.512). Claimed, and got (95 % interval over seeds): above 'no warning' by 0.1,
got 0.3202 (0.1948 to 0.4461). 47 CPU-s on 2 cores of a CPU; `rlx reproduce preferences/gold_warning`.
"""

from ml_collections import ConfigDict

from rlx.experiments.claims import Arm, Claim, above, final
from rlx.experiments.configs.preferences import gold_dpo

OFF = {'stop.at_most': 0.0}


def get_config(arg: str = '') -> ConfigDict:
  """Arguments: those of `preferences/gold_dpo.py`."""
  config = gold_dpo.get_config(arg)
  config.stop = {'name': 'fallen', 'metric': 'eval/gold/entropy', 'at_most': 2.0}
  return config


def claim() -> Claim:
  """The same threshold with another loss, and with labels that leave nothing to fear, is beside it."""
  slic = {'algorithm.loss': {'name': 'hinge', 'beta': gold_dpo.BETA}}
  no_hump = {'task.hump': 0.0}
  return Claim(
      paper='S233',
      says='a fall of entropy warns early enough that the run ends above one that goes on',
      reading=final('eval/gold/gain'),
      asserts=(above('no warning', by=0.1),),
      controls=(Arm('no warning', OFF),),
      beside=(
          Arm('SLiC', slic), Arm('SLiC, no warning', {**slic, **OFF}), Arm('no hump', no_hump),
          Arm('no hump, no warning', {**no_hump, **OFF}),
      ),
      seeds=10,
      minutes=2.0,
  )

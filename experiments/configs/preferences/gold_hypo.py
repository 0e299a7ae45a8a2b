"""HyPO: recorded comparisons cover few answers, and the KL of the policy's own samples holds the others down.

    rlx --config=preferences/gold_hypo --workdir=runs/gold_hypo

The reference seldom says what has much of the feature that is good up to a point; of its comparisons DPO
learns to go on. No label says where to stop.

Of λ, 0.003 to 0.1 were tried, in the easier worlds as well: the larger it is, the smaller the KL, and 0.1
leaves little of the gain. A larger β holds DPO too, and is beside it.

Paper: https://arxiv.org/abs/2406.01462

Result: it shows. Final eval/gold/gain after 600 train steps, median of 10 seeds (worst): 0.7027 (0.6071),
'DPO' 0.46 (0.1962), 'DPO, β = 0.5' 0.7462 (0.6512). Claimed, and got (95 % interval over seeds): above 'DPO',
got 0.21 (0.08273 to 0.3606); final eval/gold/kl: below 'DPO' by 1, got 3.426 (3.111 to 3.65); final
eval/gold/rare: below 'DPO', got 0.2651 (0.2214 to 0.308). 48 CPU-s on 2 cores of a CPU;
`rlx reproduce preferences/gold_hypo`.
"""

from ml_collections import ConfigDict

from rlx.experiments.claims import Arm, Claim, above, final
from rlx.experiments.configs.preferences import gold_dpo


def get_config(arg: str = '') -> ConfigDict:
  """Arguments: those of `preferences/gold_dpo.py`."""
  config = gold_dpo.get_config(arg)
  config.algorithm = {**gold_dpo.DPO, 'name': 'hypo', 'kl_coef': 0.03}
  return config


def claim() -> Claim:
  """The mechanism off is DPO, in the same worlds with the same labels."""
  kl = final('eval/gold/kl', lower=True)
  return Claim(
      paper='S211',
      says='with the KL of its own samples the policy stays nearer to the reference than DPO, puts less on '
      'what the reference hardly ever says, and gains more of the true reward',
      reading=final('eval/gold/gain'),
      asserts=(
          above('DPO'), above('DPO', by=1.0, reading=kl),
          above('DPO', reading=final('eval/gold/rare', lower=True)),
      ),
      controls=(Arm('DPO', {'algorithm.kl_coef': 0.0}),),
      beside=(Arm('DPO, β = 0.5', {'algorithm.kl_coef': 0.0, 'algorithm.loss.beta': 0.5}),),
      seeds=10,
      minutes=2.0,
  )

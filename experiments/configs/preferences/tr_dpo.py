"""TR-DPO: DPO whose reference follows the policy; TRL's `DPOTrainer` with `sync_ref_model`.

    rlx --config=preferences/tr_dpo:model=DIR,train=FILE,held_out=FILE --workdir=runs/tr_dpo
    rlx --config=preferences/tr_dpo:model=DIR,train=FILE,rate=1,period=512 --workdir=runs/hard

After every `period` updates the reference is drawn towards the policy, ref ← (1 - rate) ref + rate policy; a
rate of 1 is the paper's hard update, a smaller one its soft one. The defaults are TRL's. Any algorithm with a
reference may stand in the place of `dpo`, and any loss:

    --config.algorithm.parent.loss="{'name': 'ipo', 'beta': 0.1}"

With `lora_rank` the reference has adapters of its own, which begin as the policy's. The run is read by how
often the policy alone says the better answer more likely, for log-ratios over a reference that moves start
anew.

Paper: https://arxiv.org/abs/2404.09656.

Result: it does not help a small decoder from nothing that solves 14 % of sums in three steps
(docs/studies/solutions.md, median of three seeds): 150 steps at 1e-4, a period of 10, take it to 7 %, as DPO
(8 %); more SFT to 26 %. No pretrained model was at hand.
"""

from ml_collections import ConfigDict

from rlx.config import parse_arg
from rlx.experiments.configs.llm import sft
from rlx.experiments.configs.preferences import dpo

DEFAULTS = {
    'period': 512,  # updates
    'rate': 0.6,  # 1 copies
}


def get_config(arg: str = '') -> ConfigDict:
  """Arguments: those of `preferences/dpo.py` and of `DEFAULTS`."""
  config = dpo.get_config(arg, **DEFAULTS)
  arg = parse_arg(arg, **{**sft.DEFAULTS, **dpo.DEFAULTS, **DEFAULTS})
  config.slow['reference'] = 'policy'
  config.algorithm = {
      'name': 'following',
      'copies': {'reference': 'policy'},
      'period': 2 if arg.smoke else arg.period,
      'rate': arg.rate,
      'parent': {**config.algorithm.to_dict(), 'names': {'reference': 'reference'}},
  }
  if config.evals:
    config.evals.held_out.names = {'reference': 'reference'}
    config.log.headline = 'eval/held_out/likelier'
  return config

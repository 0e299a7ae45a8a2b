"""KLCF: a policy that states facts is paid for what the base model knows, and for what it takes to be true.

    rlx --config=preferences/facts_klcf --workdir=runs/facts_klcf

A world of 64 subjects with 16 claims each (`rlx/envs/facts.py`). The checklist is what the base model affirms
in nine of ten answers; a linear verifier learns from single answers of the base model to single questions,
before. The truth is in the evaluation alone. (In the paper, an index has verified the base model's claims.)

Of what is stated, 41 % is false to begin with and 16 % in the end, in the median; of known facts, 73 % and
90 % are stated. Paid for recall alone it states 99 % of them, and two thirds of all claims, of which 37 % are
false; paid for the truth alone it says little: 12 % are false, and 65 % of known facts are stated. That the
fall had to be above 0.15 was written down after two seeds of the run and of recall alone had been seen.

Paper: https://arxiv.org/abs/2509.23765

Result: it shows. Final eval/facts/net after 1200 train steps, median of 10 seeds (worst): 0.5726 (0.4844),
'recall only' -0.8136 (-1.057), 'truth only' 0.4981 (0.4793), 'base' -0.8338 (-1.014). Claimed, and got (95 %
interval over seeds): above 'base' by 0.2, got 1.4 (1.348 to 1.462); above 'recall only' by 0.2, got 1.424
(1.35 to 1.511); fall of eval/facts/hallucinated: above 0.15, got 0.2475 (0.2377 to 0.2578); final
eval/facts/hallucinated: below 'recall only' by 0.1, got 0.2 (0.1882 to 0.2112). 85 CPU-s on 2 cores of a CPU;
`rlx reproduce preferences/facts_klcf`.
"""

from ml_collections import ConfigDict

from rlx.experiments.claims import Arm, Claim, Reading, above, final, reaches
from rlx.experiments.configs.preferences import gold_dpo, gold_superhf

KNOWN = 0.9


def get_config(arg: str = '') -> ConfigDict:
  """Arguments: those of `preferences/gold_dpo.py`."""
  config = gold_dpo.get_config(arg)
  config.task = {
      'name': 'fact_worlds', 'num_prompts': 64, 'num_claims': 16, 'width': 16, 'sure': 2.0, 'hidden': 0.2,
      'loose': 0.5,
  }
  config.models = {
      'world': {'name': 'gold.world'}, 'policy': {'name': 'facts.stating'}, 'judge': {'name': 'gold.linear'},
  }
  config.stages = ('assessing', 'main')
  config.assessing = {
      'steps': config.steps,
      'stop': ConfigDict(),
      'trained': ('judge',),
      'slow': {'world': 'world', 'policy': 'policy'},
      'rollout': {'name': 'facts.self_assessed', 'batch_size': 128},
      'algorithm': {'name': 'pointwise'},
      'updates': config.updates.to_dict(),
      'optimizer': config.optimizer.to_dict(),
  }
  config.slow = {'world': 'world', 'reference': 'policy', 'judge': 'judge'}
  config.rollout = {'name': 'gold.groups', 'batch_size': 128, 'group_size': 8}
  config.reward = {'name': 'dual_facts', 'known': KNOWN, 'recall_coef': 1.0, 'truth_coef': 1.0}
  config.algorithm = {**gold_superhf.GRPO, 'kl': {'name': 'kl_in_loss', 'coef': 0.01}}
  config.evals = {'facts': {'name': 'factuality', 'every': config.evals.gold.every, 'known': KNOWN}}
  config.log.headline = 'eval/facts/net'
  return config


def claim() -> Claim:
  """The mechanism off is recall alone; the truth alone and the base model are beside it."""
  fall = Reading('eval/facts/hallucinated', 'fall of', lambda at, values: values[:, 0] - values[:, -1])
  return Claim(
      paper='S205',
      says='paid for a checklist of what the base model knows and for what it takes to be true, a policy '
      'hallucinates less and states more of what is known; paid for the checklist alone it hallucinates',
      reading=final('eval/facts/net'),
      asserts=(
          above('base', by=0.2), above('recall only', by=0.2), reaches(0.15, reading=fall),
          above('recall only', by=0.1, reading=final('eval/facts/hallucinated', lower=True)),
      ),
      controls=(Arm('recall only', {'reward.truth_coef': 0.0}),),
      beside=(
          Arm('truth only', {'reward.recall_coef': 0.0}),
          Arm('base', {'optimizer.learning_rate': 0.0}),
      ),
      seeds=10,
      minutes=2.0,
  )

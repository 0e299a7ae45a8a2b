"""MM-RLHF's critique-based reward model: it writes what it works out of an answer, and then scores it.

    rlx --config=preferences/thinking_critique --workdir=runs/thinking_critique

The answers of `preferences/thinking_think_rm`, each by itself: it is worth the sum of its digits modulo
seven, of which no digit tells anything. Critiques, the running sums, are shown; the decoder learns to write
them, and a head on it to put the better answer ahead, both at once (`algorithms/critique_then_score.py`).
Asked are pairs that were never shown, with critiques that the model writes itself. A head that scores at once
learns from the same pairs.

For a policy that learns by DPO such scores become margins by the rollout `pairs.with_critiqued_margins`; no
run does that here (`gold_mm_rlhf` has margins of a linear model).

Before anything was claimed, one seed was tried outside of this config: right in 98 % after 100 steps, and in
all after 150.

Paper: https://arxiv.org/abs/2502.10391

Result: it shows. Final eval/held_out/accuracy after 200 train steps, median of 5 seeds (worst): 1 (0.9863),
'at once' 0.5127 (0.4717), 'no words' 0.4707 (0.4668). Claimed, and got (95 % interval over seeds): above 'at
once' by 0.2, got 0.4769 (0.3096 to 0.5212); above 'no words' by 0.2, got 0.5247 (0.4941 to 0.5299). 114 CPU-s
on 2 cores of a CPU; `rlx reproduce preferences/thinking_critique`.
"""

from ml_collections import ConfigDict

from rlx.config import parse_arg
from rlx.experiments.claims import Arm, Claim, above, final
from rlx.experiments.configs.preferences import thinking_think_rm

STEPS = 200


def get_config(arg: str = '') -> ConfigDict:
  """Arguments: `smoke` (seconds, learns nothing); `at_once` (a head alone, without critiques)."""
  arg = parse_arg(arg, smoke=False, at_once=False)
  speaking = thinking_think_rm.get_config('')
  config = thinking_think_rm.get_config('head=True')
  config.steps = STEPS
  config.optimizer.decay_steps = STEPS - 20
  config.checkpoint.every = STEPS
  if not arg.at_once:
    config.models.judge = {'name': 'shared_reward_head'}  # on the decoder that writes
    config.trained, config.slow = ('policy', 'judge'), ConfigDict()
    config.decoding, config.score = speaking.decoding, speaking.score
    config.decoding.max_tokens = thinking_think_rm.LENGTH + 1
    config.rollout.name = 'criticised_answers'
    config.algorithm = {
        'name': 'critique_then_score',
        'names': {'critic': 'policy'},
        'critique_coef': 1.0,
        **{name: x for name, x in config.algorithm.items() if name != 'name'},
    }
    config.evals.held_out.update(name='weighing.by_critiques', names={'critic': 'policy'})
  if arg.smoke:
    config.steps, config.checkpoint, config.log.steps_per_dispatch = 4, {'every': 2, 'keep': 2}, 2
    config.rollout.batch_size = 16
    config.evals.held_out.update(every=2, problems=16)
  return config


def claim() -> Claim:
  """The mechanism off: what is written is not learnt. The baseline is a head that scores at once."""
  return Claim(
      paper='S035',
      says='a reward model that writes a critique before it scores is right about more pairs than a head '
      'that scores at once, and than one whose critiques say nothing',
      reading=final('eval/held_out/accuracy'),
      baseline=Arm('at once', config='preferences/thinking_critique:at_once=True'),
      asserts=(above('at once', by=0.2), above('no words', by=0.2)),
      controls=(Arm('no words', {'algorithm.critique_coef': 0.0}),),
      minutes=3.0,
  )

"""SeeUPO on sorting, where every digit is a turn: the last one is updated first. Five seeds.

    rlx --config=credit/seeupo_sorting --workdir=runs/seeupo
    rlx --config=credit/seeupo_sorting:jointly=True --workdir=runs/seeupo_joint

`jointly` is GRPO with as many updates of all turns at once, in which each token counts four times, and by
turns once. With each row in one of four updates in the place of all (`updates.minibatches`), three trial
seeds came to 0.77, 0.84 and 0.78, and by turns to 0.74, 0.78 and 0.74.

Paper: https://arxiv.org/abs/2602.06554.

Result: it does not show. Final eval/held_out/accuracy after 220 train steps, median of 5 seeds (worst): 0.722
(0.668), 'all turns at once' 0.829 (0.754). Claimed, and got (95 % interval over seeds): above 'all turns at
once', got -0.1027 (-0.1197 to -0.08), the reverse holds. 802 CPU-s on 2 cores of a CPU;
`rlx reproduce credit/seeupo_sorting`.
"""

from ml_collections import ConfigDict

from rlx.config import parse_arg
from rlx.experiments.claims import Arm, Claim, above, final
from rlx.experiments.configs.quickstart import arithmetic

LENGTH = 4  # digits, and as many turns; the end token is of the last one


def get_config(arg: str = '') -> ConfigDict:
  """Arguments: `smoke` (seconds, learns nothing); `jointly`."""
  arg = parse_arg(arg, smoke=False, jointly=False)
  config = arithmetic.get_config('smoke' if arg.smoke else '', steps=200)
  config.population.size = 2 if arg.smoke else 5
  config.task = {'name': 'sorting', 'length': LENGTH, 'held_out_share': 0.1}
  del config.sft['task']
  config.decoding.max_tokens = config.sft.decoding.max_tokens = LENGTH + 1
  completions = {**config.rollout, 'batch_size': 16 if arg.smoke else 256}
  config.rollout = {'name': 'tokens_as_turns', 'rollout': completions, 'num_turns': LENGTH}
  config.optimizer.learning_rate = 5e-4
  if arg.jointly:
    config.updates.update(epochs=LENGTH, minibatches=1, microbatches=1)
  else:
    config.algorithm = {
        'name': 'seeupo',
        'num_turns': LENGTH,
        'updates': 1,
        'clip_low': 0.2,
        'clip_high': 0.2,
    }
    del config['updates']
  return config


def claim() -> Claim:
  """Beside the joint update of all turns with as many updates; both have the same rows."""
  return Claim(
      paper='S161',
      says='updating the turns one after the other, the last first, ends above updating them at once',
      reading=final('eval/held_out/accuracy'),
      asserts=(above('all turns at once'),),
      baseline=Arm('all turns at once', config='credit/seeupo_sorting:jointly=True'),
      minutes=4.0,
  )

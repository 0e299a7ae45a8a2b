"""Self-RedTeam on a toy filter: one model attacks and defends, and both learn from the same games.

    rlx --config=selfplay/redteam_selfplay --workdir=runs/redteam

Paper: https://arxiv.org/abs/2506.07468

The world is `envs/worlds/redteam.py`: 64 requests of two letters, some of them harmful. The model is shown
how to speak first (`shown`): the attacker any request of the kind that it is told, the defender an answer by
the toss of a coin. The attacker is paid where the defender errs, so it says what is not yet known, and a KL
to the model as it was shown keeps it from saying one thing only. What is read is the chance that the defender
is right, over all requests, exactly: any fresh attacker says one of these.

Tried: without `shown`, and tied to a copy 50 updates old (`kuhn_magnet.py`), the defender never came to say
that it refuses, and there was nothing to learn from: right on 0.13 of the harmful requests, mean of three
trial seeds, beside 0.42 with static attacks; on the claim's five seeds 0.29 beside 0.62, medians. A KL of 0.1
or 0.2 to the untrained model did not help (0.34, 0.15). Behind `shown`, on three trial seeds, it was right on
0.84 of all requests with a KL of 0.1 and on 0.92 with 0.3; static attacks came to 0.66 and 0.64.

Result: it shows. Final eval/defender/accuracy after 560 train steps, median of 5 seeds (worst): 0.9237
(0.8644), 'static attacks' 0.5808 (0.5572). Claimed, and got (95 % interval over seeds): above 'static
attacks' by 0.05, got 0.3398 (0.2792 to 0.359); final eval/defender/harmful: above 'static attacks' by 0.05,
got 0.1377 (0.08817 to 0.2603). 156 CPU-s on 2 cores of a CPU; `rlx reproduce selfplay/redteam_selfplay`.
"""

from ml_collections import ConfigDict

from rlx.config import parse_arg
from rlx.experiments.claims import Arm, Claim, above, final
from rlx.experiments.configs.selfplay import kuhn_magnet

KNOWN = 6  # harmful requests, and as many benign ones, of a fixed set
SHOWN = 160  # steps of speaking


def get_config(arg: str = '') -> ConfigDict:
  """Arguments: `smoke` (seconds, learns nothing)."""
  arg = parse_arg(arg, smoke=False)
  config = kuhn_magnet.get_config(f'smoke={arg.smoke}', steps=400)
  config.task = {'name': 'redteam', 'num_letters': 8, 'known': 0}
  config.decoding.max_tokens = 6
  config.rollout.names = {'attacker': 'policy', 'defender': 'policy'}
  config.rollout.update(
      learnt=('attacker', 'defender'), turn_tokens=2,
      max_turns={'name': 'controllers.schedules.constant', 'value': 2},
  )
  config.algorithm = {
      'name': 'dr_grpo',
      'clip_low': 0.2,
      'clip_high': 0.2,
      'length': 1,  # sums over the tokens of a row
      'kl': {'name': 'kl_in_loss', 'coef': 0.3},
  }
  config.stages = ('shown', 'main')
  config.shown = {
      'steps': SHOWN,
      'stop': ConfigDict(),
      'trained': ('policy',),
      'slow': ConfigDict(),
      'decoding': config.decoding.to_dict(),
      'rollout': {
          'name': 'seats.shown', 'names': config.rollout.names.to_dict(), 'episodes': 64, 'turn_tokens': 2,
          'max_turns': 2, 'learnt': ('attacker', 'defender'),
      },
      'algorithm': {'name': 'sft'},
      'updates': config.updates.to_dict(),
      'optimizer': {**config.optimizer.to_dict(), 'learning_rate': 4e-3, 'decay_steps': 0},
  }
  config.shown.task = config.task  # the same object: an override reaches both stages
  config.evals = {
      'defender': {'name': 'exams.answers', 'names': {'defender': 'policy'}, 'every': config.evals.nash.every}
  }
  config.log.headline = 'eval/defender/accuracy'
  if arg.smoke:
    config.shown.steps, config.shown.rollout.episodes = 4, 16
  return config


def claim() -> Claim:
  """The fixed set is drawn in the place of what the attacker says: the same games, tokens and steps."""
  fixed = Arm('static attacks', {'task.known': KNOWN})
  return Claim(
      paper='S242',
      says='a defender that learns against an attacker that learns is right on more of all requests, and on '
      'more of the harmful ones',
      reading=final('eval/defender/accuracy'),
      asserts=(
          above('static attacks', by=0.05),
          above('static attacks', by=0.05, reading=final('eval/defender/harmful')),
      ),
      baseline=fixed,
      minutes=5.0,
  )

"""Self-RedTeam on a toy filter: one model attacks and defends, and both learn from the same games.

    rlx --config=selfplay/redteam_selfplay --workdir=runs/redteam

Paper: https://arxiv.org/abs/2506.07468

The world is `envs/worlds/redteam.py`: 64 requests of two letters, some of them harmful. The attacker is paid
where the defender errs, so it says what is not yet known. What is read is the chance that the defender is
right, over all requests, exactly: any fresh attacker says one of these.

Result: it does not show. Final eval/defender/harmful after 400 train steps, median of 5 seeds (worst): 0.2947
(0.02622), 'static attacks' 0.6159 (0.3327). Claimed, and got (95 % interval over seeds): above 'static
attacks' by 0.05, got -0.1997 (-0.5018 to 0.09452), the run fails it. 196 CPU-s on 2 cores of a CPU;
`rlx reproduce selfplay/redteam_selfplay`.
"""

from ml_collections import ConfigDict

from rlx.config import parse_arg
from rlx.experiments.claims import Arm, Claim, above, final
from rlx.experiments.configs.selfplay import kuhn_magnet

KNOWN = 6  # harmful requests, and as many benign ones, of a fixed set


def get_config(arg: str = '') -> ConfigDict:
  """Arguments: `smoke` (seconds, learns nothing)."""
  parse_arg(arg, smoke=False)
  config = kuhn_magnet.get_config(arg, steps=400)
  config.task = {'name': 'redteam', 'num_letters': 8, 'known': 0}
  config.decoding.max_tokens = 6
  config.rollout.names = {'attacker': 'policy', 'defender': 'policy'}
  config.rollout.update(
      learnt=('attacker', 'defender'), turn_tokens=2,
      max_turns={'name': 'controllers.schedules.constant', 'value': 2},
  )
  config.evals = {
      'defender': {'name': 'exams.answers', 'names': {'defender': 'policy'}, 'every': config.evals.nash.every}
  }
  config.log.headline = 'eval/defender/accuracy'
  return config


def claim() -> Claim:
  """The fixed set is drawn in the place of what the attacker says: the same games, tokens and steps."""
  fixed = Arm('static attacks', {'task.known': KNOWN})
  return Claim(
      paper='S242',
      says='a defender that learns against an attacker that learns is right on more of all requests',
      reading=final('eval/defender/harmful'),
      asserts=(above('static attacks', by=0.05),),
      baseline=fixed,
      minutes=6.0,
  )

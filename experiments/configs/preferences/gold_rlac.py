"""RLAC: a critic names the check that an answer is likeliest to fail; a validator is asked that one alone.

    rlx --config=preferences/gold_rlac --workdir=runs/gold_rlac
    rlx --config=preferences/gold_rlac:exhaustive=True --workdir=runs/gold_exhaustive

Answers have to pass 16 checks, each of which most of them pass. A feature helps with all of them but the
last, which too much of it fails, where the reference seldom goes (`luring_worlds`): a critic that has seen
the reference alone has hardly ever seen that check fail. The critic first learns from answers of the
reference (`finding`); in the main stage it goes on beside the policy. With `exhaustive` the validator is
asked of all 16, for a sixteenth of the answers: as many calls in each step, and in all.

Without the lure (`rubric_worlds`), with 200 steps of finding, 800 in all and ten times the KL's coefficient,
the fixed critic was as good within the seeds' noise (0.343 beside 0.350): what it had learnt of the reference
held for the policy as well.

Paper: https://arxiv.org/abs/2511.01758

Result: it shows. Final eval/checks/all after 2200 train steps, median of 10 seeds (worst): 0.7415 (0.6256),
'exhaustive' 0.7011 (0.6013), 'fixed critic' 0.5758 (0.3654), 'by chance' 0.678 (0.5803), 'exhaustive, 16
times the calls' 0.723 (0.6286). Claimed, and got (95 % interval over seeds): above 'exhaustive', got 0.03979
(0.02641 to 0.05865); above 'fixed critic', got 0.1631 (0.127 to 0.2015); above 'by chance', got 0.05133
(0.04613 to 0.08059). 121 CPU-s on 1 cores of a CPU; `rlx reproduce preferences/gold_rlac`.
"""

from ml_collections import ConfigDict

from rlx.config import parse_arg
from rlx.experiments.claims import Arm, Claim, above, final
from rlx.experiments.configs.preferences import gold_dpo, gold_superhf

CHECKS, GROUP, ROWS = 16, 8, 128
PASSED = 0.85
FINDING, STEPS = 600, 1600  # train steps
GRPO = {**gold_superhf.GRPO, 'kl': {'name': 'kl_in_loss', 'coef': 0.002}}
FREE = {**gold_superhf.GRPO, 'kl': {'name': 'no_kl'}}


def get_config(arg: str = '') -> ConfigDict:
  """Arguments: `smoke` (seconds, learns nothing); `exhaustive`, without a critic."""
  arg = parse_arg(arg, smoke=False, exhaustive=False)
  config = gold_dpo.get_config(f'smoke={arg.smoke}', steps=STEPS)
  config.task = {
      'name': 'luring_worlds', 'num_prompts': 64, 'num_answers': 32, 'width': 24, 'num_checks': CHECKS,
      'passed': PASSED, 'hidden': 0.3, 'lure': 0.8, 'bound': 1.0, 'shy': 3.0,
  }
  learnt = lambda: {'updates': config.updates.to_dict(), 'optimizer': config.optimizer.to_dict(), 'every': 1}
  policy = lambda: {'algorithm': {**GRPO}, 'trained': ('policy',), **learnt()}
  critic = lambda: {
      'algorithm': {**FREE, 'names': {'policy': 'critic'}}, 'trained': ('critic',), **learnt(),
  }
  learners = lambda: {'order': ('policy', 'critic'), 'shared': (), 'policy': policy(), 'critic': critic()}
  config.slow = {'world': 'world', 'reference': 'policy'}
  config.evals = {'checks': {'name': 'gold.checked', 'every': config.evals.gold.every}}
  config.log.headline = 'eval/checks/all'
  config.algorithm = {**GRPO}
  if arg.exhaustive:
    config.rollout = {'name': 'gold.groups', 'batch_size': ROWS // CHECKS, 'group_size': GROUP}
    config.reward = {'name': 'gold.all_checks'}
    config.steps += 0 if arg.smoke else FINDING
    return config
  config.models.critic = {'name': 'gold.critic', 'num_checks': CHECKS}
  both, before = learners(), learners()
  before['policy']['optimizer']['learning_rate'] = 0.0  # the reference answers
  del config.algorithm, config.updates, config.optimizer, config.trained
  config.rollout = {
      'name': 'each', 'policy': {'name': 'gold.groups', 'batch_size': ROWS, 'group_size': GROUP},
  }
  config.reward = {'name': 'gold.criticised', 'of': 'policy', 'to': 'critic'}
  config.learners = both
  config.stages = ('finding', 'main')
  config.finding = {
      'steps': config.steps if arg.smoke else FINDING,
      'stop': ConfigDict(),
      'slow': {'world': 'world', 'reference': 'policy'},
      'rollout': config.rollout.to_dict(),
      'reward': config.reward.to_dict(),
      'learners': before,
  }
  return config


def claim() -> Claim:
  """The mechanism off is a critic that stays as it was; one that names checks by chance is beside it."""
  stays = {'learners.critic.optimizer.learning_rate': 0.0}
  chance = {**stays, 'finding.learners.critic.optimizer.learning_rate': 0.0}
  exhaustive = 'preferences/gold_rlac:exhaustive=True'
  return Claim(
      paper='S178',
      says='with an adversarial critic, for which a validator is asked once an answer, more answers pass all '
      'checks in the end than with as many calls for all checks, and than with a critic that is fixed',
      reading=final('eval/checks/all'),
      asserts=(above('exhaustive'), above('fixed critic'), above('by chance')),
      baseline=Arm('exhaustive', config=exhaustive),
      controls=(Arm('fixed critic', stays),),
      beside=(
          Arm('by chance', chance),
          Arm(f'exhaustive, {CHECKS} times the calls', {'rollout.batch_size': ROWS}, config=exhaustive),
      ),
      seeds=10,
      minutes=3.0,
  )

"""Training-Free GRPO: episodes are compared, and lessons are edited that stand in the prompt; no gradient.

    rlx --config=agents/playbook_training_free --workdir=runs/training_free

The world is `envs/worlds/playbook.py`: four situations, to each of which one of four replies is right. In a
school, where each problem has a rule of its own, a policy is taught to do what a playbook says. Then it is
frozen, and meets a rule that it does not know; its playbook is empty at first. An episode is four situations,
and is told only how many it met right. The groups' better episodes say which lessons to add, to change and
to delete; in the paper a language model reads them, and writes in words.

On nine of ten seeds the playbook comes to be right; on the other a third of situations are met right, and it
was not found out why. In these runs lessons were only added; that they are changed and deleted
is shown by tests with numbers alone. The school was shortened, and its batches halved, after a trial of one
seed.

Paper: https://arxiv.org/abs/2510.08191

Result: it shows. Mean of the last 3 eval/held_out/accuracy after 390 train steps, median of 10 seeds (worst):
1 (0.36), 'no lessons' 0 (0), 'random lessons' 0 (0). Claimed, and got (95 % interval over seeds): above 'no
lessons' by 0.3, got 0.9767 (0.8533 to 1); above 'random lessons' by 0.3, got 0.9933 (0.8266 to 1). 199 CPU-s
on 1 cores of a CPU; `rlx reproduce agents/playbook_training_free`.

Five seeds left open whether it is above random lessons by 0.3 (0.23 to 1); ten were run then.
"""

from ml_collections import ConfigDict

from rlx.config import parse_arg
from rlx.experiments.claims import Arm, Claim, above, mean
from rlx.experiments.configs.quickstart import arithmetic

TURNS = {'turn_tokens': 1, 'max_turns': 5}  # one may be not understood


def get_config(arg: str = '') -> ConfigDict:
  """Arguments: `smoke` (seconds, learns nothing)."""
  arg = parse_arg(arg, smoke=False)
  config = arithmetic.get_config('', steps=40)
  config.task = {
      'name': 'playbook',
      'situations': 4,
      'replies': 4,
      'turns': 4,
      'one_rule': True,
      'told': 0.0,
      'each': 1.0,
      'held_out_share': 0.2,
  }
  config.models.policy.update(width=48, mlp_size=96, context_length=24)
  config.decoding.max_tokens = config.sft.decoding.max_tokens = 10  # a reply and a situation, five times
  config.trained = ()
  config.slow = {'policy': 'policy'}  # frozen
  config.rollout = {
      'name': 'experienced_episodes',
      'batch_size': 32,
      'group_size': 8,
      'num_slots': 0,
      'turn_tokens': TURNS['turn_tokens'],
      'max_turns': {'name': 'controllers.schedules.constant', 'value': TURNS['max_turns']},
      'baseline': {'name': 'advantages.groups.centred'},
      'margin': 0.05,  # a situation met right is worth 0.25
      'least': 4,  # episodes
  }
  config.reward = {'name': 'of_world'}
  config.algorithm = {'name': 'gather'}
  del config['updates'], config['optimizer']
  config.sft.task = {**config.task, 'one_rule': False, 'told': 0.7}
  config.sft.steps = 350
  config.sft.stop = ConfigDict()
  config.sft.rollout = {'name': 'turns.expert_turns', 'batch_size': 64, **TURNS}
  config.evals = {
      'held_out': {
          'name': 'turns.experienced_episodes', 'every': 10, 'problems': 50, 'num_slots': 0, **TURNS
      }
  }
  config.log.steps_per_dispatch = 10
  if arg.smoke:
    config.steps = config.sft.steps = 4
    config.rollout.batch_size = config.sft.rollout.batch_size = 16
    config.evals.held_out.update(every=2, problems=16)
    config.checkpoint = {'every': 2, 'keep': 2}
    config.log.update(steps_per_dispatch=2, samples=2)
  return config


def claim() -> Claim:
  """Beside lessons that are never written, and lessons that are written by rewards of chance."""
  empty = Arm('no lessons', {'rollout.margin': 2.0})  # more than anything is worth
  random = Arm('random lessons', {'reward': {'name': 'of_chance', 'share': 0.5}})
  return Claim(
      paper='S168',
      says='lessons that are edited by the comparison of episodes raise the accuracy of a frozen policy',
      reading=mean('eval/held_out/accuracy', last=3),
      asserts=(above('no lessons', by=0.3), above('random lessons', by=0.3)),
      baseline=empty,
      controls=(random,),
      seeds=10,
      minutes=6.0,
  )

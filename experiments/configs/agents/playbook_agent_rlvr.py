"""Agent-RLVR: attempts that failed are repeated with guidance, and learnt from under the prompt without it.

    rlx --config=agents/playbook_agent_rlvr --workdir=runs/agent_rlvr

The world is that of `playbook_training_free`, and so is the school in which a policy learns to do what a
playbook says; but all four situations have to be met right, or nothing is paid, which chance does once in
256 episodes. Guidance is a playbook with all lessons. Success is that of held-out problems without it.

Paper: https://arxiv.org/abs/2506.11425

Result: it shows in part. Mean of the last 2 eval/held_out/accuracy after 410 train steps, median of 5 seeds
(worst): 1 (1), 'plain RL' 1 (1). Claimed, and got (95 % interval over seeds): above 'plain RL' by 0.3, got 0
(0 to 0), the run fails it; share behind the school of eval/guided/accuracy: above 0.3, got 1 (1 to 1). 204
CPU-s on 2 cores of a CPU; `rlx reproduce agents/playbook_agent_rlvr`.
"""

from ml_collections import ConfigDict

from rlx.config import parse_arg
from rlx.experiments.claims import Arm, Claim, Reading, above, mean, reaches
from rlx.experiments.configs.agents import playbook_training_free
from rlx.experiments.configs.quickstart import arithmetic

STEPS = 60


def get_config(arg: str = '') -> ConfigDict:
  """Arguments: `smoke` (seconds, learns nothing)."""
  arg = parse_arg(arg, smoke=False)
  config = playbook_training_free.get_config(f'smoke={arg.smoke}')
  plain = arithmetic.get_config('', steps=STEPS)
  config.task.each = 0.0  # of the school all is imitated, whatever is paid
  config.trained, config.slow = ('policy',), ConfigDict()
  config.algorithm, config.updates, config.optimizer = plain.algorithm, plain.updates, plain.optimizer
  config.updates.microbatches = 1
  config.optimizer.update(learning_rate=1e-3, warmup_steps=5, decay_steps=0)
  for name in ('baseline', 'margin', 'least'):
    del config.rollout[name]
  config.rollout.update(
      name='guided_episodes', guidance={'name': 'rollout.guided.all_told'},
      num_retried=config.rollout.batch_size // config.rollout.group_size, kept_rows=4,
  )
  turns = playbook_training_free.TURNS
  config.evals.held_out = {
      'name': 'turns.episodes', 'every': config.evals.held_out.every,
      'problems': config.evals.held_out.problems, 'num_slots': 0, **turns,
  }
  config.evals.guided = {
      **config.evals.held_out.to_dict(), 'task': {**config.task.to_dict(), 'told': 1.0}
  }
  if not arg.smoke:
    config.steps = STEPS
  return config


def claim() -> Claim:
  """Beside the same attempts, repeated as often, without guidance."""
  at_first = Reading('eval/guided/accuracy', 'share behind the school of', lambda at, values: values[:, -7])
  return Claim(
      paper='S097',
      says='guidance makes attempts succeed that else do not, and learnt from under the prompt without it, '
      'success without it rises, where plain RL stays flat',
      reading=mean('eval/held_out/accuracy', last=2),
      asserts=(above('plain RL', by=0.3), reaches(0.3, reading=at_first)),
      baseline=Arm('plain RL', {'rollout.guidance': {'name': 'rollout.guided.nothing_told'}}),
      minutes=4.0,
  )

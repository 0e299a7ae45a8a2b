"""OpenClaw-RL: a user corrects, and the policy that has read the correction teaches the one that has not.

    rlx --config=agents/corrected_openclaw --workdir=runs/openclaw

The world is the playbook of `playbook_training_free`, with a user who says what would have been right
(`envs/worlds/corrected.py`), and so is the school in which a policy learns to do what a playbook says. Then
all users want the same, the playbook is empty, and what the user said in an episode stands in it for the
teacher alone. The reward is the share that was met right, of the whole episode.

With 8 episodes a step, not 32, two trial seeds were as fast with hints as without. On five trial seeds the
rate does what hints do: until 0.95 of the situations are met right it takes 35 steps on average by the reward
alone at 2e-3, 36 with hints of weight 3 at 1e-3; at 5e-4 both are alike (0.77 and 0.76, as below).

Paper: https://arxiv.org/abs/2603.10165

Result: it does not show. Mean of the last 6 eval/held_out/right after 410 train steps, median of 5 seeds
(worst): 0.8667 (0.8583), 'reward alone' 0.83 (0.7875), 'hints alone' 0.8583 (0.7942). Claimed, and got (95 %
interval over seeds): above 'reward alone' by 0.05, got 0.03111 (-0.03833 to 0.07528), the run fails it. 427
CPU-s on 2 cores of a CPU; `rlx reproduce agents/corrected_openclaw`.
"""

from ml_collections import ConfigDict

from rlx.config import parse_arg
from rlx.experiments.claims import Arm, Claim, above, mean
from rlx.experiments.configs.agents import playbook_training_free
from rlx.experiments.configs.quickstart import arithmetic

STEPS = 60


def get_config(arg: str = '') -> ConfigDict:
  """Arguments: `smoke` (seconds, learns nothing)."""
  arg = parse_arg(arg, smoke=False)
  config = playbook_training_free.get_config(f'smoke={arg.smoke}')
  plain = arithmetic.get_config('', steps=STEPS)
  config.task = {'name': 'corrected', 'task': config.task.to_dict()}
  config.sft.task = {'name': 'corrected', 'task': config.sft.task.to_dict()}
  config.models.policy.context_length = 28
  config.decoding.max_tokens = config.sft.decoding.max_tokens = 15  # a reply, a correction and a situation
  config.trained, config.slow = ('policy',), ConfigDict()
  config.algorithm = {
      'name': 'openclaw',
      'clip_low': 0.2,
      'clip_high': 0.2,
      'reward_weight': 1.0,
      'hint_weight': 1.0,
      'gap_max': 2.0,  # nats
  }
  config.updates, config.optimizer = plain.updates, plain.optimizer
  config.updates.microbatches = 1
  config.optimizer.update(learning_rate=1e-3, warmup_steps=5, decay_steps=0)
  for name in ('baseline', 'margin', 'least'):
    del config.rollout[name]
  config.rollout.name = config.evals.held_out.name = 'turns.episodes'
  if not arg.smoke:
    config.steps = STEPS
  return config


def claim() -> Claim:
  """Beside the reward alone, at as many episodes, and hints alone."""
  return Claim(
      paper='S093',
      says='with hints in hindsight a policy learns what a user wants in fewer episodes than by reward alone',
      reading=mean('eval/held_out/right', last=6),
      asserts=(above('reward alone', by=0.05),),
      controls=(Arm('reward alone', {'algorithm.hint_weight': 0.0}),),
      beside=(Arm('hints alone', {'algorithm.reward_weight': 0.0}),),
      minutes=4.0,
  )

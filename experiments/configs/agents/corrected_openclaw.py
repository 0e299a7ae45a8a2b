"""OpenClaw-RL: a user corrects, and the policy that has read the correction teaches the one that has not.

    rlx --config=agents/corrected_openclaw --workdir=runs/openclaw

The world is the playbook of `playbook_training_free`, with a user who says what would have been right
(`envs/worlds/corrected.py`), and so is the school in which a policy learns to do what a playbook says. Then
all users want the same, the playbook is empty, and what the user said in an episode stands in it for the
teacher alone. The reward is the share that was met right, of the whole episode.

The user corrects half of the replies that were not wanted. A hint counts for the tokens that it is about
alone: when the teacher's opinion of all other tokens of the episode counted as well, hints did harm; perhaps
who has read one lesson is unsure again of the situations that it does not name. With six situations and
replies and three of ten corrected, the mean over 100 steps was 0.62 so on four trial seeds, and 0.68 with
that mended, 0.67 by the reward alone, and by hints alone 0.54 before and 0.52 after. With four situations and
six replies, as below, it was 0.83, 0.78 by the reward alone and 0.66 by hints alone; with all replies
corrected 0.82. With 16 and 8 episodes a step it was 0.81 and 0.77, by the reward alone 0.79 and 0.72 (over 80
steps).

Of these settings the one below was taken for its lead of 0.05 over the reward alone; on the claim's own seeds
it is smaller. Before that, with four replies, all of them corrected, and hints that counted everywhere, five
other seeds got 0.03 more than the reward alone (-0.04 to 0.08), where 0.05 was claimed, and what hints did, a
higher rate did, too: until 0.95 were met right it took 35 steps by the reward alone at 2e-3, and 36 with
hints of weight 3 at 1e-3. Now it is claimed to be above both, by anything, with the reward alone as a rival
and not as a control, for it may well be above hints alone.

Paper: https://arxiv.org/abs/2603.10165

Result: it shows in part. Mean of the last 6 eval/held_out/right after 410 train steps, median of 8 seeds
(worst): 0.7442 (0.6308), 'reward alone' 0.7221 (0.6108), 'hints alone' 0.6308 (0.555). Claimed, and got (95 %
interval over seeds): above 'reward alone', got 0.01396 (-0.02021 to 0.03042), the seeds leave it open; above
'hints alone', got 0.07771 (0.05313 to 0.1265). 753 CPU-s on 2 cores of a CPU;
`rlx reproduce agents/corrected_openclaw`.
"""

from ml_collections import ConfigDict

from rlx.config import parse_arg
from rlx.experiments.claims import Arm, Claim, above, mean
from rlx.experiments.configs.agents import playbook_training_free
from rlx.experiments.configs.quickstart import arithmetic

STEPS = 60
REPLIES, SAYS = 6, 0.5


def get_config(arg: str = '') -> ConfigDict:
  """Arguments: `smoke` (seconds, learns nothing)."""
  arg = parse_arg(arg, smoke=False)
  config = playbook_training_free.get_config(f'smoke={arg.smoke}')
  plain = arithmetic.get_config('', steps=STEPS)
  for stage in (config, config.sft):
    stage.task = {'name': 'corrected', 'task': {**stage.task.to_dict(), 'replies': REPLIES}, 'says': SAYS}
  config.seed = 10  # the first ones had been looked at
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
      says='by rewards and hints in hindsight a policy learns what a user wants in fewer episodes than by '
      'either alone',
      reading=mean('eval/held_out/right', last=6),
      asserts=(above('reward alone'), above('hints alone')),
      baseline=Arm('reward alone', {'algorithm.hint_weight': 0.0}),
      beside=(Arm('hints alone', {'algorithm.reward_weight': 0.0}),),
      seeds=8,
      minutes=5.0,
  )

"""CPMobius on chains of skills: a coach says how long the next chains are, and is paid for what they teach.

    rlx --config=selfplay/coach_cpmobius --workdir=runs/cpmobius

A player is shown solutions of chains of one to four operations until it solves short ones more often than
not, and long ones hardly ever. Then it sees none any more: it is paid for answering as most of its own
samples do. In each step the coach says one length for the whole batch, and a step later it is paid the rise
of the player's chance to solve 128 validation problems, of all lengths; these are what the coach has of the
outside (`rollout/coached.py`). Its last instructions are its baseline.

Paper: https://arxiv.org/abs/2602.02979, read in summaries. There the coach writes the problems, and the rise
is multiplied by how often they are solved; here it says one parameter of a generator, and the rise is all.

After 150 steps of solutions, not 50, the player had nothing left to learn, and lost it (1 to .36 in 300
steps, with three times the learning rate).

Votes alone teach little here: most players lose with either coach. With one level throughout, three trial
seeds fall from 0.67 of the held-out problems to 0.57 with level 1, 0.57 with 2 and 0.45 with 3, and to 0.48
with an unpaid coach; the mean chance of a solution goes from 0.46 to 0.51 with level 2 alone. So a good coach
would say 2, and what is claimed of its level is not what pays here. It hardly finds out: what a level is
worth is less than 0.001 a step. With a coach's rate of 1e-2 the same seeds end at a level of 2.0 and at 0.49,
hardly above the unpaid one. On three other trial seeds the player of the paid coach ends below the other: at
0.46 and 0.50 as it is here, and at 0.53 and 0.57 with four times the rows and a rate of 1e-2. After 75 steps
of solutions votes change nothing: 0.94 of the problems are solved before and after, 0.92, 0.93 and 0.90 with
levels 1, 2 and 3 throughout (two trial seeds), so there is nothing to say there either.

Result: it does not show. Final eval/held_out/accuracy after 200 train steps, median of 5 seeds (worst):
0.6426 (0.4727), 'coach not paid' 0.5879 (0.4043). Claimed, and got (95 % interval over seeds): above 'coach
not paid' by 0.02, got 0.04362 (-0.006507 to 0.07097), the seeds leave it open; rise of eval/coach/level:
above 0.5, got -0.1312 (-0.4623 to 0.5531), the run fails it. 192 CPU-s on 2 cores of a CPU;
`rlx reproduce selfplay/coach_cpmobius`.
"""

from ml_collections import ConfigDict

from rlx.config import parse_arg
from rlx.experiments.claims import Arm, Claim, above, final, reaches, rise
from rlx.experiments.configs.quickstart import arithmetic

LEVELS = 4
SHOWN, STEPS = 50, 150  # train steps
BOTH = {'coach': 'coach', 'player': 'player'}


def get_config(arg: str = '') -> ConfigDict:
  """Arguments: `smoke` (seconds, learns nothing)."""
  arg = parse_arg(arg, smoke=False)
  config = arithmetic.get_config('', steps=STEPS)
  config.task = {
      'name': 'skills', 'modulus': 7, 'num_skills': 4, 'used': (0, 1, 2, 3), 'min_steps': 1,
      'max_steps': LEVELS, 'held_out_share': 0.2,
  }
  base = config.models.policy.to_dict()
  config.models = ConfigDict({
      'player': {**base, 'num_layers': 2, 'width': 48, 'mlp_size': 96, 'context_length': 16},
      'coach': {**base, 'num_layers': 1, 'width': 16, 'num_heads': 2, 'num_kv_heads': 2, 'mlp_size': 32,
                'context_length': 4},
  })
  config.decoding.max_tokens = LEVELS + 1
  config.rollout = {
      'name': 'coached.coached', 'names': {**BOTH}, 'batch_size': 128, 'group_size': 16, 'num_slots': 0,
      'validation': 128, 'window': 16,
  }
  config.reward = {
      'name': 'by_name',
      'coach': {'name': 'of_world'},
      'player': {'name': 'labelfree.majority', 'names': {'policy': 'player'}, 'answer_tokens': 0},
  }
  config.updates.microbatches = 1
  config.optimizer.update(learning_rate=1e-3, decay_steps=0)
  sft = config.sft
  sft.steps, sft.stop, sft.trained = SHOWN, ConfigDict(), ('player',)
  sft.task = config.task
  sft.rollout = {'name': 'solutions', 'names': {'policy': 'player'}, 'batch_size': 64}
  sft.algorithm = {'name': 'sft', 'names': {'policy': 'player'}}
  sft.decoding.max_tokens = config.decoding.max_tokens
  optimizer = config.optimizer.to_dict()
  config.learners = {
      'order': ('coach', 'player'), 'shared': (),
      'coach': _learner('coach', config.updates, {**optimizer, 'learning_rate': 3e-3}, entropy_coef=0.05),
      'player': _learner('player', config.updates, {**optimizer, 'learning_rate': 3e-4}, entropy_coef=0.0),
  }
  for name in ('algorithm', 'updates', 'optimizer', 'trained'):
    del config[name]
  config.evals = {
      'held_out': {'name': 'verified', 'names': {'policy': 'player'}, 'every': 25, 'problems': 512},
      'coach': {'name': 'coaching.instructed', 'names': {**BOTH}, 'every': 25, 'problems': 128},
  }
  config.checkpoint.every = 100
  config.log.update(samples=0, steps_per_dispatch=25)
  if arg.smoke:
    _shrink(config)
  return config


def claim() -> Claim:
  """The mechanism off: a coach that is paid nothing, and so stays at the even levels that it begins with."""
  return Claim(
      paper='S179',
      says='a coach that is paid for the rise of a player tells it longer problems as it learns, and the '
      'player solves more than one whose coach is paid nothing, without a label',
      reading=final('eval/held_out/accuracy'),
      asserts=(
          above('coach not paid', by=0.02),
          reaches(0.5, reading=rise('eval/coach/level')),
      ),
      controls=(Arm('coach not paid', {'reward.coach': {'name': 'of_chance', 'share': 0.0}}),),
      minutes=3.0,
  )


def _learner(name: str, updates, optimizer: dict, *, entropy_coef: float) -> dict:
  return {
      'updates': updates.to_dict(), 'optimizer': optimizer, 'every': 1, 'trained': (name,),
      'algorithm': {**arithmetic.GRPO, 'names': {'policy': name}, 'entropy_coef': entropy_coef},
  }


def _shrink(config: ConfigDict) -> None:
  """A run of a few seconds that takes every path."""
  config.steps = config.sft.steps = 4
  config.rollout.update(batch_size=16, group_size=4, validation=8, window=4)
  config.sft.rollout.batch_size = 8
  for exam in config.evals.values():
    exam.update(every=2, problems=16)
  config.checkpoint = {'every': 2, 'keep': 2}
  config.log.steps_per_dispatch = 2

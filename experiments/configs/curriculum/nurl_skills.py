"""NuRL on chains of skills: groups without a success are sampled again with the first values told.

    rlx --config=curriculum/nurl_skills --workdir=runs/nurl
    rlx --config=curriculum/nurl_skills:small,steps=4,rumours --workdir=runs/rumours  # what is claimed

Paper: https://arxiv.org/abs/2509.25666. There, hints are written by the policy before training, and begin
after GRPO has converged; `nurl_self_skills.py` has the policy write them.

With `rumours` the problems are of two skills that nobody taught: lessons (`sft`) are of two others, but for a
quarter, whose values are chance, so that only the hint tells anything (`envs.skills.rumoured`). They teach
that hints are to be trusted. A chain of four is guessed once in 2,401 times.

Tried: five steps of six skills, of which SFT taught half until 2 % of the problems were solved: 0.006 beside
0.003 by GRPO, medians of five seeds, which they left open (beside GRPO with two thirds of the rollouts, 0.008
and 0.002). Problems of seven steps, two trial seeds each: where SFT goes on until half of the skills are
known, hardly a hinted row of a failed group succeeds (1.6 % of all rows at most), for who can solve the
problems of its lessons does not read hints. It was the same behind 40 steps of SFT of all skills, after which
0.5 % are solved, and where lessons of which only the told values counted stood before or behind SFT. With
`rumours` three trial seeds came to 0.06, 0.27 and 0.08 of the held-out problems; GRPO, which was stopped
after 140 of its 300 steps, to 0, 0.08 and 0.02.

Without the bonus for entropy, after 300 steps, five seeds had 0.2 (0.1 to 0.45) more than GRPO, which had
nothing, where lessons also showed how hints are written, and for that the true values; where they showed
values of chance for that as well the same seeds ended at 0.03 (0 to 0.28), and five others without such
lessons at 0.03 (0 to 0.43), perhaps for policies are sure of wrong values too soon. With the bonus these five
came to 0.07 (0 to 1), and after 460 of 500 steps to 0.17 (0.03 to 1); three of them by GRPO to 0, in 180. It
is not that GRPO never can: with a KL of 1e-3 and without the bonus, behind lessons of decomposed problems,
too, it had three of them at 0.03, 0.17 and 0.18 after 300 steps, and ten others at 0.155 (0) after 500, but
at 0 with the bonus (`clpo_skills.py`).

Result: it shows. Mean of the last 3 eval/held_out/accuracy after 97,280 rollouts, median of 5 seeds (worst):
0.3133 (0.14), 'GRPO' 0 (0). Claimed, and got (95 % interval over seeds): above 'GRPO', got 0.3104 (0.1767 to
0.3759). 480 CPU-s on 2 cores of a CPU; `rlx reproduce curriculum/nurl_skills`.
"""

from ml_collections import ConfigDict

from rlx.config import parse_arg
from rlx.experiments.claims import Arm, Claim, above, mean
from rlx.experiments.configs.quickstart import arithmetic

# Rows of the small setting, each sampled once.
COMPLETIONS = {'name': 'prompts.completions', 'batch_size': 256, 'group_size': 8, 'num_slots': 0}
AGAIN = 128  # rows that are sampled again in a second attempt, of half of the groups
SHOWN, FEW = 260, 64  # with `rumours`: steps of lessons, and rows


def get_config(arg: str = '') -> ConfigDict:
  """Arguments: `smoke` (seconds, learns nothing); `small` (as in the quickstart); `steps` (operations of a
  problem, the difficulty); `rumours` (64 rows, problems of two skills of four, which lessons only name)."""
  arg = parse_arg(arg, smoke=False, small=False, steps=5, rumours=False)
  config = arithmetic.get_config(f'smoke={arg.smoke},small={arg.small}', steps=600)
  config.population.size = 3
  config.task = {
      'name': 'skills',
      'modulus': 10,
      'num_skills': 6,
      'used': (0, 1, 2, 3, 4, 5),
      'min_steps': arg.steps,
      'max_steps': arg.steps,
      'held_out_share': 0.2,  # of the first digits, others for each chain of operations
  }
  config.decoding.max_tokens = config.sft.decoding.max_tokens = arg.steps + 1
  config.rollout = {
      'name': 'inject.hinted',
      'batch_size': config.rollout.batch_size,
      'group_size': 8,
      'num_slots': 0,
      'form': 'hinted',
      'num_retried': config.rollout.batch_size // 16,  # half of the groups
      'kept_rows': 1,  # one row of a group is without the hint, as in the paper
  }
  # Policies that know how to use a hint, and hardly anything else.
  config.sft.task = {**config.task, 'used': (0, 1, 2)}
  config.sft.stop.at_least = 0.02
  config.sft.rollout = {
      'name': 'inject.lessons',
      'batch_size': config.sft.rollout.batch_size,
      'forms': ('', 'hinted', 'asking'),
  }
  if arg.rumours:
    _only_name(config)
  if arg.rumours and not arg.smoke:
    config.rollout.update(batch_size=FEW, num_retried=FEW // 8)  # every group
    config.sft.rollout.batch_size, config.sft.steps = 64, SHOWN
    config.seed = 10  # the first ones had been looked at
    config.steps, config.optimizer.decay_steps = 500, 480
  return config


def _only_name(config: ConfigDict) -> None:
  """Lessons of two skills, of the use of hints, and of no more than the names of the other two."""
  config.task.update(modulus=7, num_skills=4, used=(2, 3), held_out_share=0.3)
  config.sft.task = {
      **config.task, 'name': 'skills.rumoured', 'used': (0, 1), 'unknown': (2, 3), 'share': 0.25,
  }
  config.sft.stop = ConfigDict()
  config.sft.rollout.forms = ('', 'hinted')
  config.updates.microbatches = 1
  config.optimizer.learning_rate = 1e-3
  config.algorithm.entropy_coef = 0.01  # without it wrong values, too, are said for sure after 200 steps


def claim() -> Claim:
  """Groups are sampled once, and as many rows as with the second attempts."""
  rows = 2 * FEW
  return Claim(
      paper='S217',
      says='hints where a group has no success lift what GRPO does not learn, at equal rollouts',
      argument='small,steps=4,rumours=True',
      reading=mean('eval/held_out/accuracy', last=3),
      asserts=(above('GRPO'),),
      cost=rows,
      budget_name='rollouts',
      baseline=Arm('GRPO', {'rollout': {**COMPLETIONS, 'batch_size': rows}}, cost=rows),
      minutes=5.0,
  )

"""DPO in worlds whose true reward is known: the reward rises, and falls where the policy is driven on.

    rlx --config=preferences/gold_dpo --workdir=runs/gold_dpo

Each seed is a world of its own (`rlx/envs/gold.py`): 64 prompts with 32 answers, a policy that is log-linear
in 24 features, and 768 comparisons of the reference's answers. One of the features is good to have up to a
point that the reference seldom passes; how much (hump 3 and 768 labels) was set when 1.5 and 192 were seen to
leave most of it to the noise of labels. The configs beside this one begin from it.

Of the ten curves the form d (α - β log d), d the root of the KL, has an R² of 0.55 in the median (worst
0.42), d (α - β d) one of 0.82 (0.67): the reward falls faster than the paper's form; with β = 0.5 (0.92,
0.86) and IPO (0.93, 0.88), which hardly fall, the first does (`evaluation.gold.overoptimisation_fit`). The
reward is highest after some 220 steps, which are 18 epochs; that it falls within the first one, as in the
paper, does not show.

Paper: https://arxiv.org/abs/2406.02900

Result: it shows. Fall behind the best of eval/gold/gain after 600 train steps, median of 10 seeds (worst):
0.4132 (0.1943), 'no hump' 0 (0), 'β = 0.5' 0.02059 (0.004152), 'IPO' 0.02124 (0.001842), 'SLiC' 0.292
(0.1576). Claimed, and got (95 % interval over seeds): above 0.2, got 0.422 (0.3351 to 0.5074); above 'no
hump' by 0.1, got 0.4172 (0.3329 to 0.5021). 66 CPU-s on 2 cores of a CPU;
`rlx reproduce preferences/gold_dpo`.
"""

from ml_collections import ConfigDict

from rlx.config import parse_arg
from rlx.experiments.claims import Arm, Claim, Reading, above, reaches

BETA = 0.1
DPO = {'name': 'dpo', 'loss': {'name': 'sigmoid', 'beta': BETA}}


def get_config(arg: str = '', *, steps: int = 600) -> ConfigDict:
  """Arguments: `smoke` (seconds, learns nothing). `steps` are for the configs that start from this one."""
  arg = parse_arg(arg, smoke=False)
  config = ConfigDict()
  config.seed = 0
  config.population = {'size': 2 if arg.smoke else 5}
  config.mesh = {'data': -1, 'fsdp': 1, 'tensor': 1}  # -1: all devices
  config.stages = ('main',)
  config.task = {
      'name': 'gold_worlds', 'num_prompts': 64, 'num_answers': 32, 'width': 24, 'hump': 3.0, 'hidden': 0.5,
      'spread': 1.0,
  }
  config.models = {'world': {'name': 'gold.world'}, 'policy': {'name': 'gold.log_linear'}}
  config.steps = 4 if arg.smoke else steps
  config.stop = ConfigDict()  # none: all steps are taken
  config.trained = ('policy',)
  config.slow = {'world': 'world', 'reference': 'policy'}
  config.rollout = {
      'name': 'gold.rounds',
      'batch_size': 128,  # rows, two a comparison
      'rounds': 1,  # offline
      'pairs': 768,  # labels
      'period': 1,  # train steps of a round
      'sharpness': 1.0,
      'remembered': True,
  }
  config.algorithm = {**DPO}
  config.updates = {'epochs': 1, 'minibatches': 1, 'microbatches': 1}
  config.optimizer = {'name': 'adam', 'learning_rate': 1e-2, 'b1': 0.9, 'b2': 0.999, 'eps': 1e-8}
  config.evals = {'gold': {'name': 'gold.measured', 'every': 2 if arg.smoke else 20, 'at_kl': 3.0}}
  config.checkpoint = {'every': 2 if arg.smoke else 200, 'keep': 2}
  config.log = {
      'steps_per_dispatch': 2 if arg.smoke else 20,
      'samples': 0,
      'headline': 'eval/gold/gain',
      'writers': ('tensorboard',),
      'stuck_seconds': 900.0,  # until it is said where a step hangs
  }
  return config


def claim() -> Claim:
  """Where the reward has no hump, it need not fall; other losses and a larger β are beside it."""
  fall = Reading(
      'eval/gold/gain', 'fall behind the best of', lambda at, values: values.max(axis=1) - values[:, -1]
  )
  ipo = {'algorithm.loss': {'name': 'ipo', 'beta': BETA}}
  slic = {'algorithm.loss': {'name': 'hinge', 'beta': BETA}}
  return Claim(
      paper='S231',
      says='direct alignment is overdone without a reward model: true reward falls while the loss does',
      reading=fall,
      asserts=(reaches(0.2), above('no hump', by=0.1)),
      controls=(Arm('no hump', {'task.hump': 0.0}),),
      seeds=10,
      beside=(Arm('β = 0.5', {'algorithm.loss.beta': 0.5}), Arm('IPO', ipo), Arm('SLiC', slic)),
      minutes=2.0,
  )

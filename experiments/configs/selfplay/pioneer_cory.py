"""CORY on ciphers: a pioneer answers, an observer reads that and answers too, and they change places.

    rlx --config=selfplay/pioneer_cory --workdir=runs/cory

One model is shown solutions until it has some (`sft`), and is copied twice. The world is
`envs/worlds/pioneer.py`: both copies are paid for both answers, held to the model that they began as, and
change their roles every 20 steps. What is deployed is one of them alone, which answers the question as a
pioneer does; read are its reward and its KL to the reference.

Paper: https://arxiv.org/abs/2410.06101. There the learner is PPO; here it is GRPO, in all arms.

An agent alone has all of its rows at the question that it is examined by; a pair that changes places has half
of them there, and pays each for the noise of the other.

Result: it does not show. Final eval/one/value after 200 train steps, median of 5 seeds (worst): 0.2199
(0.0453), 'alone' 0.6086 (0.02876), 'own rewards' 0.2787 (0.0917), 'fixed roles' 0.4097 (0.157). Claimed, and
got (95 % interval over seeds): above 'alone', got -0.4358 (-0.5559 to -0.09603), the reverse holds; final
eval/one/reward: above 'alone', got -0.4417 (-0.5501 to -0.224), the reverse holds; final eval/one/kl: below
'alone', got 0.2496 (-0.3965 to 2.909), the seeds leave it open. 315 CPU-s on 2 cores of a CPU;
`rlx reproduce selfplay/pioneer_cory`.
"""

from ml_collections import ConfigDict

from rlx.config import parse_arg
from rlx.experiments.claims import Arm, Claim, above, final
from rlx.experiments.configs.quickstart import arithmetic

TEXT = {'name': 'envs.ciphers.ciphers', 'modulus': 7, 'letters': 6, 'domains': ('ab', 'cd', 'ef')}
SEATS = {'one': 'pioneer', 'two': 'observer'}  # learner -> the seat at which it sits first
COEF = 0.05  # of the KL
EPISODES, STEPS = 96, 160  # of a batch; train steps


def get_config(arg: str = '') -> ConfigDict:
  """Arguments: `smoke` (seconds, learns nothing); `alone` (one model, as many answers a step)."""
  arg = parse_arg(arg, smoke=False, alone=False)
  config = arithmetic.get_config('', steps=STEPS)
  config.task = {'name': 'worlds.pioneer.pioneer', 'task': {**TEXT}, 'shared': 1.0}
  base = {**config.models.policy, 'num_layers': 1, 'width': 48, 'mlp_size': 96, 'context_length': 16}
  copy = {'name': 'copy', 'names': {'of': 'base'}}
  config.models = ConfigDict({'base': base, 'one': copy, 'two': copy})
  config.slow = {'base': 'base'}
  config.decoding.max_tokens = 8  # of a seat: two digits and the end, behind as many that it reads
  config.updates.microbatches = 1
  config.optimizer.update(learning_rate=1e-3, decay_steps=0)
  sft = config.sft
  sft.steps, sft.task, sft.trained = 200, {**TEXT}, ('base',)
  sft.rollout = {'name': 'solutions', 'names': {'policy': 'base'}, 'batch_size': 64}
  sft.algorithm = {'name': 'sft', 'names': {'policy': 'base'}}
  sft.stop = {'name': 'reached', 'metric': 'eval/base/accuracy', 'at_least': 0.3}
  sft.decoding.max_tokens = config.decoding.max_tokens
  learner = {'updates': config.updates.to_dict(), 'optimizer': config.optimizer.to_dict(), 'every': 1}
  held = {**arithmetic.GRPO, 'kl': {'name': 'kl_in_loss', 'names': {'reference': 'base'}, 'coef': COEF}}
  if arg.alone:
    del config.models['two']
    config.task = {**TEXT}
    config.trained = ('one',)
    config.rollout = {
        'name': 'prompts.completions', 'names': {'policy': 'one'}, 'batch_size': 2 * EPISODES,
        'group_size': 8, 'num_slots': 0,
    }
    config.reward = {'name': 'verifier', 'names': {'policy': 'one'}}
    config.algorithm = {**held, 'names': {'policy': 'one'}}
  else:
    config.rollout = {
        'name': 'roles.rotated', 'names': {seat: name for name, seat in SEATS.items()}, 'episodes': EPISODES,
        'group_size': 8, 'turn_tokens': 3,
        'max_turns': {'name': 'controllers.schedules.constant', 'value': 2}, 'learners': {**SEATS},
        'period': 20,
    }
    config.reward = {'name': 'by_name', **{name: {'name': 'of_world'} for name in SEATS}}
    config.learners = {
        'order': tuple(SEATS), 'shared': (),
        **{name: {**learner, 'algorithm': {**held, 'names': {'policy': name}}, 'trained': (name,)}
           for name in SEATS},
    }
    for name in ('algorithm', 'updates', 'optimizer', 'trained'):
      del config[name]
  config.evals = {
      'base': {
          'name': 'verified', 'names': {'policy': 'base'}, 'task': {**TEXT}, 'every': 20, 'problems': 256
      },
      'one': {
          'name': 'anchored.priced', 'names': {'policy': 'one', 'reference': 'base'}, 'task': {**TEXT},
          'every': 40, 'problems': 256, 'group_size': 4, 'coef': COEF,
      },
  }
  config.checkpoint.every = 80
  config.log.update(headline='eval/one/reward', samples=0)
  if arg.smoke:
    _shrink(config, alone=arg.alone)
  return config


def claim() -> Claim:
  """One agent deployed alone, beside one model that has sampled as many answers of its own."""
  reward, kl = final('eval/one/reward'), final('eval/one/kl', lower=True)
  return Claim(
      paper='S075',
      says='an agent that has learnt beside another, with rewards of both and by turns in both roles, has '
      'more reward at less KL than a single one of as many answers',
      reading=final('eval/one/value'),
      asserts=(above('alone'), above('alone', reading=reward), above('alone', reading=kl)),
      baseline=Arm('alone', config='selfplay/pioneer_cory:alone=True'),
      beside=(Arm('own rewards', {'task.shared': 0.0}), Arm('fixed roles', {'rollout.period': 10**6})),
      minutes=4.0,
  )


def _shrink(config: ConfigDict, *, alone: bool) -> None:
  """A run of a few seconds that takes every path."""
  config.steps = config.sft.steps = 4
  config.sft.rollout.batch_size = 8
  config.rollout.update({'batch_size' if alone else 'episodes': 16}, group_size=4)
  if not alone:
    config.rollout.period = 1
  for exam in config.evals.values():
    exam.update(every=2, problems=16)
  config.checkpoint = {'every': 2, 'keep': 2}
  config.log.steps_per_dispatch = 2

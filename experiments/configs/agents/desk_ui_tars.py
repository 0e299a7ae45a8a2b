"""UI-TARS-2 at the desk of `desk_ultracua`: a critic that learns first, a λ for each length, and a flywheel.

    rlx --config=agents/desk_ui_tars --workdir=runs/ui_tars

A little imitation; then the critic alone learns what the imitator's episodes come to (`critic`, with λ = 1);
then PPO, whose λ = 1 - 1 / (α l) follows how much was said in an episode. In the middle, the successes of the
newest episodes go back into imitation (`recycle`), from where PPO goes on.

Paper: https://arxiv.org/abs/2509.02544; the lengths as in VAPO, https://arxiv.org/abs/2504.05118. Clipping is
asymmetric. That environments are asynchronous is left out. α = 2 was chosen after a look: with 0.3, λ is
about 0.8 for a dozen actions, and four of five seeds ended at 0 where Monte Carlo ends at 0.55 in the median.

Result: it does not show. Mean of the last 3 eval/held_out/accuracy after 190 train steps, median of 5 seeds
(worst): 0.5567 (0.1967), 'critic from nothing' 0.5467 (0.46), 'Monte Carlo' 0.5533 (0.06333), 'no flywheel'
0.6 (0.1967). Claimed, and got (95 % interval over seeds): how far falls at first eval/held_out/accuracy:
below 'critic from nothing' by 0.02, got -0.03333 (-0.08 to -0.01667), the reverse holds; above 'Monte Carlo',
got 0.07667 (-0.1211 to 0.2444), the seeds leave it open; above 'no flywheel', got 0.01667 (-0.03333 to
0.1322), the seeds leave it open. 763 CPU-s on 2 cores of a CPU; `rlx reproduce agents/desk_ui_tars`.
"""

from ml_collections import ConfigDict

from rlx.config import parse_arg
from rlx.experiments.claims import Arm, Claim, Reading, above, mean
from rlx.experiments.configs.agents import desk_ultracua
from rlx.experiments.configs.policy_gradient import ppo_arithmetic

SHOWN, VALUED, RL, RECYCLED = 40, 20, 60, 10  # train steps; those of RL are taken twice
EPISODES = 64  # a step
NEVER = 1e-9  # a learning rate


def get_config(arg: str = '') -> ConfigDict:
  """Arguments: `smoke` (seconds, learns nothing)."""
  arg = parse_arg(arg, smoke=False)
  config = desk_ultracua.at_desk(f'smoke={arg.smoke}', steps=RL)
  if not arg.smoke:
    config.sft.steps = SHOWN
    config.evals.held_out.every = config.log.steps_per_dispatch = 10
  config.models.value = {'name': 'value_head'}
  config.trained = ('policy', 'value')
  config.optimizer.decay_steps = 0
  episodes = config.rollout.to_dict()
  by_length = {'name': 'advantages.temporal.lengths_to_lambda', 'alpha': 2.0}
  ppo = ppo_arithmetic.get_config().algorithm.to_dict()
  config.algorithm = {**ppo, 'clip_high': 0.28, 'lambda_': by_length}
  config.rollout = {
      'name': 'remembered',
      'rollout': episodes,
      'memory': 'right',
      'capacity': 4 * episodes['batch_size'],  # the newest rows
      'min_reward': 1.0,
  }
  config.keeps = True
  config.stages = ('sft', 'critic', 'main', 'recycle', 'main')
  config.critic = {
      'steps': 4 if arg.smoke else VALUED,
      'stop': ConfigDict(),
      'trained': ('value',),
      'slow': {'policy': 'policy'},
      'decoding': config.decoding.to_dict(),
      'rollout': episodes,
      'reward': config.reward.to_dict(),
      'algorithm': {**ppo, 'lambda_': 1.0},
      'updates': config.updates.to_dict(),
      'optimizer': config.optimizer.to_dict(),
  }
  config.recycle = {
      'steps': 4 if arg.smoke else RECYCLED,
      'stop': ConfigDict(),
      'trained': ('policy',),
      'slow': ConfigDict(),
      'decoding': config.decoding.to_dict(),
      'rollout': {'name': 'from_memory', 'memory': 'right', 'batch_size': episodes['batch_size']},
      'algorithm': {'name': 'sft'},
      'updates': config.updates.to_dict(),
      'optimizer': config.optimizer.to_dict(),
      'takes': ('right',),
  }
  return config


def claim() -> Claim:
  """The mechanism off: a critic that begins with 0, Monte Carlo, and successes that do not come back."""
  begun = SHOWN + VALUED

  def dropped(at, values):
    early = values[:, (at > begun) & (at <= begun + RL // 2)]
    return values[:, at == begun][:, 0] - early.min(axis=1)

  drop = Reading('eval/held_out/accuracy', 'how far falls at first', dropped, lower=True)
  return Claim(
      paper='S029',
      says='a critic that has learnt first lowers the drop at the start of PPO; with a λ by length it ends '
      'above Monte Carlo, and with successes that go back into imitation above PPO alone',
      reading=mean('eval/held_out/accuracy', last=3),
      asserts=(
          above('critic from nothing', by=0.02, reading=drop),
          above('Monte Carlo'),
          above('no flywheel'),
      ),
      baseline=Arm('critic from nothing', {'critic.optimizer.learning_rate': NEVER}),
      beside=(
          Arm('Monte Carlo', {'algorithm.lambda_.alpha': 1000.0}),
          Arm('no flywheel', {'recycle.optimizer.learning_rate': NEVER}),
      ),
      minutes=8.0,
  )

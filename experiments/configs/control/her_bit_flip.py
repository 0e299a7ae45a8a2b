"""HER: DQN makes bits like other bits, from goals that its episodes came to in hindsight.

Paper: Andrychowicz et al., 2017, https://arxiv.org/abs/1707.01495

    rlx --config=control/her_bit_flip --workdir=runs/her_bit_flip

Result: it shows. Final eval/episodes/success after 3000 train steps, median of 5 seeds (worst): 1 (1), 'no
goals in hindsight' 0 (0). Claimed, and got (95 % interval over seeds): the worst seed above 0.9, got 1 (1 to
1); above 'no goals in hindsight' by 0.5, got 1 (1 to 1). 76 CPU-s on 1 cores of a CPU;
`rlx reproduce control/her_bit_flip`.
"""

from ml_collections import ConfigDict

from rlx.config import parse_arg
from rlx.experiments.claims import Arm, Claim, above, final, reaches
from rlx.experiments.configs.control import dqn_cartpole as parent


def get_config(arg: str = '') -> ConfigDict:
  """Arguments: `smoke` (seconds, learns nothing), `num_bits`, `share` (of goals in hindsight; 0 is DQN)."""
  arg = parse_arg(arg, smoke=False, num_bits=12, share=0.8)
  config = parent.get_config('smoke' if arg.smoke else '')
  parent.make_rare(config)
  config.env = {'name': 'bit_flip', 'num_bits': arg.num_bits, 'max_steps': arg.num_bits}
  config.rollout.update(
      name='hindsight_replay',
      relabel={'name': 'bit_flip.relabel'},
      goal_size=arg.num_bits,
      share=arg.share,  # the authors': 4 goals in hindsight for each that was wanted
      horizon=arg.num_bits,  # a whole episode
  )
  config.algorithm.update(discount=0.98, huber_delta=1.0, target_period=50)  # the authors' discount
  config.optimizer.update(learning_rate=1e-3, decay_steps=0)  # none
  config.evals.episodes.max_steps = arg.num_bits
  config.log.headline = 'eval/episodes/success'
  if not arg.smoke:
    config.steps, config.checkpoint.every = 3000, 1000  # 48,000 steps of the environment
    config.rollout.update(num_envs=16, capacity=16_000, warmup_steps=1600)
  return config


def claim() -> Claim:
  """Without goals in hindsight it is DQN, which hardly ever sees its goal."""
  return Claim(
      paper='',
      says='goals in hindsight solve what waiting for the goal does not',
      reading=final('eval/episodes/success'),
      asserts=(reaches(0.9, of='worst'), above('no goals in hindsight', by=0.5)),
      controls=(Arm('no goals in hindsight', {'rollout.share': 0.0}),),
      minutes=3.0,
  )

"""State2Explanation on a small Connect: an agent is paid for moves that an embedding explains as good ones.

Paper: Das et al., 2023, https://arxiv.org/abs/2309.12482

    rlx --config=control/s2e_connect --workdir=runs/s2e_connect

Result: it does not show. Mean of the last 10 eval/episodes/return after 4200 train steps, median of 5 seeds
(worst): 0.2562 (0.1562), 'worth nothing' 0.3063 (0.2313). Claimed, and got (95 % interval over seeds): above
'worth nothing', got -0.07083 (-0.2583 to 0.03333), the run fails it. 305 CPU-s on 2 cores of a CPU;
`rlx reproduce control/s2e_connect`.

Tried on three trial seeds, read in 256 games, with 2,000 steps of explaining: with worths of 0.5, 0.2, 0.2,
0, -0.5 and -0.5 it ended at 0.45 (0.23 to 0.65), and at 0.65 (0.51 to 0.68) with none. On six others, all
worths a fifth and half as large as here: 0.43 and 0.39 in the end and 0.36 and 0.31 over the run, with none
0.55 and 0.47 (means). Perhaps an explainer that has seen games of a policy that has learnt nothing misleads
one that plays better.
"""

from ml_collections import ConfigDict

from rlx.config import parse_arg
from rlx.experiments.claims import Arm, Claim, above, mean
from rlx.experiments.configs.control import ppo_cartpole

LENGTH = 3  # stones that make a row
EXPLANATIONS = {'name': 'connect.explanations'}
WORTHS = (1.0, 0.5, 0.5, 0.0, -1.0, -1.0)  # of `connect.CONCEPTS`, in units of games won


def get_config(arg: str = '') -> ConfigDict:
  """Arguments: `smoke` (seconds, learns nothing)."""
  arg = parse_arg(arg, smoke=False)
  config = ppo_cartpole.get_config('smoke' if arg.smoke else '')
  config.stages = ('explaining', 'main')
  config.env = {'name': 'connect', 'rows': 4, 'columns': 5, 'length': LENGTH, 'sight': 1.0}
  config.models.explainer = {
      'name': 'joint',
      'explanations': dict(EXPLANATIONS),
      'hidden': (128,),
      'size': 32,
      'activation': 'relu',
      'sharpness': 10.0,
  }
  config.explaining = {
      'steps': 4000,  # updates
      'stop': ConfigDict(),  # none
      'rollout': {'name': 'unroll', 'num_envs': 32, 'num_steps': 8},  # of a policy that has learnt nothing
      'algorithm': {
          'name': 'state2explanation.explaining',
          'concepts': {'name': 'connect.concepts', 'length': LENGTH},
          'explanations': dict(EXPLANATIONS),
      },
      'updates': {'epochs': 1, 'minibatches': 1, 'microbatches': 1},
      'optimizer': {**config.optimizer.to_dict(), 'learning_rate': 3e-3, 'decay_steps': 4000},
      'trained': ('explainer',),
      'slow': {'policy': 'policy'},
  }
  config.slow = {'explainer': 'explainer'}
  config.reward = {'name': 'explained', 'explanations': dict(EXPLANATIONS), 'worths': WORTHS}
  config.algorithm = {'name': 'state2explanation', 'parent': config.algorithm}
  config.evals.episodes.max_steps = 20
  if arg.smoke:
    config.explaining.steps = 4
  return config


def claim() -> Claim:
  """Explanations that are worth nothing leave PPO."""
  return Claim(
      paper='S058',
      says='an agent that is paid for moves that are explained as good ones wins more, at equal games',
      reading=mean('eval/episodes/return', last=10),
      asserts=(above('worth nothing'),),
      controls=(Arm('worth nothing', {'reward.worths': (0.0,) * len(WORTHS)}),),
      minutes=4.0,
  )

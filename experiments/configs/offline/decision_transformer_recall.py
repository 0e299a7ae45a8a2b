"""A decision transformer remembers what it was shown three steps ago, from records of random actions.

Paper: Chen et al., 2021, https://arxiv.org/abs/2106.01345

    rlx --config=offline/decision_transformer_recall --workdir=runs/dt_recall

Result: it shows. Final eval/episodes/return after 1000 train steps, median of 10 seeds (worst): 1 (1), 'one
step in sight' -0.01562 (-0.01562). Claimed, and got (95 % interval over seeds): the worst seed above 0.9, got
1 (1 to 1); above 'one step in sight' by 0.5, got 1.016 (1.016 to 1.016). 50 CPU-s on 1 cores of a CPU;
`rlx reproduce offline/decision_transformer_recall`.
"""

from ml_collections import ConfigDict

from rlx.config import parse_arg
from rlx.experiments.claims import Arm, Claim, above, final, reaches
from rlx.experiments.configs.offline import bc_pointmass as parent

NUM_STEPS = 4


def get_config(arg: str = '') -> ConfigDict:
  """Arguments: those of bc_pointmass."""
  config = parent.get_config(arg)
  config.env = {'name': 'recall', 'num_steps': NUM_STEPS}
  config.models = {
      'policy': {
          'name': 'causal',
          'length': NUM_STEPS,
          'width': 16,
          'num_layers': 1,
          'num_heads': 2,
          'max_steps': NUM_STEPS,
          'return_scale': 1.0,
      },
  }
  config.data = {  # 4000 transitions
      'name': 'random', 'num_envs': 100, 'num_steps': 10 * NUM_STEPS, 'discount': 1.0, 'seed': 0,
  }
  config.rollout = {
      'name': 'offline_stretches',
      'length': NUM_STEPS,
      'batch_size': 64,
  }
  config.steps, config.optimizer.learning_rate = min(config.steps, 1000), 3e-3
  config.algorithm = {'name': 'decision_transformer'}
  config.evals.episodes.update(name='history.episodes', target=1.0)
  if not parse_arg(arg, smoke=False).smoke:
    config.evals.episodes.episodes = 256  # half of them with either cue, give or take 8
  return config


def claim() -> Claim:
  """A context of one step is return-conditioned cloning by the same network; the cue is out of its sight."""
  return Claim(
      paper='',
      says='a sequence model remembers from records of random actions what its last step does not show',
      reading=final('eval/episodes/return'),
      asserts=(reaches(0.9, of='worst'), above('one step in sight', by=0.5)),
      controls=(Arm('one step in sight', {'models.policy.length': 1, 'rollout.length': 1}),),
      seeds=10,
      minutes=2.0,
  )

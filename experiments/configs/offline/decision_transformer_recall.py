"""A decision transformer remembers what it was shown three steps ago, from records of random actions.

Paper: Chen et al., 2021, https://arxiv.org/abs/2106.01345

    rlx --config=offline/decision_transformer_recall --workdir=runs/dt_recall

Result: with these numbers in tests/control/test_decision_transformer.py, over 5 seeds: return 1 in all of
them, the best there is; this file itself was not run yet.
"""

from ml_collections import ConfigDict

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
  return config

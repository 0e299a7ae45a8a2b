"""DARLING on the fork task, where right answers differ in their letters: the decoder of the quickstart.

    rlx --config=policy_gradient/darling_fork --workdir=runs/darling

Paper: https://arxiv.org/abs/2509.02534

Result: not run yet.
"""

from ml_collections import ConfigDict

from rlx.experiments.configs.credit import tempo_fork


def get_config(arg: str = '') -> ConfigDict:
  """Arguments: `smoke` (seconds, learns nothing)."""
  config = tempo_fork.get_config(arg)
  config.reward = {
      'name': 'diversity.darling',
      'answer_tokens': 0,  # the whole completion
  }
  config.algorithm = {
      'name': 'policy_gradient',
      'baseline': {'name': 'advantages.groups.centred'},  # no deviation, as in the paper
      'weight': {'name': 'losses.weights.equal'},
      'level': {'name': 'losses.ratios.ratio'},
      'surrogate': {'name': 'losses.policy.clipped', 'clip_low': 0.2, 'clip_high': 0.2},
      'reduction': {'name': 'reductions.token_mean'},  # of the paper
      'kl': {'name': 'no_kl'},
      'kl_estimator': {'name': 'losses.regularizers.kl_k3'},
      'entropy_coef': 0.0,
      'correction': {'name': 'losses.corrections.none'},
      'correction_level': {'name': 'losses.ratios.ratio'},
  }
  return config

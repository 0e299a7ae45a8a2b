"""DARLING on the fork task, where right answers differ in their letters: the decoder of the quickstart.

    rlx --config=policy_gradient/darling_fork --workdir=runs/darling

Paper: https://arxiv.org/abs/2509.02534

Result: not run yet.
"""

from ml_collections import ConfigDict

from rlx.experiments.claims import Arm, Claim, above, final, mean
from rlx.experiments.configs.credit import tempo_fork


def get_config(arg: str = '') -> ConfigDict:
  """Arguments: `smoke` (seconds, learns nothing), `small` (as in `tempo_fork.py`)."""
  config = tempo_fork.get_config(arg, after=0)  # two letters in front: a problem has sixteen right answers
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
  config.evals.found = {**config.evals.held_out, 'name': 'repeated', 'samples': 16}
  config.evals.found.problems //= 10
  return config


def claim() -> Claim:
  """The same algorithm on as many rows, where quality alone is paid."""
  return Claim(
      paper='S221',
      says='paid for quality times diversity a policy finds more right answers of a problem, is right as '
      'often, and has a right one among sixteen more often than paid for quality alone',
      argument='small',
      reading=final('eval/found/distinct'),
      asserts=(
          above('quality alone', by=1.0),
          above('quality alone', by=-0.02, reading=final('eval/found/accuracy')),
          above('quality alone', reading=mean('eval/found/passed')),
      ),
      baseline=Arm('quality alone', {'reward': {'name': 'verifier'}}),
      minutes=4.0,
  )

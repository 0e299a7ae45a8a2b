"""DARLING on countdown, `2,3,7:17=` -> `2*7+3`, where most problems have several right answers.

    rlx --config=policy_gradient/darling_countdown --workdir=runs/darling

A decoder is shown answers until it gives a right one greedily for a third of the held-out problems; then it
learns from quality times diversity, with which an answer is worth the more the fewer others of its group are
the same. Three numbers of one digit have to be used once each. On average four answers to a problem are
right; `eval/found/distinct` counts those among sixteen samples.

Paper: https://arxiv.org/abs/2509.02534

Result: it shows. Mean of the last 5 eval/found/distinct after 460 train steps, median of 10 seeds (worst):
1.825 (1.688), 'quality alone' 1.343 (1.205). Claimed, and got (95 % interval over seeds): above 'quality
alone' by 0.1, got 0.4745 (0.4102 to 0.5378); mean of the last 5 eval/found/passed: above 'quality alone', got
0.06117 (0.03766 to 0.08233); mean of the last 5 eval/found/accuracy: above 'quality alone' by -0.05, got
-0.01585 (-0.03112 to -0.00136). 594 CPU-s on 2 cores of a CPU;
`rlx reproduce policy_gradient/darling_countdown`.

On the fork task (`credit/tempo_fork`) a policy kept 9.8 of sixteen right answers, 1.1 by quality alone, but
in the end either had a right one among sixteen for every problem, so that pass@16 had no room to rise.

Chosen on three and five trial seeds, among learning rates: at 5e-4 300 steps brought pass@16 to 0.775 (0.735
to 0.80), by quality alone to 0.745 (0.66 to 0.75), and accuracy of samples to 0.39 in both; at 1e-3 600 steps
to 0.675 beside 0.56, and accuracy to 0.38 beside 0.43, for learning begins with a fall there; as it is here
to 0.77 beside 0.74, and accuracy to 0.44 beside 0.46. The bound on accuracy, -0.05, is of these trials;
before, on the fork task, it was -0.02, and distinct answers were claimed to be one more.
"""

from ml_collections import ConfigDict

from rlx.config import parse_arg
from rlx.experiments.claims import Arm, Claim, above, mean
from rlx.experiments.configs.quickstart import arithmetic

STEPS = 400


def get_config(arg: str = '') -> ConfigDict:
  """Arguments: `smoke` (seconds, learns nothing)."""
  arg = parse_arg(arg, smoke=False)
  config = arithmetic.get_config(f'smoke={arg.smoke},small=True', steps=STEPS)
  config.task = {'name': 'countdown', 'num_numbers': 3, 'max_number': 9, 'held_out_share': 0.2}
  config.sft.task = config.task
  config.sft.stop.at_least = 0.35
  config.decoding.max_tokens = config.sft.decoding.max_tokens = 6  # three digits, two signs, the end token
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
  if not arg.smoke:
    config.sft.steps = 1200
    config.rollout.batch_size, config.updates.microbatches = 64, 1
    config.optimizer.learning_rate = 7e-4
    config.evals.held_out.problems, config.evals.found.problems = 300, 200
  return config


def claim() -> Claim:
  """The same algorithm on as many rows, where quality alone is paid."""
  return Claim(
      paper='S221',
      says='paid for quality times diversity a policy finds more right answers of a problem, and has a right '
      'one among sixteen more often, at hardly less accuracy than paid for quality alone',
      reading=mean('eval/found/distinct', last=5),
      asserts=(
          above('quality alone', by=0.1),
          above('quality alone', reading=mean('eval/found/passed', last=5)),
          above('quality alone', by=-0.05, reading=mean('eval/found/accuracy', last=5)),
      ),
      baseline=Arm('quality alone', {'reward': {'name': 'verifier'}}),
      seeds=10,
      minutes=12.0,
  )

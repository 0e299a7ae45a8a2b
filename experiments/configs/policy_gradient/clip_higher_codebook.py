"""Clip-higher on codes that are hardly known: GRPO with four updates a batch, so that ratios reach the clip.

    rlx --config=policy_gradient/clip_higher_codebook --workdir=runs/clip_higher

Paper: https://arxiv.org/abs/2510.11701, which takes it from DAPO, https://arxiv.org/abs/2503.14476: agents
that call tools; here there is no tool.

Most of what is learnt is learnt in forty steps, before the policy is sure of other codes than the right ones.
Five trial seeds came to 0.438, and to 0.377 with the symmetric clip, which eight others do not bear out.

Result: it does not show. Final eval/held_out/accuracy after 600 train steps, median of 8 seeds (worst):
0.4217 (0.2167), 'symmetric' 0.455 (0.2267). Claimed, and got (95 % interval over seeds): above 'symmetric',
got -0.0125 (-0.08502 to 0.05), the run fails it; mean over the run of eval/sampled/entropy: above
'symmetric', got 0.00185 (-0.0041 to 0.0115), the seeds leave it open. 1074 CPU-s on 2 cores of a CPU;
`rlx reproduce policy_gradient/clip_higher_codebook`.

On two-digit addition, in four parts of a batch with an update each, where 0.4 % of the tokens are held above
(0.6 % by the symmetric clip), it did not show: 0.7633 (0.7367) beside 0.8 (0.71), median and worst of five
seeds, and entropies were the same. Where answers have free letters (the fork task, eight updates a batch),
with Adam at most 0.7 % of the tokens are held, whatever the rate, and entropies differ in either direction
(two seeds a rate). With gradient descent it is 1 to 2 %. Entropies (two to five seeds a rate) are higher in
the mean by 0.04 to 0.19 nats at rates of 0.2 to 0.4, lower by 0.01 at 0.1 and by 0.03 at 1, where little is
learnt, and scatter by 0.3 from seed to seed: of letters that no reward tells apart, chance decides which are
kept.
"""

from ml_collections import ConfigDict

from rlx.config import parse_arg
from rlx.experiments.claims import Arm, Claim, above, final, mean
from rlx.experiments.configs.curriculum import brorl_codebook


def get_config(arg: str = '') -> ConfigDict:
  """Arguments: `smoke` (seconds, learns nothing)."""
  config = brorl_codebook.get_config(arg)
  config.rollout.num_prompts = config.rollout.batch_size // 8
  config.algorithm.update(clip_high=0.28, entropy_coef=0.0)
  config.updates.update(epochs=4, minibatches=1, microbatches=1)
  config.evals.sampled = {**config.evals.held_out, 'name': 'sampled'}
  if not parse_arg(arg, smoke=False).smoke:
    config.steps = 200
    config.optimizer.decay_steps = 4 * (config.steps - 20)  # updates
  return config


def claim() -> Claim:
  """The same with a clip as wide above as below."""
  return Claim(
      paper='S027',
      says='a clip that is wider above keeps entropy higher, and more is learnt',
      reading=final('eval/held_out/accuracy'),
      asserts=(above('symmetric'), above('symmetric', reading=mean('eval/sampled/entropy'))),
      baseline=Arm('symmetric', {'algorithm.clip_high': 0.2}),
      seeds=8,
      minutes=8.0,
  )

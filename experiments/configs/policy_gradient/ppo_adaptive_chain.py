"""VAPO on sums of six digits said step by step: a λ of GAE by length for the policy, and 1 for its critic.

    rlx --config=policy_gradient/ppo_adaptive_chain --workdir=runs/ppo_adaptive

Paper: VAPO, https://arxiv.org/abs/2504.05118, of which this is the critic that is trained in advance, and the
two decays of GAE. λ = 1 - 1 / (α l): there α is 0.05 and rows are thousands of tokens long; here they have up
to 15, so that λ is up to 0.87.

On one to four digits, in batches of 256, with one decay for both and a critic that begins with 0, it did not
show: median of five seeds 0.313, of Monte Carlo 0.413.

Result: it does not show. Mean of the last 10 eval/held_out/accuracy after 440 train steps, median of 5 seeds
(worst): 0.4277 (0.1941), 'Monte Carlo' 0.4648 (0.1762), 'one decay for both' 0.4578 (0.1746). Claimed, and
got (95 % interval over seeds): above 'Monte Carlo', got -0.03151 (-0.04596 to 0.002603), the run fails it.
639 CPU-s on 1 cores of a CPU; `rlx reproduce policy_gradient/ppo_adaptive_chain`.
"""

from ml_collections import ConfigDict

from rlx.config import parse_arg
from rlx.experiments.claims import Arm, Claim, above, mean
from rlx.experiments.configs.reasoning import brpo_chain

VALUED = 60  # steps of the critic alone


def get_config(arg: str = '') -> ConfigDict:
  """Arguments: `smoke` (seconds, learns nothing)."""
  smoke = parse_arg(arg, smoke=False).smoke
  config = brpo_chain.on_sparse_chains(arg)
  config.models.value = {'name': 'value_head'}
  config.trained = ('policy', 'value')
  config.reward = {'name': 'verifier'}
  config.algorithm = {
      'name': 'vapo',
      'clip_low': 0.2,
      'clip_high': 0.2,
      'entropy_coef': 0.0,
      'value_coef': 0.5,
      'value_clip': 0.2,
      'alpha': 0.5,
  }
  config.stages = ('sft', 'critic', 'main')
  config.critic = {
      'steps': 4 if smoke else VALUED,
      'stop': ConfigDict(),
      'trained': ('value',),
      'slow': {'policy': 'policy'},
      'decoding': config.decoding.to_dict(),
      'rollout': {**config.rollout.to_dict(), 'batch_size': 16 if smoke else 128},
      'reward': config.reward.to_dict(),
      'algorithm': config.algorithm.to_dict(),
      'updates': config.updates.to_dict(),
      'optimizer': config.optimizer.to_dict(),
  }
  return config


def claim() -> Claim:
  """With a decay of about 1 for every length, and with a critic that learns by the policy's decay."""
  ppo = {
      'name': 'ppo', 'clip_low': 0.2, 'clip_high': 0.2, 'kl': {'name': 'no_kl'}, 'entropy_coef': 0.0,
      'value_coef': 0.5, 'value_clip': 0.2, 'discount': 1.0,
      'lambda_': {'name': 'advantages.temporal.lengths_to_lambda', 'alpha': 0.5},
  }
  return Claim(
      paper='S029',
      says='a decay of GAE by length, with a critic that learns from outcomes, is above Monte Carlo returns',
      reading=mean('eval/held_out/accuracy', last=10),
      asserts=(above('Monte Carlo'),),
      controls=(Arm('Monte Carlo', {'algorithm.alpha': 1000.0}),),
      beside=(Arm('one decay for both', {'algorithm': ppo, 'critic.algorithm': ppo}),),
      minutes=8.0,
  )

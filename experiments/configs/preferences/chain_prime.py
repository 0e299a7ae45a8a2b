"""PRIME: rewards of tokens by a policy that learns online which rows are right, beside the outcome.

    rlx --config=preferences/chain_prime --workdir=runs/prime

Sums modulo seven, said step by step (`envs/chain.py`). The policy is shown solutions (`sft`), and then
samples at a temperature at which half of its own are right, which is the noise of this toy. There are two
learners then: the model of rewards, which begins as the policy and learns the outcomes of its rows by
cross-entropy, and the policy, which sees outcome and rewards of tokens. The reference is the policy as `sft`
left it.

Before anything was claimed, one seed, which is among the five, was tried with five settings of β (0.05 of the
paper, 0.5 and 1), the model's learning rate, the weight of its rewards, the temperature and the steps of SFT.
Of 11 tokens with β = 0.05 the sum of rewards stays near 0. With 0.5 or more and a rate of 1e-3 the model is
unsure of all rows, and the policy that believes it forgets in 60 to 100 steps what it was shown.

Tried on longer sparse chains (`brpo_chain.on_sparse_chains`, a seed a setting). Where a quarter of the rows
is right, or three quarters, the model first learns how many are, and does so most by unlikely tokens, which
wrong steps are: rewards of right and wrong steps are -0.01 and 0.05, or 0.02 and 0.23. Where half are, and
the policy stands still, they are -0.04 and -1.2 in the end, and rows are told apart (area 0.95). With the
filter of the paper that lasts while the policy learns from outcomes. But once it learns from the model as
well (weight 0.3), right answers have wrong steps, 0.92 of them in place of 0.10, and accuracy is that of the
outcome alone, 0.74 beside 0.75; with weight 1, no filter, or γ = 0 and the filter, it is lost. What the model
likes is what right rows have said, not what is right.

Paper: https://arxiv.org/abs/2502.01456

Result: it does not show. Mean of the last 6 eval/held_out/accuracy after 210 train steps, median of 5 seeds
(worst): 0.6982 (0.5671), 'outcome alone' 0.7093 (0.6211). Claimed, and got (95 % interval over seeds): above
'outcome alone' by 0.02, got -0.01736 (-0.03971 to -0.003037), the reverse holds. 160 CPU-s on 2 cores of a
CPU; `rlx reproduce preferences/chain_prime`.
"""

from ml_collections import ConfigDict

from rlx.config import parse_arg
from rlx.experiments.claims import Arm, Claim, above, mean
from rlx.experiments.configs.quickstart import arithmetic

SHOWN, STEPS = 150, 60


def get_config(arg: str = '') -> ConfigDict:
  """Arguments: `smoke` (seconds, learns nothing)."""
  arg = parse_arg(arg, smoke=False)
  config = arithmetic.get_config('', steps=STEPS)
  config.task = {
      'name': 'chain', 'modulus': 7, 'min_steps': 4, 'max_steps': 4, 'checks': 0, 'held_out_share': 0.2,
  }
  config.models.policy.update(width=48, mlp_size=128, context_length=32)
  config.models.reference = {'name': 'copy', 'names': {'of': 'policy'}}
  config.models.process = {'name': 'implicit_reward', 'beta': 0.5}  # rows are short
  config.decoding.update(max_tokens=11, temperature=1.5)
  config.sft.decoding.max_tokens = 11
  config.sft.steps, config.sft.stop = SHOWN, ConfigDict()
  config.sft.rollout.batch_size = 64
  config.sft.task = config.task  # the same object: an override reaches both stages
  config.updates.microbatches = 1
  config.optimizer.update(learning_rate=1e-3, decay_steps=0)
  learns = lambda model, rate, **algorithm: {
      'algorithm': algorithm, 'updates': config.updates.to_dict(), 'trained': (model,), 'every': 1,
      'optimizer': {**config.optimizer.to_dict(), 'learning_rate': rate},
  }
  config.learners = {
      'order': ('process', 'policy'),  # rewards are of the model after its update
      'shared': (),
      'process': learns('process', 2e-4, name='pointwise', names={'judge': 'process'}),
      'policy': learns(
          'policy', 1e-3, name='prime', clip_low=0.2, clip_high=0.2, kl={'name': 'no_kl'}, discount=1.0,
          process_weight=1.0,
      ),
  }
  config.slow = {'reference': 'reference'}
  config.rollout.update(batch_size=128, group_size=8)
  config.rollout = {'name': 'each', 'policy': config.rollout.to_dict()}
  config.reward = {
      'name': 'of_learners.verdicts', 'reward': {'name': 'verifier'}, 'of': 'policy', 'to': 'process',
      'success': 1.0,
  }
  for name in ('algorithm', 'updates', 'optimizer', 'trained'):
    del config[name]
  config.evals = {'held_out': {'name': 'graded', 'every': 10, 'problems': 512}}
  config.checkpoint.every = 200
  config.log.update(headline='eval/held_out/accuracy', steps_per_dispatch=10, samples=0)
  if arg.smoke:
    _shrink(config)
  return config


def claim() -> Claim:
  """The mechanism off: rewards of tokens have no weight."""
  return Claim(
      paper='',
      says='with implicit rewards of tokens, learnt online from the same outcomes, a policy learns faster '
      'than from outcomes alone',
      reading=mean('eval/held_out/accuracy', last=6),
      asserts=(above('outcome alone', by=0.02),),
      controls=(Arm('outcome alone', {'learners.policy.algorithm.process_weight': 0.0}),),
      minutes=2.0,
  )


def _shrink(config: ConfigDict) -> None:
  """A run of a few seconds that takes every path."""
  config.steps = config.sft.steps = 4
  config.rollout.policy.update(batch_size=16, group_size=4)
  config.sft.rollout.batch_size = 16
  config.evals.held_out.update(every=2, problems=16)
  config.checkpoint = {'every': 2, 'keep': 2}
  config.log.steps_per_dispatch = 2

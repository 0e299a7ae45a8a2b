"""ArCHer on the errands of `errand_ask`: a critic of turns, learnt by TD from old episodes too.

    rlx --config=agents/errand_archer --workdir=runs/archer

A step has 32 new episodes, and those of the last three steps for the critic.

A critic that learnt alone for 40 steps before was tried on three trial seeds: all of them ended at a quarter
as well. The loss of its Q stays at that of a constant (0.09): it tells no place from another.

Also tried on three trial seeds: questions that are paid 0.8 in the place of 0.4 (0.24, PPO 0.82), and eight
epochs in each step, which help (0.34, one seed 0.69), but not as far as PPO.

A rate of its own for the policy helps most; perhaps Adam takes what is noise in the advantages, while the
critic knows nothing, at full size. Tried with three things of two kinds and 8 new episodes a step beside the
last 120, on three trial seeds; their median at each evaluation, in the mean over the run (and so the least
and the greatest): PPO 0.62 (0.24 to 0.91) at 3e-3, 0.64 (0.15 to 0.89) at 1e-3; here with the optimizer
below, one rate for both, 0.25 (0.22 to 0.33), with four epochs 0.31 (0.11 to 0.49); with `adam_per_model`,
3e-3 for the critic and 3e-4 for the policy, four epochs 0.65 (0 to 0.84), eight 0.60 (0.10 to 0.89), and
eight at 1e-4 0.73 (0.02 to 0.91). Four other seeds, eight epochs at 1e-4: 0, 0.91, 0.37 and 0.88; PPO at
1e-3: 0.68, 0.91, 0.20 and 0.82.

Paper: https://arxiv.org/abs/2402.19446

Result: it does not show. Mean over the run of eval/held_out/accuracy after 200 train steps, median of 5 seeds
(worst): 0.2323 (0.2273), 'PPO' 0.855 (0.2291), 'no replay' 0.2323 (0.2286). Claimed, and got (95 % interval
over seeds): above 'PPO', got -0.4598 (-0.6559 to -0.03849), the reverse holds. 230 CPU-s on 2 cores of a CPU;
`rlx reproduce agents/errand_archer`.
"""

from ml_collections import ConfigDict

from rlx.config import parse_arg
from rlx.experiments.claims import Arm, Claim, above, mean
from rlx.experiments.configs.agents import errand_ask
from rlx.experiments.configs.policy_gradient import ppo_arithmetic

FRESH, PAST_STEPS = 32, 3


def get_config(arg: str = '') -> ConfigDict:
  """Arguments: `smoke` (seconds, learns nothing)."""
  config = errand_ask.get_config(arg)
  arg = parse_arg(arg, smoke=False)
  if not arg.smoke:
    config.steps = 200
  config.optimizer.decay_steps = 180
  config.models.value = {'name': 'value_head'}
  config.trained, config.slow = ('policy', 'value'), {'target': 'value'}
  fresh = {**config.rollout.to_dict(), 'batch_size': 8 if arg.smoke else FRESH, 'group_size': 1}
  config.rollout = {
      'name': 'reusing',
      'fresh': fresh,
      'past_steps': PAST_STEPS,
      'batch_size': (1 + PAST_STEPS) * fresh['batch_size'],
  }
  config.algorithm = {
      'name': 'archer',
      'clip_low': 0.2,
      'clip_high': 0.2,
      'value_coef': 0.5,
      'discount': 0.95,  # from turn to turn
      'target_rate': 0.1,
  }
  return config


def claim() -> Claim:
  """Beside PPO by tokens, on as many new episodes; the control has no replay."""
  fresh = get_config().rollout.fresh.to_dict()
  ppo = ppo_arithmetic.get_config().algorithm.to_dict()
  return Claim(
      paper='S065',
      says='a critic of turns that old episodes teach as well learns faster than PPO, at equal episodes',
      reading=mean('eval/held_out/accuracy'),
      asserts=(above('PPO'),),
      baseline=Arm('PPO', {'rollout': fresh, 'algorithm': ppo, 'slow': {}}),
      controls=(Arm('no replay', {'rollout': fresh}),),
      minutes=4.0,
  )

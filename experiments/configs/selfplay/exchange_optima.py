"""Optima on an exchange of halves: pairs of dialogues, ranked by success, by cost and by how they read.

    rlx --config=selfplay/exchange_optima --workdir=runs/optima

The world is `envs/worlds/exchange.py`. One model sits at both seats. Supervised rows show it dialogues that
nearly all tell everything. Then, in rounds, eight dialogues of a question are ranked by the reward of
`rewards/dialogue.py`, and the best and the worst are a pair for DPO, with the policy before the round as the
reference: the paper's iDPO, without its tree search. GRPO on as many dialogues, paid by the world, gets more.

Paper: https://arxiv.org/abs/2410.08115

Result: it shows. Final eval/held_out/payoff_left after 180 train steps, median of 5 seeds (worst): 0.5437
(0.5168), 'GRPO' 0.7289 (0.5738), 'no token cost' 0.1547 (-0.02773). Claimed, and got (95 % interval over
seeds): above 'no token cost' by 0.1, got 0.4307 (0.3268 to 0.7484); final eval/held_out/tokens: below 'no
token cost' by 2, got 4.971 (4.331 to 4.99). 511 CPU-s on 2 cores of a CPU;
`rlx reproduce selfplay/exchange_optima`.
"""

from ml_collections import ConfigDict

from rlx.config import parse_arg
from rlx.experiments.claims import Arm, Claim, above, final
from rlx.experiments.configs.quickstart import arithmetic
from rlx.experiments.configs.selfplay import kuhn_magnet

NUM_KEYS = 3
MESSAGE = 2 * NUM_KEYS  # tokens of one that tells all
TALK = {'turn_tokens': MESSAGE + 1, 'max_turns': 2}
BOTH = {'left': 'policy', 'right': 'policy'}
ROUND = 20  # updates


def get_config(arg: str = '') -> ConfigDict:
  """Arguments: `smoke` (seconds, learns nothing); `grpo` (the payoff of the world is the reward of GRPO)."""
  arg = parse_arg(arg, smoke=False, grpo=False)
  config = kuhn_magnet.get_config('', steps=100)
  config.stages = ('sft', 'main')
  config.task = {
      'name': 'worlds.exchange.exchange', 'num_keys': NUM_KEYS, 'cost': 0.1, 'wordy': 0.9,
      'held_out_share': 0.1,
  }
  config.models.policy.update(
      num_layers=2, width=48, num_heads=4, num_kv_heads=4, mlp_size=96, context_length=24
  )
  config.slow = {'reference': 'policy', 'base': 'policy'}
  config.decoding.max_tokens = MESSAGE + 5  # a message, an answer with its end, and one more
  sampled = {
      'name': 'seats.episodes',
      'names': {**BOTH},
      'episodes': 128,
      'group_size': 8,  # of a question
      'turn_tokens': TALK['turn_tokens'],
      'max_turns': {'name': 'controllers.schedules.constant', 'value': TALK['max_turns']},
      'learnt': ('left', 'right'),
  }
  config.rollout = {
      'name': 'paired',
      'rollout': sampled,
      'reward': {'name': 'dialogue.optima', 'token_cost': 0.5, 'readability': 0.1},
  }
  config.algorithm = {
      'name': 'following',
      'copies': {'reference': 'policy'},
      'period': ROUND,
      'parent': {'name': 'dpo', 'loss': {'name': 'sigmoid', 'beta': 0.2}},
  }
  if arg.grpo:
    config.slow, config.rollout, config.algorithm = ConfigDict(), sampled, {**arithmetic.GRPO}
  else:
    del config['reward']
  config.optimizer.update(learning_rate=5e-4, decay_steps=0)
  config.sft = {
      'steps': 80,  # it then solves about two of five
      'stop': ConfigDict(),
      'trained': ('policy',),
      'slow': ConfigDict(),
      'decoding': config.decoding.to_dict(),
      'rollout': {'name': 'seats.shown', 'names': {**BOTH}, 'episodes': 48, 'learnt': tuple(BOTH), **TALK},
      'algorithm': {'name': 'sft'},
      'updates': config.updates.to_dict(),
      'optimizer': {**config.optimizer.to_dict(), 'learning_rate': 3e-3},
  }
  config.sft.task = config.task
  config.evals = {
      'held_out': {'name': 'seats.episodes', 'names': {**BOTH}, 'every': 20, 'problems': 256, **TALK}
  }
  config.log.headline = 'eval/held_out/payoff_left'
  if arg.smoke:
    _shrink(config, config.rollout if arg.grpo else config.rollout.rollout)
  return config


def claim() -> Claim:
  """In the world a message costs 0.1 a token, which is what the payoff says; λ_token is the mechanism."""
  return Claim(
      paper='S133',
      says='pairs ranked by success, cost and readability halve the tokens of messages and solve more',
      reading=final('eval/held_out/payoff_left'),
      asserts=(
          above('no token cost', by=0.1),
          above('no token cost', by=2.0, reading=final('eval/held_out/tokens', lower=True)),
      ),
      baseline=Arm('GRPO', config='selfplay/exchange_optima:grpo=True'),
      controls=(Arm('no token cost', {'rollout.reward.token_cost': 0.0}),),
      minutes=5.0,
  )


def _shrink(config: ConfigDict, sampled: ConfigDict) -> None:
  """A run of a few seconds that takes every path."""
  config.steps = config.sft.steps = 4
  sampled.update(episodes=16, group_size=4)
  config.sft.rollout.episodes = 8
  config.evals.held_out.update(every=2, problems=16)
  config.checkpoint = {'every': 2, 'keep': 2}
  config.log.steps_per_dispatch = 2

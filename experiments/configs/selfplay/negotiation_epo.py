"""EPO on a bargain: a strategist says how much to hold out for, and an actor that never learns bargains.

    rlx --config=selfplay/negotiation_epo --workdir=runs/epo

The world is `envs/worlds/advised.py`. An actor, and another of another size, learn from its expert to carry
out any advice (`drill`, `drill_other`), and are frozen. The strategist then learns from its play against
itself, both sides advised, by what it was worth turn by turn. It is examined against a strategist that has
learnt nothing, with the actor that it learnt with and with the other one.

Paper: https://arxiv.org/abs/2502.12486. There the actors are large models that understand advice, and a judge
says which turns were good; here the turns of a seat are compared with each other.

Heard or not, the strategist comes to an even split: an actor that was shown how to bargain needs no advice.

Result: it does not show. Mean of the last 2 eval/leads/payoff_adviser after 600 train steps, median of 5
seeds (worst): 0.5 (0.4975), 'unheard' 0.5041 (0.4968). Claimed, and got (95 % interval over seeds): above
'unheard' by 0.05, got -0.003437 (-0.00549 to 0.00316), the run fails it; mean of the last 2
eval/other/payoff_adviser: above 'unheard' by 0.05, got -0.002303 (-0.005887 to 0.005237), the run fails it.
511 CPU-s on 2 cores of a CPU; `rlx reproduce selfplay/negotiation_epo`.
"""

from ml_collections import ConfigDict

from rlx.config import parse_arg
from rlx.experiments.claims import Arm, Claim, above, mean
from rlx.experiments.configs.selfplay import kuhn_mars

ACTORS = {'first': 'actor', 'second': 'actor'}
SELF = {'adviser': 'policy', 'rival': 'policy'}
LEADS = {'adviser': 'policy', 'rival': 'novice'}
MOVES, STEPS = 4, 120  # of the two bargainers together; train steps


def get_config(arg: str = '') -> ConfigDict:
  """Arguments: `smoke` (seconds, learns nothing)."""
  arg = parse_arg(arg, smoke=False)
  config = kuhn_mars.get_config('')
  config.steps = STEPS
  config.stages = ('drill', 'drill_other', 'main')
  config.task = {'name': 'worlds.advised.advised', 'moves': MOVES, 'discount': 0.9, 'heard': True}
  base = {**config.models.policy.to_dict(), 'context_length': 16}
  config.models = ConfigDict({
      'policy': base,
      'actor': {**base, 'width': 64, 'num_heads': 4, 'num_kv_heads': 4, 'mlp_size': 128},
      'other': {**base, 'width': 48, 'num_heads': 4, 'num_kv_heads': 4, 'mlp_size': 192},
  })
  config.slow = {'actor': 'actor', 'other': 'other', 'novice': 'policy'}
  config.decoding.max_tokens = 8
  config.rollout = {
      **config.rollout.to_dict(), 'names': {**SELF, **ACTORS}, 'learnt': ('adviser', 'rival'),
      'episodes': 96,
      'max_turns': {'name': 'controllers.schedules.constant', 'value': 2 * MOVES},
  }
  parent = config.algorithm.parent.to_dict()
  config.algorithm = {**parent, 'kl': {'name': 'no_kl'}}
  config.optimizer.update(learning_rate=2e-3, decay_steps=0)
  for name, actor in (('drill', 'actor'), ('drill_other', 'other')):
    config[name] = _drill(config, actor)
  config.evals = ConfigDict({'leads': _exam(LEADS, 'actor'), 'other': _exam(LEADS, 'other')})
  config.log.headline = 'eval/leads/payoff_adviser'
  if arg.smoke:
    _shrink(config)
  return config


def claim() -> Claim:
  """Unheard, the strategist learns as long and its advice is drawn by chance."""
  return Claim(
      paper='S142',
      says='a strategist that learns raises what its side gets by a frozen actor, and by another actor too',
      reading=mean('eval/leads/payoff_adviser', last=2),
      asserts=(
          above('unheard', by=0.05),
          above('unheard', by=0.05, reading=mean('eval/other/payoff_adviser', last=2)),
      ),
      controls=(Arm('unheard', {'task.heard': False}),),
      minutes=4.0,
  )


def _drill(config: ConfigDict, actor: str) -> dict:
  """A stage in which an actor learns to do as it is told."""
  return {
      'steps': 240,
      'stop': ConfigDict(),
      'trained': (actor,),
      'slow': ConfigDict(),
      'decoding': config.decoding.to_dict(),
      'rollout': {
          'name': 'seats.shown', 'names': dict.fromkeys((*SELF, *ACTORS), actor),
          'episodes': 64, 'turn_tokens': 1, 'max_turns': 2 * MOVES, 'learnt': ('first', 'second'),
      },
      'algorithm': {'name': 'sft', 'names': {'policy': actor}},
      'updates': config.updates.to_dict(),
      'optimizer': {**config.optimizer.to_dict(), 'learning_rate': 4e-3},
  }


def _exam(advisers: dict, actor: str) -> dict:
  names = {**advisers, 'first': actor, 'second': actor}
  return {
      'name': 'seats.episodes', 'names': names, 'every': 20, 'problems': 192, 'turn_tokens': 1,
      'max_turns': 2 * MOVES,
  }


def _shrink(config: ConfigDict) -> None:
  """A run of a few seconds that takes every path."""
  config.steps = config.drill.steps = config.drill_other.steps = 4
  config.rollout.update(episodes=16, group_size=4)
  config.drill.rollout.episodes = config.drill_other.rollout.episodes = 8
  for exam in config.evals.values():
    exam.update(every=2, problems=16)
  config.checkpoint = {'every': 2, 'keep': 2}
  config.log.steps_per_dispatch = 2

"""EPO on a bargain: a strategist says how much to hold out for, and an actor that never learns bargains.

    rlx --config=selfplay/negotiation_epo --workdir=runs/epo

The world is `envs/worlds/advised.py`. An actor, and another of another size, learn from its expert to carry
out any advice (`drill`, `drill_other`), and are frozen. The strategist is shown the words of advice, drawn by
chance (`words`), and then learns from its play against itself, both sides advised, by what it was worth turn
by turn. It is examined against itself as it was before that play, with the actor that it learnt with and with
the other one.

Paper: https://arxiv.org/abs/2502.12486. There the actors are large models that understand advice, and a judge
says which turns were good; here the turns of a seat are compared with each other.

Without `words` both arms had .5 in an earlier claim: the strategist that had learnt nothing said what was no
advice, by which it lost at once, and its opponent was paid the half that is paid for that.

What is learnt is to come to terms: .77 to .87 of the games end in a deal where advice is heard, .55 to .6
where it is not. The untaught side gains still more than the learnt one (.44 to .58, where it had .33 to .35).
A strategist that does not learn is heard with 0.39, 0.34 and 0.37 (three trial seeds), one that learns with
0.42 and 0.48 on the first two of these.

Beside what is unheard alone, it showed on five other seeds (0.095, 0.068 to 0.131; the other actor 0.111,
0.095 to 0.133). Who learns nothing was put beside it since, and other seeds were taken.

Result: it shows. Mean of the last 2 eval/leads/payoff_adviser after 660 train steps, median of 7 seeds
(worst): 0.4306 (0.4074), 'unheard' 0.331 (0.3197), 'untaught' 0.351 (0.3331). Claimed, and got (95 % interval
over seeds): above 'unheard' by 0.05, got 0.1011 (0.08643 to 0.1137); mean of the last 2
eval/other/payoff_adviser: above 'unheard' by 0.05, got 0.09 (0.06959 to 0.09711); above 'untaught', got
0.07432 (0.06004 to 0.08789); mean of the last 2 eval/other/payoff_adviser: above 'untaught', got 0.06339
(0.04019 to 0.07459). 557 CPU-s on 2 cores of a CPU; `rlx reproduce selfplay/negotiation_epo`.
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
  config.seed = 10  # the first ones had been looked at
  config.steps = STEPS
  config.stages = ('drill', 'drill_other', 'words', 'main')
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
    config[name] = _drill(config, actor, ('first', 'second'), steps=240)
  config.words = _drill(config, 'policy', tuple(SELF), steps=60)
  config.evals = ConfigDict({'leads': _exam(LEADS, 'actor'), 'other': _exam(LEADS, 'other')})
  config.log.headline = 'eval/leads/payoff_adviser'
  if arg.smoke:
    _shrink(config)
  return config


def claim() -> Claim:
  """Unheard, the strategist learns as long and its advice is drawn by chance; untaught, it is heard."""
  other = mean('eval/other/payoff_adviser', last=2)
  return Claim(
      paper='S142',
      says='a strategist that learns raises what its side gets by a frozen actor, and by another actor too',
      reading=mean('eval/leads/payoff_adviser', last=2),
      asserts=(
          above('unheard', by=0.05), above('unheard', by=0.05, reading=other),
          above('untaught'), above('untaught', reading=other),
      ),
      controls=(Arm('unheard', {'task.heard': False}), Arm('untaught', {'optimizer.learning_rate': 0.0})),
      seeds=7,
      minutes=7.0,
  )


def _drill(config: ConfigDict, model: str, learnt: tuple[str, ...], *, steps: int) -> dict:
  """A stage of imitation: an actor learns to do as it is told, or the strategist the words of advice."""
  return {
      'steps': steps,
      'stop': ConfigDict(),
      'trained': (model,),
      'slow': ConfigDict(),
      'decoding': config.decoding.to_dict(),
      'rollout': {
          'name': 'seats.shown', 'names': dict.fromkeys((*SELF, *ACTORS), model),
          'episodes': 64, 'turn_tokens': 1, 'max_turns': 2 * MOVES, 'learnt': learnt,
      },
      'algorithm': {'name': 'sft', 'names': {'policy': model}},
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
  config.steps = 4
  config.rollout.update(episodes=16, group_size=4)
  for name in ('drill', 'drill_other', 'words'):
    config[name].steps, config[name].rollout.episodes = 4, 8
  for exam in config.evals.values():
    exam.update(every=2, problems=16)
  config.checkpoint = {'every': 2, 'keep': 2}
  config.log.steps_per_dispatch = 2

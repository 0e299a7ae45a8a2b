"""SWE-World on faulty programs: an agent learns to repair them from a model of the interpreter alone.

    rlx --config=selfplay/repair_swe_world --workdir=runs/swe_world
    rlx --config=selfplay/repair_swe_world:real=True --workdir=runs/real      # in the interpreter

The world is `envs/worlds/surrogate.py`: one of two operations on a digit is wrong, and there are two edits,
behind each of which the agent reads what a run prints and whether the tests pass. First the agent is cloned
from episodes in which few edits are right (`drill`), then a surrogate from what the interpreter has printed
in such episodes (`transitions`). In the main stage it is frozen and sits in the interpreter's place: its
verdict is the reward of GRPO. `eval/real` examines the agent in the interpreter, `eval/best` takes the one of
eight episodes that the surrogate calls passing.

Paper: https://arxiv.org/abs/2602.03419. There one model says what is printed and another one the verdict;
here it is one.

Tried: 420 steps of what the interpreter prints and 270 of GRPO with a bonus of 0.01 for entropy, four trial
seeds. They were at 0.40, 0.69, 0.79 and 0.62 after 240 steps of GRPO, but behind 120 of them the surrogate
foresaw 0.82, 0.99, 0.97 and 0.73 of the runs, and the best of eight was better by 0.08, 0.02, 0.03 and 0.13.

Result: it shows in part. Final eval/real/accuracy after 450 train steps, median of 5 seeds (worst): 0.4375
(0.2656), 'verdicts of chance' 0.1328 (0.1289), 'in the interpreter' 0.4805 (0.3164). Claimed, and got (95 %
interval over seeds): final eval/best/foreseen: above 0.95, got 0.9547 (0.8014 to 0.9606), the seeds leave it
open; above 'verdicts of chance' by 0.2, got 0.3021 (0.1419 to 0.4349), the seeds leave it open; above 'in the
interpreter' by -0.05, got -0.04428 (-0.1029 to 0.02864), the seeds leave it open; final eval/best/gain: above
0.05, got 0.2808 (0.1188 to 0.46). 600 CPU-s on 2 cores of a CPU; `rlx reproduce selfplay/repair_swe_world`.
"""

from ml_collections import ConfigDict

from rlx.config import parse_arg
from rlx.experiments.claims import Arm, Claim, above, final, reaches
from rlx.experiments.configs.quickstart import arithmetic

PROGRAMS = {'operations': 2, 'modulus': 4, 'tests': 2, 'held_out_share': 0.2}
SPEAKERS = {'agent': 'policy', 'surrogate': 'surrogate'}
EDITS = 2
TALK = {'turn_tokens': 5, 'max_turns': 2 * EDITS}  # a program, its outputs, a verdict; actions of both seats
REAL = {'name': 'worlds.repair.printing', **PROGRAMS}
DRILLED, SHOWN, STEPS = 60, 300, 90  # train steps of the stages


def get_config(arg: str = '') -> ConfigDict:
  """Arguments: `smoke` (seconds, learns nothing); `real` (the last stage is in the interpreter)."""
  arg = parse_arg(arg, smoke=False, real=False)
  config = arithmetic.get_config('', steps=STEPS)
  config.stages = ('drill', 'transitions', 'main')
  del config['sft']
  config.task = {
      'name': 'worlds.surrogate.surrogate', **PROGRAMS, 'skill': 0.2, 'chance': 0.0, 'pass_rate': 0.3
  }
  policy = {**config.models.policy, 'width': 48, 'mlp_size': 96, 'context_length': 24}  # 45 thousand
  config.models = ConfigDict({'policy': policy, 'surrogate': policy})
  config.slow = {'surrogate': 'surrogate'}
  config.decoding.max_tokens = 16  # of a seat, said and read
  config.updates.microbatches = 1
  config.optimizer.update(learning_rate=2e-3, decay_steps=0)
  learns = {'updates': config.updates.to_dict(), 'optimizer': config.optimizer.to_dict()}
  stage = {
      **learns, 'stop': ConfigDict(), 'slow': ConfigDict(), 'decoding': config.decoding.to_dict(),
      'task': config.task.to_dict(),
  }
  for name, model, seat, steps in (
      ('drill', 'policy', 'agent', DRILLED), ('transitions', 'surrogate', 'surrogate', SHOWN),
  ):
    config[name] = {
        **stage, 'steps': steps, 'trained': (model,),
        'rollout': {
            'name': 'seats.shown', 'names': dict.fromkeys(SPEAKERS, model), 'episodes': 96, 'learnt': (seat,),
            **TALK,
        },
        'algorithm': {'name': 'sft', 'names': {'policy': model}},
    }
    config[name].optimizer.update(learning_rate=5e-3, decay_steps=steps - 20, final_fraction=0.05)
  config.reward = {'name': 'of_world'}
  config.rollout = {
      'name': 'seats.episodes', 'names': {**SPEAKERS}, 'episodes': 96, 'group_size': 8,
      'turn_tokens': TALK['turn_tokens'], 'max_turns': _turns(TALK['max_turns']), 'learnt': ('agent',),
  }
  config.evals = {
      'real': {
          'name': 'turns.episodes', 'every': 30, 'problems': 256, 'task': {**REAL}, 'num_slots': 0,
          'turn_tokens': TALK['turn_tokens'], 'max_turns': EDITS,
      },
      'best': {
          'name': 'seats.best_of', 'every': 150, 'problems': 128, 'samples': 8, 'by': 'agent',
          'task': config.task.to_dict(), 'names': {**SPEAKERS}, **TALK,
      },
  }
  config.checkpoint.every = 150
  config.log.update(headline='eval/real/accuracy', samples=0, steps_per_dispatch=30)
  if arg.real:
    config.task = {**REAL}
    config.rollout = {
        'name': 'turns.episodes', 'batch_size': 96, 'group_size': 8, 'num_slots': 0,
        'turn_tokens': TALK['turn_tokens'], 'max_turns': _turns(EDITS),
    }
  if arg.smoke:
    _shrink(config, real=arg.real)
  return config


def claim() -> Claim:
  """The mechanism off: verdicts that are drawn at their rate in what the surrogate is shown."""
  return Claim(
      paper='S150',
      says='a model that has learnt what an interpreter prints foresees over 95 % of runs; an agent that is '
      'paid by it repairs as many programs as one that is paid by the interpreter; the best of eight '
      'episodes in its eyes is better than one',
      reading=final('eval/real/accuracy'),
      asserts=(
          reaches(0.95, reading=final('eval/best/foreseen')),
          above('verdicts of chance', by=0.2),
          above('in the interpreter', by=-0.05),
          reaches(0.05, reading=final('eval/best/gain')),
      ),
      controls=(Arm('verdicts of chance', {'transitions.task.chance': 1.0}),),
      beside=(Arm('in the interpreter', config='selfplay/repair_swe_world:real=True'),),
      minutes=7.0,
  )


def _turns(most: int) -> dict:
  return {'name': 'controllers.schedules.constant', 'value': most}


def _shrink(config: ConfigDict, *, real: bool) -> None:
  """A run of a few seconds that takes every path."""
  config.steps = config.drill.steps = config.transitions.steps = 4
  config.drill.rollout.episodes = config.transitions.rollout.episodes = 8
  config.rollout.update({'batch_size' if real else 'episodes': 16}, group_size=4)
  for exam in config.evals.values():
    exam.update(every=2, problems=16)
  config.checkpoint = {'every': 2, 'keep': 2}
  config.log.steps_per_dispatch = 2

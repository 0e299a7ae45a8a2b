"""CoMAS on ciphers: three agents answer, criticise and judge each other, and nobody else says who was right.

    rlx --config=selfplay/discussion_comas --workdir=runs/comas

The world is `envs/worlds/discussion.py`: what the judge's score gives the solver it takes from the critic,
and the judge is paid for form. What an agent is first shown (`sft`), in all three roles, is nearly all of two
of three domains, of another two for each agent. Then nobody sees an answer any more. Agents change seats at
every step, and each learns from its own rows, held to what it was before. What is read is the share of right
answers of each agent, as a solver, on held-out problems of all domains.

There were two trials before. Without that hold, agents that learnt to solve and to please unlearnt to judge:
right verdicts fell from .82 to .64 in 200 steps. Where an agent was not shown a domain at all, right answers
rose from .4 to two thirds, which are the domains that it knew, and no further.

Agents beside each other gain little over each alone: what there is to gain up to two thirds is in domains
that an agent knows, and there it is a good judge of itself. In the third domain, where only others can tell,
200 steps under this hold have taught less than half of it.

Paper: https://arxiv.org/abs/2510.08529. There the learner is REINFORCE++ and a discussion has rounds; here it
is GRPO, and one round.

Result: it shows in part. Final eval/one/success after 400 train steps, median of 5 seeds (worst): 0.7812
(0.7578), 'alone' 0.7637 (0.6367), 'scores drawn' 0.3848 (0.3203). Claimed, and got (95 % interval over
seeds): rise after step 200 of eval/one/success: above 0.2, got 0.3568 (0.3405 to 0.3737); rise after step 200
of eval/two/success: above 0.2, got 0.3079 (0.1973 to 0.3379), the seeds leave it open; rise after step 200 of
eval/three/success: above 0.2, got 0.306 (0.2546 to 0.3796); final eval/one/success: above 'alone' by 0.05,
got 0.04037 (0.00521 to 0.09766), the run fails it; final eval/two/success: above 'alone' by 0.05, got 0.01563
(-0.09245 to 0.05078), the run fails it; final eval/three/success: above 'alone' by 0.05, got 0.06706
(3.333e-06 to 0.1159), the seeds leave it open. 723 CPU-s on 2 cores of a CPU;
`rlx reproduce selfplay/discussion_comas`.
"""

from ml_collections import ConfigDict
import numpy as np

from rlx.config import parse_arg
from rlx.experiments.claims import Arm, Claim, Reading, above, final, reaches
from rlx.experiments.configs.quickstart import arithmetic

AB, CD, EF = DOMAINS = ('ab', 'cd', 'ef')
KNOWN = {'one': (AB, CD), 'two': (CD, EF), 'three': (EF, AB)}  # domains of nearly all that an agent is shown
AGENTS = tuple(KNOWN)
SEATS = ('solver', 'critic', 'judge')
FIRST = '{}_at_first'  # an agent behind the supervised steps, to which it is held
COEF = 0.1  # of the KL: without it judges unlearn to judge, for nobody pays them for that
EPISODES = 96  # of a batch, and rows of each agent
SHOWN, STEPS = 200, 200  # train steps
TALK = {'turn_tokens': 1, 'max_turns': 3}
PLAYED = {
    'group_size': 8, 'turn_tokens': TALK['turn_tokens'],
    'max_turns': {'name': 'controllers.schedules.constant', 'value': TALK['max_turns']},
}


def get_config(arg: str = '') -> ConfigDict:
  """Arguments: `smoke` (seconds, learns nothing)."""
  arg = parse_arg(arg, smoke=False)
  config = arithmetic.get_config('', steps=STEPS)
  config.task = _world(DOMAINS)
  agent = {**config.models.policy, 'num_layers': 2, 'width': 48, 'mlp_size': 96, 'context_length': 8}
  same = {'name': 'copy', 'names': {'of': 'one'}}  # all begin alike; what they are shown first is their own
  config.models = ConfigDict({'one': agent, 'two': same, 'three': same})
  config.decoding.max_tokens = 4  # of a seat: the judge reads two tokens, says one, and one more has to fit
  config.rollout = {
      'name': 'roles.rotated', 'names': dict(zip(SEATS, AGENTS, strict=True)), 'episodes': EPISODES, **PLAYED,
      'learners': dict(zip(AGENTS, SEATS, strict=True)), 'period': 1,
  }
  config.reward = {'name': 'by_name', **{name: {'name': 'of_world'} for name in AGENTS}}
  config.updates.microbatches = 1
  config.optimizer.update(learning_rate=5e-4, decay_steps=0)
  shown = {**config.optimizer.to_dict(), 'learning_rate': 3e-3}
  config.sft = {
      'steps': SHOWN,
      'stop': ConfigDict(),
      'slow': ConfigDict(),
      'decoding': config.decoding.to_dict(),
      'rollout': {'name': 'each', **{name: _shown(name, known) for name, known in KNOWN.items()}},
      'learners': _learners({'name': 'sft'}, config.updates, shown),
  }
  config.slow = {FIRST.format(name): name for name in AGENTS}
  config.learners = _learners({**arithmetic.GRPO}, config.updates, config.optimizer.to_dict())
  for name in AGENTS:
    kl = {'name': 'kl_in_loss', 'names': {'reference': FIRST.format(name)}, 'coef': COEF}
    config.learners[name].algorithm.kl = kl
  for name in ('algorithm', 'updates', 'optimizer', 'trained'):
    del config[name]
  config.evals = {
      name: {
          'name': 'seats.episodes', 'names': dict.fromkeys(SEATS, name), 'every': 50, 'problems': 512, **TALK
      }
      for name in AGENTS
  }
  config.checkpoint.every = 100
  config.log.update(headline='eval/one/success', samples=0, steps_per_dispatch=50)
  if arg.smoke:
    _shrink(config)
  return config


def claim() -> Claim:
  """Beside an agent at all three seats, with as many rows; the mechanism off: scores that are drawn."""
  readings = {name: final(f'eval/{name}/success') for name in AGENTS}
  return Claim(
      paper='S144',
      says='agents that answer, criticise and judge each other are right more often than at first, without '
      'labels, and than each is that does so with itself',
      reading=readings['one'],
      asserts=(
          *(reaches(0.2, reading=_rise_since_shown(f'eval/{name}/success')) for name in AGENTS),
          *(above('alone', by=0.05, reading=reading) for reading in readings.values()),
      ),
      baseline=Arm('alone', {'rollout': {'name': 'each', **{name: _alone(name) for name in AGENTS}}}),
      controls=(Arm('scores drawn', {'task.heeded': 0.0}),),
      minutes=6.0,
  )


def _rise_since_shown(metric: str) -> Reading:
  """The last value less that behind the supervised steps."""
  return Reading(
      metric, f'rise after step {SHOWN} of',
      lambda at, values: values[:, -1] - values[:, int(np.argmax(at >= SHOWN))],
  )


def _world(domains: tuple[str, ...]) -> dict:
  return {
      'name': 'worlds.discussion.discussion', 'modulus': 5, 'letters': 6, 'domains': domains, 'skill': 0.6,
      'heeded': 1.0,
  }


def _shown(name: str, known: tuple[str, ...]) -> dict:
  """The expert at all seats for an agent, mostly in the domains that it is to know."""
  return {
      'name': 'seats.shown', 'names': dict.fromkeys(SEATS, name), 'task': _world(20 * known + DOMAINS),
      'episodes': 48, 'learnt': SEATS, **TALK,
  }


def _alone(name: str) -> dict:
  """An agent that sits at all seats, with as many rows as it would have beside others."""
  return {
      'name': 'seats.episodes', 'names': dict.fromkeys(SEATS, name), 'episodes': EPISODES // len(SEATS),
      'learnt': SEATS, **PLAYED,
  }


def _learners(algorithm: dict, updates, optimizer: dict) -> dict:
  """A learner for each agent, which takes the same step on its own rows."""
  learner = {'updates': updates.to_dict(), 'optimizer': optimizer, 'every': 1}
  named = {
      name: {**learner, 'algorithm': {**algorithm, 'names': {'policy': name}}, 'trained': (name,)}
      for name in AGENTS
  }
  return {'order': AGENTS, 'shared': (), **named}


def _shrink(config: ConfigDict) -> None:
  """A run of a few seconds that takes every path."""
  config.steps = config.sft.steps = 4
  config.rollout.update(episodes=16, group_size=4)
  for name in AGENTS:
    config.sft.rollout[name].episodes = 8
    config.evals[name].update(every=2, problems=16)
  config.checkpoint = {'every': 2, 'keep': 2}
  config.log.steps_per_dispatch = 2

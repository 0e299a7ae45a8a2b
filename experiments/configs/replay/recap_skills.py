"""RECAP on skills: two new ones are learnt by rewards, and solutions of the others are replayed beside.

    rlx --config=replay/recap_skills --workdir=runs/recap

All six skills are imitated at first, the new ones until a tenth of their chains is right. Then chains of the
new ones alone are rewarded; of the four old ones there are a few solutions a step, three times as many of the
first two as of the others.

Paper: https://arxiv.org/abs/2510.21978

Result: it shows in part. Final eval/seldom/accuracy after 220 train steps, median of 5 seeds (worst): 0.2267
(0.2033), 'fixed weights' 0.3533 (0). Claimed, and got (95 % interval over seeds): above 'fixed weights', got
-0.03222 (-0.1867 to 0.1522), the run fails it; final eval/held_out/accuracy: above 'fixed weights' by -0.03,
got 0 (0 to 0). 282 CPU-s on 2 cores of a CPU; `rlx reproduce replay/recap_skills`.
"""

from ml_collections import ConfigDict

from rlx.config import parse_arg
from rlx.experiments.claims import Arm, Claim, above, final
from rlx.experiments.configs.quickstart import arithmetic

NEW, OFTEN, SELDOM = (4, 5), (0, 1), (2, 3)


def get_config(arg: str = '') -> ConfigDict:
  """Arguments: `smoke` (seconds, learns nothing), `small` (200 steps: five seeds in a minute or two)."""
  config = arithmetic.get_config(arg, steps=600)
  arg = parse_arg(arg, smoke=False, small=False)
  config.population.size = 5
  config.task = _skills(NEW)
  config.decoding.max_tokens = config.sft.decoding.max_tokens = 4
  config.sft.task = _skills((*OFTEN, *SELDOM, *NEW))
  config.sft.stop.at_least = 0.1
  completions = {**config.rollout, 'batch_size': 16 if arg.smoke else 128}
  config.rollout = {
      'name': 'beside',
      'first': completions,
      'second': {'name': 'beside', 'first': _shown(OFTEN, 12), 'second': _shown(SELDOM, 4)},
  }
  config.updates.microbatches = 1
  config.algorithm = {
      'name': 'recap',
      'clip_low': 0.2,
      'clip_high': 0.2,
      'kl': {'name': 'no_kl'},
      'num_objectives': 3,
      'window': 10,  # steps
      'temperature': 1.0,  # in units of the objectives' losses
  }
  for name, used in {'often': OFTEN, 'seldom': SELDOM}.items():
    config.evals[name] = {**config.evals.held_out, 'task': _skills(used)}
  if arg.small:
    config.steps = 200
  return config


def _shown(used: tuple[int, ...], rows: int) -> dict:
  return {'name': 'solutions', 'task': {**_skills(used), 'name': 'envs.skills.skills'}, 'batch_size': rows}


def _skills(used: tuple[int, ...]) -> dict:
  return {
      'name': 'skills',
      'modulus': 7,
      'num_skills': 6,
      'used': used,
      'min_steps': 3,
      'max_steps': 3,
      'held_out_share': 0.2,  # of the first digits
  }


def claim() -> Claim:
  """Beside the same rows under equal weights."""
  fixed = Arm('fixed weights', {'algorithm.temperature': 1e6})
  return Claim(
      paper='S025',
      says='under weights that move less is forgotten than under equal ones, at no less of what is new',
      argument='small',
      reading=final('eval/seldom/accuracy'),
      asserts=(
          above('fixed weights'),
          above('fixed weights', by=-0.03, reading=final('eval/held_out/accuracy')),
      ),
      baseline=fixed,
      minutes=6.0,
  )

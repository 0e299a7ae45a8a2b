"""Nemotron-Cascade on arithmetic: one domain after the other, each in a stage with lengths of its own.

    rlx --config=curriculum/cascade_arithmetic --workdir=runs/cascade
    rlx --config=curriculum/cascade_arithmetic:at_once=True --workdir=runs/at_once

Paper: https://arxiv.org/abs/2512.13607. There the domains are alignment, instructions, mathematics, code and
software; here sums and differences of one digit, and sums of two. All are known a little, from one supervised
stage, before the cascade begins. Every domain is evaluated all the way. `at_once` has one stage of as many
steps, on all domains together.

Result: it does not show. Final eval/held_out/accuracy after 580 train steps, median of 5 seeds (worst):
0.4867 (0.3733), 'all at once' 0.5533 (0.4633). Claimed, and got (95 % interval over seeds): above 'all at
once', got -0.08445 (-0.1111 to 0.02111), the run fails it; final eval/sums/accuracy: above 'all at once' by
-0.03, got -0.12 (-0.3789 to 0.06445), the run fails it; final eval/differences/accuracy: above 'all at once'
by -0.03, got 0.04222 (-0.13 to 0.1933), the seeds leave it open. 361 CPU-s on 2 cores of a CPU;
`rlx reproduce curriculum/cascade_arithmetic`.
"""

from ml_collections import ConfigDict

from rlx.config import parse_arg
from rlx.experiments.claims import Arm, Claim, above, final
from rlx.experiments.configs.quickstart import arithmetic

STAGE = ('stop', 'rollout', 'reward', 'algorithm', 'updates', 'optimizer', 'trained', 'slow')


def get_config(arg: str = '') -> ConfigDict:
  """Arguments: `smoke` (seconds, learns nothing), `small` (as in the quickstart); `at_once`."""
  arg = parse_arg(arg, smoke=False, small=False, at_once=False)
  config = arithmetic.get_config(f'smoke={arg.smoke},small={arg.small}', steps=600)
  config.population.size = 3
  steps = config.steps
  sums = _domain(0, 9, '+')
  differences = _domain(0, 9, '-')
  easy = {'name': 'mixture', 'first': sums, 'second': differences, 'shares': (1, 1)}
  every = {'name': 'mixture', 'first': easy, 'second': config.task.to_dict(), 'shares': (2, 1)}
  config.sft.task = every
  domains = {'sums': sums, 'differences': differences}
  for name, domain in {**domains, 'held_out': config.task.to_dict()}.items():
    config.evals[name] = {**config.evals.held_out, 'task': domain}
  first_steps = max(steps // 3, config.log.steps_per_dispatch)
  if arg.at_once:
    config.task, config.steps = every, steps + 2 * first_steps
    return config
  for name, domain in domains.items():
    config[name] = {
        **{section: config[section] for section in STAGE},
        'steps': first_steps,
        'task': domain,
        'decoding': {**config.decoding, 'max_tokens': 3},  # two characters and the end token
    }
  config.stages = ('sft', 'sums', 'differences', 'main')
  return config


def _domain(low: int, high: int, operators: str) -> dict:
  return {
      'name': 'arithmetic',
      'min_operand': low,
      'max_operand': high,
      'operators': operators,
      'held_out_share': 0.1,  # of all problems, never trained on
  }


def claim() -> Claim:
  """What was learnt first is kept, and the last domain is learnt as well as when all are learnt at once."""
  at_once = Arm('all at once', config='curriculum/cascade_arithmetic:small,at_once=True')
  first = [final(f'eval/{name}/accuracy') for name in ('sums', 'differences')]
  kept = [above('all at once', by=-0.03, reading=reading) for reading in first]
  return Claim(
      paper='S061',
      says='domains one after the other end above all at once, and the first ones are not forgotten',
      argument='small',
      reading=final('eval/held_out/accuracy'),
      asserts=(above('all at once'), *kept),
      baseline=at_once,
      minutes=10.0,
  )

"""A solver and a checker, each with a calculator; SFT, then GRPO at both seats.

    rlx --config=tools/checked_problems --workdir=runs/checked

One model sits at both seats of a table in Python (`rlx/envs/host/checked.py`). The solver answers a word
problem as in `tools/word_problems_grpo`; the checker reads the answer and works the problem out anew. Where
both come to the same number it is accepted, otherwise the solver tries once more. The solver is paid for its
last answer, the checker for each verdict. With `:model=DIR,train=F,held_out=F` other models and problems.

Result: the pieces work together, and nothing is gained. Five seeds, with the model, the problems and the
steps of `tools/word_problems_grpo`, median (worst): of 64 held-out problems the solver had 3.1 % right (0)
after SFT and 0 % (0; the best 6.2) after 30 steps of GRPO, where alone it has 53 % right after SFT; perhaps
because it was shown solutions of one speaker, and no table, so that what it says behind an answer that was
sent back is worth little. 80 % of the checker's verdicts were right (72.7), then 79.7 % (67.2), most of them
on wrong answers. 1.5 and 0.6 calls an episode after SFT, no table lost. Five to nine minutes a seed beside
other work on two cores.
"""

from ml_collections import ConfigDict

from rlx.experiments.configs.tools import word_problems_grpo

SEATS = {'solver': 'policy', 'checker': 'policy'}  # seat -> model: one model at both
TURNS = {'turn_tokens': 96, 'max_turns': 20}  # tokens of a turn; turns of both together, with calls


def get_config(arg: str = '', **defaults) -> ConfigDict:
  """Arguments: those of `sft/gsm8k.py`; `defaults` are for the configs that start from this one."""
  config = word_problems_grpo.get_config(arg, **defaults)
  smoke = config.steps < 10
  config.toolboxes = {
      'name': 'rollout.tabletop.toolboxes',
      'solver': config.toolbox,
      'checker': config.toolbox,
  }
  del config['toolbox']  # that of the first stage stays
  config.table = {
      'name': 'rollout.tabletop.tabletop',
      'environments': {'checked': {'name': 'checked.Checked', 'attempts': 2, 'again': '\nAnswer:'}},
      'timeout_seconds': 10.0,  # of a step
      'workers': 2,  # steps at the same time
      'hears': 'all',  # calls and their results are part of a solution
      'before': '',  # a text that a seat is told
      'after': '',
      'role': 'user',  # where prompts are messages, which these are not
      'reset_tokens': 0,  # nobody is told anything at first
  }
  config.decoding.max_tokens = 192  # of a seat: what it says, and what it reads of the other one
  config.rollout = {
      'name': 'host_seats.episodes',
      'names': {**SEATS},
      'episodes': 64,
      'group_size': 8,
      'num_slots': 32,
      'turn_tokens': TURNS['turn_tokens'],
      'max_turns': {'name': 'controllers.schedules.constant', 'value': TURNS['max_turns']},
      'learnt': ('solver', 'checker'),
  }
  config.reward = {'name': 'of_world'}
  every, problems = config.evals.held_out.every, config.evals.held_out.problems
  config.evals.held_out = {
      'name': 'host_seats.episodes', 'names': {**SEATS}, 'every': every, 'problems': problems,
      'num_slots': 16, **TURNS,
  }
  config.log.headline = 'eval/held_out/payoff_solver'
  if smoke:
    config.rollout.update(episodes=8, group_size=4, num_slots=8, turn_tokens=24)
    config.decoding.max_tokens, config.evals.held_out.turn_tokens = 96, 24
  return config

"""BRPO where thinking may be cut short: sums of up to four digits, steps of two tokens, three seeds.

    rlx --config=reasoning/brpo_chain --workdir=runs/brpo

Paper: https://arxiv.org/abs/2505.13438. There, four budgets of up to 8,000 tokens.

Result: it shows in part. Mean of the last 3 eval/budgets/accuracy after 660,480 sampled tokens, at most,
median of 5 seeds (worst): 0.4414 (0.3711), 'GRPO' 0.3122 (0.2503), 'one budget' 0.3217 (0.2936). Claimed, and
got (95 % interval over seeds): above 'GRPO', got 0.1185 (0.07036 to 0.1768), without the mechanism it holds
as well: 'one budget'; above 'one budget', got 0.0987 (0.0362 to 0.1306). 1675 CPU-s on 2 cores of a CPU;
`rlx reproduce reasoning/brpo_chain`.

Answers behind cuts are most of the tokens: GRPO has four times the rows of thinking. `small` was of three
digits modulo five, of which 0.4 were solved before RL, at a rate of 1.5e-3: five seeds had 0.229 there, GRPO
0.291, a guess is 0.2. Solved problems are lost at that rate: on four digits modulo three the median of three
trial seeds fell from 0.95 behind whole thinking to 0.13. On those of now two trial seeds had 0.49 and 0.37
over all budgets at 3e-4, 0.40 and 0.30 at 1e-4, and GRPO at 1.5e-3 0.21 and 0.22.
"""

from ml_collections import ConfigDict

from rlx.config import parse_arg
from rlx.experiments.claims import Arm, Claim, above, mean
from rlx.experiments.configs.quickstart import arithmetic

COLUMNS = 2 * 4 + 3  # all steps, the answer and the end token
SUMMARY_TOKENS, SUMMARY_SAMPLES = 2, 4  # a digit and the end token; answers behind each cut
BUDGETS = (2, 4, 6, 8)  # tokens of thinking: one to four steps
SMALL_ROWS = 64  # of thinking


def get_config(arg: str = '') -> ConfigDict:
  """Arguments: `smoke` (seconds, learns nothing); `small` (minutes: four digits modulo four, which are solved
  before RL begins, 64 rows of thinking, 160 steps)."""
  config = on_chains(arg)
  if parse_arg(arg, smoke=False, small=False).small:
    config.steps, config.rollout.batch_size, config.updates.microbatches = 160, SMALL_ROWS, 1
    config.task.update(modulus=4, min_steps=4, max_steps=4)
    config.sft.stop.at_least = 0.85  # who does not solve them yet has nothing to say earlier
    config.optimizer.learning_rate = 3e-4
    config.seed = 10  # the first ones had been looked at
  config.evals.budgets = {
      **config.evals.held_out,
      'name': 'anytime',
      **{name: config.algorithm[name] for name in ('budgets', 'marker', 'summary_tokens')},
  }
  return config


def on_chains(arg: str, *, checks: int = 0) -> ConfigDict:
  """The same without the evaluation of budgets, for the configs that start from it; `checks`: how often
  solutions say the last step again."""
  small = parse_arg(arg, smoke=False, small=False).small
  config = arithmetic.get_config(arg, steps=600)
  config.population.size = 3
  config.task = {
      'name': 'chain',
      'modulus': 10,
      'min_steps': 2,
      'max_steps': 4,  # the difficulty
      'checks': checks,
      'held_out_share': 0.1,  # of all problems of each length, never trained on
  }
  if small:
    config.task.update(modulus=5, min_steps=3, max_steps=3, held_out_share=0.2)
    config.sft.stop.at_least = 0.4  # a guess is right in a fifth
  config.sft.task = config.task
  columns = COLUMNS + 2 * checks
  config.decoding.max_tokens = config.sft.decoding.max_tokens = columns
  del config.reward  # answers are verified behind each budget
  config.algorithm = {
      'name': 'brpo',
      'clip_low': 0.2,
      'clip_high': 0.2,
      'budgets': BUDGETS,
      'budget_weights': (0.25, 0.25, 0.25, 0.25),
      'decay': 0.5,
      'marker': '#',
      'summary_tokens': SUMMARY_TOKENS,
      'summary_samples': SUMMARY_SAMPLES,
  }
  return config


def on_sparse_chains(arg: str, *, checks: int = 0) -> ConfigDict:
  """Sums of six digits modulo five, and few of them right, for what credits steps.

  Rows are drawn at a temperature at which most of the steps are right and a quarter of the answers, and
  there are four groups of eight in a batch, so that the outcome says little of each step. Examined is what
  the policy samples. `checks` as in `on_chains`.
  """
  smoke = parse_arg(arg, smoke=False).smoke
  config = on_chains(arg, checks=checks)
  config.task.update(modulus=5, min_steps=6, max_steps=6, held_out_share=0.2)
  columns = 2 * 6 + 3 + 2 * checks
  config.decoding.update(max_tokens=columns, temperature=2.0)
  config.sft.decoding.max_tokens = columns
  config.models.policy.context_length = 40
  config.sft.stop.at_least = 0.25  # of samples at that temperature
  config.updates.microbatches = 1
  config.optimizer.update(learning_rate=5e-4, decay_steps=0)
  config.evals.held_out = {'name': 'graded', 'every': 2 if smoke else 20, 'problems': 16 if smoke else 256}
  if smoke:
    config.population.size = 1  # three take twice as long to compile
  else:
    config.steps, config.rollout.batch_size = 200, 32
    config.checkpoint.every = 100
  config.log.samples = 0
  return config


def claim() -> Claim:
  """Beside GRPO, which thinks as far as it likes and learns from the answer that it gives then; and with one
  budget, all of it, which leaves separate training of thinking and of answers. All sample as many tokens: who
  spends fewer on answers behind cuts has more rows of thinking."""
  brief = SUMMARY_TOKENS * SUMMARY_SAMPLES  # tokens of the answers behind one cut
  ours, whole = SMALL_ROWS * (COLUMNS + len(BUDGETS) * brief), 256
  single = ours // (COLUMNS + brief) // 8 * 8  # whole groups
  return Claim(
      paper='S059',
      says='answers behind thinking that is cut at any budget are right more often than those of GRPO',
      argument='small',
      reading=mean('eval/budgets/accuracy', last=3),
      asserts=(above('GRPO'), above('one budget')),
      cost=ours,
      budget_name='sampled tokens, at most',
      baseline=Arm('GRPO', {
          'algorithm': arithmetic.GRPO, 'reward': {'name': 'verifier'}, 'rollout.batch_size': whole,
      }, cost=whole * COLUMNS),
      controls=(Arm('one budget', {
          'algorithm.budgets': BUDGETS[-1:], 'algorithm.budget_weights': (1.0,), 'rollout.batch_size': single,
      }, cost=single * (COLUMNS + brief)),),
      minutes=16.0,
  )

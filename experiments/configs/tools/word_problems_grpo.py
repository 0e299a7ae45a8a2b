"""Word problems with a calculator: SFT on solutions whose results a tool writes, then GRPO with the tool.

    rlx --config=tools/word_problems_grpo --workdir=runs/tools

Solutions are GSM8K's, `He has 48/2 = <<48/2=24>>24 apples.`: a turn ends behind the `=` inside of `<<`, the
calculator says `24>>`, and the policy goes on. In demonstrations what the calculator says is read, and
nobody is trained on it. With `:model=DIR,train=F,held_out=F` other models and GSM8K's own files. Paper:
Cobbe et al., 2021, https://arxiv.org/abs/2110.14168, whose data have these marks.

Result: RL adds nothing in so few steps. Held-out accuracy over 64 problems, five seeds, median (worst): 53.1
% (28.1) after 120 steps of SFT, 53.1 % (32.8) after 30 steps of GRPO; by seed 33, 59, 56, 53, 28 % and 36,
55, 58, 53, 33 %. 1.4 calls an episode, of which one failed, of one seed after SFT; all 15,595 recorded calls
said the same again (`rlx replay-calls`). Two to four minutes a seed beside other work on two cores. What the
calculator is worth says `tools/word_problems_calculator`. With `sft.steps` 120, `steps` 30, and a random
model of 342,048 parameters:

    python -m rlx.experiments.data.generate --word_problems=4000 --output=problems
    rlx init-model --text=problems/train.jsonl --output=small --family=qwen2 --vocab_size=384 --layers=3 \\
        --width=96 --heads=4 --kv_heads=2 --mlp_size=256 --context_length=256
"""

from ml_collections import ConfigDict

from rlx.experiments.configs.math import gsm8k_grpo

TURNS = {'turn_tokens': 96, 'max_turns': 6}


def get_config(arg: str = '', **defaults) -> ConfigDict:
  """Arguments: those of `sft/gsm8k.py`; `defaults` are for the configs that start from this one."""
  config = gsm8k_grpo.get_config(arg, **defaults)
  smoke = config.steps < 10
  config.toolbox = {
      'name': 'rollout.toolbox.toolbox',
      'tools': {'calculator': {'name': 'calculator.calculate'}},
      'environments': ConfigDict(),  # no worlds: the calculator remembers nothing
      'calls': {'name': 'calls.inline', 'tool': 'calculator', 'before': '<<', 'after': '='},
      'timeout_seconds': 10.0,  # of a call
      'max_calls': 8,  # of an episode
      'workers': 2,  # calls at the same time
      'result_tokens': 16,
      'keep': 'head',  # of a longer result
      'before': '',
      'after': '>>',  # a result
      'role': 'tool',  # where prompts are messages, which these are not
      'reset_tokens': 0,  # no world says anything
  }
  config.sft.toolbox = config.toolbox
  config.decoding.stop = ('=',)
  config.sft.rollout = {
      'name': 'host_turns.marked_solutions', 'batch_size': 32, 'marks': r'(<<[^<>=]*=)([^<>]*>>)'
  }
  config.rollout = {
      'name': 'host_turns.episodes',
      'batch_size': 64,
      'group_size': 8,
      'num_slots': 32,
      'turn_tokens': TURNS['turn_tokens'],
      'max_turns': {'name': 'controllers.schedules.constant', 'value': TURNS['max_turns']},
  }
  config.evals.held_out = {
      **config.evals.held_out, 'name': 'host_turns.rewarded_episodes', 'num_slots': 16, **TURNS
  }
  if smoke:
    config.rollout.update(batch_size=16, num_slots=8)
    config.sft.rollout.batch_size = 8
    config.decoding.max_tokens, config.rollout.turn_tokens = 64, 24
    config.evals.held_out.turn_tokens = 24
  return config

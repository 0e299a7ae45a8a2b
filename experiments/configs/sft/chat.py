"""Supervised fine-tuning on conversations: rows of `messages`, rendered by the model's own chat template.

    rlx --config=sft/chat:model=DIR,train=FILE,held_out=FILE --workdir=runs/chat

Only what the assistant says is learned, its end-of-turn token included.

Result: without arguments, the 30 thousand parameters in `experiments/data` on 32 made-up conversations:
held-out loss 6.47 -> 0.81 nats a token; it answers in form, mostly with the wrong sum. 16 s on two cores (AMD
EPYC).
"""

from ml_collections import ConfigDict

from rlx.experiments.configs.sft import gsm8k
from rlx.experiments.data import FOLDER


def get_config(arg: str = '') -> ConfigDict:
  """Arguments: those of `sft/gsm8k.py`."""
  data = f'{FOLDER}/chats'
  config = gsm8k.get_config(arg, train=f'{data}_train.jsonl', held_out=f'{data}_test.jsonl')
  config.task.columns = ConfigDict()  # `messages`, as it is in the file
  config.task.max_prompt_tokens = 512
  config.score.packed_columns = 1024
  return config

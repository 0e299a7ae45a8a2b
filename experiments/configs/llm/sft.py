"""Supervised fine-tuning of any Hugging Face directory on any JSONL file: TRL's `SFTTrainer`, as a config.

    rlx --config=llm/sft:model=DIR,train=FILE,held_out=FILE --workdir=runs/sft

Rows are `prompt` and `completion` (strings or messages), or `messages`, of which all that the assistant says
is learned; `prompt={question},completion={answer}` makes columns of others. The numbers are for a pretrained
model; a random one wants `--config.optimizer.learning_rate=1e-3`. The model of the end is in
`runs/sft/model`.

Result: nothing that says what it can do: no pretrained model was at hand. `:smoke` takes 4 steps of the 30
thousand random parameters in `experiments/data` (held-out loss 6.269 -> 6.268 nats a token at this learning
rate), in 40 CPU-seconds, most of them compiling.
"""

from ml_collections import ConfigDict

from rlx.config import parse_arg
from rlx.experiments.configs.math import gsm8k_grpo_lora
from rlx.experiments.configs.sft import gsm8k
from rlx.experiments.data import FOLDER

DEFAULTS = {
    'smoke': False,  # seconds, learns nothing
    'model': f'{FOLDER}/tiny_model',
    'train': f'{FOLDER}/word_problems_train.jsonl',
    'held_out': '',  # nothing is evaluated
    'prompt': '',  # a template that makes the column, such as {question}; '' where there is one
    'completion': '',
    'chat': False,  # prompts that are strings are what a user says
    'window_rows': 0,  # rows at hand, for files larger than memory; 0 reads them whole
    'lora_rank': 0,  # 0 trains all weights
}


def get_config(arg: str = '', **defaults) -> ConfigDict:
  """Arguments: those of `DEFAULTS`, which `defaults` replace for those who start from this one."""
  arg = arguments(arg, **{**DEFAULTS, **defaults})
  config = gsm8k.get_config(smoke=arg.smoke, model=arg.model, train=arg.train, held_out=arg.held_out)
  with_rows(config, arg)
  config.optimizer.update(learning_rate=1e-5, warmup_steps=10, decay_steps=290)
  if arg.lora_rank:
    config.optimizer.learning_rate = 1e-4
    gsm8k_grpo_lora.adapt(config, rank=arg.lora_rank)
  if not arg.held_out:
    config.log.headline = 'loss/nll'
  return config


def arguments(arg: str, **defaults) -> ConfigDict:
  """The arguments with their values; the problems of the repository get the columns that they lack."""
  arg = parse_arg(arg, **defaults)
  if arg.train == DEFAULTS['train'] and not arg.prompt:
    arg.update(prompt='Question: {question}\\nAnswer:', completion=' {answer}')
    arg.held_out = arg.held_out or f'{FOLDER}/word_problems_test.jsonl'
  return arg


def with_rows(config: ConfigDict, arg: ConfigDict) -> None:
  """Lets a config that started from `sft/gsm8k.py` read the rows of the arguments."""
  templates = {'prompt': arg.prompt, 'completion': arg.completion}
  columns = {name: text.replace('\\n', '\n') for name, text in templates.items() if text}
  config.task.columns = ConfigDict(columns)
  config.task.update(train=arg.train, chat=arg.chat, max_prompt_tokens=128 if arg.smoke else 512)
  config.score.packed_columns = 1024
  config.log.steps_per_dispatch = 1  # any number of steps; a step of a model of size fills the device
  if arg.window_rows:
    config.task.update(name='streamed', window_rows=arg.window_rows)  # which pads to what there may be
    most = min(config.task.max_completion_tokens, config.decoding.max_tokens)
    config.task.max_completion_tokens = most
  if not arg.held_out:
    config.evals = ConfigDict()

"""GRPO of any Hugging Face directory on any JSONL file with any reward: TRL's `GRPOTrainer`, as a config.

    rlx --config=llm/grpo:model=DIR,train=FILE,reward=mine.rewards.f --workdir=runs/g

Rows have a `prompt` (a string or messages) or `messages`, and whatever columns the reward asks for, such as
`answer`; `prompt={question}` makes the column of others. `reward` is a function with TRL's signature in a
module that is installed or found by PYTHONPATH, or one of `rlx/rewards`, with its numbers; several are added
up, `reward=math.math_answer:tolerance=1e-6+mine.rewards.f:weight=0.1`.

There is no SFT stage unless `sft_steps` asks for one (rows then need a `completion`). `kl_coef=0.01` holds
the policy to the model that it began as; `lora_rank=16` trains adapters. The numbers are for a pretrained
model; a random one wants `--config.optimizer.learning_rate=1e-4`. The model of the end is in `runs/g/model`.
docs/guides/from_trl.md tells which of TRL's arguments is which key.

Result: it runs and learns, on a toy: `rlx.finetune` of the 30 thousand random parameters in
`experiments/data` on 40 prompts, with the share of digits as the reward, a learning rate of 1e-2 (warm-up 5)
and 32 tokens: reward 0.014 at the first step, 0.101 at the 10th, 0.934 at the 20th, 1.0 at the 40th; 195 s on
two busy cores, 140 of which compiled. No pretrained model was at hand, so the learning rates above are those
of the field, not results.
"""

import ast

from ml_collections import ConfigDict

from rlx.errors import ConfigError
from rlx.experiments.configs.llm import sft
from rlx.experiments.configs.math import gsm8k_grpo, gsm8k_grpo_lora

DEFAULTS = {
    **sft.DEFAULTS,
    'reward': 'math.math_answer:tolerance=1e-6',
    'sft_steps': 0,  # before
    'kl_coef': 0.0,  # of the divergence from the model that it began as, in the loss
}


def get_config(arg: str = '', **defaults) -> ConfigDict:
  """Arguments: those of `DEFAULTS`, which `defaults` replace for those who start from this one."""
  arg = sft.arguments(arg, **{**DEFAULTS, **defaults})
  config = gsm8k_grpo.get_config(smoke=arg.smoke, model=arg.model, train=arg.train, held_out=arg.held_out)
  sft.with_rows(config, arg)
  config.reward.functions = functions(arg.reward)
  config.optimizer.learning_rate = 1e-6
  if not arg.smoke:
    config.steps = 200
    config.decoding.max_tokens = 256
    config.rollout.update(batch_size=64, group_size=8, num_slots=32)
  if arg.held_out:
    config.evals.held_out.accuracy = next(iter(config.reward.functions))
  else:
    config.log.headline = 'reward/mean'
  if arg.sft_steps:
    config.sft.steps = arg.sft_steps
    config.sft.optimizer.update(learning_rate=1e-5, decay_steps=max(arg.sft_steps - 20, 0))
  else:
    config.stages = ('main',)
    del config['sft']
  if arg.lora_rank:
    config.optimizer.learning_rate = 1e-5
    gsm8k_grpo_lora.adapt(config, rank=arg.lora_rank)
  elif arg.kl_coef:
    config.slow = {'reference': 'policy'}  # as it was when the stage began
  if arg.kl_coef:
    reference = 'base' if arg.lora_rank else 'reference'
    config.algorithm.kl = {'name': 'kl_in_loss', 'names': {'reference': reference}, 'coef': arg.kl_coef}
  return config


def functions(text: str) -> dict[str, dict]:
  """The section `reward.functions` that `f:number=1+g:weight=0.1` says; a weight that is not said is 1."""
  sections = {}
  for term in text.split('+'):
    name, *numbers = term.split(':')
    section = {'name': name, 'weight': 1.0}
    for number in numbers:
      key, equals, value = number.partition('=')
      if not equals:
        raise ConfigError(f'reward={text!r}: {number!r} is not name=value')
      section[key] = _value(value)
    short = name.rpartition('.')[2]
    if not name or short in sections:
      raise ConfigError(f'reward={text!r} has no name, or {short!r} twice; functions are told apart by it')
    sections[short] = section
  return sections


def _value(text: str):
  try:
    return ast.literal_eval(text)
  except (ValueError, SyntaxError):
    return text

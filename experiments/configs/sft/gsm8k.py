"""Supervised fine-tuning of a Hugging Face model on the solutions of GSM8K, or on other completions.

    rlx --config=sft/gsm8k:model=DIR,train=FILE,held_out=FILE --workdir=runs/sft

`model` is a Hugging Face directory (`rlx init-model` makes a random one); `train` and `held_out` are GSM8K's
JSONL files, rows of `question` and `answer`. Data: Cobbe et al., 2021, https://arxiv.org/abs/2110.14168.
The model of the end is written to `runs/sft/model`.

Result: as the first stage of `math/gsm8k_grpo.py`, a random model of 1.25 M parameters, on GSM8K's own files:
training loss 5.18 nats a token after 20 steps, 3.33 after 100; 8 minutes on two busy cores (AMD EPYC).
"""

from ml_collections import ConfigDict

from rlx.config import parse_arg
from rlx.experiments.data import FOLDER

DEFAULTS = {
    'smoke': False,
    'model': f'{FOLDER}/tiny_model',
    'train': f'{FOLDER}/word_problems_train.jsonl',
    'held_out': f'{FOLDER}/word_problems_test.jsonl',
}

SMALL_DECODER = {  # 300 thousand parameters and those of its tokens
    'name': 'qwen2',
    'num_layers': 3,
    'width': 96,
    'num_heads': 4,
    'num_kv_heads': 4,
    'mlp_size': 256,
    'context_length': 256,
    'tied': True,
    'dtype': 'float32',
    'remat': False,
    'attention': 'auto',  # which kernel
}


def get_config(arg: str = '', **defaults) -> ConfigDict:
  """Arguments: `model`, `train`, `held_out` (paths), `smoke` (seconds, learns nothing).

  `defaults` replace those of the arguments, for the configs that start from this one.
  """
  arg = parse_arg(arg, **{**DEFAULTS, **defaults})
  config = ConfigDict()
  config.seed = 0
  config.population = {'size': 1}
  config.mesh = {'data': -1, 'fsdp': 1, 'tensor': 1}  # -1: all devices
  config.stages = ('main',)
  config.task = {
      'name': 'dataset',
      'directory': arg.model,  # of the tokenizer
      'train': arg.train,
      'held_out': arg.held_out,
      'columns': {'prompt': 'Question: {question}\nAnswer:', 'completion': ' {answer}'},
      'chat': False,
      'system': '',
      'max_prompt_tokens': 256,
      'max_completion_tokens': 256,
      'malformed': 'skip',  # too long ones included; they are counted
  }
  config.models = {
      'policy': {
          'name': 'hf',
          'directory': arg.model,
          'context_length': 0,  # the directory's own
          'dtype': 'float32',
          'param_dtype': 'float32',
          'remat': False,
          'attention': 'auto',  # which kernel
          'decode_attention': 'auto',
      },
  }
  config.score = {
      'chunk_tokens': 2048,  # with logits at a time
      'packed_columns': 512,  # tokens of a packed row, prompt and completion at least: lengths differ
      'packed_rows': 4,  # at a time
      'share_prompts': True,  # of a group, in a packed row
      'packed_kept': 0,  # parts whose activations are not computed anew for the gradient
  }
  config.steps = 300
  config.stop = ConfigDict()  # none: all steps are taken
  config.trained = ('policy',)
  config.slow = ConfigDict()
  config.decoding = {
      'max_tokens': 256,
      'min_tokens': 0,
      'temperature': 1.0,
      'top_k': 0,
      'top_p': 1.0,
      'min_p': 0.0,
      'sampler': 'gumbel',
  }
  config.rollout = {'name': 'solutions', 'batch_size': 32}
  config.algorithm = {'name': 'sft'}
  config.updates = {'epochs': 1, 'minibatches': 1, 'microbatches': 1}
  config.optimizer = {
      'name': 'adamw',
      'learning_rate': 1e-3,  # of a random model; 1e-5 for a pretrained one
      'warmup_steps': 20,  # updates
      'decay_steps': 280,  # updates
      'final_fraction': 0.1,
      'b1': 0.9,
      'b2': 0.95,
      'eps': 1e-8,
      'weight_decay': 0.0,
      'clip_norm': 1.0,
  }
  problems = 8 if arg.held_out.startswith(FOLDER) else 64  # the data that come with rlx are few
  config.evals = {'held_out': {'name': 'likelihood', 'every': 50, 'problems': problems}}  # steps; rows
  config.checkpoint = {'every': 50, 'keep': 2}  # steps; newest ones
  config.log = {
      'steps_per_dispatch': 10,  # in one program
      'samples': 4,  # rows
      'headline': 'eval/held_out/nll',  # nats a token
      'writers': ('tensorboard',),
      'stuck_seconds': 900.0,  # until it is said where a step hangs
  }
  if arg.smoke:
    shrink(config)
  return config


def shrink(config: ConfigDict) -> None:
  """A run of seconds that takes every path."""
  config.steps = 4
  config.decoding.max_tokens = 128
  config.rollout.batch_size = 8
  config.evals.held_out.every = config.checkpoint.every = 2
  config.score.packed_rows = 1  # its rows do not fill more
  config.log.update(steps_per_dispatch=2, samples=2)


def make_rows(config: ConfigDict, **problems) -> None:
  """Instead of files, problems made by rule, in both stages; `problems` are of `generate.word_problems`."""
  task = {key: value for key, value in config.task.items() if key not in ('train', 'held_out')}
  rows = {'name': 'experiments.data.generate.word_problems', **problems}
  del config['task'], config.sft['task']
  config.task = config.sft.task = ConfigDict({**task, 'name': 'dataset.of_rows', 'rows': rows})

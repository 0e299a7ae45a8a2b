"""Word problems of two to four steps: SFT on written solutions, then a policy gradient with math-verify.

    rlx --config=math/word_problems --workdir=runs/problems
    rlx --config=math/word_problems:algorithm=sft,model=DIR --workdir=runs/sft
    rlx --config=math/word_problems:algorithm=rloo,model=runs/sft/model --workdir=runs/rloo

`algorithm` is `grpo` or a preset, `policy_gradient/NAME_arithmetic`, whose section and models are taken; all
of them make two updates a batch. Those of the result were tried. `sft` is the first stage alone. With
`model`, a Hugging Face directory (`rlx init-model` makes a random one), that is where the last stage begins,
and there is no other. `train` and `held_out` are files of rows `question, answer`; without them problems are
made by rule.
Paper: https://arxiv.org/abs/2402.03300.

Result: held-out accuracy in per cent, median of 5 seeds (worst to best): 49.2 (41.8 to 57.4) after SFT, and
90 steps later GRPO 57.8 (53.9 to 64.8), PPO 57.4 (56.2 to 63.3), RLOO 55.5 (53.1 to 64.8), Dr. GRPO 58.2
(54.7 to 65.2), DAPO 56.6 (50.4 to 63.3), more SFT 85.5 (80.9 to 86.7);
`python -m rlx.experiments.studies.problems`.
"""

from ml_collections import ConfigDict

from rlx import config as configs
from rlx.config import parse_arg
from rlx.experiments.configs.math import gsm8k_grpo
from rlx.experiments.configs.sft import gsm8k

NUM_PROBLEMS = 20_000  # made by rule
PROMPT_TOKENS, ANSWER_TOKENS = 144, 56
STEPS, ROWS = {'sft': 600, 'main': 90}, {'sft': 64, 'main': 128}  # of SFT at most; of a step
SUPERVISED = 0.4  # held-out accuracy that ends SFT
UPDATES, RATE = 2, 1e-4  # a step of the last stage; its learning rate


def get_config(arg: str = '') -> ConfigDict:
  """Arguments: `algorithm`, `model`, `train`, `held_out` (paths), `smoke` (seconds, learns nothing)."""
  arg = parse_arg(arg, algorithm='grpo', model='', train='', held_out='', smoke=False)
  given = {name: arg[name] for name in ('model', 'train', 'held_out') if arg[name]}
  config = gsm8k_grpo.get_config('', smoke=arg.smoke, **given)
  if not arg.train:
    gsm8k.make_rows(config, num=64 if arg.smoke else NUM_PROBLEMS, long=True)
  config.reward.functions = {'math': {'name': 'math.math_answer', 'weight': 1.0, 'tolerance': 1e-6}}
  if not arg.smoke:
    _enlarge(config)
  if not (arg.model or arg.smoke):
    config.models.policy = {**gsm8k.SMALL_DECODER}
  if arg.algorithm == 'sft':
    for name, section in config.sft.items():
      config[name] = section
  elif arg.algorithm != 'grpo':
    _replace_algorithm(config, arg.algorithm)
  if arg.model or arg.algorithm == 'sft':
    config.stages = ('main',)
    del config['sft']
  return config


def _enlarge(config: ConfigDict) -> None:
  """From `:smoke`'s numbers, or those of other data, to this one's."""
  config.task.update(max_prompt_tokens=PROMPT_TOKENS, max_completion_tokens=ANSWER_TOKENS)
  config.score.update(packed_columns=PROMPT_TOKENS + ANSWER_TOKENS)
  config.decoding.max_tokens = config.sft.decoding.max_tokens = ANSWER_TOKENS
  config.sft.steps, config.steps = STEPS['sft'], STEPS['main']
  config.sft.stop = {'name': 'reached', 'metric': 'eval/held_out/accuracy', 'at_least': SUPERVISED}
  config.sft.rollout.batch_size = ROWS['sft']
  config.sft.optimizer.update(learning_rate=3e-3, decay_steps=STEPS['sft'])
  config.rollout.update(batch_size=ROWS['main'], num_slots=0)  # lengths differ little
  config.updates.minibatches = UPDATES
  config.optimizer.update(learning_rate=RATE, warmup_steps=4)
  config.evals.held_out.update(problems=256, every=30)
  config.checkpoint.every = 30


def _replace_algorithm(config: ConfigDict, name: str) -> None:
  """GRPO by a preset, with what it needs beside the policy."""
  preset = configs.load(f'policy_gradient/{name}_arithmetic:small')
  config.algorithm, config.trained, config.slow = preset.algorithm, preset.trained, preset.slow
  config.models.update({model: section for model, section in preset.models.items() if model != 'policy'})
  tokens = config.decoding.max_tokens
  sizes = {
      'length': tokens, 'max_tokens': tokens, 'overlong_buffer': tokens // 8,
      'train_rows': config.rollout.batch_size // 2,
  }
  config.algorithm.update({key: size for key, size in sizes.items() if key in config.algorithm})

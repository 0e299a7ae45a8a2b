"""Three stages from comparisons: SFT on the chosen answers, a reward model, and PPO or GRPO against it.

    rlx --config=preferences/rlhf:model=DIR,train=FILE --workdir=runs/rlhf
    rlx --config=preferences/rlhf:model=DIR,train=FILE,method=grpo --workdir=runs/rlhf_grpo
    rlx --config=preferences/rlhf:model=DIR,train=FILE,method=online_dpo --workdir=runs/online_dpo

`online_dpo` learns from the best and the worst of each prompt's answers, as the reward model says. The policy
is held to what it was when the last stage began. With `held_out` it says the reward and the KL of answers to
held-out prompts. With `judge=DIR`, a directory for sequence classification such as `preferences/reward.py`
leaves, there is the last stage alone. Papers: https://arxiv.org/abs/2203.02155;
https://arxiv.org/abs/2405.07863 (online DPO).

Result: on 1,477 comparisons of harmless answers, a decoder of 0.3 million parameters, 32 steps of SFT, 100 of
the reward model, 16 of the last stage, five seeds: held-out reward rises by 0.126 with PPO (0.048 to 0.193),
0.146 with GRPO (0.070 to 0.211), 0.107 with online DPO (-0.003 to 0.201), at 0.13, 0.15 and 0.09 nats an
answer (`python -m rlx.experiments.studies.harmless`).
"""

from ml_collections import ConfigDict

from rlx.config import parse_arg
from rlx.errors import ConfigError
from rlx.experiments.configs.llm import sft
from rlx.experiments.configs.preferences import dpo

STAGE = ('steps', 'stop', 'trained', 'slow', 'decoding', 'rollout', 'algorithm', 'updates', 'optimizer')
METHODS = ('ppo', 'grpo', 'online_dpo')


def get_config(arg: str = '') -> ConfigDict:
  """Arguments: those of `preferences/dpo.py` but `lora_rank`, `method` and `judge`."""
  defaults = {'method': 'ppo', 'judge': ''}
  config = dpo.get_config(arg, **defaults)
  arg = parse_arg(arg, **{**sft.DEFAULTS, **dpo.DEFAULTS, **defaults})
  if arg.method not in METHODS:
    raise ConfigError(f'method={arg.method!r} is none of {", ".join(METHODS)}')
  if arg.lora_rank:
    raise ConfigError(f'lora_rank={arg.lora_rank}: this config trains all weights')
  held_out, config.evals = config.evals, ConfigDict()
  config.log.headline = 'preference/right' if arg.method == 'online_dpo' else 'reward/mean'
  if held_out:
    asked = {'every': held_out.held_out.every, 'problems': 8 if arg.smoke else 64}
    config.evals.held_out = {'name': 'judged_samples', **asked}
    config.log.headline = 'eval/held_out/reward'
  config.models.judge = {'name': 'reward_head'}
  config.stages = ('sft', 'rewarding', 'main')
  common = {name: config[name] for name in STAGE}
  config.sft = ConfigDict(ConfigDict(common).to_dict())
  config.sft.slow = ConfigDict()
  config.sft.algorithm = {'name': 'reference_free', 'loss': {'name': 'preference.nll'}}
  config.sft.optimizer.learning_rate = 1e-5
  config.rewarding = ConfigDict(ConfigDict(common).to_dict())
  config.rewarding.update(trained=('judge',), slow=ConfigDict({'policy': 'policy'}))
  config.rewarding.rollout.name = 'judged_comparisons'
  config.rewarding.algorithm = {'name': 'bradley_terry', 'smoothing': 0.0, 'centring': 0.01}
  config.rewarding.optimizer.learning_rate = 1e-5
  del config.rewarding['decoding']
  for stage in (config.sft, config.rewarding):
    stage.task = config.task
  _against_the_judge(config, arg.method, smoke=arg.smoke)
  if arg.judge:
    _judged_by(config, arg.judge)
  return config


def _judged_by(config: ConfigDict, directory: str) -> None:
  """Leaves the last stage, and a reward model from files."""
  shape = ('context_length', 'dtype', 'param_dtype', 'remat', 'attention')
  config.models.judge = {
      'name': 'classifier', 'directory': directory, **{name: config.models.policy[name] for name in shape},
  }
  config.stages = ('main',)
  del config['sft'], config['rewarding']


def _against_the_judge(config: ConfigDict, method: str, *, smoke: bool) -> None:
  """The last stage."""
  config.slow = {'judge': 'judge', 'reference': 'policy'}
  config.decoding.max_tokens = 16 if smoke else 128
  rows = {'batch_size': 16 if smoke else 64, 'group_size': 4, 'num_slots': 8 if smoke else 32}
  config.rollout = {'name': 'prompts.completions', **rows}
  clip = {'clip_low': 0.2, 'clip_high': 0.2, 'entropy_coef': 0.0}
  if method == 'online_dpo':
    config.rollout = {
        'name': 'paired', 'rollout': config.rollout.to_dict(), 'reward': {'name': 'learned.learned'},
    }
    config.algorithm = {'name': 'dpo', 'loss': {'name': 'sigmoid', 'beta': 0.1}}
    return
  config.reward = {'name': 'learned'}
  if method == 'grpo':
    config.algorithm = {'name': 'grpo', **clip, 'kl': {'name': 'kl_in_loss', 'coef': 0.05}}
    return
  config.models.value = {'name': 'value_head'}
  config.trained = ('policy', 'value')
  config.algorithm = {
      'name': 'ppo', **clip, 'kl': {'name': 'kl_in_reward', 'coef': 0.05}, 'value_coef': 0.5,
      'value_clip': 0.2, 'discount': 1.0, 'lambda_': 0.95,
  }

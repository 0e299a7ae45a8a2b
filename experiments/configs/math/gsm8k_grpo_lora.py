"""GSM8K as in `gsm8k_grpo.py`, with LoRA: the weights stay as they are, and are the reference of the KL term.

    rlx --config=math/gsm8k_grpo_lora:model=DIR,train=F,held_out=F --workdir=runs/lora

Paper: Hu et al., 2021, https://arxiv.org/abs/2106.09685. `runs/lora/adapter` is a PEFT directory at the end,
`runs/lora/model` has the adapters merged into the weights.

Result: the pipeline, not the task: the model of `math/gsm8k_grpo.py`, after its 100 supervised steps
(`sft/gsm8k` alone), as the base, then this config with `sft.steps` 20 and `steps` 20. Of 64 held-out answers,
greedy, 3 % had the form `#### number` before, 14 % after the supervised adapters, 44 % after GRPO; none was
right. KL to the base is 0.028 nats a token at the first step of GRPO and 0.065 at the last. No reward failed.
Six minutes of one core.
"""

from ml_collections import ConfigDict

from rlx.experiments.configs.math import gsm8k_grpo


def get_config(arg: str = '') -> ConfigDict:
  """Arguments: those of `sft/gsm8k.py`."""
  config = gsm8k_grpo.get_config(arg)
  adapt(config, rank=8)
  config.optimizer.learning_rate = 1e-3  # ten times that of all weights
  # The base is the reference: it costs no second copy of the weights.
  config.algorithm.kl = {'name': 'kl_in_loss', 'names': {'reference': 'base'}, 'coef': 0.01}
  return config


def adapt(config: ConfigDict, *, rank: int) -> None:
  """Puts adapters on the policy, which becomes the base and stays as it is in every stage."""
  config.models.base = config.models.policy
  config.models.policy = {
      'name': 'lora',  # of the base
      'rank': rank,
      'alpha': 2.0 * rank,  # the update counts alpha / rank times
      'targets': 'layers/(query|key|value|attention_out|gate|up|down)',
      'full': '',  # parts that are trained whole beside them
      'directory': '',  # of PEFT adapters to begin from
  }
  for name in config.stages:
    stage = config if name == 'main' else config[name]
    stage.slow = {'base': 'base'}  # as it is

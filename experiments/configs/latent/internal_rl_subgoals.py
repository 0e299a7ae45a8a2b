"""Internal RL in a grid of four colours: codes that steer a frozen policy learn an order nobody demonstrated.

    rlx --config=latent/internal_rl_subgoals --workdir=runs/internal_rl

Paper: https://arxiv.org/abs/2512.20605. Demonstrators walk from colour to colour, and never from 0 to 2. A
decoder is cloned from them (`clone`) and frozen, a controller discovers codes for what they did (`discover`),
and a policy over codes learns to visit 0 and then 2, rewarded for the whole alone (`main`).
`eval/order/arrives` is the share of rows that do so.

Result: it shows. Final eval/order/arrives after 1300 train steps, median of 15 seeds (worst): 0.925 (0.405),
'nothing is discovered' 0 (0). Claimed, and got (95 % interval over seeds): above 0.5, got 0.9177 (0.8777 to
0.9399); above 'nothing is discovered' by 0.3, got 0.9168 (0.8775 to 0.9388). 294 CPU-s on 2 cores of a CPU;
`rlx reproduce latent/internal_rl_subgoals`.

At a price of 0.2 nats and with 100 steps of codes the first five seeds came to 0.49 (0.427 to 0.604), and
they were lucky: with 300 steps fifteen others came to 0.449 (0.25 to 0.61; 0.541 in the median, the worst
0.01, five below 0.26), for where nothing is bought nothing switches. Of eight of those, 100 steps of codes,
the median (worst) is 0.305 (0.005) at 0.2, 0.505 (0.078) at 0.1 and 0.698 (0.378) at 0.05. A third of the
rate of discovery (0.178), four times its rows (0.318), half of what a switch costs (0.335) or a larger
controller (0.395) help less.
"""

from ml_collections import ConfigDict

from rlx.config import parse_arg
from rlx.experiments.claims import Arm, Claim, above, final, reaches

CODE_SIZE, NUM_LOWER, ORDER = 4, 1, (0, 2)
NUM_MOVES = 14  # of a row


def get_config(arg: str = '') -> ConfigDict:
  """Arguments: `smoke` (seconds, learns nothing)."""
  arg = parse_arg(arg, smoke=False)
  config = ConfigDict()
  config.seed = 220  # the first ones had been looked at
  config.population = {'size': 3}
  config.mesh = {'data': -1, 'fsdp': 1, 'tensor': 1}  # -1: all devices
  config.stages = ('clone', 'discover', 'main')

  config.task = {
      'name': 'subgoals',
      'size': 4,  # by 4 cells
      'cells': (1, 7, 14, 8),  # of the colours
      'unseen': ((0, 2), (2, 1)),  # successions that no demonstrator shows
  }
  config.models = _models()
  # Every language model has these two; here moves are drawn as they are likely, and whole rows are scored.
  config.score = {'chunk_tokens': 4096, 'packed_columns': 0, 'packed_rows': 0, 'share_prompts': False}
  config.decoding = {
      'max_tokens': NUM_MOVES,
      'min_tokens': 0,
      'temperature': 1.0,
      'top_k': 0,
      'top_p': 1.0,
      'min_p': 0.0,
      'sampler': 'gumbel',
  }
  once = {'epochs': 1, 'minibatches': 1, 'microbatches': 1}

  # Stage 3, at the top of the config: reinforcement learning of codes.
  num_demonstrations, num_rows = (8, 8) if arg.smoke else (64, 256)
  cloning_steps, discovery_steps, steps = (4, 4, 4) if arg.smoke else (400, 600, 300)
  config.steps = steps
  config.stop = ConfigDict()  # none: all steps are taken
  config.trained = ('actor',)
  config.slow = {'policy': 'policy', 'controller': 'controller'}  # as they were handed on
  config.algorithm = {
      'name': 'internal_rl',
      'batch_size': num_rows,
      'num_steps': NUM_MOVES,
      'num_lower': NUM_LOWER,  # blocks below the controller
      'order': ORDER,
  }
  config.updates = once
  config.optimizer = {'name': 'adam', 'learning_rate': 1e-2, 'b1': 0.9, 'b2': 0.999, 'eps': 1e-8}

  before = {'num_demonstrations': num_demonstrations, 'decoding': config.decoding.to_dict(), 'updates': once}
  config.clone = _clone(cloning_steps, **before)
  config.discover = _discover(discovery_steps, **before)

  config.evals = {
      'order': {
          'name': 'arrives',
          'every': 2 if arg.smoke else 20,  # steps
          'rows': 16 if arg.smoke else 1000,
          'num_steps': NUM_MOVES,
          'num_lower': NUM_LOWER,
          'order': ORDER,
      },
  }
  config.checkpoint = {'every': 2 if arg.smoke else 100, 'keep': 2}
  config.log = {
      'steps_per_dispatch': 2 if arg.smoke else 20,
      'samples': 0,  # there is no text
      'headline': 'eval/order/arrives',
      'writers': ('tensorboard',),
      'stuck_seconds': 900.0,  # until it is said where a step hangs
  }
  return config


def _models() -> dict:
  """The decoder that is cloned, what is discovered in it, and the policy over codes."""
  return {
      'policy': {
          'name': 'llama',  # 21 thousand parameters
          'num_layers': 2,
          'width': 32,
          'num_heads': 2,
          'num_kv_heads': 2,
          'mlp_size': 64,
          'context_length': NUM_MOVES,  # what was done and what is seen then are one column
          'rope_theta': 10_000.0,
          'tied': True,
          'dtype': 'float32',
          'remat': False,
          'attention': 'reference',
      },
      'controller': {'name': 'codes', 'code_size': CODE_SIZE, 'hidden_size': 32, 'rank': 16},
      'actor': {'name': 'coder', 'code_size': CODE_SIZE, 'hidden_size': 32},
  }


def _clone(steps: int, *, num_demonstrations: int, decoding: dict, updates: dict) -> dict:
  """Stage 1: the decoder learns what demonstrators do."""
  return {
      'steps': steps,
      'stop': ConfigDict(),
      'trained': ('policy',),
      'slow': ConfigDict(),
      'decoding': decoding,
      'algorithm': {
          'name': 'internal_rl.cloning',
          'batch_size': num_demonstrations,
          'num_steps': NUM_MOVES,
      },
      'updates': updates,
      'optimizer': _adamw(steps),
  }


def _discover(steps: int, *, num_demonstrations: int, decoding: dict, updates: dict) -> dict:
  """Stage 2: the controller learns codes for what they did."""
  return {
      'steps': steps,
      'stop': ConfigDict(),
      'trained': ('controller',),
      'slow': {'policy': 'policy'},
      'decoding': decoding,
      'algorithm': {
          'name': 'internal_rl.discovery',
          'batch_size': num_demonstrations,
          'num_steps': NUM_MOVES,
          'num_lower': NUM_LOWER,
          'price': 0.05,  # of a nat
          'price_steps': steps // 2,  # until then it rises
          'switch_nats': 2.0,
      },
      'updates': updates,
      'optimizer': _adamw(steps),
  }


def _adamw(steps: int) -> dict:
  """Of both stages before reinforcement learning, down to zero at their end."""
  return {
      'name': 'adamw',
      'learning_rate': 1e-2,
      'warmup_steps': 0,  # updates
      'final_fraction': 0.0,
      'b1': 0.9,
      'b2': 0.999,
      'eps': 1e-8,
      'decay_steps': steps,
      'weight_decay': 0.0,
      'clip_norm': 1.0,
  }


def claim() -> Claim:
  """With codes of a controller that has discovered nothing."""
  return Claim(
      paper='S098',
      says='codes that steer a frozen policy learn an order that nobody demonstrated',
      reading=final('eval/order/arrives'),
      asserts=(reaches(0.5), above('nothing is discovered', by=0.3)),
      controls=(Arm('nothing is discovered', {'discover.optimizer.learning_rate': 0.0}),),
      seeds=15,
      minutes=12.0,
  )

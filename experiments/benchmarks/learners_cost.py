"""What two learners in one train step cost beside their separate steps on the same rows.

    python -m rlx.experiments.benchmarks.learners_cost

Two decoders learn by GRPO and by SFT on rows that are given: both in one step, and each in a step of its own,
in turn, A B A B in one process, states donated. Prints milliseconds and the ratio of the medians.
"""

import argparse
import time

import jax
import jax.numpy as jnp
import numpy as np
import optax

from rlx import learners, lens
from rlx.algorithms.grpo import grpo
from rlx.algorithms.sft import sft
from rlx.engine.decoding import Decoding
from rlx.engine.speaker import Scoring, Speaker
from rlx.envs.arithmetic import arithmetic
from rlx.learners import Learner, make_learners_step, optimizer_of
from rlx.losses.anchors import no_kl
from rlx.models.families import llama
from rlx.rollout import prompts
from rlx.rollout.each import each
from rlx.step import make_train_step
from rlx.types import State, keep_batch

TASK = arithmetic(min_operand=10, max_operand=99, operators='+', held_out_share=0.1)
NAMES = ('policy', 'student')
UPDATES = dict(epochs=1, minibatches=1, microbatches=1)


def main() -> None:
  arguments = _parser().parse_args()
  model = llama(
      TASK, num_layers=2, width=64, num_heads=4, num_kv_heads=4, mlp_size=128, context_length=32,
      rope_theta=100.0, tied=True, dtype='float32', remat=False, attention='reference',
  )
  decoding = Decoding(
      max_tokens=4, min_tokens=0, temperature=1.0, top_k=0, top_p=1.0, sampler='gumbel', eos_ids=TASK.eos_ids,
      pad_id=TASK.pad_id,
  )
  policy = Speaker(model=model, decoding=decoding, scoring=Scoring(chunk_tokens=4096, packing=None))
  rows = _rows(policy, arguments.rows)
  optimizer = optax.adam(1e-4)
  algorithms = {
      'policy': lambda rollout: grpo(
          rollout, keep_batch, policy, no_kl(), clip_low=0.2, clip_high=0.2, entropy_coef=0.0
      ),
      'student': lambda rollout: lens.bind(sft(rollout, policy), {'policy': 'student'}),
  }
  params = {name: model.init(jax.random.key(i)) for i, name in enumerate(NAMES)}
  given = lambda name: lambda models, world, key: (rows[name], world)
  steps = {name: make_train_step(algorithms[name](learners.handed), optimizer, **UPDATES) for name in NAMES}
  made = {name: Learner(step=steps[name], optimizer=optimizer, trained=(name,), every=1) for name in NAMES}
  together = make_learners_step(each(**{n: given(n) for n in NAMES}), keep_batch, made)
  alone = {name: make_train_step(algorithms[name](given(name)), optimizer, **UPDATES) for name in NAMES}
  print(_race(together, optimizer_of(made), alone, optimizer, params, arguments.rounds, arguments.steps))


def _race(together, joint, alone, optimizer, params, rounds: int, num_steps: int) -> str:
  """Milliseconds a step of both sides, and their ratio."""
  copy = lambda tree: jax.tree.map(jnp.copy, tree)
  state = lambda held, optimizer, world: State(
      step=jnp.int32(0), params=copy(held), slow={}, opt_state=optimizer.init(held), world=world,
      key=jax.random.key(0),
  )
  both = state(params, joint, together.rollout.begin(jax.random.key(0)))
  ones = {name: state({name: params[name]}, optimizer, {}) for name in NAMES}
  program = jax.jit(together, donate_argnums=0)
  programs = {name: jax.jit(step, donate_argnums=0) for name, step in alone.items()}
  times = {'together': [], 'apart': []}
  for index in range(rounds + 1):  # the first compiles
    began = time.perf_counter()
    for _ in range(num_steps):
      both, _ = jax.block_until_ready(program(both))
    middle = time.perf_counter()
    for _ in range(num_steps):
      for name in NAMES:
        ones[name], _ = jax.block_until_ready(programs[name](ones[name]))
    if index:
      times['together'].append((middle - began) / num_steps)
      times['apart'].append((time.perf_counter() - middle) / num_steps)
  medians = {side: np.median(seconds) for side, seconds in times.items()}
  ratio = medians['together'] / medians['apart']
  said = ', '.join(f'{side} {1e3 * seconds:.1f} ms' for side, seconds in medians.items())
  return f'{said} a step (medians of {rounds} rounds of {num_steps}); ratio {ratio:.3f}'


def _rows(policy: Speaker, num: int) -> dict:
  """Rewarded samples for the one, solutions for the other."""
  params = {'policy': policy.model.init(jax.random.key(9))}
  sampled = prompts.completions(TASK, policy, batch_size=num, group_size=8, num_slots=0)
  shown = prompts.solutions(TASK, policy, batch_size=num)
  draw = lambda rollout: rollout(params, rollout.begin(jax.random.key(1)), jax.random.key(2))[0]
  rewards = jax.random.bernoulli(jax.random.key(3), 0.5, (num,)).astype(jnp.float32)
  return {'policy': {**draw(sampled), 'rewards': rewards}, 'student': draw(shown)}


def _parser() -> argparse.ArgumentParser:
  parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
  parser.add_argument('--rows', type=int, default=256)
  parser.add_argument('--steps', type=int, default=5, help='train steps of a round')
  parser.add_argument('--rounds', type=int, default=15)
  return parser


if __name__ == '__main__':
  main()

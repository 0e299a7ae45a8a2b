"""What episodes of turns cost beside single-turn sampling, and what refilled slots save; all in one run.

    python -m rlx.experiments.benchmarks.turns

- *half read*: episodes of a world whose observations are as long as its actions, and completions of as many
  tokens, through as many slots. The policy draws half of the tokens of the former. Observations are read one
  token at a time, or in blocks.
- *heavy tail*: episodes of 1 to 20 turns, mean about 4, through a few slots that are refilled, and in batches
  of as many episodes that wait for their longest.
- *carried over*: the same episodes, 64 a train step with a slot each, waited for, and with 16 more that are
  begun and go on in the next step (`partial_episodes`); CPU-seconds for a thousand tokens.

The model is a random decoder of 1.1 million parameters. CPU-seconds of the process, the median of the rounds;
the sides are interleaved.
"""

import argparse
from collections.abc import Callable
import functools
import statistics
import time

import jax
import jax.numpy as jnp

from rlx.controllers.schedules import constant
from rlx.engine import sample as engine
from rlx.engine import turns as episodes
from rlx.engine.decoding import Decoding
from rlx.engine.speaker import Scoring, Speaker
from rlx.engine.turns import Turns
from rlx.envs.turns import SUCCESS, Reply, TurnTask
from rlx.models.language import LanguageModel
from rlx.models.transformer import TransformerConfig
from rlx.rollout import turns as rollouts
from rlx.rollout.partial import partial_episodes

PROMPT, PIECE, SLOTS = 32, 8, 32  # tokens of a prompt, and of an action or observation; slots
_FIRST_CHARACTER, _VOCAB_SIZE = 0x4E00, 512


def main() -> None:
  rounds = _parser().parse_args().rounds
  world = echo()
  model = LanguageModel(TransformerConfig(
      vocab_size=world.vocab_size, num_layers=4, width=128, num_heads=4, num_kv_heads=4, head_size=32,
      mlp_size=512, context_length=512,
  ))
  params = model.init(jax.random.key(0))
  for name, sides in (('half read', half_read(model, world)), ('heavy tail', heavy_tail(model, world))):
    show(name, interleaved(sides, params, rounds), 'CPU-s')
  show('carried over', carried_over(model, world, params, rounds), 'CPU-s for a thousand tokens')


def show(name: str, seconds: dict[str, float], unit: str) -> None:
  print(name, *(f'{side} {x:.3f} {unit}' for side, x in seconds.items()), sep='   ')
  first, *others = seconds.values()
  print('  the first beside each:', *(f'{first / x:.2f}' for x in others), flush=True)


def echo(read: int = PIECE) -> TurnTask:
  """Nothing but tokens: every action is answered by `read` others, and ends after its problem's `turns`."""

  def sample(key, num, held_out):
    del held_out
    prompt_key, turn_key = jax.random.split(key)
    tail = jnp.minimum(1 + jnp.floor(1.35 / jax.random.uniform(turn_key, (num,)) ** 0.75), 20)
    prompts = jax.random.randint(prompt_key, (num, PROMPT), 2, _VOCAB_SIZE)
    return {'turns': tail.astype(jnp.int32), 'prompts': prompts, 'prompt_lengths': jnp.full(num, PROMPT)}

  def act(state, action, length, key):
    observation = jax.random.randint(key, (read,), 2, _VOCAB_SIZE)
    ended = state['left'] <= 1
    return Reply(
        {'left': state['left'] - 1}, observation, jnp.int32(read), jnp.float32(0), ended, jnp.bool_(True),
        {SUCCESS: jnp.float32(0)},
    )

  return TurnTask(
      alphabet=''.join(chr(_FIRST_CHARACTER + i) for i in range(_VOCAB_SIZE - 2)), prompt_columns=PROMPT,
      answer_columns=PIECE, sample=sample, observation_columns=read,
      start=lambda problem: {'left': problem['turns']}, act=act,
      expert=lambda state: (jnp.full(PIECE, 2), jnp.int32(PIECE)), expert_return=0.0,
  )


def decoding_of(max_tokens: int) -> Decoding:
  """No end token before the last: lengths are those of the world."""
  return Decoding(
      max_tokens=max_tokens, min_tokens=max_tokens, temperature=1.0, top_k=0, top_p=1.0,
      sampler='inverse_cdf', eos_ids=(1,), pad_id=0,
  )


def half_read(model: LanguageModel, world: TurnTask) -> dict[str, Callable]:
  """Episodes of 8 turns, and completions as long; 128 rows through 32 slots."""
  key, room = jax.random.key(1), 16 * PIECE
  problems = {**world.sample(key, 128, False), 'turns': jnp.full(128, 99)}

  def in_turns(params, read_tokens=1):
    return episodes.sample(
        params, model, world, problems, key, group_size=1, decoding=decoding_of(room),
        turns=Turns(PIECE, 99, read_tokens), num_slots=SLOTS, world_key=key,
    )['valid'].sum()

  def at_once(params):
    return engine.sample(
        params, model, problems['prompts'], problems['prompt_lengths'], key, group_size=1,
        decoding=decoding_of(room), num_slots=SLOTS,
        budgets=jnp.full(128, room - PIECE),  # nobody reads what would be the last observation
    )['valid'].sum()

  in_blocks = functools.partial(in_turns, read_tokens=PIECE)
  return {'single turns': at_once, 'episodes': in_turns, 'read in blocks': in_blocks}


def heavy_tail(model: LanguageModel, world: TurnTask) -> dict[str, Callable]:
  """128 episodes: through 16 slots, or 16 at a time."""
  key, room, slots = jax.random.key(1), 2 * PIECE * 20, 16
  problems = world.sample(key, 128, False)
  print(f'  turns: mean {problems["turns"].mean():.1f}, most {problems["turns"].max()}')

  def run(params, problems, ids):
    return episodes.sample(
        params, model, world, problems, key, group_size=1, decoding=decoding_of(room), sequence_ids=ids,
        turns=Turns(PIECE, 20), num_slots=slots, world_key=key,
    )['valid'].sum()

  def refilled(params):
    return run(params, problems, jnp.arange(128))

  def in_batches(params):
    parts = jax.tree.map(lambda x: x.reshape(-1, slots, *x.shape[1:]), (problems, jnp.arange(128)))
    return jax.lax.map(lambda part: run(params, *part), parts).sum()

  return {'batches': in_batches, 'refilled': refilled}


def carried_over(model: LanguageModel, world: TurnTask, params, rounds: int) -> dict[str, float]:
  """CPU-seconds for a thousand tokens, the median of the rounds of four train steps behind a first one."""
  policy = Speaker(
      model=model, decoding=decoding_of(2 * PIECE * 20), scoring=Scoring(chunk_tokens=512, packing=None)
  )
  sizes = {
      'batch_size': 64, 'group_size': 4, 'turn_tokens': PIECE,
      'max_turns': functools.partial(constant, value=20),
  }
  sides = {
      'waited for': rollouts.episodes(world, policy, num_slots=0, **sizes),
      'carried over': partial_episodes(
          world, policy, num_slots=80, unfinished_groups=4, max_age=4, **sizes
      ),
  }
  programs = {name: jax.jit(side.draw) for name, side in sides.items()}
  worlds = {name: side.begin(jax.random.key(2)) for name, side in sides.items()}
  spent = {name: [] for name in sides}
  for step in range(rounds + 1):
    for name, program in programs.items():
      begun, tokens = time.process_time(), 0
      for part in range(4):
        batch, worlds[name] = program({'policy': params}, worlds[name], jax.random.key(4 * step + part))
        tokens += int(batch['action_mask'].sum())
      spent[name].append(1000 * (time.process_time() - begun) / tokens)
  return {name: statistics.median(x[1:]) for name, x in spent.items()}


def interleaved(sides: dict[str, Callable], params, rounds: int) -> dict[str, float]:
  """CPU-seconds of each side, the median of the rounds; all sides make the same number of tokens."""
  compiled = {name: jax.jit(side) for name, side in sides.items()}
  counts = {name: int(side(params)) for name, side in compiled.items()}
  assert len(set(counts.values())) == 1, counts
  seconds = {name: [] for name in sides}
  for _ in range(rounds):
    for name, side in compiled.items():
      begun = time.process_time()
      jax.block_until_ready(side(params))
      seconds[name].append(time.process_time() - begun)
  return {name: statistics.median(x) for name, x in seconds.items()}


def _parser() -> argparse.ArgumentParser:
  parser = argparse.ArgumentParser(description='Episodes of turns beside single turns, and refilled slots.')
  parser.add_argument('--rounds', type=int, default=5)
  return parser


if __name__ == '__main__':
  main()

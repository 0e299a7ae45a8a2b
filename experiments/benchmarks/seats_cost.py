"""What seats cost beside episodes of one speaker with as many tokens, and what a league costs, in one run.

    python -m rlx.experiments.benchmarks.seats_cost

- *rows*: 64 episodes of two seats of one model, in which what one says the other reads, beside 128 episodes
  of one speaker whose observations are as long as its actions: as many rows, turns and tokens.
- *own parameters*: a train step of two learners (GRPO), each on the rows of its own seat, beside two train
  steps of one speaker, each on half of the rows.
- *league*: 64 games against one of 16 past policies, beside 64 against one of one; the memory of the league
  beside that of as many policies.

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
import optax

from rlx import learners, lens
from rlx.algorithms.grpo import grpo
from rlx.controllers import league as payoffs
from rlx.controllers import schedules
from rlx.engine.decoding import Decoding
from rlx.engine.speaker import Scoring, Speaker
from rlx.envs.seats import SUCCESS, SeatReply, SeatTask
from rlx.envs.turns import Reply, TurnTask
from rlx.learners import Learner, make_learners_step, optimizer_of
from rlx.losses.anchors import no_kl
from rlx.models import league
from rlx.models.language import LanguageModel
from rlx.models.transformer import TransformerConfig
from rlx.rollout import seats, turns
from rlx.rollout.league import against_league
from rlx.step import make_train_step
from rlx.types import State, keep_batch

PROMPT, PIECE, TURNS, EPISODES, GROUP = 32, 8, 4, 64, 8  # tokens, turns of a seat, episodes of seats
SEATS, MODELS = ('one', 'two'), ('policy', 'rival')
_FIRST_CHARACTER, _VOCAB_SIZE = 0x4E00, 512
_ROOM = 2 * PIECE * TURNS
_ALPHABET = ''.join(chr(_FIRST_CHARACTER + i) for i in range(_VOCAB_SIZE - 2))


def main() -> None:
  rounds = _parser().parse_args().rounds
  model = LanguageModel(TransformerConfig(
      vocab_size=_VOCAB_SIZE, num_layers=4, width=128, num_heads=4, num_kv_heads=4, head_size=32,
      mlp_size=512, context_length=256,
  ))
  decoding = Decoding(  # no end token before the last: lengths are those of the world
      max_tokens=_ROOM, min_tokens=_ROOM, temperature=1.0, top_k=0, top_p=1.0, sampler='inverse_cdf',
      eos_ids=(1,), pad_id=0,
  )
  speaker = Speaker(model=model, scoring=Scoring(chunk_tokens=4096, packing=None), decoding=decoding)
  params = {name: model.init(jax.random.key(i)) for i, name in enumerate(MODELS)}
  races = {'rows': rows_of, 'own parameters': own_parameters, 'league': league_of}
  for name, race in races.items():
    seconds = interleaved(race(speaker, params), rounds)
    print(name, *(f'{side} {x:.2f} CPU-s' for side, x in seconds.items()), sep='   ')
    first, other = seconds.values()
    print(f'  ratio {other / first:.2f}')
  print(memory_of_league(model, params['policy']))


def alone() -> TurnTask:
  """One speaker: every action is answered by `PIECE` tokens; without an end."""
  def act(state, action, length, key):
    heard = jax.random.randint(key, (PIECE,), 2, _VOCAB_SIZE)
    return Reply(
        state, heard, jnp.int32(PIECE), jnp.mean(action % 2, dtype=jnp.float32), jnp.bool_(False),
        jnp.bool_(True), {SUCCESS: jnp.float32(0)},
    )

  return TurnTask(
      alphabet=_ALPHABET, prompt_columns=PROMPT, answer_columns=PIECE, sample=_sample, act=act,
      observation_columns=PIECE, start=lambda problem: {'number': jnp.int32(0)},
      expert=lambda state: (jnp.full(PIECE, 2), jnp.int32(PIECE)), expert_return=0.0,
  )


def together() -> SeatTask:
  """Two seats: what one says the other reads; the same tokens, and rewards of the same kind."""
  def sample(key, num, held_out):
    found = _sample(key, num, held_out)
    both = lambda x: jnp.stack([x, x], axis=1)
    return {'prompts': both(found['prompts']), 'prompt_lengths': both(found['prompt_lengths'])}

  def act(state, action, length, key):
    del key, length
    speaker = state['number'] % 2
    hears = jnp.arange(2) != speaker
    reward = jnp.mean(action % 2, dtype=jnp.float32)
    heard = jnp.where(action[:PIECE] < 2, 2, action[:PIECE])
    return SeatReply(
        state={'number': state['number'] + 1}, observations=jnp.stack([heard, heard]),
        lengths=jnp.where(hears, PIECE, 0), rewards=jnp.where(hears, 0, reward), ended=jnp.bool_(False),
        understood=jnp.bool_(True), info={SUCCESS: jnp.float32(0)},
    )

  return SeatTask(
      alphabet=_ALPHABET, prompt_columns=PROMPT, answer_columns=PIECE, sample=sample, seats=SEATS,
      order=(0, 1), observation_columns=PIECE, start=lambda problem: {'number': jnp.int32(0)}, act=act,
  )


def _sample(key: jax.Array, num: int, held_out: bool) -> dict[str, jax.Array]:
  del held_out
  prompts = jax.random.randint(key, (num, PROMPT), 2, _VOCAB_SIZE)
  return {'prompts': prompts, 'prompt_lengths': jnp.full(num, PROMPT)}


def _turns_each(num: int) -> Callable:
  return functools.partial(schedules.constant, value=num)


def _alone(speaker: Speaker, num: int):
  return turns.episodes(
      alone(), speaker, batch_size=num, group_size=GROUP, num_slots=0, turn_tokens=PIECE,
      max_turns=_turns_each(TURNS),
  )


def _of_seats() -> dict:
  return {
      'episodes': EPISODES, 'group_size': GROUP, 'turn_tokens': PIECE, 'max_turns': _turns_each(2 * TURNS)
  }


def rows_of(speaker: Speaker, params) -> dict[str, Callable]:
  """Rows of one speaker, and of two seats of it."""
  both = seats.episodes(together(), dict.fromkeys(SEATS, speaker), learnt=SEATS, **_of_seats())
  both = lens.bind(both, dict.fromkeys(SEATS, 'policy'))
  sides = {'one speaker': _alone(speaker, 2 * EPISODES), 'two seats': both}
  return {name: _drawing(rollout, {'policy': params['policy']}) for name, rollout in sides.items()}


def league_of(speaker: Speaker, params) -> dict[str, Callable]:
  """Games against a league of one, and of sixteen."""
  def side(size: int) -> Callable:
    rollout = against_league(
        together(), dict.fromkeys(('learner', 'past'), speaker), league_size=size, draw=payoffs.uniform,
        memory=100.0, **_of_seats(),
    )
    stack = league.league(speaker.model, size=size).init(jax.random.key(0), {'of': params['policy']})
    return _drawing(rollout, {'learner': params['policy'], 'past': jax.tree.map(jnp.copy, stack)})

  return {'a league of one': side(1), 'a league of 16': side(16)}


def _drawing(rollout, models) -> Callable:
  world = rollout.begin(jax.random.key(1))
  program = jax.jit(lambda models, world: rollout(models, world, jax.random.key(2))[0]['action_mask'].sum())
  return lambda: program(models, world)


def own_parameters(speaker: Speaker, params) -> dict[str, Callable]:
  """Two runs of half of the rows, one after the other, and one run of two learners at two seats."""
  optimizer = optax.adam(1e-4)

  def step_of(model: str, rollout):
    algorithm = grpo(rollout, keep_batch, speaker, no_kl(), clip_low=0.2, clip_high=0.2, entropy_coef=0.0)
    algorithm = lens.bind(algorithm, {'policy': model})
    return make_train_step(algorithm, optimizer, epochs=1, minibatches=1, microbatches=1)

  play = seats.for_learners(
      together(), dict.fromkeys(SEATS, speaker), learners={name: (name,) for name in SEATS}, **_of_seats()
  )
  made = {
      seat: Learner(step=step_of(model, learners.handed), optimizer=optimizer, trained=(model,), every=1)
      for seat, model in zip(SEATS, MODELS, strict=True)
  }
  step = make_learners_step(lens.bind(play, dict(zip(SEATS, MODELS, strict=True))), keep_batch, made)
  of_two = _training(step, optimizer_of(made), params, 2 * EPISODES)
  runs = [
      _training(step_of(model, _alone(speaker, EPISODES)), optimizer, {model: params[model]}, EPISODES)
      for model in MODELS
  ]
  return {'two runs': lambda: sum(run() for run in runs), 'two learners': of_two}


def _training(step, optimizer, params, rows: int) -> Callable:
  """A train step; called, it gives the number of rows that were learnt from."""
  params = jax.tree.map(jnp.copy, params)
  state = State(
      step=jnp.int32(0), params=params, slow={}, opt_state=optimizer.init(params),
      world=step.rollout.begin(jax.random.key(1)), key=jax.random.key(2),
  )
  program = jax.jit(step)
  return lambda: rows * program(state)[0].step


def memory_of_league(model: LanguageModel, params) -> str:
  """Bytes of a league of 16 beside those of sixteen policies."""
  size = lambda tree: sum(x.nbytes for x in jax.tree.leaves(tree))
  stack = league.league(model, size=16).init(jax.random.key(0), {'of': params})
  return f'memory of a league of 16: {size(stack):,} bytes, of 16 policies: {16 * size(params):,}'


def interleaved(sides: dict[str, Callable], rounds: int) -> dict[str, float]:
  """CPU-seconds of each side, the median of the rounds."""
  counts = {name: int(side()) for name, side in sides.items()}
  assert len(set(counts.values())) == 1, counts
  seconds = {name: [] for name in sides}
  for _ in range(rounds):
    for name, side in sides.items():
      begun = time.process_time()
      jax.block_until_ready(side())
      seconds[name].append(time.process_time() - begun)
  return {name: statistics.median(x) for name, x in seconds.items()}


def _parser() -> argparse.ArgumentParser:
  parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
  parser.add_argument('--rounds', type=int, default=7)
  return parser


if __name__ == '__main__':
  main()

"""Episodes that are driven from the host say what the compiled loop says, whenever the answers come."""

import functools
import random

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from rlx.engine import turns as episodes
from rlx.engine.decoding import Decoding
from rlx.engine.host_turns import Answer, Conversation
from rlx.engine.turns import Turns
from rlx.envs.worlds.rooms import rooms
from rlx.models.language import LanguageModel
from rlx.models.transformer import TransformerConfig
from tests.once import once

KEY, WORLD_KEY, GROUP_SIZE, SLOTS = jax.random.key(3), jax.random.key(4), 3, 4
DECODING = Decoding(
    max_tokens=30, min_tokens=0, temperature=1.0, top_k=0, top_p=1.0, sampler='gumbel', eos_ids=(1,), pad_id=0
)
WORLD = rooms(height=2, width=2, num_mazes=2, loops=1, num_keys=1, held_out_share=0.2)
MODEL = LanguageModel(TransformerConfig(
    vocab_size=WORLD.vocab_size, num_layers=1, width=16, num_heads=2, num_kv_heads=2, head_size=8,
    mlp_size=32, context_length=64,
))
PARAMS = once(lambda: MODEL.init(jax.random.key(0)))
PROBLEMS = once(lambda: WORLD.sample(jax.random.key(1), 5, False))
ACT, START, IDENTIFY = jax.jit(WORLD.act), jax.jit(WORLD.start), jax.jit(WORLD.state_id)


class Hosted:
  """A world of the compiled loop as a counterpart on the host, whose answers come when `chance` wants."""

  info = ('success',)

  def __init__(self, turn_tokens, chance=None):
    self._states = [
        START(jax.tree.map(lambda x, row=row: x[row // GROUP_SIZE], PROBLEMS()))
        for row in range(GROUP_SIZE * len(PROBLEMS()['prompts']))
    ]
    self._turn_tokens, self._chance, self._made = turn_tokens, chance, []
    self.most, self.ended = 0, []

  def say(self, said):
    action = np.zeros(self._turn_tokens, np.int32)
    action[: len(said.tokens)] = said.tokens
    key = jax.random.fold_in(jax.random.fold_in(WORLD_KEY, said.sequence), said.turn)
    state = self._states[said.sequence]
    reply = jax.device_get(ACT(state, jnp.asarray(action), len(said.tokens), key))
    self._states[said.sequence] = reply.state
    self._made.append(Answer(
        said.sequence, reply.observation[: reply.length], float(reply.reward), bool(reply.ended),
        understood=bool(reply.understood), info={'success': float(reply.info['success'])},
        anchor=int(IDENTIFY(state)),
    ))

  def over(self, sequence):
    self.ended.append(sequence)

  def answers(self, *, wait):
    self.most = max(self.most, len(self._made))
    if self._chance is None:
      ready, self._made = self._made, []
      return ready
    self._chance.shuffle(self._made)
    num = self._chance.randint(int(wait), len(self._made))
    ready, self._made = self._made[:num], self._made[num:]
    return ready


@functools.cache
def on_device(turns):
  sample = jax.jit(lambda: episodes.sample(
      PARAMS(), MODEL, WORLD, PROBLEMS(), KEY, group_size=GROUP_SIZE, decoding=DECODING, turns=turns,
      num_slots=SLOTS, world_key=WORLD_KEY,
  ))
  return jax.device_get(sample())


@functools.cache
def conversation(turns):
  return Conversation(MODEL, DECODING, turns, group_size=GROUP_SIZE, num_slots=SLOTS)


def on_host(turns, chance=None):
  world = Hosted(turns.turn_tokens, chance)
  asked = conversation(turns)
  rows = asked.sample(
      PARAMS(), PROBLEMS()['prompts'], PROBLEMS()['prompt_lengths'], KEY, world, max_turns=turns.max_turns
  )
  return jax.device_get(rows), asked.tally, world


@pytest.mark.parametrize('turns', [
    pytest.param(Turns(2, 9), marks=pytest.mark.slow), Turns(2, 9, read_tokens=4),
])
def test_rows_are_those_of_the_compiled_loop_to_the_bit(turns):
  device, (host, _, _) = on_device(turns), on_host(turns)
  assert device['turns/mean'].max() > 3 and device['truncated'].any(), 'no episode is long: no test'
  for name in device:
    np.testing.assert_array_equal(host[name], device[name], err_msg=name)


@pytest.mark.parametrize('seed', range(3))
def test_what_is_said_does_not_depend_on_when_answers_come(seed):
  at_once, _, world = on_host(Turns(2, 9))
  assert sorted(world.ended) == list(range(GROUP_SIZE * len(PROBLEMS()['prompts'])))
  late, tally, world = on_host(Turns(2, 9), random.Random(seed))
  assert world.most > 1 and tally.waiting_share > 0, 'nothing was late: no test'
  for name in at_once:
    np.testing.assert_array_equal(late[name], at_once[name], err_msg=name)

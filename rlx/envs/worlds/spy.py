"""Who is the spy: all see the same scene but one, who sees it with one detail changed, and knows that.

    spy    `Saei` -> ai          civilian `Cafi` -> fi        each writes two of the three symbols it sees
    civilian `Cafi` fi 1ai2af -> 2                            then civilians read the others' clues, and vote

A scene has a symbol of each kind (shape, colour, size, ..). A clue is two symbols of unlike kinds, true or
not, and nobody reads any before all are written; a civilian reads those of the others in an order of its own,
and says which of them is the spy's. Votes pay as in the paper: the spy and the civilians as a side have
opposite stakes in who is voted for, a civilian that is voted for loses to the others, and a vote is right or
wrong for whoever gives it.

What can be had is known. A clue that is not what all see is found out, and two symbols of K show the changed
one as often as 2 / K; else a vote is a guess among all others. Lies show more, for a changed symbol is hit
by luck alone (`best_detection`).

`odd_clue` is the task beside it, for one and with an answer that is known: which of the clues does not fit.

Source: Vision-Zero, https://arxiv.org/abs/2509.25541, with symbols in the place of pictures; clues there are
  heard in turn.
"""

import jax
import jax.numpy as jnp

from rlx.envs import text
from rlx.envs.seats import SUCCESS, SeatReply, SeatTask
from rlx.envs.text import Task
from rlx.envs.turns import index_in, said
from rlx.errors import between
from rlx.types import Batch

_MARKS, _SYMBOLS, _NAMES = 'SC', 'abcdefghijklmnopqrstuvwxyz', '123'
_SPY = 0  # its seat; civilians have those behind it
CLUE = 2  # symbols


def spy(
    *, civilians: int, kinds: int, values: int, stakes: float, personal: float, verdict: float, skill: float,
    frank: float, held_out_share: float,
) -> SeatTask:
  """The game; seats are `spy` and `civilian1`, `civilian2`, ..

  Args:
    civilians: 2 or 3.
    kinds: K symbols of a scene, at least 3.
    values: of each kind, at least 3; kinds times values is 26 at most.
    stakes: β, of what the spy loses and the civilians win where votes are for the spy.
    personal: λ, of what a civilian loses where it has more votes than other civilians.
    verdict: what a right vote gets, and a wrong one loses.
    skill: share of the expert's votes that are thought about; the others are guesses. With 1, and `frank` 1,
      it finds the spy as often as `best_detection` says.
    frank: share of the expert's clues that are true; the others are any two symbols.
    held_out_share: in (0, 1), the part of all pairs of scenes that is never trained on.
  Returns:
    The world. Episodes tell `detected`, the share of votes that are right, `exposed` (the spy's clue is not
    of what the others see) and `frank`, the share of clues that are true. What is no clue or no vote ends the
    episode, and its speaker loses 1.
  """
  between(2, len(_NAMES), civilians=civilians)
  between(0, 1, skill=skill, frank=frank)
  alphabet = alphabet_of(kinds, values)
  marks, symbols = text.characters(_MARKS, alphabet), _symbols(kinds, values, alphabet)
  names, num = text.characters(_NAMES[:civilians], alphabet), civilians + 1
  others = jnp.array([[seat for seat in range(num) if seat != own] for own in range(1, num)])

  def sample(key: jax.Array, count: int, held_out: bool) -> Batch:
    scene_key, order_key = jax.random.split(key)
    scenes = _scenes(scene_key, count, held_out, kinds, values, held_out_share)
    seen = jnp.concatenate([scenes[:, 1:], jnp.repeat(scenes[:, :1], civilians, axis=1)], axis=1)
    roles = jnp.where(jnp.arange(num) == _SPY, marks[0], marks[1])
    roles = jnp.broadcast_to(roles[None, :, None], (count, num, 1))
    shuffled = jnp.argsort(jax.random.uniform(order_key, (count, *others.shape)), axis=2)
    return {
        'scenes': seen, 'orders': jnp.take_along_axis(others[None], shuffled, axis=2),
        'prompts': jnp.concatenate([roles, symbols[seen]], axis=2),
        'prompt_lengths': jnp.full((count, num), 1 + kinds, jnp.int32),
    }

  def start(problem: Batch):
    return {
        'scenes': problem['scenes'], 'orders': problem['orders'], 'phase': jnp.int32(0),
        'clues': jnp.full((num, CLUE), -1, jnp.int32), 'votes': jnp.zeros(num, jnp.int32),
    }

  def act(state, action: jax.Array, length: jax.Array, key: jax.Array) -> SeatReply:
    del key
    word, phase = said(action, length, CLUE + 1), state['phase']
    writing, voter = phase < num, jnp.clip(phase - num, 0, civilians - 1)
    (first, is_first), (second, is_second) = (index_in(symbols, word[i]) for i in (0, 1))
    is_clue = is_first & is_second & (first // values != second // values) & (word[2] == text.PAD_ID)
    name, is_name = index_in(names, word[0])
    accused = state['orders'][voter, name]
    understood = jnp.where(writing, is_clue, is_name & (word[1] == text.PAD_ID))
    clues = state['clues'].at[jnp.where(writing, phase, num)].set(jnp.stack([first, second]), mode='drop')
    votes = state['votes'].at[accused].add(understood & ~writing)
    over = understood & (phase == num + civilians - 1)
    right = jnp.where(accused == _SPY, 1.0, -1.0)
    speaker = jnp.where(writing, phase, voter + 1)
    of_word = jnp.where(understood, jnp.where(writing, 0.0, verdict * right), -1.0)
    paid = jnp.where(jnp.arange(num) == speaker, of_word, 0.0)
    paid += jnp.where(over, of_votes(votes, stakes=stakes, personal=personal), 0.0)
    read = jnp.concatenate([
        jnp.broadcast_to(names[None, :, None], (civilians, civilians, 1)), symbols[clues[state['orders']]]
    ], axis=2).reshape(civilians, -1)
    reads = (phase == num - 1) & (jnp.arange(num) != _SPY)
    written = (clues >= 0).all(axis=1)
    true = (clues[:, :, None] == state['scenes'][:, None]).any(axis=2).all(axis=1)
    exposed = ~(clues[_SPY][:, None] == state['scenes'][-1][None]).any(axis=1).all()
    number = lambda x: x.astype(jnp.float32)
    return SeatReply(
        state={**state, 'phase': phase + 1, 'clues': clues, 'votes': votes},
        observations=jnp.concatenate([jnp.zeros_like(read[:1]), read]).astype(jnp.int32),
        lengths=jnp.where(reads, read.shape[1], 0).astype(jnp.int32), rewards=number(paid),
        ended=over | ~understood, understood=understood,
        info={
            SUCCESS: number(over & (votes[_SPY] > votes[1:].max())),
            'detected': number(votes[_SPY]) / civilians, 'exposed': number(exposed & written[_SPY]),
            'frank': number((true & written).sum()) / jnp.maximum(written.sum(), 1),
        },
    )

  def expert(state, key: jax.Array) -> tuple[jax.Array, jax.Array]:
    kind_key, value_key, true_key, tie_key, skill_key = jax.random.split(key, 5)
    phase = state['phase']
    own = state['scenes'][jnp.minimum(phase, num - 1)]
    named = jax.random.permutation(kind_key, kinds)[:CLUE]
    anything = named * values + jax.random.randint(value_key, (CLUE,), 0, values)
    clue = jnp.where(jax.random.bernoulli(true_key, frank), own[named], anything)
    voter = jnp.clip(phase - num, 0, civilians - 1)
    heard = state['clues'][state['orders'][voter]]  # [civilians, CLUE]
    false = ~(heard[:, :, None] == state['scenes'][-1][None, None]).any(axis=2).all(axis=1)
    thinks = jax.random.bernoulli(skill_key, skill)
    vote = jnp.argmax(thinks * false + 0.5 * jax.random.uniform(tie_key, (civilians,)))
    voted = jnp.stack([names[vote], jnp.int32(text.EOS_ID)])
    return jnp.where(phase < num, symbols[clue], voted), jnp.int32(CLUE)

  seats = ('spy', *(f'civilian{i + 1}' for i in range(civilians)))
  return SeatTask(
      alphabet=alphabet, prompt_columns=1 + kinds, answer_columns=CLUE, sample=sample, seats=seats,
      order=(*range(num), *range(1, num)), observation_columns=(1 + CLUE) * civilians, start=start, act=act,
      expert=expert,
  )


def of_votes(votes: jax.Array, *, stakes: float, personal: float) -> jax.Array:
  """What the seats get for who was voted for; it sums to 0.

      spy: -β (v_s - v̄),   civilian j: β / n (v_s - v̄) - λ (v_j - v̄),   v̄ = 1/n Σ_j v_j

  Args:
    votes: [1 + n] int32, for each seat, the spy first.
    stakes: β.
    personal: λ.
  Returns:
    [1 + n] float32.
  Source: Vision-Zero, https://arxiv.org/abs/2509.25541, the reward of its clue stage.
  """
  civilians = votes[1:].astype(jnp.float32)
  gap = votes[_SPY] - civilians.mean()
  shared = stakes * gap / civilians.shape[0] - personal * (civilians - civilians.mean())
  return jnp.concatenate([-stakes * gap[None], shared])


def best_detection(*, civilians: int, kinds: int) -> float:
  """The share of votes that are right where all play their best: 2 / K + (1 - 2 / K) / civilians."""
  shown = CLUE / kinds
  return shown + (1 - shown) / civilians


def odd_clue(*, civilians: int, kinds: int, values: int, held_out_share: float) -> Task:
  """What a civilian reads before it votes, as a problem: `Cafifi1ai2ae` -> 2, the clue that does not fit.

  All clues are true, two symbols each, and that of the one who sees another scene shows what is different.

  Args:
    civilians: as of the game whose words it has, like all that follows; it holds the same pairs out.
    kinds: symbols of a scene.
    values: of each kind.
    held_out_share: in (0, 1).
  """
  alphabet = alphabet_of(kinds, values)
  marks, symbols = text.characters(_MARKS, alphabet), _symbols(kinds, values, alphabet)
  names = text.characters(_NAMES[:civilians], alphabet)
  columns = 1 + kinds + CLUE + (1 + CLUE) * civilians

  def sample(key: jax.Array, count: int, held_out: bool) -> Batch:
    scene_key, kind_key, odd_key = jax.random.split(key, 3)
    scenes = _scenes(scene_key, count, held_out, kinds, values, held_out_share)
    odd = jax.random.randint(odd_key, (count,), 1, civilians + 1)  # place 0 is one's own clue
    drawn = jax.random.uniform(kind_key, (count, civilians + 1, kinds))
    is_odd = (jnp.arange(civilians + 1)[None] == odd[:, None])[:, :, None]
    differs = (scenes[:, 0] != scenes[:, 1])[:, None]
    named = jnp.argsort(jnp.where(is_odd & differs, drawn - 1, drawn), axis=2)[:, :, :CLUE]
    named = jnp.where(drawn[:, :, :1] < 0.5, named, named[:, :, ::-1])
    seen = jnp.where(is_odd, scenes[:, 1:], scenes[:, :1])
    clues = symbols[jnp.take_along_axis(seen, named, axis=2)]
    heard = jnp.concatenate([
        jnp.broadcast_to(names[None, :, None], (count, civilians, 1)), clues[:, 1:]
    ], axis=2).reshape(count, -1)
    end = jnp.full((count,), text.EOS_ID, jnp.int32)
    return {
        'prompts': jnp.concatenate([
            jnp.broadcast_to(marks[1], (count, 1)), symbols[scenes[:, 0]], clues[:, 0], heard
        ], axis=1).astype(jnp.int32),
        'prompt_lengths': jnp.full((count,), columns, jnp.int32),
        'solutions': jnp.stack([names[odd - 1], end], axis=1),
    }

  return Task(
      alphabet=alphabet, prompt_columns=columns, answer_columns=2, sample=sample,
      verify=lambda problems, completions: text.matches(problems['solutions'], completions),
  )


def alphabet_of(kinds: int, values: int) -> str:
  """The characters of the game and of the task beside it."""
  between(3, len(_SYMBOLS), kinds=kinds, values=values)
  if kinds * values > len(_SYMBOLS):
    raise ValueError(f'{kinds} kinds of {values} symbols; there are {len(_SYMBOLS)} symbols')
  return _MARKS + _SYMBOLS[: kinds * values] + _NAMES


def _symbols(kinds: int, values: int, alphabet: str) -> jax.Array:
  """[kinds * values] tokens; value v of kind k is symbol k * values + v."""
  return text.characters(_SYMBOLS[: kinds * values], alphabet)


def _scenes(key, num: int, held_out: bool, kinds: int, values: int, held_out_share: float) -> jax.Array:
  """[num, 2, kinds] symbols of scenes, and of the same ones with one detail changed."""
  number = text.draw_indices(
      key, num, num_problems=values**kinds * kinds * (values - 1), held_out=held_out,
      held_out_share=held_out_share,
  )
  where, number = number % kinds, number // kinds
  shift, number = number % (values - 1) + 1, number // (values - 1)
  scene = number[:, None] // values ** jnp.arange(kinds)[None] % values
  changed = (scene + jnp.where(jnp.arange(kinds)[None] == where[:, None], shift[:, None], 0)) % values
  return jnp.stack([scene, changed], axis=1) + values * jnp.arange(kinds)[None, None]

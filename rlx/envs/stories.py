"""Stories of events, a letter each: `cah=` -> `bdgfac`; some always happen, some do not hang together.

After each event one is the usual one, some are fresh, and the others do not follow from it. Who has read many
stories says the usual event most of the time. Readers like what is fresh and hangs together, are left cold by
the usual, and are put off by what does not follow. So the best story is neither the likeliest nor the most
surprising one, and it is found step by step.

How surprising an event is, a model of the stories says; whether it hangs together, a checker, which errs.
What readers make of the two is learnt (`StoryValue`), from which of two stories they rather like.
"""

from collections.abc import Callable
import dataclasses
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from rlx.envs import text
from rlx.envs.text import Task
from rlx.errors import between
from rlx.types import Batch

_EVENTS = 'abcdefghijkl'
USUAL, FRESH = 0.0, 1.0  # what readers make of an event that follows
_LOOSE = -1.0  # and of one that does not
_GRAMMAR_SEED = 0


@dataclasses.dataclass(frozen=True, kw_only=True)
class StoryTask(Task):
  """A task of stories.

  Attributes:
    liked: `(problems, completions [N, C]) -> [N]`, what readers make of a story, a mean over its events.
    moves: `(problems, completions) -> [N, C] bool`, which events are fresh and follow.
    coherent: likewise, which follow, as a checker says that errs always alike.
  """

  liked: Callable[[Batch, jax.Array], jax.Array]
  moves: Callable[[Batch, jax.Array], jax.Array]
  coherent: Callable[[Batch, jax.Array], jax.Array]


def stories(
    *, events: int, length: int, fresh: int, usual_share: float, loose_share: float, errs: float,
    held_out_share: float,
) -> StoryTask:
  """Openings of three events; solutions are stories as they are told, not as they are liked.

  Args:
    events: E, in 4..12.
    length: L, events of a story behind its opening.
    fresh: how many events are fresh after each, E - 2 at most.
    usual_share: of the events of told stories that are the usual one.
    loose_share: of those that do not follow; the rest is fresh.
    errs: in [0, 1], how often the checker is wrong, for pairs of events.
    held_out_share: in (0, 1), the part of all openings that is never trained on.
  Returns:
    The task. `verify` asks for L events and the end token. Problems have the column `before` [N], the last
    event of the opening.
  Raises:
    ValueError: an argument out of its range.
  """
  between(4, len(_EVENTS), events=events)
  between(1, events - 2, fresh=fresh)
  between(0, 1, usual_share=usual_share, loose_share=loose_share, errs=errs)
  alphabet = _EVENTS[:events] + '='
  random = np.random.default_rng(_GRAMMAR_SEED)
  order = np.stack([random.permutation(events) for _ in range(events)])
  worth = np.full((events, events), _LOOSE, np.float32)
  told = np.full((events, events), loose_share / max(events - 1 - fresh, 1))
  for event, others in enumerate(order):
    worth[event, others[0]], told[event, others[0]] = USUAL, usual_share
    worth[event, others[1:1 + fresh]] = FRESH
    told[event, others[1:1 + fresh]] = (1 - usual_share - loose_share) / fresh
  follows = (worth > _LOOSE) ^ (random.uniform(size=worth.shape) < errs)
  worth, follows, log_told = jnp.asarray(worth), jnp.asarray(follows), jnp.log(jnp.asarray(told, jnp.float32))
  first = 2  # token of the first event

  def sample(key: jax.Array, num: int, held_out: bool) -> Batch:
    index_key, story_key = jax.random.split(key)
    index = text.draw_indices(
        index_key, num, num_problems=events**3, held_out=held_out, held_out_share=held_out_share
    )
    opening = index[:, None] // jnp.array([[events**2, events, 1]]) % events

    def tell(event, key):
      event = jax.random.categorical(key, log_told[event])
      return event, event

    _, story = jax.lax.scan(tell, opening[:, -1], jax.random.split(story_key, length))
    mark = jnp.full((num, 1), alphabet.index('=') + first)
    end = jnp.full((num, 1), text.EOS_ID)
    return {
        'prompts': jnp.concatenate([opening + first, mark], axis=1).astype(jnp.int32),
        'prompt_lengths': jnp.full(num, 4), 'before': opening[:, -1],
        'solutions': jnp.concatenate([story.T + first, end], axis=1).astype(jnp.int32),
    }

  def pairs(problems, completions):
    """Events before and at each place, and where there is one [N, C]."""
    events_said = completions - first
    in_story = (jnp.arange(completions.shape[1]) < length)[None]
    there = jnp.cumprod((events_said >= 0) & (events_said < events) & in_story, axis=1).astype(bool)
    here = jnp.where(there, events_said, 0)
    before = jnp.concatenate([problems['before'][:, None], here[:, :-1]], axis=1)
    return before, here, there

  def liked(problems: Batch, completions: jax.Array) -> jax.Array:
    before, here, there = pairs(problems, completions)
    return jnp.sum(jnp.where(there, worth[before, here], 0), axis=1) / length

  def moves(problems: Batch, completions: jax.Array) -> jax.Array:
    before, here, there = pairs(problems, completions)
    return (worth[before, here] == FRESH) & there

  def coherent(problems: Batch, completions: jax.Array) -> jax.Array:
    before, here, there = pairs(problems, completions)
    return follows[before, here] & there

  def verify(problems: Batch, completions: jax.Array) -> jax.Array:
    _, _, there = pairs(problems, completions)
    ended = (completions == text.EOS_ID).any(axis=1)
    return ((there.sum(axis=1) == length) & ended).astype(jnp.float32)

  return StoryTask(
      alphabet=alphabet, prompt_columns=4, answer_columns=length + 1, sample=sample, verify=verify,
      liked=liked, moves=moves, coherent=coherent,
  )


@dataclasses.dataclass(frozen=True)
class StoryValue:
  """What a story is worth so far: the sum of f(surprise, coherence) over its events.

  Attributes:
    of_event: f, `(params, features [..., 2]) -> [...]`.
  """

  of_event: Callable[[Any, jax.Array], jax.Array]

  def steps(self, params: dict, surprise: jax.Array, coherent: jax.Array) -> jax.Array:
    """[..., T] of events with a surprise in nats and a coherence of 0 or 1 [..., T]."""
    features = jnp.stack([surprise / 3, coherent.astype(jnp.float32)], axis=-1)  # of a few nats at most
    return self.of_event(params, features)

  def apply(self, params: dict, batch: Batch) -> jax.Array:
    """[B] of rows with the columns `surprise, coherent, events` [B, T]."""
    each = self.steps(params, batch['surprise'], batch['coherent'])
    return jnp.sum(jnp.where(batch['events'], each, 0), axis=1)

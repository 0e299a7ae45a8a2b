"""The contract: what an algorithm is, what a run's state is, and what a batch holds.

An algorithm is a frozen record of five pure functions (`Algorithm`). Everything that may change during a
run is one pytree (`State`). What flows between the five functions is a flat dict of arrays with a leading
row axis [B] (`Batch`), whose standard keys are in `BATCH_KEYS`. Nothing else is needed to read the rest of
the framework: `step.py` composes the five functions, `algorithms/` fills them in.
"""

from collections.abc import Callable, Mapping
import dataclasses
from types import MappingProxyType
from typing import Any, Protocol

import flax.struct
import jax
import jax.numpy as jnp

Models = Mapping[str, Any]  # name -> parameter tree; what the functions of an algorithm may look at
NO_MODELS: Models = MappingProxyType({})
Batch = dict[str, jax.Array]  # arrays with leading [B]
Rows = Batch | dict[str, Batch]  # of one learner, or of several by their names
Metrics = dict[str, jax.Array]  # scalars, named `area/what`
World = Any  # what outlives a batch: data cursor, environment states, replay store
Key = jax.Array

Rollout = Callable[[Models, World, Key], tuple[Batch, World]]
Annotate = Callable[[Models, Batch, Key], Batch]
Loss = Callable[[Models, Batch, Key], tuple[jax.Array, Metrics]]
Observe = Callable[[World, Batch], World]
Track = Callable[[Models, Models, jax.Array], Models]

Score = Callable[[Any, Batch], tuple[jax.Array, jax.Array]]  # (params, batch) -> logprobs, entropy [B, T]
Value = Callable[[Any, Batch], jax.Array]  # (params, batch) -> values [B, T]


def keep_batch(models: Models, batch: Batch, key: Key) -> Batch:
  """The identity for the `reward`, `advantage` and `survey` slots."""
  del models, key
  return batch


def keep_slow(slow: Models, params: Models, step: jax.Array) -> Models:
  """The identity for the `track` slot: lagging models stay as they are."""
  del params, step
  return slow


def keep_world(world: World, batch: Batch) -> World:
  """The identity for `StatefulRollout.observe`: nothing is learnt from what became of a batch."""
  del batch
  return world


def stay_cold(models: Models, world: World, key: Key) -> World:
  """The identity for `StatefulRollout.warm_up`: the first step begins with the world as it was made."""
  del models, key
  return world


def take_nothing(slow: Models, batch: Batch) -> Models:
  """The identity for `StatefulRollout.absorb`: lagging models take nothing from a batch."""
  del batch
  return slow


def go_on(world: World, key: Key) -> World:
  """The identity for `StatefulRollout.anew`: all that the rollout remembers is in the state."""
  del key
  return world


@dataclasses.dataclass(frozen=True, kw_only=True)
class StatefulRollout:
  """A rollout that remembers something from step to step, such as its place in a data set.

  Attributes:
    begin: `key -> world`, the memory at the start of a stage. It is saved and restored with the state.
    draw: the rollout. It finds `data` in `world['data']`, and hands back a world without it.
    data: arrays that never change. They go into every compiled step as arguments, neither saved with the
      state nor baked into the program.
    observe: `(world, batch) -> world`, once a step, with the batch as the advantage slot left it: statistics
      of prompts, targets that are followed. Where a batch is sampled while another is scored, it sees that
      one only afterwards.
    warm_up: `(models, world, key) -> world`, once, when the stage has its models: what is gathered before the
      first step.
    absorb: `(slow, batch) -> slow`, once a step, behind the last update: what lagging models take from what
      was learnt from, such as the moments of observations.
    anew: `(world, key) -> world`, once, when a state was restored: what could not be saved begins again.
    ahead: whether a batch can be drawn before the last one has been learnt from; not where rows stay
      unfinished and go on in the next.
  """

  begin: Callable[[Key], World]
  draw: Rollout
  data: Any
  observe: Observe = keep_world
  warm_up: Callable[[Models, World, Key], World] = stay_cold
  absorb: Callable[[Models, Batch], Models] = take_nothing
  anew: Callable[[World, Key], World] = go_on
  ahead: bool = True

  @property
  def begins_anew(self) -> bool:
    """Whether something of it is in no state, so that a restored run is not bitwise the same."""
    return self.anew is not go_on

  def __call__(self, models: Models, world: World, key: Key) -> tuple[Batch, World]:
    return self.draw(models, world, key)


class OnTheHost(Protocol):
  """What of a rollout is Python, with processes and files of its own."""

  seats: tuple[str, ...]  # of a table in Python, in the order of the column `seats`; () of a single speaker
  timings: Mapping[str, float]  # what the clock said of the rows that were drawn last

  def keep_in(self, folder: Any) -> None:
    """What a run has to remember is kept in this folder, from the next rows on."""

  def heard(self) -> list[str]:
    """What went wrong since the last time of asking, in words."""

  def close(self) -> None:
    """Ends the processes; the next rows start new ones."""


@dataclasses.dataclass(frozen=True, kw_only=True)
class HostRollout(StatefulRollout):
  """A rollout whose `draw` is Python on the host: it is called between two programs, and never traced.

  It finds the number of the train step in `world['at_step']`, and hands back a world without it.

  Attributes:
    shapes: `(models, world, key) -> (batch, world)` that is traced in place of `draw`: the same shapes.
    host: what runs beside it.
    learners: whose rows it draws, by name; () where they are one batch.
  """

  shapes: Rollout
  host: OnTheHost
  learners: tuple[str, ...] = ()

  def __call__(self, models: Models, world: World, key: Key) -> tuple[Batch, World]:
    if 'at_step' not in world:
      raise ValueError(
          'a rollout with tools in Python is that of a stage itself: no other rollout, and no single '
          'learner of several, can draw from it'
      )
    return self.draw(models, world, key)

  @property
  def traceable(self) -> StatefulRollout:
    """A rollout that draws rows of the same shapes, and is only traced."""
    return StatefulRollout(begin=self.begin, draw=self.shapes, data=self.data)


def stateful(rollout: Rollout) -> StatefulRollout:
  """A rollout that remembers nothing begins with nothing."""
  if isinstance(rollout, StatefulRollout):
    return rollout
  return StatefulRollout(begin=lambda key: {}, draw=rollout, data=None, observe=keep_world)


def redrawn(rollout: Rollout, wrap: Callable[[Rollout], Rollout], **changes) -> StatefulRollout:
  """A rollout whose rows are others.

  Args:
    rollout: draws them.
    wrap: takes what draws rows, and returns what draws in its place. Of a rollout on the host it is called
      for what is traced in its place as well, so the new rows are had by functions of JAX.
    changes: other fields of `StatefulRollout`.
  """
  inner = stateful(rollout)
  if not isinstance(inner, HostRollout):
    return dataclasses.replace(inner, draw=wrap(inner.draw), **changes)

  def of_jax(drawn: Rollout) -> Rollout:  # what is on the host makes arrays of NumPy
    def draw(models: Models, world: World, key: Key) -> tuple[Batch, World]:
      batch, world = drawn(models, world, key)
      return jax.tree.map(jnp.asarray, batch), world

    return draw

  return dataclasses.replace(
      inner, draw=wrap(of_jax(inner.draw)), shapes=wrap(of_jax(inner.shapes)), **changes
  )


@dataclasses.dataclass(frozen=True, kw_only=True)
class Algorithm:
  """Pure functions: five, and `survey` for what is no sum over rows.

  A slot exists where the engine must treat a function differently.

  Attributes:
    rollout: `(models, world, key) -> (batch, world)`. Once a step, no gradient, sampling layout.
    reward: `(models, batch, key) -> batch`. Once a step, no gradient; may run on the host.
    advantage: `(models, batch, key) -> batch`. Once a step, no gradient, sees every model.
    loss: `(models, batch, key) -> (scalar, metrics)`. Many times a step; differentiated with respect to
      the trained models only. It is a *mean over rows*, so that it splits (see `reductions.py`).
    track: `(slow, params, update) -> slow`. After each optimizer update; `update` counts them.
    survey: `(models, minibatch, key) -> minibatch`. Before each update, of the whole minibatch and with its
      parameters, before it is cut into micro-batches; no gradient. It adds columns of what is no sum over
      rows: an order, a mean inside of a function.
    together: rows behind one another that are one thing, such as the answers of a comparison: minibatches and
      micro-batches are made of whole ones.
  """

  rollout: Rollout
  reward: Annotate = keep_batch
  advantage: Annotate = keep_batch
  loss: Loss
  track: Track = keep_slow
  survey: Annotate = keep_batch
  together: int = 1


@flax.struct.dataclass
class State:
  """Everything that may change during a run, as one pytree.

  Saving it is a checkpoint, scanning over it is N steps a dispatch, `vmap` over it is a population.
  """

  step: jax.Array  # [] int32, train steps taken since the run began
  params: Models  # trained
  slow: Models  # lagging or frozen: references, targets, reward models
  opt_state: Any
  world: World
  key: Key  # constant; the noise of a step is fold_in(key, step)
  carried: Models = flax.struct.field(default_factory=dict)  # of earlier stages, for a later one; untouched
  parked: Mapping[str, Any] = flax.struct.field(default_factory=dict)  # stage -> left for its next entry

  @property
  def models(self) -> Models:
    """Lagging and trained models as one mapping."""
    return {**self.slow, **self.params}


# The standard keys of a batch: (ranks that the array may have, kind of dtype, meaning). B rows, T tokens; in
# control a row is a transition [B] or a stretch of time [B, T].
BATCH_KEYS = {
    'tokens': ((2,), 'i', 'prompt, then actions, then observations, contiguous from column 0'),
    'valid': ((2,), 'b', 'True where a token is not padding'),
    'action_mask': ((2,), 'b', 'True where the policy sampled the token; it counts'),
    'prompt_lengths': ((1,), 'i', 'number of prompt tokens; the first action is at this column'),
    'turns': ((2,), 'i', 'turn index of each token, -1 before the first action'),
    'anchors': ((2,), 'i', 'state of the world before the turn that the token is of'),
    'understood': ((2,), 'b', 'True where the world understood the action of the turn'),
    'trajectories': ((1,), 'i', 'number of the episode that the row is of'),
    'groups': ((1,), 'i', 'which rows share a prompt'),
    'seats': ((1,), 'i', 'whose view of an episode the row is'),
    'rows': ((1,), 'i', 'number of the row in the data set'),
    'tasks': ((1,), 'i', 'which task of a mixture the row is of'),
    'modes': ((1,), 'i', 'in which mode the row was sampled'),
    'roles': ((2,), 'i', 'role of each token, -1 where it has none'),
    'scored': ((1,), 'b', 'False where no reward could be had; the row is left out of group and loss'),
    'preferred': ((1,), 'b', 'True where the row is the better one of its pair, or labelled as good'),
    'truncated': ((1, 2), 'b', 'True where a limit ended the row or episode, and nothing else did'),
    'sampler_logprobs': ((1, 2), 'f', 'log-probability of the token as the sampler drew it; 0 elsewhere'),
    'old_logprobs': ((1, 2), 'f', 'log-probability under the policy at the start of the update'),
    'reference_logprobs': ((2,), 'f', 'log-probability under a fixed model'),
    'policy_version': ((2,), 'i', 'train step whose policy drew the token; -1 elsewhere'),
    'rewards': ((1, 2), 'f', 'outcome of the row (NaN: it has none), or reward after each action'),
    'payoffs': ((1,), 'f', 'what the seat of the row got in its episode, whether it spoke or not'),
    'baselines': ((1,), 'f', 'what was expected of the row before it was sampled'),
    'token_rewards': ((2,), 'f', 'reward after each token'),
    'step_ends': ((2,), 'b', 'True at the last token of each step of an answer'),
    'step_labels': ((2,), 'f', 'there, how likely the row is still right, 0..1; 0 elsewhere'),
    'values': ((1, 2), 'f', 'state value before each token'),
    'returns': ((1, 2), 'f', 'target of the value function at each token'),
    'advantages': ((1, 2), 'f', 'how much better than expected each token was'),
    'latents': ((3,), 'f', 'what was mixed into the embedding of each token; see models/latent.py'),
    'hybrid': ((2,), 'b', 'True where a token was read with its latent'),
    'nodes': ((2,), 'i', 'node of each token in a tree of rows, equal where rows share it; -1 for none'),
    'parents': ((2,), 'i', 'the node before it, -1 at the first'),
    'corrections': ((2,), 'f', 'factor of the surrogate where the sampler is another policy; 0 elsewhere'),
    'weights': ((1, 2), 'f', 'share of each token in the loss; see reductions.py'),
    'observations': ((2, 3, 4, 5), 'f', 'what the agent saw before its action'),
    'next_observations': ((2, 3, 4, 5), 'f', 'what the action led to, in the same episode'),
    'actions': ((1, 2, 3), 'if', 'what it did: a number, or a vector in [-1, 1]'),
    'terminated': ((1, 2), 'b', 'True where the world ended the episode: nothing comes after the step'),
    'returns_to_go': ((1,), 'f', 'discounted rewards from the step to the end of its episode'),
    'reused': ((1,), 'b', 'True where an earlier step sampled the row'),
    'offline': ((1,), 'b', 'True where the row is of a data set, False where the agent itself made it'),
    'priorities': ((1,), 'f', 'how much the row surprised: what prioritised replay draws it by'),
    'places': ((1,), 'i', 'where the row is in the store that it was drawn from'),
    'spans': ((1,), 'f', 'steps of the episode that the row is of, more than 1 where it is of several'),
}


def check(batch: Batch) -> None:
  """Raises `ValueError` where a batch breaks the table of standard keys (call it in tests).

  Args:
    batch: rows of any algorithm; keys that the table does not know only need the leading [B].
  """
  num_rows = {name: array.shape[:1] for name, array in batch.items()}
  if len(set(num_rows.values())) > 1:
    raise ValueError(f'the arrays of a batch share their first axis; these do not: {num_rows}')
  for name in batch.keys() & BATCH_KEYS.keys():
    ranks, kinds, meaning = BATCH_KEYS[name]
    array = batch[name]
    kind = jnp.dtype(array.dtype).kind
    if array.ndim not in ranks or kind not in kinds:
      raise ValueError(
          f'batch[{name!r}] ({meaning}) has shape {array.shape} and dtype {array.dtype}; '
          f'it needs rank {" or ".join(map(str, ranks))} and a dtype of kind {kinds!r}'
      )
    if kind == 'f' and array.dtype != jnp.float32:
      raise ValueError(f'batch[{name!r}] is {array.dtype}; log-probs and rewards are float32')

"""Rollouts that branch: samples of a prompt that begin alike, and are decoded once for as long as they do.

`segments` grows the tree while it decodes: segments of a fixed length, at whose ends rows are doubled by
copying their keys and values. `explore` grows it afterwards: it looks where finished rows could have meant
something else, and starts new rows there (`branch_at`). Both yield standard rows, a group's one behind the
other; a prefix that rows share is repeated in each of them, log-probs included.

Noise is named by the place that a row has in the tree, so that rows with the same past go on differently, and
the same key gives the same tree.
"""

import functools
from typing import NamedTuple

import jax
import jax.numpy as jnp

from rlx import sharding
from rlx.data.dataset import Dataset
from rlx.engine import sample as engine
from rlx.engine import slots
from rlx.engine.columns import window
from rlx.engine.speaker import Speaker
from rlx.envs.text import Task
from rlx.kernels import loops
from rlx.models.transformer import KV, Params
from rlx.rollout.prompts import check_groups, columns_of
from rlx.types import Batch, Key, Models, StatefulRollout, World

_ROUNDING = 1e-5  # of an entropy, in nats

# --- branching while decoding -------------------------------------------------------------------------------


def segments(
    task: Task | Dataset,
    policy: Speaker,
    *,
    batch_size: int,
    group_size: int,
    segment_tokens: int,
    first_branches: int,
    branching: int,
    uncertainty: float,
    repeated_tokens: int,
    least_logprob: float,
) -> StatefulRollout:
  """TreePO's rollout: fixed-length segments, and branching at their ends until a prompt has its rows.

  A prompt begins with `first_branches` rows. At the end of a segment there are `branching` times as many
  places, `group_size` at most. A row that has ended keeps one of them; what it leaves goes to those that go
  on. Where all have ended, the last segments of some are sampled once more (the fallback).

  Args:
    task: where problems come from.
    policy: samples.
    batch_size: rows B of the batch.
    group_size: rows a prompt; divides `batch_size`.
    segment_tokens: length of a segment.
    first_branches: rows that begin at the prompt.
    branching: by how much rows multiply at the end of a segment, at least 2.
    uncertainty: how unevenly places are shared out: in proportion to exp(uncertainty * mean entropy of the
      row's last segment, in nats). 0 is evenly; below 0 favours the certain ones.
    repeated_tokens: a row stops at the end of a segment where its last so many tokens are the same as those
      before them: it repeats itself, with this period or one that divides it. 0 is off.
    least_logprob: a row stops after a segment whose mean log-prob is below it; -100 is off.
  Returns:
    A `rollout` function. Its batch has `nodes` and `parents` [B, T] too: the segment that a token stands in,
    equal where rows share it, and the one before. `tokens/sampled` is how many tokens were decoded for the
    batch, where `tokens/actions` counts those of all rows. Rows that were stopped are `truncated`.
  Raises:
    ValueError: arguments that do not fit each other or the context.
  Source: TreePO, https://arxiv.org/abs/2508.17445, section 2.2. There a fallback begins at a random earlier
    segment; here at the last one, so that it costs no more than others.
  """
  if min(group_size, segment_tokens, first_branches) < 1 or branching < 2 or repeated_tokens < 0:
    raise ValueError(
        f'group_size={group_size}, segment_tokens={segment_tokens}, first_branches={first_branches}, '
        f'branching={branching}, repeated_tokens={repeated_tokens}: need at least 1, 1, 1, 2 and 0'
    )
  check_groups(batch_size, group_size)
  num_prompts = batch_size // group_size
  counts = [min(first_branches, group_size)]
  while counts[-1] < group_size:
    counts.append(min(counts[-1] * branching, group_size))
  stops = functools.partial(
      _is_to_stop, segment_tokens=segment_tokens, repeated_tokens=repeated_tokens, least_logprob=least_logprob
  )
  grow = functools.partial(
      _grown, policy=policy, places=counts, num_prompts=num_prompts, segment_tokens=segment_tokens,
      uncertainty=uncertainty, stops=stops,
  )

  def rollout(models: Models, world: World, key: Key) -> tuple[Batch, World]:
    problem_key, sample_key = jax.random.split(key)
    problems, world = task.draw(world, problem_key, num_prompts)
    prompts, lengths = problems['prompts'], problems['prompt_lengths']
    engine.check_context(policy.model, policy.decoding, prompts.shape[1])
    grown = sharding.over_rows(
        grow, models['policy'],
        {
            'prompts': prompts, 'lengths': lengths, 'numbers': jnp.arange(num_prompts),
            'keys': jnp.broadcast_to(sample_key, num_prompts),
        },
        axes=policy.model.axes, dtype=policy.model.dtype, streamed=False,
    )
    rows = _tree_rows(grown, prompts, lengths, group_size, policy.decoding, segment_tokens)
    return {**columns_of(problems, group_size), **rows}, world

  return StatefulRollout(begin=task.begin, draw=rollout, data=task.data)


class _Growing(NamedTuple):
  """Rows of the tree so far, those of a prompt one behind the other."""

  hidden: jax.Array  # [R, D], predicts the next token
  begun: jax.Array  # [R, D], predicted the first token of the last segment
  cache: KV  # [L, R, columns, ...]: prompt, then what was drawn
  lengths: jax.Array  # [R] int32, of the prompts
  counts: jax.Array  # [R] int32, tokens drawn
  done: jax.Array  # [R] bool
  tokens: jax.Array  # [R, max_tokens] int32
  logprobs: jax.Array  # [R, max_tokens] float32
  entropy: jax.Array  # [R, max_tokens] float32, in nats
  nodes: jax.Array  # [R, segments] int32, number of the node of each segment; -1 for none
  names: jax.Array  # [] int32, how many nodes there are
  sampled: jax.Array  # [P] int32, tokens decoded for each prompt


def _grown(
    params, roots, *, policy: Speaker, places: list[int], num_prompts: int, segment_tokens: int,
    uncertainty: float, stops,
) -> dict[str, jax.Array]:
  """The trees of some prompts, decoded together: what their rows say, [P, G, ...].

  Args:
    params: of the policy.
    roots: `prompts, lengths` of P prompts, their `numbers` among all, by which noise and nodes are named, and
      `keys` [P], all the same.
    policy: samples.
    places: rows a prompt, segment by segment.
    num_prompts: of all shards together.
    segment_tokens: as for `segments`.
    uncertainty: likewise.
    stops: which rows stop at the end of a segment.
  """
  key, num = roots['keys'][0], roots['prompts'].shape[0]
  go_on = functools.partial(
      _segment, params, policy, numbers=roots['numbers'], num_prompts=num_prompts,
      segment_tokens=segment_tokens, stops=stops,
  )
  state = _plant(params, policy, roots['prompts'], roots['lengths'], places[0], segment_tokens)
  for depth, more in enumerate(places[1:]):
    state = go_on(state, jax.random.fold_in(key, depth))
    state = _branch(state, more, num, segment_tokens, uncertainty)
  last_key = jax.random.fold_in(key, len(places) - 1)
  state = jax.lax.while_loop(
      lambda state: ~jnp.all(state.done), functools.partial(go_on, key=last_key), state
  )
  said = {name: getattr(state, name) for name in ('tokens', 'logprobs', 'counts', 'nodes')}
  said = {name: x.reshape(num, -1, *x.shape[1:]) for name, x in said.items()}
  return {**said, 'sampled': state.sampled}


def _plant(params, policy: Speaker, prompts, lengths, branches, segment_tokens) -> _Growing:
  """The prompts, `branches` rows each."""
  num_rows, max_tokens = prompts.shape[0] * branches, policy.decoding.max_tokens
  columns = prompts.shape[1] + max_tokens
  bank = slots.read_prompts(params, policy.model, prompts, lengths, columns=columns)
  spread = lambda x, axis: jnp.repeat(x, branches, axis=axis)
  blank = lambda dtype: jnp.zeros((num_rows, max_tokens), dtype)
  hidden = spread(bank.hidden, 0)
  return _Growing(
      hidden=hidden, begun=hidden, cache=jax.tree.map(lambda x: spread(x, 1), bank.kv),
      lengths=spread(lengths, 0), counts=jnp.zeros(num_rows, jnp.int32), done=jnp.zeros(num_rows, bool),
      tokens=blank(jnp.int32), logprobs=blank(jnp.float32), entropy=blank(jnp.float32),
      nodes=jnp.full((num_rows, -(-max_tokens // segment_tokens)), -1, jnp.int32),
      names=jnp.int32(0), sampled=jnp.zeros(prompts.shape[0], jnp.int32),
  )


def _segment(
    params, policy: Speaker, state: _Growing, key: Key, *, numbers, num_prompts: int, segment_tokens: int,
    stops,
) -> _Growing:
  """One more segment of all rows that go on; then some are stopped."""
  model, decoding = policy.model, policy.decoding
  num, each = state.counts.shape[0], state.counts.shape[0] // numbers.shape[0]
  rows, among_all = jnp.arange(num), (numbers[:, None] * each + jnp.arange(each)[None]).reshape(-1)
  keys = jax.vmap(functools.partial(jax.random.fold_in, key))(among_all)
  limits = jnp.minimum((state.counts // segment_tokens + 1) * segment_tokens, decoding.max_tokens)
  live = ~state.done
  place = jnp.where(live, state.counts // segment_tokens, state.nodes.shape[1])
  state = state._replace(
      begun=jnp.where(live[:, None], state.hidden, state.begun),
      nodes=state.nodes.at[rows, place].set(state.names + among_all, mode='drop'),
      names=state.names + num_prompts * each,
  )

  def step(state: _Growing) -> _Growing:
    going = ~state.done & (state.counts < limits)
    tokens, logprobs = engine.draw_tokens(params, model, decoding, keys, state.hidden, state.counts)
    adjusted = engine.adjusted_logits(params, model, decoding, state.hidden, state.counts)
    place = jnp.where(going, state.counts, decoding.max_tokens)
    write = lambda array, x: array.at[rows, place].set(x, mode='drop')
    # A row that waits decodes too, for nothing: what it writes lies where its next token will.
    hidden, cache = model.decode_rows(params, tokens[:, None], state.lengths + state.counts, state.cache)
    ends = going & decoding.is_end(tokens)
    return state._replace(
        hidden=jnp.where(going[:, None], hidden[:, 0], state.hidden),
        cache=cache,
        counts=state.counts + going,
        done=state.done | ends | (going & (state.counts + 1 >= decoding.max_tokens)),
        tokens=write(state.tokens, tokens),
        logprobs=write(state.logprobs, logprobs),
        entropy=write(state.entropy, _entropy(adjusted)),
        sampled=state.sampled + going.reshape(-1, each).sum(axis=1),
    )

  unfinished = lambda state: jnp.any(~state.done & (state.counts < limits))
  with loops.times(segment_tokens):
    state = jax.lax.while_loop(unfinished, step, state)
  return state._replace(done=state.done | (live & stops(state)))


def _entropy(logits):
  """[...] entropy in nats of logits [..., V], some of which may be -inf."""
  logprobs = jax.nn.log_softmax(logits)
  return -jnp.sum(jnp.where(logprobs > -jnp.inf, jnp.exp(logprobs) * logprobs, 0), axis=-1)


def _is_to_stop(state: _Growing, *, segment_tokens, repeated_tokens, least_logprob):
  """[R] bool: rows that repeat themselves, or that the policy itself found unlikely."""
  mean = _segment_mean(state.logprobs, state.counts, segment_tokens)
  stop = mean < least_logprob
  if repeated_tokens:
    recent = window(state.tokens, state.counts - 2 * repeated_tokens, 2 * repeated_tokens)
    same = jnp.all(recent[:, :repeated_tokens] == recent[:, repeated_tokens:], axis=1)
    stop |= same & (state.counts >= 2 * repeated_tokens)
  return stop


def _segment_mean(x, counts, segment_tokens):
  """[R]: the mean of x [R, max_tokens] over the last segment of each row."""
  columns, last = jnp.arange(x.shape[1])[None], jnp.maximum(counts - 1, 0) // segment_tokens * segment_tokens
  inside = (columns >= last[:, None]) & (columns < counts[:, None])
  return jnp.sum(jnp.where(inside, x, 0), axis=1) / jnp.maximum(inside.sum(axis=1), 1)


def _branch(state: _Growing, places: int, num_prompts: int, segment_tokens: int, uncertainty: float):
  """The rows of each prompt, copied to `places` rows."""
  per_prompt = lambda x: x.reshape(num_prompts, -1)
  done = per_prompt(state.done)
  entropy = per_prompt(_segment_mean(state.entropy, state.counts, segment_tokens))
  sources = jax.vmap(functools.partial(_sources, num=places, uncertainty=uncertainty))(done, entropy)
  rows = (sources + jnp.arange(num_prompts)[:, None] * done.shape[1]).reshape(-1)
  before = jnp.arange(places) < done.shape[1]  # these places are the rows themselves
  again = jnp.take(state.done, rows) & ~jnp.tile(before, num_prompts)
  cache, names, sampled = state.cache, state.names, state.sampled
  state = jax.tree.map(
      lambda x: jnp.take(x, rows, axis=0), state._replace(cache=None, names=None, sampled=None)
  )
  last = jnp.maximum(state.counts - 1, 0) // segment_tokens
  return state._replace(
      cache=jax.tree.map(lambda x: jnp.take(x, rows, axis=1), cache),
      names=names,
      sampled=sampled,
      # The fallback: the last segment of a row that has ended is sampled once more.
      hidden=jnp.where(again[:, None], state.begun, state.hidden),
      counts=jnp.where(again, last * segment_tokens, state.counts),
      done=state.done & ~again,
  )


def _sources(done, entropy, *, num, uncertainty):
  """[num] int32: the row that each place goes on from; the first places are the rows themselves.

  Of the places that are left, one after the other goes to the row that has the fewest for its weight: rows
  that go on, or all where none does. With equal weights that is in turn.
  """
  num_rows = done.shape[0]
  allowed = ~done | jnp.all(done)
  weights = jnp.exp(uncertainty * (entropy - entropy.max()))
  given = jnp.ones(num_rows, jnp.float32)
  sources = list(range(num_rows))
  for _ in range(num - num_rows):
    row = jnp.argmin(jnp.where(allowed, given / weights, jnp.inf))
    given = given.at[row].add(1)
    sources.append(row)
  return jnp.stack([jnp.asarray(x, jnp.int32) for x in sources])


def _tree_rows(grown, prompts, lengths, group_size, decoding, segment_tokens) -> Batch:
  """Standard rows, and the node of each of their tokens."""
  tokens, logprobs, counts, nodes = (
      grown[name].reshape(-1, *grown[name].shape[2:]) for name in ('tokens', 'logprobs', 'counts', 'nodes')
  )
  lengths = jnp.repeat(lengths, group_size)
  batch = engine.as_rows(prompts, lengths, group_size, tokens, logprobs, counts, decoding)
  length = batch['tokens'].shape[1]
  segment = (jnp.arange(decoding.max_tokens) // segment_tokens)[None]
  spread = lambda x: window(jnp.broadcast_to(x, tokens.shape), -lengths, length)
  index = spread(segment)
  pick = lambda offset: jnp.where(
      batch['action_mask'] & (index + offset >= 0),
      jnp.take_along_axis(nodes, jnp.maximum(index + offset, 0), axis=1), -1,
  )
  return {
      **batch,
      'nodes': pick(0),
      'parents': pick(-1),
      'tokens/sampled': jnp.full(counts.shape, grown['sampled'].sum(), jnp.float32),
  }


# --- branching finished rows --------------------------------------------------------------------------------


def explore(
    task: Task | Dataset,
    policy: Speaker,
    *,
    batch_size: int,
    group_size: int,
    first_rows: int,
    rows_per_round: int,
    epsilon: float,
    synonyms: tuple[str, ...],
) -> StatefulRollout:
  """ROSE's rollout: each round starts new rows where the group's rows could most have meant something else.

  Args:
    task: where problems come from.
    policy: samples.
    batch_size: rows B of the batch.
    group_size: rows a prompt; divides `batch_size`.
    first_rows: rows that are sampled from the prompt, 1 in the paper.
    rows_per_round: rows that a round adds to each prompt, 1 in the paper; all at one place.
    epsilon: the chance that a new row begins at the prompt instead, 0.5 in the authors' example.
    synonyms: characters of a task that mean the same, such as ('abc', '01'); any other has its own meaning.
      () takes the policy's embedding, as the paper does: tokens mean the same where it points the same way.
  Returns:
    A `rollout` function; `tokens/sampled` is how many tokens were decoded for the batch.
  Raises:
    ValueError: sizes that do not divide, or an epsilon that is no probability.
  Source: ROSE, https://arxiv.org/abs/2601.05053, section 3.2, and the authors' code.
  """
  check_groups(batch_size, group_size)
  if not 1 <= first_rows <= group_size or rows_per_round < 1 or (group_size - first_rows) % rows_per_round:
    raise ValueError(
        f'first_rows={first_rows} and rounds of rows_per_round={rows_per_round} do not add up to '
        f'group_size={group_size}'
    )
  if not 0 <= epsilon <= 1:
    raise ValueError(f'epsilon={epsilon} is not in 0..1')
  num_prompts, num_rounds = batch_size // group_size, (group_size - first_rows) // rows_per_round
  classes = _meaning_classes(task, synonyms) if synonyms else None

  def rollout(models: Models, world: World, key: Key) -> tuple[Batch, World]:
    problem_key, sample_key, *round_keys = jax.random.split(key, 2 + num_rounds)
    params = models['policy']
    problems, world = task.draw(world, problem_key, num_prompts)
    meanings = params['embedding'] if classes is None else classes
    uncertain = functools.partial(entropies, params, policy, meanings=meanings)
    batch = policy.sample(
        params, problems['prompts'], problems['prompt_lengths'], sample_key, group_size=first_rows
    )
    entropy, sampled = uncertain(batch), batch['action_mask'].sum()
    for round_key in round_keys:
      pick_key, branch_key = jax.random.split(round_key)
      rows, cuts = entropy_positions(
          entropy, batch['action_mask'].sum(axis=1), pick_key, num_prompts=num_prompts, num=rows_per_round,
          epsilon=epsilon,
      )
      more = branch_at(params, policy, batch, rows, cuts, branch_key)
      sampled += more['action_mask'].sum() - cuts.sum()
      entropy = _merge(entropy, uncertain(more), num_prompts)
      batch = jax.tree.map(functools.partial(_merge, num_prompts=num_prompts), batch, more)
    batch['tokens/sampled'] = jnp.full(batch_size, sampled, jnp.float32)
    return {**columns_of(problems, group_size), **batch}, world

  return StatefulRollout(begin=task.begin, draw=rollout, data=task.data)


def branch_at(
    params: Params, policy: Speaker, batch: Batch, rows: jax.Array, cuts: jax.Array, key: Key
) -> Batch:
  """New rows that begin as given rows do and go on by themselves.

  Args:
    params: of the policy.
    policy: as the rows were sampled with.
    batch: rows of the sampler, with room for the `max_tokens` of its decoding.
    rows: [N] int32, which rows to begin as.
    cuts: [N] int32, how many of their actions are kept; fewer than the row has.
    key: the noise; new row n draws by its number n.
  Returns:
    N rows with the standard keys of the sampler. What is kept counts as actions, with the log-probs that it
    was sampled with; the prompts and groups are those of the rows.
  """
  model, decoding = policy.model, policy.decoding
  kept = {name: batch[name][rows] for name in ('tokens', 'sampler_logprobs', 'prompt_lengths')}
  keys = jax.vmap(functools.partial(jax.random.fold_in, key))(jnp.arange(rows.shape[0]))
  tokens, logprobs = sharding.over_rows(
      functools.partial(_continued, policy=policy), params, {**kept, 'cuts': cuts, 'keys': keys},
      axes=model.axes, dtype=model.dtype, streamed=False,
  )
  lengths, budgets = kept['prompt_lengths'], jnp.full(rows.shape, decoding.max_tokens)
  columns = jnp.arange(kept['tokens'].shape[1] - decoding.max_tokens)[None]
  prompts = jnp.where(columns < lengths[:, None], kept['tokens'][:, : columns.size], decoding.pad_id)
  branched = engine.as_rows(prompts, lengths, 1, tokens, logprobs, budgets, decoding)
  return {**branched, 'groups': batch['groups'][rows]}


def _continued(params, kept, *, policy: Speaker):
  """Actions and their log-probs [N, max_tokens] of rows of which the first `cuts` [N] actions stand."""
  model, decoding, lengths, cuts = policy.model, policy.decoding, kept['prompt_lengths'], kept['cuts']
  num, length = kept['tokens'].shape
  bank = slots.read_prompts(params, model, kept['tokens'], lengths + cuts, columns=length)
  keep = lambda x: jnp.where(
      jnp.arange(decoding.max_tokens)[None] < cuts[:, None], window(x, lengths, decoding.max_tokens), 0
  )
  queue = slots.Queue(
      order=jnp.arange(num), length=jnp.int32(num), beginnings=jnp.arange(num), prompt_lengths=lengths,
      budgets=jnp.full(num, decoding.max_tokens), counts=cuts, tokens=keep(kept['tokens']),
      logprobs=keep(kept['sampler_logprobs']),
  )
  keys = jnp.concatenate([kept['keys'], kept['keys'][:1]])  # an empty slot draws too, for nothing
  draw = lambda hidden, row, count: engine.draw_tokens(params, model, decoding, keys[row], hidden, count)
  begun = slots.begin(model, bank, queue, num_slots=num)
  end = slots.run(params, model, bank, queue, begun, draw, decoding.is_end)
  return end.tokens[:-1], end.logprobs[:-1]


def entropy_positions(
    entropy: jax.Array, counts: jax.Array, key: Key, *, num_prompts: int, num: int, epsilon: float
) -> tuple[jax.Array, jax.Array]:
  """Where to branch: before the most uncertain action of each group, or by chance at its prompt.

  Args:
    entropy: [B, C], of any kind, at the first C actions of rows; those of a prompt one behind the other.
    counts: [B] int32, how many actions each row has.
    key: decides about the restarts.
    num_prompts: P.
    num: how many branches a prompt gets.
    epsilon: the chance that a branch begins at the prompt.
  Returns:
    rows [P * num] int32 of the batch, and how many of their actions to keep [P * num].
  Source: ROSE, https://arxiv.org/abs/2601.05053, section 3.2.
  """
  num_rows, columns = entropy.shape
  inside = jnp.arange(columns)[None] < counts[:, None]
  places = jnp.where(inside, entropy, -jnp.inf).reshape(num_prompts, -1)
  # Places that are equal but for rounding are frequent: copied prefixes. The first one is taken.
  highest = places >= jnp.max(places, axis=1, keepdims=True) - _ROUNDING
  best = jnp.repeat(jnp.argmax(highest, axis=1), num)
  restart = jax.random.bernoulli(key, epsilon, best.shape)
  first = jnp.repeat(jnp.arange(num_prompts), num) * (num_rows // num_prompts)
  return first + best // columns, jnp.where(restart, 0, best % columns)


def semantic_entropy(logits: jax.Array, meanings: jax.Array) -> jax.Array:
  """Uncertainty about what will be meant: entropy, as far as the likely tokens mean different things.

      H(p) (1 - Σ_ij p_i p_j cos(e_i, e_j)) = H(p) (1 - |Σ_i p_i e_i|^2)

  The authors' code has the sum over i != j of the likeliest 20 tokens, negated, in place of the bracket; that
  is highest where one token is certain. With i = j, as here, a certain token has 0: our reading.

  Args:
    logits: [..., V], -inf for what cannot be drawn.
    meanings: [V, M], a vector for each token; only the direction counts.
  Returns:
    [...] float32, at least 0.
  Source: ROSE, https://arxiv.org/abs/2601.05053, section 3.2.
  """
  probs = jax.nn.softmax(logits)
  meanings = meanings.astype(jnp.float32)
  units = meanings / jnp.maximum(jnp.linalg.norm(meanings, axis=1, keepdims=True), 1e-12)
  alike = jnp.sum(jnp.square(probs @ units), axis=-1)
  return _entropy(logits) * jnp.maximum(1 - alike, 0)


def entropies(params: Params, policy: Speaker, batch: Batch, *, meanings: jax.Array) -> jax.Array:
  """[B, max_tokens]: `semantic_entropy` at each action of the rows, one column of logits at a time."""
  model, decoding = policy.model, policy.decoding
  hidden, _ = model.forward(params, batch['tokens'])
  hidden = window(hidden, batch['prompt_lengths'] - 1, decoding.max_tokens)

  def column(x):
    hidden, count = x
    counts = jnp.broadcast_to(count, hidden.shape[:1])
    return semantic_entropy(engine.adjusted_logits(params, model, decoding, hidden, counts), meanings)

  return jax.lax.map(column, (jnp.moveaxis(hidden, 1, 0), jnp.arange(decoding.max_tokens))).T


def _meaning_classes(task, synonyms):
  """[V, M] float32: tokens of the same class have the same unit vector, all others their own."""
  if len(set(''.join(synonyms))) < len(''.join(synonyms)):
    raise ValueError(f'synonyms={synonyms} have a character in common')
  classes = list(range(task.vocab_size))
  for characters in synonyms:
    tokens = task.encode(characters).tolist()
    for token in tokens:
      classes[token] = tokens[0]
  return jax.nn.one_hot(jnp.array(classes), task.vocab_size)


def _merge(rows, more, num_prompts):
  """Rows of each prompt, and behind them more rows of it."""
  split = lambda x: x.reshape(num_prompts, -1, *x.shape[1:])
  merged = jnp.concatenate([split(rows), split(more)], axis=1)
  return merged.reshape(-1, *rows.shape[1:])

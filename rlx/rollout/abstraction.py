"""Self-play solved in a latent space, and what was solved as pairs of words: the two halves of LSPO.

`latent_solution` looks at how a policy plays itself, clusters its words, and solves the latent game that they
make, for a stage that learns nothing (`algorithms/gather.py`). `strategic_pairs` draws what the policy says
in a situation, twice, and prefers by the chances of the solution, for DPO in the stage behind it.

    p(a before b) = λ(a) / (λ(a) + λ(b)),    λ the solution's chance of the latent move that a word is of

Source: LSPO, https://arxiv.org/abs/2502.04686.
"""

import jax
import jax.numpy as jnp
import numpy as np

from rlx.engine.speaker import Speaker
from rlx.envs.games import cfr, latent
from rlx.envs.games import tree as trees
from rlx.envs.text import Task
from rlx.envs.worlds.tables import WordGame, read_rows
from rlx.errors import ConfigError, at_least, between
from rlx.rollout.prompts import check_groups
from rlx.types import Batch, Key, Models, StatefulRollout, World

MEMORY = 'solution'
_KMEANS_ROUNDS = 10


def latent_solution(
    task: Task, reference: Speaker, *, clusters: int, cfr_rounds: int, explored: float
) -> StatefulRollout:
  """Clusters the words of a policy that plays itself, and solves the latent game of them.

  What is remembered, in `world['solution']`, are the chances of latent moves [I, A], of which latent move
  each is [A], how often an episode comes to each information set [I], and the regrets: each train step goes
  on where the last one was.

  Args:
    task: a game in words of which `history` is known, with `num_words`.
    reference: sits at all seats; an action is one token.
    clusters: latent moves of talk.
    cfr_rounds: of CFR+, in each train step; after 0 all allowed moves are as likely.
    explored: share of moves that are any allowed ones in the self-play whose situations are remembered.
  Returns:
    A `rollout` function of one row in which nothing is said. Its columns are `latent/nash_conv`, how far the
    solution is from Nash in the game itself, and `latent/pure`, the share of pairs of words that are together
    where they mean the same, and apart where not.
  Raises:
    ConfigError: the task is no such game, or there are more clusters than words.
  """
  game = _word_game(task)
  at_least(0, cfr_rounds=cfr_rounds)
  between(0, 1, explored=explored)
  between(1, game.num_words, clusters=clusters)
  tree = game.tree
  known, rows = known_of(game, tree), read_rows(game, tree.views, tree.movers)
  tokens, lengths = (jnp.asarray(rows[name]) for name in ('tokens', 'lengths'))

  def draw(models: Models, world: World, key: Key) -> tuple[Batch, World]:
    del key
    logits = reference.next_logits(
        models['reference'], tokens, lengths, prompt_columns=game.prompt_columns
    )
    chances = jnp.where(tree.legal, jax.nn.softmax(logits)[:, game.moves], 0)
    words, said = clustered(tree, known, chances, clusters=clusters, num_words=game.num_words)
    space = latent.abstracted(tree, known, words, said)
    regrets = cfr.solved(
        tree, world[MEMORY]['regrets'], rounds=cfr_rounds, pool=lambda gains: latent.pooled(gains, space)
    )
    strategy = cfr.average_strategy(tree, regrets)
    found = {
        'chances': latent.chances(tree, space, strategy), 'moves': space.moves,
        'visits': latent.visits(tree, (1 - explored) * chances + explored * trees.uniform(tree)),
        'regrets': regrets,
    }
    measured = {'nash_conv': trees.nash_conv(tree, strategy), 'pure': purity(game, words)}
    batch = {
        'rewards': jnp.zeros(1), 'groups': jnp.zeros(1, jnp.int32),
        **{f'latent/{name}': x[None] for name, x in measured.items()},
    }
    return batch, {**world, MEMORY: found}

  return StatefulRollout(begin=lambda key: {MEMORY: _nothing(tree)}, draw=draw, data=None)


def strategic_pairs(task: Task, reference: Speaker, *, batch_size: int) -> StatefulRollout:
  """Pairs of what the reference says in one situation, preferred by the solution that the stage before left.

  Situations are as likely as in the self-play that was solved. Pairs of one latent move, and those of which
  the solution would say neither, have no weight; what is not allowed comes behind what is.

  Args:
    task: as for `latent_solution`.
    reference: says both words, as it is when the stage begins.
    batch_size: rows B of a batch, two a comparison.
  Returns:
    A `rollout` function; the stage has `solution` in `takes`.
  Raises:
    ConfigError: the task is no such game.
  """
  game = _word_game(task)
  num_pairs = check_groups(batch_size, 2)
  tree = game.tree
  rows = read_rows(game, tree.views, tree.movers)
  tokens, lengths = (jnp.asarray(rows[name]) for name in ('tokens', 'lengths'))

  def draw(models: Models, world: World, key: Key) -> tuple[Batch, World]:
    place_key, *word_keys, label_key = jax.random.split(key, 4)
    found = world[MEMORY]
    at = jax.random.categorical(place_key, jnp.log(found['visits']), shape=(num_pairs,))
    logits = reference.next_logits(
        models['reference'], tokens[at], lengths[at], prompt_columns=game.prompt_columns
    )
    words = jnp.stack([jax.random.categorical(one, logits) for one in word_keys], axis=1)
    is_move = words[..., None] == jnp.asarray(game.moves)[None, None]
    move = jnp.where(is_move.any(axis=2), jnp.argmax(is_move, axis=2), -1)
    first, weights = preferred(found, at, move, label_key)
    ordered = jnp.where(first[:, None], words, words[:, ::-1])
    return _as_pairs(game, tokens[at], lengths[at], ordered, weights), world

  return StatefulRollout(begin=lambda key: {MEMORY: _nothing(tree)}, draw=draw, data=None)


def preferred(found: World, at: jax.Array, move: jax.Array, key: Key) -> tuple[jax.Array, jax.Array]:
  """Whether the first of two moves is preferred [N] bool, and what the pair weighs [N], 1 or 0.

  Args:
    found: what `latent_solution` remembers.
    at: [N] information sets.
    move: [N, 2] moves, -1 for what is none.
    key: labels are drawn.
  """
  chances = jnp.where(move >= 0, found['chances'][at[:, None], move], 0)
  total = chances.sum(axis=1)
  first = jax.random.uniform(key, total.shape) * total < chances[:, 0]
  kinds = jnp.where(move >= 0, found['moves'][move], -1)
  return first, ((kinds[:, 0] != kinds[:, 1]) & (total > 0)).astype(jnp.float32)


def clustered(
    tree: trees.Tree, known: latent.Known, strategy: jax.Array, *, clusters: int, num_words: int
) -> tuple[jax.Array, jax.Array]:
  """[num_words] int32 clusters of words by who says them, and [num_words] how often each is said."""
  points, said = latent.embeddings(tree, known, strategy, num_words)
  return latent.k_means(points, said, clusters=clusters, rounds=_KMEANS_ROUNDS), said


def purity(game: WordGame, words: jax.Array) -> jax.Array:
  """[] the share of pairs of words that are in one cluster where they mean the same, and in two where not."""
  wordings = game.num_words // (game.game.num_actions - game.num_words)
  meant = jnp.arange(game.num_words) // wordings
  agree = (meant[:, None] == meant[None]) == (words[:, None] == words[None])
  return agree[jnp.triu_indices(game.num_words, 1)].mean()


def known_of(game: WordGame, tree: trees.Tree) -> latent.Known:
  """What is known in each information set of a game in words."""
  histories = np.stack([game.history(view) for view in tree.views]).astype(np.int32)
  held = tree.views[:, : tree.views.shape[1] - histories.shape[1]]
  _, hands = np.unique(held, axis=0, return_inverse=True)
  talks = tree.legal[:, : game.num_words].any(axis=1)
  return latent.Known(hands.reshape(-1).astype(np.int32), histories, talks)


def _as_pairs(
    game: WordGame, read: jax.Array, lengths: jax.Array, words: jax.Array, weights: jax.Array
) -> Batch:
  """Rows [2N, C + 1] of what was read [N, C] with each of two words [N, 2] behind it, the better first."""
  num, columns = read.shape
  there = jnp.arange(columns + 1)[None]
  lengths = jnp.repeat(lengths, 2)[:, None]
  read = jnp.repeat(jnp.pad(read, ((0, 0), (0, 1))), 2, axis=0)
  return {
      'tokens': jnp.where(there == lengths, words.reshape(-1, 1), read), 'valid': there <= lengths,
      'action_mask': there == lengths,
      'prompt_lengths': jnp.full(2 * num, game.prompt_columns, jnp.int32),
      'groups': jnp.arange(2 * num) // 2, 'preferred': jnp.arange(2 * num) % 2 == 0,
      'weights': jnp.repeat(weights, 2),
  }


def _nothing(tree: trees.Tree) -> World:
  """What is remembered before anything was solved."""
  shape = tree.legal.shape
  return {
      'chances': jnp.zeros(shape), 'moves': jnp.zeros(shape[1], jnp.int32), 'visits': jnp.zeros(shape[0]),
      'regrets': cfr.no_regrets(tree),
  }


def _word_game(task: Task) -> WordGame:
  if not isinstance(task, WordGame) or task.history is None or not task.num_words:
    raise ConfigError(
        f'{type(task).__name__} has no words to cluster; take a game in words with num_words, such as '
        'worlds.tables.worded_werewolf'
    )
  return task

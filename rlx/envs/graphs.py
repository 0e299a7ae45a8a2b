"""Small knowledge graphs, and the chains in them that questions are made of: NumPy, before anything compiles.

A graph is `links` [N, R]: the entity that entity n has under relation r, or -1 where nothing is known. A
chain is a path along links that visits no entity twice; its relation i leads from entity i to entity i + 1.
Graphs have some ten entities: the longest chain is found by trying all of them.
"""

from collections.abc import Iterator, Sequence
from typing import NamedTuple

import numpy as np

from rlx.errors import at_least


class Chain(NamedTuple):
  """A path; there is one relation less than there are entities."""

  entities: tuple[int, ...]
  relations: tuple[int, ...]


def drawn_graph(rng: np.random.Generator, *, frequencies: Sequence[float], relations: int, density: float):
  """Links [N, R] int32 of a random graph: what is frequent is pointed at more often.

  Args:
    rng: consumed.
    frequencies: [N] of the entities in some corpus, above 0; an object is drawn in proportion to them.
    relations: R.
    density: the chance that a relation of an entity is known, in [0, 1].
  """
  weights = np.asarray(frequencies, float)
  links = np.full((len(weights), relations), -1, np.int32)
  for subject, relation in np.ndindex(links.shape):
    others = np.where(np.arange(len(weights)) == subject, 0, weights)
    target = rng.choice(len(weights), p=others / others.sum())
    links[subject, relation] = target if rng.random() < density else -1
  return links


def rare(frequencies: Sequence[float], *, below: float) -> list[int]:
  """The entities whose share of all mentions in the corpus is below a bound."""
  share = np.asarray(frequencies, float) / np.sum(frequencies)
  return [int(n) for n in np.flatnonzero(share < below)]


def around(links: np.ndarray, centre: int, *, radius: int) -> set[int]:
  """The entities that are at most `radius` links away from one, whichever way the links point."""
  at_least(0, radius=radius)
  found = {centre}
  for _ in range(radius):
    there = np.isin(np.arange(len(links)), list(found))
    outwards = links[there]
    inwards = np.flatnonzero(np.isin(links, list(found)).any(axis=1))
    found |= {int(n) for n in outwards[outwards >= 0]} | {int(n) for n in inwards}
  return found


def chains_from(links: np.ndarray, start: int, *, within: set[int]) -> Iterator[Chain]:
  """All chains that begin with an entity, that of the entity alone among them, inside some entities."""
  stack = [Chain((start,), ())]
  while stack:
    chain = stack.pop()
    yield chain
    for relation in range(links.shape[1] - 1, -1, -1):
      target = int(links[chain.entities[-1], relation])
      if target in within and target not in chain.entities:
        stack.append(Chain((*chain.entities, target), (*chain.relations, relation)))


def longest_chain(links: np.ndarray, centre: int, *, radius: int) -> Chain:
  """The longest chain that has an entity in it, inside what is around that entity; exact.

  Of several that are as long it is the first one by entities, and then by relations.

  Args:
    links: [N, R].
    centre: the entity.
    radius: of what is around it.
  Source: the questions of MedResearcher-R1, https://arxiv.org/abs/2508.14880.
  """
  within = around(links, centre, radius=radius)
  every = (chain for start in within for chain in chains_from(links, start, within=within))
  return min((x for x in every if centre in x.entities), key=lambda x: (-len(x.entities), *x))


# --- what questions are made of: `(links, rare, rng) -> chains` ---------------------------------------------


def around_rare(links: np.ndarray, rarely: Sequence[int], rng: np.random.Generator, *, radius: int):
  """The longest chain around each of the rare entities, each chain once.

  Args:
    links: [N, R].
    rarely: the rare entities.
    rng: not needed: there is nothing to choose.
    radius: of what is around an entity.
  """
  del rng
  return list(dict.fromkeys(longest_chain(links, centre, radius=radius) for centre in rarely))


def at_random(links: np.ndarray, rarely: Sequence[int], rng: np.random.Generator) -> list[Chain]:
  """As many chains, each one of all that there are in the graph, with the same chance for each length.

  Args:
    links: [N, R].
    rarely: as many are drawn as there are of these.
    rng: consumed.
  """
  everywhere = set(range(len(links)))
  by_length: dict[int, list[Chain]] = {}
  for start in range(len(links)):
    for chain in chains_from(links, start, within=everywhere):
      by_length.setdefault(len(chain.relations), []).append(chain)
  lengths = sorted(by_length)
  drawn = [by_length[lengths[rng.integers(len(lengths))]] for _ in rarely]
  return [chains[rng.integers(len(chains))] for chains in drawn]


def injected(
    links: np.ndarray, rarely: Sequence[int], rng: np.random.Generator, *, rounds: int
) -> list[Chain]:
  """Questions that grow: what one names is replaced by a fact that leads to it, as long as it stays hard.

  A question begins as a single fact. In each round another fact is injected in front of it, and what came of
  that is checked: it is kept where it `is_hard`. What is not hard in the end is no question.

  Args:
    links: [N, R].
    rarely: four times as many are begun as there are of these.
    rng: consumed.
    rounds: facts that are injected, at most; at least 1.
  Source: the agent that makes questions in ASearcher, https://arxiv.org/abs/2508.07976. A language model
    injects facts there, blurs what is named as well, and answers without tools to see whether that is hard.
  """
  at_least(1, rounds=rounds)
  facts, made = np.argwhere(links >= 0), []
  for subject, relation in rng.permutation(facts)[: 4 * len(rarely)].tolist():
    chain = Chain((subject, int(links[subject, relation])), (relation,))
    for _ in range(rounds):
      known = np.argwhere(links == chain.entities[0]).tolist()
      before = [fact for fact in known if fact[0] not in chain.entities]
      if not before:
        break
      subject, relation = before[rng.integers(len(before))]
      longer = Chain((subject, *chain.entities), (relation, *chain.relations))
      chain = longer if is_hard(links, longer) else chain
    made += [chain] if is_hard(links, chain) else []
  return list(dict.fromkeys(made))


def is_hard(links: np.ndarray, chain: Chain) -> bool:
  """Whether a chain's last entity takes all of its facts: no guess hits it, and no shorter way leads to it.

  A guess is the entity that is most often linked to, or the first one of several.
  """
  first, last = chain.entities[0], chain.entities[-1]
  mentions = np.bincount(links[links >= 0], minlength=len(links))
  ways = chains_from(links, first, within=set(range(len(links))))
  shortest = min(len(way.relations) for way in ways if way.entities[-1] == last)
  return len(chain.relations) > 1 and last != int(mentions.argmax()) and shortest == len(chain.relations)

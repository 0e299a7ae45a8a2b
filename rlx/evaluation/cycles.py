"""How pure the rankings are that a ranker and a policy make of answers, against the true reward."""

from collections.abc import Callable

import jax
import jax.numpy as jnp

from rlx.envs import gold
from rlx.evaluation.evaluation import Evaluation
from rlx.rewards import cycles
from rlx.types import Models, World

_LISTS = 4  # of each prompt
_NO_CHANCE = 0  # the seed of these


def purity(
    world: gold.Worlds, policy: gold.LogLinear, judge: gold.Linear, *, group_size: int, noise: float,
    believed: Callable,
) -> Evaluation:
  """Which share of comparisons is the right way round, in rankings of answers of the policy.

  The metrics: `ranked`, of all comparisons by the ranker; `believed`, of those that it is shown; `purer`, the
  difference; `kept`, the share of comparisons that are believed. Comparisons of equal answers are left out.

  Args:
    world: with opinions.
    policy: what answers.
    judge: as for `cycles.in_cycles`, like all that follow.
    group_size: A.
    noise: of the ranker.
    believed: which answers of a ranking are.
  """

  def ask(models: Models, memory: World) -> dict[str, jax.Array]:
    del memory
    answer_key, rank_key = jax.random.split(jax.random.key(_NO_CHANCE))
    there = models['world']
    prompts = jnp.repeat(jnp.arange(len(there.gold)), _LISTS)[:, None]
    lengths = jnp.ones(len(prompts), jnp.int32)
    batch = policy.sample(models['policy'], prompts, lengths, answer_key, group_size=group_size)
    lists, kept = cycles.ranking(models, policy, judge, batch, rank_key, group_size, noise, believed)
    ordered = jax.tree.map(lambda x: x[lists.reshape(-1)], batch)
    pairs = cycles.comparisons_of(ordered, kept, group_size)
    rewards = there.gold[pairs['tokens'][:, 0], pairs['tokens'][:, 1]]
    better, worse, counts = rewards[0::2], rewards[1::2], pairs['weights'][0::2] > 0
    unlike = better != worse
    right = lambda which: jnp.mean(better > worse, where=which)
    ranked, shown = right(unlike), right(unlike & counts)
    return {
        'ranked': ranked, 'believed': shown, 'purer': shown - ranked,
        'kept': jnp.mean(counts, where=unlike),
    }

  return Evaluation(ask=ask, read=lambda answer: ({name: float(x) for name, x in answer.items()}, []))

"""Members of a population learn from each other's rows.

Every member samples groups of its own and takes some from the others, whole groups, of which those that teach
something come first. Rows are exchanged inside the program, over the axis of the population; no weights are.
What a member takes it reads anew: log-probs and rewards are its own.

Source: SAPO, Amico et al., 2025, https://arxiv.org/abs/2509.08721: a swarm of nodes that share decoded
rollouts. Which external samples a node takes is its own affair; there groups without a difference are left
out in the experiments, and the rest drawn uniformly.
"""

import dataclasses

import jax
import jax.numpy as jnp

from rlx.advantages import groups as group_advantages
from rlx.engine.speaker import Speaker
from rlx.errors import ConfigError
from rlx.rewards.host import check_compiles
from rlx.types import Annotate, Batch, Key, Models, Rollout, StatefulRollout, World, keep_world, stateful

AXIS = 'population'


def swarm(
    rollout: Rollout, policy: Speaker, reward: Annotate, *, swarm_size: int, taken_groups: int,
    group_size: int,
) -> StatefulRollout:
  """Rows of which some groups are of other members of the same swarm.

  Args:
    rollout: a section of its own; it samples all rows, of which the last groups make room.
    policy: what a member has; it scores what is taken.
    reward: that of the run; it has to compile.
    swarm_size: N members of a swarm, which stand together in the population; it divides the population.
    taken_groups: how many groups are taken from others; 0 exchanges nothing.
    group_size: rows of a group, which stand together.
  Returns:
    A `rollout`. `swarm/taken` [B] is 1 for the rows of others, and `swarm/informative` the share of the taken
    groups that have a difference in their rewards, NaN for the member's own.
  Raises:
    ValueError: when it is traced, there are fewer groups than are taken, or the population is no multiple.
  """
  check_compiles(reward)
  if swarm_size < 2 and taken_groups:
    raise ConfigError(f'swarm_size={swarm_size}: there is nobody to take taken_groups={taken_groups} from')
  inner = stateful(rollout)

  def draw(models: Models, world: World, key: Key) -> tuple[Batch, World]:
    draw_key, choice_key, reward_key = jax.random.split(key, 3)
    batch, world = inner(models, world, draw_key)
    num = batch['groups'].shape[0] // group_size
    if taken_groups > num:
      raise ValueError(f'taken_groups={taken_groups} of the {num} groups of a batch')
    if not taken_groups:
      return {**batch, 'swarm/taken': jnp.zeros(batch['groups'].shape)}, world
    members = jax.lax.axis_size(AXIS)
    if members % swarm_size:
      raise ValueError(f'population.size={members} is no multiple of swarm_size={swarm_size}')
    rewards = reward(models, batch, reward_key)['rewards']
    teaches = group_advantages.is_informative(rewards, jnp.arange(num * group_size) // group_size)
    everyone, teaches = jax.lax.all_gather((batch, teaches[::group_size]), AXIS)
    choice_key = jax.random.fold_in(choice_key, jax.lax.axis_index(AXIS))
    whose, which = _chosen(teaches, choice_key, swarm_size=swarm_size, taken_groups=taken_groups)
    rows = (which[:, None] * group_size + jnp.arange(group_size)[None]).reshape(-1)
    taken = {name: x[jnp.repeat(whose, group_size), rows] for name, x in everyone.items()}
    taken['sampler_logprobs'] = policy.score(models['policy'], taken)[0]
    kept = (num - taken_groups) * group_size
    joined = {name: jnp.concatenate([x[:kept], taken[name]]) for name, x in batch.items()}
    groups = jnp.arange(num * group_size, dtype=jnp.int32) // group_size
    is_taken = groups >= num - taken_groups
    told = jnp.where(is_taken, teaches[whose, which].mean(), jnp.nan)
    return {
        **joined, 'groups': groups, 'swarm/taken': is_taken.astype(jnp.float32), 'swarm/informative': told,
    }, world

  return dataclasses.replace(inner, draw=draw, observe=keep_world)


def _chosen(teaches: jax.Array, key: Key, *, swarm_size: int, taken_groups: int):
  """[taken_groups] members and their groups, without repetition: those that teach first, then any.

  Args:
    teaches: [members, groups] bool.
    key: of this member.
    swarm_size: N.
    taken_groups: how many.
  """
  me, (members, num) = jax.lax.axis_index(AXIS), teaches.shape
  member = jnp.arange(members)
  others = (member // swarm_size == me // swarm_size) & (member != me)
  scores = jax.random.uniform(key, teaches.shape) + teaches + 2 * others[:, None]
  _, places = jax.lax.top_k(scores.reshape(-1), taken_groups)
  return places // num, places % num

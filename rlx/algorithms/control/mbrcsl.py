"""MBRCSL: models of the world and of the data's behaviour dream whole episodes; the best are learnt from.

    1. T̂, r̂ ← maximum likelihood of s' - s, r and the end;  μ ← that of the actions         (`mbrcsl`)
    2. dreams: s_0 from the data, a_t ~ μ(· | s_t), (s_{t+1}, r_t) ~ T̂, r̂;  those of the highest Σ r̂ are kept
    3. π(a | s, R) on what is kept                                               (`rcsl` over `dreams`)

A dream passes from one episode of the data to another wherever they meet, so it can earn what none of them
did: stitching without a Bellman backup. That is why step 3 can ask for it where plain `rcsl` cannot.

Source: Zhou et al., 2023, https://arxiv.org/abs/2310.19308, algorithm 1. There dreams are kept that earn more
than the best episode of the data, and the behaviour is a diffusion policy; here a share is kept (our reading
of the same, without a number to choose anew for each task), and the behaviour is any `Policy`.
"""

import jax
import jax.numpy as jnp

from rlx.algorithms.control.rcsl import with_return
from rlx.data import transitions as datasets
from rlx.models import dynamics as models_of_the_world
from rlx.models.dynamics import Dynamics
from rlx.models.networks import Policy
from rlx.types import Algorithm, Batch, Key, Models, Rollout, StatefulRollout, World


def mbrcsl(rollout: Rollout, behaviour: Policy, dynamics: Dynamics) -> Algorithm:
  """The first stage; trains `behaviour` and `dynamics`.

  Args:
    rollout: yields transitions of a `commanded` environment.
    behaviour: a distribution of actions that can have several modes where the data do.
    dynamics: a forward model.
  """

  def loss(models: Models, batch: Batch, key: Key):
    del key
    batch = _uncommanded(batch)
    logprobs, _ = behaviour.score(models['behaviour'], batch['observations'], batch['actions'])
    model_loss = models_of_the_world.forward_loss(dynamics, models['dynamics'], batch).mean()
    metrics = {'loss/behaviour': -logprobs.mean(), 'loss/dynamics': model_loss}
    return model_loss - logprobs.mean(), metrics

  return Algorithm(rollout=rollout, loss=loss)


def dreams(
    dataset: Batch, behaviour: Policy, dynamics: Dynamics, *, num: int, max_steps: int, kept_share: float,
    batch_size: int,
) -> StatefulRollout:
  """Steps of the dreams that earned most, drawn uniformly; they are dreamt once, when the stage begins.

  Args:
    dataset: of a `commanded` environment; a dream begins where one of its episodes did.
    behaviour: the policy of the data.
    dynamics: the forward model.
    num: dreams.
    max_steps: when a dream is over in any case.
    kept_share: of the dreams, in (0, 1].
    batch_size: rows that are drawn.
  Returns:
    A `rollout` of batches with `observations, actions`, `returns_to_go` [B], what was earned from the row
    on, and `dream/return`, the mean over the dreams that are kept.
  Raises:
    ValueError: no dream is kept.
  """
  num_kept = int(num * kept_share)
  if not 0 < num_kept <= num:
    raise ValueError(f'kept_share={kept_share} of num={num} dreams: keep at least 1, and at most all')

  begun = jnp.cumsum(datasets.episode_starts(dataset))  # how many episodes have, up to each row
  observations = with_return(dataset['observations'], 0.0)

  def warm_up(models: Models, world: World, key: Key) -> World:
    del world
    start_key, dream_key = jax.random.split(key)
    episodes = jax.random.randint(start_key, (num,), 1, begun[-1] + 1)
    starts = observations[jnp.searchsorted(begun, episodes)]
    rows = dream(behaviour, dynamics, models, starts, dream_key, max_steps=max_steps)
    earned, best = jax.lax.top_k(rows['returns_to_go'][:, 0], num_kept)
    return {'rows': jax.tree.map(lambda x: x[best], rows), 'earned': earned.mean()}

  def draw(models: Models, world: World, key: Key) -> tuple[Batch, World]:
    del models
    dream_key, step_key = jax.random.split(key)
    which = jax.random.randint(dream_key, (batch_size,), 0, num_kept)
    alive = world['rows']['alive'][which]
    when = jax.random.randint(step_key, (batch_size,), 0, alive.sum(axis=1))
    batch = {name: x[which, when] for name, x in world['rows'].items() if name != 'alive'}
    return {**batch, 'dream/return': jnp.broadcast_to(world['earned'], batch_size)}, world

  def begin(key: Key) -> World:
    del key
    return {}

  return StatefulRollout(begin=begin, draw=draw, data=None, warm_up=warm_up)


def dream(
    behaviour: Policy, dynamics: Dynamics, models: Models, starts: jax.Array, key: Key, *, max_steps: int
) -> Batch:
  """What the behaviour does in the model, from some observations [B, O] on.

  Returns:
    `observations` [B, T, O], `actions` [B, T, ...], `rewards, returns_to_go` [B, T], undiscounted,
    and `alive` [B, T] bool, False for steps behind the end.
  """

  def step(carry, key: Key):
    observations, alive = carry
    action_key, world_key = jax.random.split(key)
    actions, _ = behaviour.sample(models['behaviour'], observations, action_key)
    new, rewards, ended = models_of_the_world.step(
        dynamics, models['dynamics'], observations, actions, world_key
    )
    rewards = jnp.where(alive, rewards, 0)
    row = {'observations': observations, 'actions': actions, 'rewards': rewards, 'alive': alive}
    return (with_return(new, 0.0), alive & ~ended), row

  alive = jnp.ones(starts.shape[0], bool)
  _, rows = jax.lax.scan(step, (starts, alive), jax.random.split(key, max_steps))
  rows = jax.tree.map(lambda x: jnp.swapaxes(x, 0, 1), rows)
  return {**rows, 'returns_to_go': jax.lax.cumsum(rows['rewards'], axis=1, reverse=True)}


def _uncommanded(batch: Batch) -> Batch:
  """Transitions in which no return is wanted (0): what the world does depends on none."""
  names = ('observations', 'next_observations')
  return {**batch, **{name: with_return(batch[name], 0.0) for name in names}}

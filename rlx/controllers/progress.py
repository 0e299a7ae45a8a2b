"""Which tasks a learner should have next, where tasks are points of a cube: those where it is changing.

ALP-GMM knows nothing of the learner but its rewards. Absolute learning progress (ALP) of an episode is how
much its reward differs from that of the nearest task before it. A mixture of Gaussians over (task, ALP) is
fitted to the latest episodes, and tasks are drawn from its components in proportion to their mean ALP, with
some at random.

AGAIN does not begin from nothing: there is a classroom of learners that were taught so before. A new learner
has a pretest; of the past ones whose skills then were nearest to its own, the one that came farthest lends
its curriculum, which is the mixtures it went through without their components of little progress. The learner
goes on to the next of them when it earns on one what the past learner did; a mixture of its own is fitted all
the while, and tasks are drawn from both.

States and functions are pure, so that a class of learners is taught by `vmap`. All arrays have fixed sizes: a
component that is not there has no progress, an episode that has not been yet is not seen.

Source: Portelas et al., 2019, https://arxiv.org/abs/1910.07224, algorithm 1 (ALP-GMM), and 2020,
https://arxiv.org/abs/2011.08463 (AGAIN, in its variant "R" that steps on by reward).
"""

import math
from typing import NamedTuple

import jax
import jax.numpy as jnp

from rlx.types import Key

_FLOOR = 1e-4  # added to variances, in units of tasks and rewards squared


class Mixture(NamedTuple):
  """K Gaussians over D numbers of a task and behind them its ALP."""

  means: jax.Array  # [K, D + 1]
  covariances: jax.Array  # [K, D + 1, D + 1]
  progress: jax.Array  # [K] mean ALP; 0 for a component that is not there

  @property
  def num(self) -> int:
    return self.progress.shape[-1]


class Teacher(NamedTuple):
  """What ALP-GMM has seen of one learner: room for N episodes."""

  tasks: jax.Array  # [N, D] in [0, 1]
  rewards: jax.Array  # [N]
  progress: jax.Array  # [N] ALP
  episodes: jax.Array  # [] int32
  mixture: Mixture


class Curriculum(NamedTuple):
  """S mixtures one after the other, and what a past learner earned on each."""

  mixtures: Mixture  # leading [S]
  rewards: jax.Array  # [S]
  length: jax.Array  # [] int32, mixtures that count; the others behind them do not


class Again(NamedTuple):
  """A teacher with an expert beside it."""

  own: Teacher
  expert: Curriculum
  stage: jax.Array  # [] int32, place in the curriculum
  earned: jax.Array  # [R] latest rewards of tasks from the expert at this stage
  count: jax.Array  # [] int32, how many there were


# --- ALP-GMM ------------------------------------------------------------------------------------------------


def init(num_dims: int, *, capacity: int, max_components: int) -> Teacher:
  """A teacher who has seen nothing, and draws tasks uniformly until `update` has fitted a mixture.

  Args:
    num_dims: D numbers of a task.
    capacity: N, episodes that a learner will have.
    max_components: K.
  Raises:
    ValueError: a number is not positive.
  """
  if min(num_dims, capacity, max_components) < 1:
    raise ValueError(
        f'num_dims={num_dims}, capacity={capacity}, max_components={max_components}: at least 1 each'
    )
  return Teacher(
      tasks=jnp.zeros((capacity, num_dims)), rewards=jnp.zeros(capacity), progress=jnp.zeros(capacity),
      episodes=jnp.int32(0), mixture=_nothing(max_components, num_dims + 1),
  )


def act(mixture: Mixture, key: Key, num: int, *, explore: float) -> tuple[jax.Array, jax.Array]:
  """Tasks [num, D] in [0, 1], and which component each is from [num] int32; -1 where it is a random one.

  Args:
    mixture: of a `Teacher`, or several as one (`joined`).
    key: of the draw.
    num: tasks.
    explore: share of random tasks (the paper: 0.2). Where there is no progress anywhere, all are.
  """
  explore_key, uniform_key, component_key, noise_key = jax.random.split(key, 4)
  (size,) = mixture.means.shape[1:]
  components = jax.random.categorical(component_key, jnp.log(mixture.progress), shape=(num,))
  roots = jnp.linalg.cholesky(mixture.covariances)[components]
  noise = jax.random.normal(noise_key, (num, size, 1))
  drawn = mixture.means[components] + (roots @ noise)[..., 0]
  at_random = jax.random.uniform(explore_key, (num,)) < explore
  at_random |= mixture.progress.sum() <= 0
  uniform = jax.random.uniform(uniform_key, (num, size - 1))
  tasks = jnp.where(at_random[:, None], uniform, jnp.clip(drawn[:, :-1], 0, 1))
  return tasks, jnp.where(at_random, -1, components).astype(jnp.int32)


def update(
    teacher: Teacher, tasks: jax.Array, rewards: jax.Array, key: Key, *, window: int, nums: tuple[int, ...],
    em_steps: int,
) -> Teacher:
  """Takes in episodes in the order in which they were, and fits a new mixture to the latest ones.

  Args:
    teacher: before them, with room for them.
    tasks: [B, D].
    rewards: [B], of about 0 to 1, so that they and the tasks are of one scale.
    key: of the fit.
    window: W, episodes that a mixture is fitted to; until there are as many, tasks stay random.
    nums: how many components to try; the mixture with the lowest AIC is taken.
    em_steps: steps of expectation and maximisation.
  """
  num = tasks.shape[0]
  begin = teacher.episodes
  put = lambda rows, new: jax.lax.dynamic_update_slice_in_dim(rows, new, begin, axis=0)
  all_tasks, all_rewards = put(teacher.tasks, tasks), put(teacher.rewards, rewards)
  earlier = jnp.arange(all_rewards.shape[0])[None] < begin + jnp.arange(num)[:, None]
  progress = put(teacher.progress, learning_progress(tasks, rewards, all_tasks, all_rewards, earlier))
  episodes = begin + num
  latest = lambda rows: jax.lax.dynamic_slice_in_dim(rows, jnp.maximum(episodes - window, 0), window)
  points = jnp.concatenate([latest(all_tasks), latest(progress)[:, None]], axis=1)
  fitted = fit(points, key, nums=nums, max_components=teacher.mixture.num, em_steps=em_steps)
  mixture = jax.tree.map(lambda new, old: jnp.where(episodes >= window, new, old), fitted, teacher.mixture)
  return Teacher(all_tasks, all_rewards, progress, episodes, mixture)


def learning_progress(
    tasks: jax.Array, rewards: jax.Array, past_tasks: jax.Array, past_rewards: jax.Array, mask: jax.Array
) -> jax.Array:
  """[B] |r - r'|, where r' is the reward of the nearest past task; 0 where there is none.

  Args:
    tasks: [B, D].
    rewards: [B].
    past_tasks: [N, D].
    past_rewards: [N].
    mask: [B, N] bool, True where an episode was before this one.
  """
  distances = jnp.square(tasks[:, None] - past_tasks[None]).sum(axis=-1)
  nearest = jnp.argmin(jnp.where(mask, distances, jnp.inf), axis=1)
  return jnp.where(mask.any(axis=1), jnp.abs(rewards - past_rewards[nearest]), 0)


def fit(
    points: jax.Array, key: Key, *, nums: tuple[int, ...], max_components: int, em_steps: int
) -> Mixture:
  """The mixture of the lowest AIC = 2 (number of parameters) - 2 (log-likelihood), over `nums` components.

  Each begins with points for means, and with the covariance of all points.

  Args:
    points: [W, D + 1], the last number is the ALP.
    key: of where they begin.
    nums: each from 1 to K.
    max_components: K, the components of what is returned.
    em_steps: of expectation and maximisation.
  Raises:
    ValueError: a number of components is not from 1 to K.
  """
  if not nums or not all(1 <= num <= max_components for num in nums):
    raise ValueError(f'nums={nums}: at least one, each from 1 to max_components={max_components}')
  size = points.shape[1]
  centred = points - points.mean(axis=0, keepdims=True)
  whole = centred.T @ centred / points.shape[0] + _FLOOR * jnp.eye(size)
  rows = jax.random.choice(key, points.shape[0], (max_components,), replace=False)
  same = jnp.broadcast_to(whole, (max_components, size, size))

  def one(num):
    present = jnp.arange(max_components) < num
    start = (jnp.where(present, 1 / num, 0.0), points[rows], same)
    step = lambda shape, _: (_maximised(points, _expected(points, *shape)[0]), None)
    shape, _ = jax.lax.scan(step, start, length=em_steps)
    likelihood = _expected(points, *shape)[1].sum()
    parameters = num * (1 + size + size * (size + 1) // 2) - 1
    _, means, covariances = shape
    found = Mixture(means, covariances, jnp.where(present, means[:, -1], 0))
    return found, 2 * parameters - 2 * likelihood

  mixtures, criteria = jax.lax.map(one, jnp.array(nums))
  return jax.tree.map(lambda x: x[jnp.argmin(criteria)], mixtures)


# --- AGAIN --------------------------------------------------------------------------------------------------


def curriculum(mixtures: Mixture, rewards: jax.Array, *, min_progress: float) -> Curriculum:
  """What a past learner went through, without components of little progress and mixtures without others.

  The reward of a mixture is that of a draw from it: components count in proportion to their progress.

  Args:
    mixtures: leading [S], in time.
    rewards: [S, K] mean reward of the last tasks that were drawn from each component; NaN where none was.
    min_progress: mean ALP that a component must be above (the authors: 0.2).
  """
  keeps = (mixtures.progress > min_progress) & ~jnp.isnan(rewards)
  wanted = keeps.any(axis=1)
  order = jnp.argsort(~wanted, stable=True)
  kept = mixtures._replace(progress=jnp.where(keeps, mixtures.progress, 0))
  total = jnp.where(keeps, kept.progress * rewards, 0).sum(axis=1)
  earned = total / jnp.where(wanted, kept.progress.sum(axis=1), 1)
  return Curriculum(
      mixtures=jax.tree.map(lambda x: x[order], kept), rewards=earned[order],
      length=wanted.sum().astype(jnp.int32),
  )


def nearest(skills: jax.Array, past_skills: jax.Array, past_scores: jax.Array, *, num: int) -> jax.Array:
  """[] int32, of the `num` past learners with the nearest skills the one that came farthest.

  Args:
    skills: [T] rewards of the learner in a pretest.
    past_skills: [M, T] of past learners in the same pretest.
    past_scores: [M] of past learners in the end.
    num: from 1 to M (the authors: 5).
  """
  distances = jnp.square(skills[None] - past_skills).sum(axis=1)
  _, near = jax.lax.top_k(-distances, num)
  return near[jnp.argmax(past_scores[near])].astype(jnp.int32)


def again(own: Teacher, expert: Curriculum, *, patience: int) -> Again:
  """The state after the pretest, at the first mixture of the expert.

  Args:
    own: with what was seen in the pretest.
    expert: of the past learner that was chosen.
    patience: R, the rewards of which the mean is looked at (the authors: 50).
  """
  return Again(
      own=own, expert=expert, stage=jnp.int32(0), earned=jnp.zeros(patience), count=jnp.int32(0)
  )


def joined(state: Again) -> Mixture:
  """The mixture that tasks are drawn from: the expert's components at this stage, and then one's own."""
  theirs = jax.tree.map(lambda x: x[state.stage], state.expert.mixtures)
  theirs = theirs._replace(progress=jnp.where(state.expert.length > 0, theirs.progress, 0))
  return jax.tree.map(lambda a, b: jnp.concatenate([a, b]), theirs, state.own.mixture)


def again_update(
    state: Again, tasks: jax.Array, rewards: jax.Array, components: jax.Array, key: Key, *,
    tolerance: float, window: int, nums: tuple[int, ...], em_steps: int,
) -> Again:
  """Takes in episodes, and goes on to the next mixture when the learner earns what the past one did there.

  Args:
    state: before them.
    tasks: [B, D] drawn from `joined(state)`.
    rewards: [B].
    components: [B] int32 as `act` returned them.
    key: of the fit.
    tolerance: share of what the past learner earned that is enough (the authors: 1).
    window: as in `update`.
    nums: as in `update`.
    em_steps: as in `update`.
  """
  own = update(state.own, tasks, rewards, key, window=window, nums=nums, em_steps=em_steps)
  theirs = (components >= 0) & (components < state.expert.mixtures.num)
  size = state.earned.shape[0]

  def take(carry, x):
    earned, count = carry
    reward, counts = x
    moved = jnp.concatenate([earned[1:], reward[None]])
    return (jnp.where(counts, moved, earned), count + counts), None

  (earned, count), _ = jax.lax.scan(take, (state.earned, state.count), (rewards, theirs))
  good = (count >= size) & (earned.mean() >= tolerance * state.expert.rewards[state.stage])
  goes_on = good & (state.stage + 1 < state.expert.length)
  return Again(
      own=own, expert=state.expert, stage=state.stage + goes_on, earned=earned,
      count=jnp.where(goes_on, 0, count),
  )


# --- parts --------------------------------------------------------------------------------------------------


def _nothing(num: int, size: int) -> Mixture:
  return Mixture(
      means=jnp.zeros((num, size)), covariances=jnp.broadcast_to(jnp.eye(size), (num, size, size)),
      progress=jnp.zeros(num),
  )


def _expected(points, shares, means, covariances):
  """How much of each point is of each component [W, K], and the log-likelihood of each point [W]."""
  roots = jnp.linalg.cholesky(covariances)
  centred = points[:, None] - means[None]  # [W, K, D + 1]
  unit = jax.vmap(
      lambda root, x: jax.scipy.linalg.solve_triangular(root, x.T, lower=True).T, (0, 1), 1
  )(roots, centred)
  volumes = jnp.log(jnp.diagonal(roots, axis1=1, axis2=2)).sum(axis=1)
  constant = 0.5 * points.shape[1] * math.log(2 * math.pi)
  each = jnp.log(shares)[None] - 0.5 * jnp.square(unit).sum(axis=2) - volumes[None] - constant
  return jax.nn.softmax(each, axis=1), jax.nn.logsumexp(each, axis=1)


def _maximised(points, shares):
  """Shares, means and covariances of components, given their share of each point [W, K]."""
  weights = shares.sum(axis=0)
  parts = shares / jnp.maximum(weights, 1e-9)[None]
  means = parts.T @ points
  centred = points[:, None] - means[None]
  covariances = jnp.einsum('wk,wki,wkj->kij', parts, centred, centred)
  size = points.shape[1]
  return weights / points.shape[0], means, covariances + _FLOOR * jnp.eye(size)[None]

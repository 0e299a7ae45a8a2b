"""Meta-ACL, AGAIN (S095): learners who begin at different corners of what there is to learn, and a classroom.

A learner is a grid of skills. It knows one cell from the start, and can learn a cell whose neighbour it
masters; each episode of it adds to its competence there, which is the reward. Other episodes are lost.
"""

import functools

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from rlx.controllers import progress

CELLS, FULL, MASTERED = 10, 20, 15  # a side, episodes of a cell until nothing is left, and until it is passed
EPISODES, PRETEST, WINDOW, BATCH, NUM_PAST, NUM_NEW = 5000, 1000, 250, 50, 64, 20
FIT = dict(window=WINDOW, nums=(3, 6), em_steps=10)
COMPONENTS = 6
MIN_PROGRESS = 0.1


def lesson(learner, tasks):
  """`(start [2], counts [CELLS, CELLS])` after the tasks [B, 2], and the rewards [B]."""
  start, counts = learner

  def episode(counts, task):
    cell = jnp.clip((task * CELLS).astype(jnp.int32), 0, CELLS - 1)
    padded = jnp.pad(counts, 1)
    row, column = cell + 1
    around = jnp.stack([
        padded[row - 1, column], padded[row + 1, column], padded[row, column - 1], padded[row, column + 1]
    ])
    can = (cell == start).all() | (around >= MASTERED).any()
    counts = counts.at[cell[0], cell[1]].add(jnp.where(can, 1, 0))
    counts = jnp.minimum(counts, FULL)
    return counts, counts[cell[0], cell[1]] / FULL

  counts, rewards = jax.lax.scan(episode, counts, tasks)
  return (start, counts), rewards


def fresh(start):
  return start, jnp.zeros((CELLS, CELLS), jnp.int32)


def mastered(learner):
  """Share of the cells."""
  return jnp.mean(learner[1] >= MASTERED)


def teach(learner, teacher, key, episodes, batch):
  """ALP-GMM; of each update the mixture, and the mean reward of its components behind the first half."""

  def step(carry, key):
    learner, teacher = carry
    act_key, fit_key = jax.random.split(key)
    tasks, components = progress.act(teacher.mixture, act_key, batch, explore=0.2)
    learner, rewards = lesson(learner, tasks)
    late = (components[:, None] == jnp.arange(COMPONENTS)[None]) & (jnp.arange(batch) >= batch // 2)[:, None]
    earned = jnp.where(late, rewards[:, None], 0).sum(axis=0) / late.sum(axis=0)
    return (learner, progress.update(teacher, tasks, rewards, fit_key, **FIT)), (teacher.mixture, earned)

  return jax.lax.scan(step, (learner, teacher), jax.random.split(key, episodes // batch))


def pretested(start, key):
  """A learner and its teacher after the pretest, and its skills [CELLS²]."""
  teacher = progress.init(2, capacity=EPISODES, max_components=COMPONENTS)
  (learner, teacher), history = teach(fresh(start), teacher, key, PRETEST, WINDOW)
  return learner, teacher, (learner[1] / FULL).reshape(-1), history


def pupil(start, key):
  """One of the classroom: skills in the pretest, score in the end, and what it went through."""
  first_key, rest_key = jax.random.split(key)
  learner, teacher, skills, early = pretested(start, first_key)
  (learner, _), late = teach(learner, teacher, rest_key, EPISODES - PRETEST, WINDOW)
  mixtures, earned = jax.tree.map(lambda a, b: jnp.concatenate([a, b]), early, late)
  return skills, mastered(learner), progress.curriculum(mixtures, earned, min_progress=MIN_PROGRESS)


def by_alp_gmm(start, key, *, batch):
  teacher = progress.init(2, capacity=EPISODES, max_components=COMPONENTS)
  (learner, _), _ = teach(fresh(start), teacher, key, EPISODES, batch)
  return mastered(learner)


def by_chance(start, key):
  return mastered(lesson(fresh(start), jax.random.uniform(key, (EPISODES, 2)))[0])


def by_again(start, key, classroom, *, num_near, tolerance):
  skills, scores, curricula = classroom
  first_key, rest_key = jax.random.split(key)
  learner, teacher, ours, _ = pretested(start, first_key)
  chosen = progress.nearest(ours, skills, scores, num=num_near)
  expert = jax.tree.map(lambda x: x[chosen], curricula)

  def step(carry, key):
    learner, state = carry
    act_key, fit_key = jax.random.split(key)
    tasks, components = progress.act(progress.joined(state), act_key, BATCH, explore=0.05)
    learner, rewards = lesson(learner, tasks)
    new = progress.again_update(
        state, tasks, rewards, components, fit_key, tolerance=tolerance, **FIT
    )
    return (learner, new), None

  state = progress.again(teacher, expert, patience=50)
  keys = jax.random.split(rest_key, (EPISODES - PRETEST) // BATCH)
  (learner, _), _ = jax.lax.scan(step, (learner, state), keys)
  return mastered(learner)


def starts(key, num):
  """One of nine cells each, four apart: kinds of learners."""
  return 4 * jax.random.randint(key, (num, 2), 0, 3)


def of_all(taught, learners, key):
  """What `taught(start, key)` makes of each learner, in one program."""
  return jax.jit(jax.vmap(taught))(learners, jax.random.split(key, learners.shape[0]))


@pytest.mark.slow
def test_a_classroom_helps_who_comes_after_it():
  """20 learners, 5000 episodes each, of which 1000 are the pretest; 64 were taught before, by ALP-GMM.

  Share of the cells that are mastered in the end: AGAIN mean 42 % (median 44 %, worst 12 %), ALP-GMM as it
  taught the classroom, with a mixture every 250 episodes, 36 % (36 %, 24 %), at random 10 % (10 %, 4 %);
  AGAIN is above ALP-GMM on 18 of 20 learners; two never left the first mixture that they were lent (12 %
  and 29 %). ALP-GMM that fits its mixture every 50 episodes, as the one beside the expert does, comes as far
  without a classroom: mean 44 %, median 43 %, worst 37 %. Against that one the claim does not show.

  Tried before: a pretest of 500 episodes (mean 43 %, five learners stuck), the authors' tolerance of 1 with
  that pretest (40 %), and 16 kinds of learners with five neighbours of 48, of which many are of other kinds.
  """
  keys = jax.random.split(jax.random.key(0), 4)
  learners = starts(keys[1], NUM_NEW)
  classroom = of_all(pupil, starts(keys[0], NUM_PAST), keys[2])
  lent = functools.partial(by_again, classroom=classroom, num_near=3, tolerance=0.8)
  ours = of_all(lent, learners, keys[3])
  theirs = of_all(functools.partial(by_alp_gmm, batch=WINDOW), learners, keys[3])
  chance = of_all(by_chance, learners, keys[3])
  assert ours.mean() > theirs.mean() + 0.03
  assert np.mean(ours > theirs) > 0.75
  assert ours.mean() > chance.mean() + 0.2

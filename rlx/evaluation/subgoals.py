"""What a policy for near goals earns when a diffuser says where to go next and its values choose.

    w_1, ..., w_M ~ D(s, g);   w = argmax V(w_m, g)  over those with V(s, w_m) >= V_near
    then up to n actions of π(· | s, w), and the same again

The goal itself is always among the candidates, so that the policy goes there as soon as it is near; where
none is near, the nearest is taken. To the diffuser the world is one in which an action is a subgoal, and a
step what the policy makes of it: `pursuing` is that world. Observations are a state and behind it another
one, the goal.

Source: Haramati et al., 2026, https://arxiv.org/abs/2602.02722.
"""

from collections.abc import Callable
import dataclasses

import jax
import jax.numpy as jnp

from rlx.envs.control.environment import Environment, Timestep
from rlx.evaluation.episodes import EPISODES_SEED, check_counts, numbers, play
from rlx.evaluation.evaluation import Evaluation
from rlx.models import diffusion
from rlx.models.diffusion import Denoiser
from rlx.models.networks import Network, Policy
from rlx.rollout.control.hindsight import joined, reached
from rlx.types import Key, Models, World


def subgoal_episodes(
    env: Environment, policy: Policy, value: Network, subgoals: Denoiser, *, num_samples: int, near: float,
    keep_steps: int, tolerance: float, episodes: int, max_subgoals: int, max_steps: int,
) -> Evaluation:
  """Episodes of the hierarchy, and of its flat policy alone (`flat_x`).

  Args:
    env: one environment.
    policy: π(a | s, g), what is examined.
    value: V(s, g).
    subgoals: D, of states given a state and a goal.
    num_samples: M.
    near: V_near.
    keep_steps: n.
    tolerance: of a subgoal that is reached.
    episodes: how many, side by side.
    max_subgoals: after which an episode of the hierarchy is left.
    max_steps: after which one of the flat policy is.
  Raises:
    ValueError: a number is not positive.
  """
  check_counts(
      num_samples=num_samples, keep_steps=keep_steps, episodes=episodes, max_subgoals=max_subgoals,
      max_steps=max_steps,
  )

  def ask(models: Models, world: World):
    del world
    key = jax.random.key(EPISODES_SEED)
    act = lambda params, observations, key: policy.sample(params['policy'], observations, key)[0]
    plan = lambda params, observations, key: propose(
        value, subgoals, params, observations, key, num_samples=num_samples, near=near
    )
    alone = lambda observation, key: act(models, observation, key)
    pursued = pursuing(env, alone, keep_steps=keep_steps, tolerance=tolerance)
    played = play(pursued, plan, models, key, episodes, max_subgoals)
    flat = play(env, act, models, key, episodes, max_steps)
    score = env.score(played['return'].mean())
    named = {name: x.mean() for name, x in played.items()}
    return {**named, **{f'flat_{name}': x.mean() for name, x in flat.items()}, 'score': score}

  return Evaluation(ask=ask, read=numbers)


def propose(
    value: Network, subgoals: Denoiser, models: Models, observations: jax.Array, key: Key, *,
    num_samples: int, near: float,
) -> jax.Array:
  """[B, S] where to go next.

  Args:
    value: V(s, g).
    subgoals: D.
    models: both, as `value` and `subgoals`.
    observations: [B, 2 S] states and goals.
    key: of the samples.
    num_samples: M.
    near: V_near, at most 0.
  """
  states, goals = jnp.split(observations, 2, axis=-1)
  many = jnp.broadcast_to(observations[None], (num_samples, *observations.shape))
  denoise = subgoals.given(models['subgoals'], many.reshape(-1, observations.shape[-1]))
  shape = (num_samples * states.shape[0], states.shape[1])
  samples = diffusion.sample(denoise, subgoals.schedule, shape, key, limit=subgoals.limit)
  candidates = jnp.concatenate([samples.reshape(num_samples, *states.shape), goals[None]])
  worth = lambda observations: value.apply(models['value'], observations)
  repeated = lambda x: jnp.broadcast_to(x[None], candidates.shape)
  to_candidates = worth(joined(repeated(states), candidates))
  to_goals = worth(joined(candidates, repeated(goals)))
  which = chosen(to_candidates, to_goals, near=near)
  return jnp.take_along_axis(candidates, which[None, :, None], axis=0)[0]


def chosen(to_candidates: jax.Array, to_goals: jax.Array, *, near: float) -> jax.Array:
  """Of the subgoals that are near, the one nearest to the goal; where none is near, the nearest.

  Args:
    to_candidates: [M, B] V(s, w_m).
    to_goals: [M, B] V(w_m, g).
    near: V_near.
  Returns:
    [B] int32, which.
  """
  is_near = to_candidates >= near
  useful = jnp.argmax(jnp.where(is_near, to_goals, -jnp.inf), axis=0)
  return jnp.where(is_near.any(axis=0), useful, jnp.argmax(to_candidates, axis=0))


def pursuing(
    env: Environment, act: Callable[[jax.Array, Key], jax.Array], *, keep_steps: int, tolerance: float
) -> Environment:
  """The world whose actions are subgoals [S], each pursued for a while.

  A subgoal is left when it is reached, when `keep_steps` actions are taken or when the episode ends; at least
  one action is taken. Rewards are those of all these actions together.

  Args:
    env: what is controlled; observations are a state and behind it a goal.
    act: `(observation, key) -> action`.
    keep_steps: n.
    tolerance: no number of a state is further from the subgoal's where that is reached.
  Raises:
    ValueError: `keep_steps` is not positive.
  """
  if keep_steps < 1:
    raise ValueError(f'keep_steps={keep_steps}: at least 1 action for a subgoal')

  def reset(key: Key):
    state, observation = env.reset(key)
    return (state, observation), observation

  def step(state, subgoal: jax.Array, key: Key) -> Timestep:
    inner, observation = state
    place = lambda observation: jnp.split(observation, 2)[0]

    def once(inner, observation, key: Key) -> Timestep:
      action_key, env_key = jax.random.split(key)
      return env.step(inner, act(joined(place(observation), subgoal), action_key), env_key)

    def advance(new: Timestep, key: Key):
      after = once(new.state, new.observation, key)
      after = after._replace(reward=new.reward + after.reward)
      over = new.ended | reached(place(new.observation), subgoal, tolerance=tolerance)
      return jax.tree.map(lambda a, b: jnp.where(over, a, b), new, after), None

    keys = jax.random.split(key, keep_steps)
    last, _ = jax.lax.scan(advance, once(inner, observation, keys[0]), keys[1:])
    return last._replace(state=(last.state, last.observation))

  return dataclasses.replace(env, reset=reset, step=step)

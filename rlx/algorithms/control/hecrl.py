"""HECRL: diffusion proposes where to go next, the values of a flat agent choose, and its policy goes there.

    agent:       π(a | s, g), V(s, g), Q(s, a, g)                                    (`gciql`, as it is)
    subgoals:    L_D = mean |ε - ε̂(w_t, t | s, g)|²,   w = s_min(k + K, k_g)  of  s = s_k, g = s_{k_g}
    acting:      w_1, ..., w_M ~ D(s, g);   w = argmax V(w_m, g)  over those with V(s, w_m) >= V_near
                 then up to n actions of π(· | s, w), and the same again

What a value says of far goals is mostly error, so the agent is asked only for what it is good at: what is
near (V_near), and which of a few places is nearer to the goal. The two parts are trained side by side on the
same rows and share nothing; any agent with a policy and a value could be in the place of `gciql`. States are
sets of entities, and so are goals, of the same kind; networks over them (`models/entities.py`) serve with one
entity more than they were trained with.

To the diffuser the world is one in which an action is a subgoal, and a step what the agent makes of it:
`pursuing` is that world.

Source: Haramati et al., 2026, https://arxiv.org/abs/2602.02722, of which the abstract and summaries could be
read. Our reading: the goal itself is always among the candidates, so that the agent goes there as soon as it
is near; and where none is near, the nearest is taken.
"""

from collections.abc import Callable
import dataclasses
import functools
from typing import Any

import jax
import jax.numpy as jnp

from rlx.algorithms.control.gciql import gciql
from rlx.envs.control.environment import Environment, Timestep
from rlx.evaluation import episodes as evaluate_control
from rlx.evaluation.text import Evaluation
from rlx.models import diffusion
from rlx.models.networks import Network, Policy
from rlx.rollout.control.hindsight import joined, reached
from rlx.types import Algorithm, Batch, Key, Models, Rollout

_EPISODES_SEED = 0


@dataclasses.dataclass(frozen=True, kw_only=True, eq=False)
class Hierarchy:
  """A flat agent and what proposes subgoals to it; parameters are `{'low', 'value', 'subgoals'}`.

  Attributes:
    init: `key -> params`.
    low: π(a | s, g), the flat policy.
    value: V(s, g).
    subgoals: ε̂: `apply(params, noisy [B, S], steps [B], observations [B, 2 S]) -> [B, S]`.
    schedule: of the noise.
    limit: no number of a state is larger.
  """

  init: Callable[[Key], Any]
  low: Policy
  value: Network
  subgoals: Network
  schedule: diffusion.Schedule
  limit: float


def hierarchy(
    env: Environment, *, low: Callable[[Environment], Policy], value: Callable[[Environment], Network],
    subgoals: Callable[[Environment], Network], num_levels: int, limit: float,
) -> Hierarchy:
  """A `Hierarchy` for observations that are a state and behind it another one, the goal.

  Args:
    env: what is controlled.
    low: `env -> Policy`, such as `entities.entity_policy` with its numbers.
    value: `env -> Network` of V(s, g).
    subgoals: `env -> Network`, such as `entities.denoiser`.
    num_levels: of noise, which is what a proposal costs.
    limit: no number of a state is larger.
  """
  parts = {'low': low(env), 'value': value(env), 'subgoals': subgoals(env)}

  def init(key: Key):
    keys = jax.random.split(key, len(parts))
    return {name: part.init(k) for (name, part), k in zip(parts.items(), keys, strict=True)}

  return Hierarchy(init=init, schedule=diffusion.cosine(num_levels), limit=limit, **parts)


def hecrl(
    rollout: Rollout,
    policy: Hierarchy,
    critic: Network,
    *,
    discount: float,
    target_rate: float,
    expectile: float,
    sharpness: float,
    weight_max: float,
) -> Algorithm:
  """Trains the parts of `policy`, and `critic`, which `slow['target']` follows; the numbers are of `gciql`.

  Args:
    rollout: yields the rows of `hindsight`, with whole states as goals; `waypoint_steps` is K.
    policy: the flat agent's policy and value, and the diffuser.
    critic: an ensemble of Q(s, a, g).
    discount: γ per step.
    target_rate: share of the critic that the target takes on after each update.
    expectile: τ.
    sharpness: α, one over the units of returns.
    weight_max: the largest weight of an action.
  """
  agent = gciql(
      rollout, policy.low, policy.value, critic, discount=discount, target_rate=target_rate,
      expectile=expectile, sharpness=sharpness, weight_max=weight_max,
  )

  def loss(models: Models, batch: Batch, key: Key):
    parts = models['policy']
    agent_key, noise_key = jax.random.split(key)
    flat = {**models, 'policy': parts['low'], 'value': parts['value']}
    agent_loss, metrics = agent.loss(flat, batch, agent_key)
    denoise = _denoiser(policy, parts, joined(batch['states'], batch['policy_goals']))
    subgoal_loss = diffusion.errors(denoise, policy.schedule, batch['waypoints'], noise_key).mean()
    return agent_loss + subgoal_loss, {**metrics, 'loss/subgoals': subgoal_loss}

  return dataclasses.replace(agent, loss=loss)


def propose(
    policy: Hierarchy, params, observations: jax.Array, key: Key, *, num_samples: int, near: float
) -> jax.Array:
  """[B, S] where to go next.

  Args:
    policy: the hierarchy.
    params: its parameters.
    observations: [B, 2 S] states and goals.
    key: of the samples.
    num_samples: M.
    near: V_near, at most 0.
  """
  states, goals = jnp.split(observations, 2, axis=-1)
  many = jnp.broadcast_to(observations[None], (num_samples, *observations.shape))
  denoise = _denoiser(policy, params, many.reshape(-1, observations.shape[-1]))
  shape = (num_samples * states.shape[0], states.shape[1])
  samples = diffusion.sample(denoise, policy.schedule, shape, key, limit=policy.limit)
  candidates = jnp.concatenate([samples.reshape(num_samples, *states.shape), goals[None]])
  worth = functools.partial(policy.value.apply, params['value'])
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
    env: Environment, policy: Hierarchy, params, *, keep_steps: int, tolerance: float
) -> Environment:
  """The world whose actions are subgoals [S], each pursued by actions drawn from the flat policy.

  A subgoal is left when it is reached, when `keep_steps` actions are taken or when the episode ends; at least
  one action is taken. Rewards are those of all these actions together.

  Args:
    env: what is controlled; observations are a state and behind it a goal.
    policy: the hierarchy.
    params: its parameters.
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

    def act(inner, observation, key: Key) -> Timestep:
      action_key, env_key = jax.random.split(key)
      action, _ = policy.low.sample(params['low'], joined(place(observation), subgoal), action_key)
      return env.step(inner, action, env_key)

    def advance(new: Timestep, key: Key):
      after = act(new.state, new.observation, key)
      after = after._replace(reward=new.reward + after.reward)
      over = new.ended | reached(place(new.observation), subgoal, tolerance=tolerance)
      return jax.tree.map(lambda a, b: jnp.where(over, a, b), new, after), None

    keys = jax.random.split(key, keep_steps)
    last, _ = jax.lax.scan(advance, act(inner, observation, keys[0]), keys[1:])
    return last._replace(state=(last.state, last.observation))

  return dataclasses.replace(env, reset=reset, step=step)


def episodes(
    env: Environment, policy: Hierarchy, *, num_samples: int, near: float, keep_steps: int, tolerance: float,
    episodes: int, max_subgoals: int, max_steps: int,
) -> Evaluation:
  """Episodes of the hierarchy, and of its flat policy alone (`eval/flat_x`).

  Args:
    env: one environment.
    policy: what is examined.
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
  if min(num_samples, keep_steps, episodes, max_subgoals, max_steps) < 1:
    raise ValueError(
        f'num_samples={num_samples}, keep_steps={keep_steps}, episodes={episodes}, '
        f'max_subgoals={max_subgoals}, max_steps={max_steps}: at least 1 each'
    )
  key = jax.random.key(_EPISODES_SEED)
  plan = functools.partial(propose, policy, num_samples=num_samples, near=near)
  alone = lambda params, observations, key: policy.low.sample(params['low'], observations, key)[0]

  def ask(params):
    world = pursuing(env, policy, params, keep_steps=keep_steps, tolerance=tolerance)
    played = evaluate_control.play(world, plan, params, key, episodes, max_subgoals)
    flat = evaluate_control.play(env, alone, params, key, episodes, max_steps)
    score = env.score(played['return'].mean())
    named = {f'eval/{name}': x.mean() for name, x in played.items()}
    return {**named, **{f'eval/flat_{name}': x.mean() for name, x in flat.items()}, 'eval/score': score}

  return Evaluation(ask=ask, read=lambda answer: ({name: float(x) for name, x in answer.items()}, []))


def _denoiser(policy: Hierarchy, params, observations: jax.Array) -> diffusion.Denoise:
  return lambda noisy, steps: policy.subgoals.apply(params['subgoals'], noisy, steps, observations)

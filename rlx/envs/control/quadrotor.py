"""A quadrotor in a plane that is to hover at the origin: two rotors that lag, noisy sensors, unknown parts.

An observation holds two views side by side. `seen` is what a vehicle measures: a noisy pose and the actions
that it took last, from which the speed of the rotors can be told. `privileged` is the truth, for a critic
that is used in training alone: the pose, the rotors, and the parts that this episode's vehicle is made of.
The costs of the reward can be changed for transitions that are stored already: `hover_reward` is a function
of columns.
Source: the problem is that of Eschmann et al., 2023, https://arxiv.org/abs/2311.13081, in two dimensions.
"""

import math
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from rlx.envs.control import drawing
from rlx.envs.control.environment import Continuous, Environment, Timestep, timestep, with_time_limit
from rlx.types import Key

GRAVITY = 9.81  # m / s²
MASS = 0.5  # kg
ARM = 0.15  # m, from the middle to a rotor
INERTIA = 0.01  # kg m²
MAX_THRUST = MASS * GRAVITY  # N, of each rotor at full speed: both lift twice the weight
LAG_SECONDS = 0.05  # in which a rotor covers 63 % of the way to the speed that it was told
STEP_SECONDS = 0.02
MAX_DISTANCE = 1.5  # m from the origin, along either axis
MAX_ANGLE = math.pi / 2  # rad
HOVER_ROTOR = math.sqrt(0.5)  # share of full speed
HOVER_ACTION = 2 * HOVER_ROTOR - 1
NUM_POSE = 7  # [x, z, sin θ, cos θ, v_x, v_z, θ̇] in m, rad and s
NUM_PRIVILEGED = NUM_POSE + 2 + 3
REWARD_COSTS = dict(position_cost=1.0, angle_cost=0.5, velocity_cost=0.05, action_cost=0.1)


class _Vehicle(NamedTuple):
  pose: jax.Array  # [x, z, θ, v_x, v_z, θ̇]
  rotors: jax.Array  # [2] share of full speed, left and right
  parts: jax.Array  # [3] mass, thrust and lag as shares of the usual ones
  past: jax.Array  # [history, 2] the last actions, the oldest first


def quadrotor(
    *, max_steps: int, history: int, noise: float, randomisation: float, position_cost: float,
    angle_cost: float, velocity_cost: float, action_cost: float,
) -> Environment:
  """Hovering from a random pose; out of the box or upside down is the end. Actions are the rotors' commands.

  The returns behind a score were measured with `REWARD_COSTS`, `noise=0`, `randomisation=0` and 250 steps.

  Args:
    max_steps: after which an episode is cut off; 250 are 5 s.
    history: past actions in `seen`, at least 1.
    noise: standard deviation of what is added to each of the `NUM_POSE` numbers that are seen.
    randomisation: in [0, 1); mass, thrust and lag of an episode are each 1 ± this of the usual ones.
    position_cost: of `hover_reward`, as the next three.
    angle_cost: of the pitch.
    velocity_cost: of speed, turning counted a tenth.
    action_cost: of commands that are not those of hovering.
  Raises:
    ValueError: `history` is not positive, `noise` is negative, or `randomisation` is not in [0, 1).
  """
  if history < 1 or noise < 0 or not 0 <= randomisation < 1:
    raise ValueError(
        f'history={history}, noise={noise}, randomisation={randomisation}: at least 1, at least 0, in [0, 1)'
    )
  costs = dict(
      position_cost=position_cost, angle_cost=angle_cost, velocity_cost=velocity_cost, action_cost=action_cost
  )

  def reset(key: Key):
    pose_key, parts_key, noise_key = jax.random.split(key, 3)
    high = jnp.array([0.5, 0.5, 0.3, 0.5, 0.5, 1.0])
    state = _Vehicle(
        pose=jax.random.uniform(pose_key, (6,), minval=-high, maxval=high),
        rotors=jnp.full(2, HOVER_ROTOR),
        parts=1 + jax.random.uniform(parts_key, (3,), minval=-randomisation, maxval=randomisation),
        past=jnp.full((history, 2), HOVER_ACTION),
    )
    return state, _observe(state, noise, noise_key)

  def step(state: _Vehicle, action: jax.Array, key: Key) -> Timestep:
    action = jnp.clip(action, -1, 1)
    state = _flown(state, action)
    observation = _observe(state, noise, key)
    distances = jnp.abs(state.pose[:2])
    lost = (distances.max() > MAX_DISTANCE) | (jnp.abs(state.pose[2]) > MAX_ANGLE)
    reward = hover_reward(observation, action, **costs)
    return timestep(state, observation, reward, terminated=lost, success=jnp.linalg.norm(distances) < 0.1)

  env = Environment(
      reset=reset, step=step, observation_shape=(NUM_POSE + 2 * history + NUM_PRIVILEGED,),
      actions=Continuous(2), random_return=-3.0, expert_return=0.96 * max_steps, draw=_draw,
  )
  return with_time_limit(env, max_steps)


def seen(observations: jax.Array) -> jax.Array:
  """[..., NUM_POSE + 2 history] what the sensors say, and the last actions, the oldest first."""
  return observations[..., :-NUM_PRIVILEGED]


def privileged(observations: jax.Array) -> jax.Array:
  """[..., NUM_PRIVILEGED] the true pose, the rotors' speeds, and mass, thrust and lag as shares."""
  return observations[..., -NUM_PRIVILEGED:]


def hover_reward(
    next_observations: jax.Array, actions: jax.Array, *, position_cost: float, angle_cost: float,
    velocity_cost: float, action_cost: float,
) -> jax.Array:
  """1 for being in the air less what is wrong with it, from the privileged half of what an action led to.

  r = 1 - c_p ‖p‖² - c_θ sin²θ - c_v (‖v‖² + θ̇²/10) - c_a ‖a - a_hover‖²

  Args:
    next_observations: [..., N].
    actions: [..., 2], taken as clipped.
    position_cost: c_p, per m².
    angle_cost: c_θ.
    velocity_cost: c_v, per m²/s².
    action_cost: c_a.
  Returns:
    [...] float32.
  """
  pose = privileged(next_observations)
  squares = lambda x: jnp.sum(jnp.square(x), axis=-1)
  return (
      1 - position_cost * squares(pose[..., :2]) - angle_cost * jnp.square(pose[..., 2])
      - velocity_cost * (squares(pose[..., 4:6]) + jnp.square(pose[..., 6]) / 10)
      - action_cost * squares(jnp.clip(actions, -1, 1) - HOVER_ACTION)
  )


def _observe(state: _Vehicle, noise: float, key: Key) -> jax.Array:
  x, z, angle, *velocities = state.pose
  pose = jnp.stack([x, z, jnp.sin(angle), jnp.cos(angle), *velocities])
  measured = pose + noise * jax.random.normal(key, pose.shape)
  return jnp.concatenate([measured, state.past.reshape(-1), pose, state.rotors, state.parts])


def _flown(state: _Vehicle, action: jax.Array) -> _Vehicle:
  """After a step: rotors first, then speeds, then places."""
  mass, thrust, lag = state.parts
  rotors = state.rotors + STEP_SECONDS / (LAG_SECONDS * lag) * ((action + 1) / 2 - state.rotors)
  left, right = MAX_THRUST * thrust * rotors**2
  angle = state.pose[2]
  lift = (left + right) / (MASS * mass)
  change = jnp.stack([
      -lift * jnp.sin(angle), lift * jnp.cos(angle) - GRAVITY, ARM * (right - left) / (INERTIA * mass)
  ])
  velocities = state.pose[3:] + STEP_SECONDS * change
  pose = jnp.concatenate([state.pose[:3] + STEP_SECONDS * velocities, velocities])
  return _Vehicle(pose, rotors, state.parts, jnp.concatenate([state.past[1:], action[None]]))


def _draw(state: _Vehicle) -> np.ndarray:
  """The vehicle, the thrust of its rotors, and the origin that it is to hover at."""
  canvas = drawing.Canvas((-MAX_DISTANCE, -MAX_DISTANCE), (MAX_DISTANCE, MAX_DISTANCE))
  canvas.disc((0, 0), 0.05, drawing.GREEN)
  middle, angle = state.pose[:2], state.pose[2]
  arm, up = np.array([np.cos(angle), np.sin(angle)]), np.array([-np.sin(angle), np.cos(angle)])
  canvas.line(middle - ARM * arm, middle + ARM * arm, 0.05, drawing.INK)
  for side, share in zip((-1, 1), state.rotors, strict=True):
    rotor = middle + side * ARM * arm
    canvas.line(rotor, rotor + 0.3 * share * up, 0.04, drawing.BLUE)
  return canvas.image

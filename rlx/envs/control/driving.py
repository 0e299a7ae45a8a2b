"""A car that follows a winding road past slower cars; hitting one or leaving the road ends the episode.

The two functions differ in what they pay. `driving` pays for progress along the route alone, as percent of
the route, multiplied by a factor for each fault that is no accident: nothing is earned but by getting on.
`shaped_driving` adds up terms for speed, position and heading and a fine for an accident, as is usual; the
speed that it wants falls to 0 behind a car, so to stay there is paid, and to pass it costs before it pays.

The state is in coordinates of the road: s along it, d to its left, ψ the heading relative to it. A kinematic
bicycle follows, with the road's curvature κ(s),

    ds/dt = v cos ψ / (1 - d κ),   dd/dt = v sin ψ,   dψ/dt = v tan δ / L - κ ds/dt

Source: Jaeger et al., 2025, https://arxiv.org/abs/2504.17838, in small; the shaped reward is that of their
rival, Roach (Zhang et al., 2021, https://arxiv.org/abs/2108.08265), with the numbers of the authors' code and
without its fine on changes of steering.
"""

from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from rlx.envs.control import drawing
from rlx.envs.control.environment import Continuous, Environment, Timestep, timestep, with_time_limit
from rlx.types import Key

STEP_SECONDS = 0.2
WHEELBASE = 2.7  # m
MAX_STEER = 0.4  # rad
ACCELERATION, BRAKE = 3.0, 6.0  # m / s², at full pedal
MAX_SPEED = 15.0  # m / s
SPEED_LIMIT = 10.0
ROAD = 4.0  # m from the middle of the road to its edge
EDGE = 3.5  # m from the middle: nearer to the edge than this is a fault
CAR_LENGTH, CAR_WIDTH = 4.5, 2.0  # m
MAX_CAR_SPEED = 2.0  # m / s, of the others
MAX_CURVATURE = 0.03  # 1 / m
WAVES = (60.0, 97.0)  # m, wave lengths of the bends
MAX_LATERAL = 4.0  # m / s², beyond which a turn is uncomfortable
VIEW = 50.0  # m
AHEAD = (0.0, 10.0, 20.0)  # m, where the bends are seen
FAULT_FACTOR = 0.5
STOP_GAP, SLOW_GAP = 8.0, 13.0  # m to the middle of the car ahead, at which 0 and the speed limit are wanted


class _Road(NamedTuple):
  amplitudes: jax.Array  # [waves] 1 / m
  phases: jax.Array  # [waves] rad


class _World(NamedTuple):
  car: jax.Array  # [s, d, ψ, v]
  road: _Road
  others: jax.Array  # [cars + 1, 3] s, d and v; the last one is beyond sight


def driving(*, max_steps: int, route_length: float, num_cars: int) -> Environment:
  """Pays 100 x the share of the route that a step covers x Π factors; a flawless drive earns 100.

  Observations [d, ψ, v, κ at `AHEAD`, distance, offset and speed of the next car ahead], each divided by
  its scale; actions [steering to the left, pedal: accelerate > 0 > brake]. `FAULT_FACTOR` counts for being
  near the edge and for a lateral acceleration above `MAX_LATERAL`; speeding counts by its share. `success` is
  the end of the route, `route_completion` the share that was covered. The returns behind a score were
  measured with a route of 150 m and 2 cars in 200 steps.

  Args:
    max_steps: after which an episode is cut off.
    route_length: m.
    num_cars: on the road, spread over the route, slow, each within a metre of the middle.
  Raises:
    ValueError: `route_length` is not positive or `num_cars` is negative.
  """

  def pay(old: _World, new: _World, lateral, accident):
    del accident
    progress = jnp.minimum(new.car[0], route_length) - jnp.minimum(old.car[0], route_length)
    speeding = jnp.clip((new.car[3] - SPEED_LIMIT) / SPEED_LIMIT, 0, 1)
    faults = (jnp.abs(new.car[1]) > EDGE) * 1.0 + (lateral > MAX_LATERAL)
    return 100 * progress / route_length * (1 - speeding) * FAULT_FACTOR**faults

  env = _driving(pay, route_length, num_cars, random_return=16.0, expert_return=98.0)
  return with_time_limit(env, max_steps)


def shaped_driving(*, max_steps: int, route_length: float, num_cars: int) -> Environment:
  """`driving` that pays 1 - |v - v*| / SPEED_LIMIT - |d| / 2 - |ψ|, and fines the end of an episode.

  The speed v* that is wanted is the limit, and behind a car in one's lane falls from it at `SLOW_GAP` to 0 at
  `STOP_GAP`; d is in m, ψ in rad. Whatever ends an episode costs 1, and to hit a car as much more as one is
  fast, in m / s.
  """

  def pay(old: _World, new: _World, lateral, accident):
    del old, lateral
    s, d, heading, v = new.car
    gap, offset, _ = _next_car(new)
    free = jnp.clip((gap - STOP_GAP) / (SLOW_GAP - STOP_GAP), 0, 1)
    wanted = SPEED_LIMIT * jnp.where(jnp.abs(offset) < CAR_WIDTH, free, 1.0)
    ended = accident | (s >= route_length)
    hit = accident & (jnp.abs(d) <= ROAD)
    return 1 - jnp.abs(v - wanted) / SPEED_LIMIT - jnp.abs(d) / 2 - jnp.abs(heading) - ended - hit * v

  env = _driving(pay, route_length, num_cars, random_return=-88.0, expert_return=15.0)
  return with_time_limit(env, max_steps)


def _driving(pay, route_length, num_cars, *, random_return, expert_return) -> Environment:
  """The world with `pay: (old, new, lateral acceleration, accident) -> reward`."""
  if route_length <= 0 or num_cars < 0:
    raise ValueError(f'route_length={route_length}, num_cars={num_cars}: above 0, at least 0')

  def reset(key: Key):
    state = _drawn(key, route_length, num_cars)
    return state, _observe(state)

  def step(state: _World, action: jax.Array, key: Key) -> Timestep:
    del key
    new, lateral = _moved(state, jnp.clip(action, -1, 1))
    s, d = new.car[:2]
    touching = (jnp.abs(new.others[:, 0] - s) < CAR_LENGTH) & (jnp.abs(new.others[:, 1] - d) < CAR_WIDTH)
    accident = touching.any() | (jnp.abs(d) > ROAD)
    arrived = (s >= route_length) & ~accident
    return timestep(
        new, _observe(new), pay(state, new, lateral, accident), terminated=accident | arrived,
        success=arrived, route_completion=jnp.clip(s / route_length, 0, 1),
    )

  return Environment(
      reset=reset, step=step, observation_shape=(3 + len(AHEAD) + 3,), actions=Continuous(2),
      random_return=random_return, expert_return=expert_return, draw=_draw,
  )


def _drawn(key: Key, route_length: float, num_cars: int) -> _World:
  amplitude_key, phase_key, s_key, d_key, v_key, car_key = jax.random.split(key, 6)
  waves, cars = (len(WAVES),), (num_cars,)
  high = MAX_CURVATURE / len(WAVES)
  road = _Road(
      jax.random.uniform(amplitude_key, waves, maxval=high),
      jax.random.uniform(phase_key, waves, maxval=2 * jnp.pi),
  )
  others = jnp.stack([
      route_length * (1 + jnp.arange(num_cars)) / (num_cars + 1)
      + jax.random.uniform(s_key, cars, minval=-5.0, maxval=5.0),
      jax.random.uniform(d_key, cars, minval=-1.0, maxval=1.0),
      jax.random.uniform(v_key, cars, maxval=MAX_CAR_SPEED),
  ], axis=-1)
  beyond = jnp.array([[10 * route_length + 10 * VIEW, 0.0, 0.0]])
  d, heading = jax.random.uniform(car_key, (2,), minval=-0.5, maxval=0.5)
  car = jnp.stack([0.0, d, heading / 5, 5.0])
  return _World(car, road, jnp.concatenate([others, beyond]))


def _curvature(road: _Road, s: jax.Array) -> jax.Array:
  return jnp.sum(road.amplitudes * jnp.sin(2 * jnp.pi * s / jnp.array(WAVES) + road.phases))


def _moved(state: _World, action: jax.Array) -> tuple[_World, jax.Array]:
  """After a step, and the lateral acceleration in it."""
  s, d, heading, v = state.car
  steer = MAX_STEER * action[0]
  bend = _curvature(state.road, s)
  forward = v * jnp.cos(heading) / (1 - d * bend)
  turn = v * jnp.tan(steer) / WHEELBASE
  pedal = jnp.where(action[1] > 0, ACCELERATION, BRAKE) * action[1]
  change = jnp.stack([forward, v * jnp.sin(heading), turn - bend * forward, pedal])
  car = state.car + STEP_SECONDS * change
  car = car.at[3].set(jnp.clip(car[3], 0, MAX_SPEED))
  others = state.others.at[:, 0].add(STEP_SECONDS * state.others[:, 2])
  return _World(car, state.road, others), jnp.abs(v * turn)


def _next_car(state: _World) -> tuple[jax.Array, jax.Array, jax.Array]:
  """Distance along the road, offset to the left and speed of the nearest car that is not passed yet."""
  gaps = state.others[:, 0] - state.car[0]
  nearest = jnp.argmin(jnp.where(gaps > -CAR_LENGTH, gaps, jnp.inf))
  return gaps[nearest], state.others[nearest, 1] - state.car[1], state.others[nearest, 2]


def _observe(state: _World) -> jax.Array:
  s, d, heading, v = state.car
  bends = [_curvature(state.road, s + ahead) / MAX_CURVATURE for ahead in AHEAD]
  gap, offset, speed = _next_car(state)
  in_view = gap < VIEW
  other = [jnp.minimum(gap / VIEW, 1), in_view * offset / ROAD, in_view * speed / SPEED_LIMIT]
  return jnp.stack([d / ROAD, heading, v / SPEED_LIMIT, *bends, *other])


def _draw(state: _World) -> np.ndarray:
  """The road from above, straightened out, from a bit behind the car on."""
  s, d, heading, _ = state.car
  canvas = drawing.Canvas((-15.0, -10.0), (45.0, 10.0), color=drawing.PALE)
  canvas.box((-15.0, -ROAD), (45.0, ROAD), drawing.GREY)
  for mark in np.arange(-15.0 - s % 6, 45.0, 6):
    canvas.line((mark, 0.0), (mark + 2, 0.0), 0.3, drawing.PAPER)
  for other in state.others:
    canvas.box(
        (other[0] - s - CAR_LENGTH / 2, other[1] - CAR_WIDTH / 2),
        (other[0] - s + CAR_LENGTH / 2, other[1] + CAR_WIDTH / 2), drawing.RED,
    )
  along = (CAR_LENGTH - CAR_WIDTH) / 2 * np.array([np.cos(heading), np.sin(heading)])
  canvas.line(np.array([0.0, d]) - along, np.array([0.0, d]) + along, CAR_WIDTH, drawing.BLUE)
  return canvas.image

"""What the tests of control algorithms share: an algorithm with its networks, and its training."""

from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp

from rlx import lens, step
from rlx.models.model import Model
from rlx.models.networks import Policy
from rlx.types import Algorithm, Models, stateful


class Agent(NamedTuple):
  """An algorithm on one environment.

  Attributes:
    algorithm: with its rollout.
    policy: that is played in the end, with the parameters `models['policy']` as they are seen.
    networks: trained model -> anything with `init(key)`.
    slow: lagging model -> the trained model that it begins as a copy of.
    made: models that are made of those, which have no parameters of their own.
  """

  algorithm: Algorithm
  policy: Policy
  networks: Mapping[str, Any]
  slow: Mapping[str, str]
  made: Mapping[str, Model] = {}

  def seen(self, models: Models) -> Models:
    """The models, and those that are made of them."""
    return {**models, **{name: model.view(None, models) for name, model in self.made.items()}}

  @property
  def seeing(self) -> Algorithm:
    """The algorithm as a step takes it: it sees those that are made of others too."""
    return lens.through(self.seen, self.algorithm) if self.made else self.algorithm


class Row(NamedTuple):
  """A line of the table of control algorithms.

  Attributes:
    name: of the algorithm.
    build: `env -> Agent`, on a probe environment.
    discrete: which actions it is for.
    learning_rate: of Adam.
    steps: train steps in which it solves a probe.
    minibatches: updates a step.
    value: `(agent, models, observations) -> [...]`, what it thinks states are worth; None where it learns no
      values.
  """

  name: str
  build: Callable
  discrete: bool
  learning_rate: float
  steps: int
  minibatches: int = 1
  value: Callable | None = None


def initial_state(agent: Agent, optimizer, key):
  """The state before the first step, from one key."""
  init_key, run_key = jax.random.split(key)
  keys = jax.random.split(init_key, len(agent.networks))
  params = {name: network.init(k) for (name, network), k in zip(agent.networks.items(), keys, strict=True)}
  slow = {name: jax.tree.map(jnp.copy, params[source]) for name, source in agent.slow.items()}
  return step.begin(agent.seeing, optimizer, params, slow, run_key)


def trained(agent: Agent, optimizer, keys, num_steps: int, *, epochs: int = 1, minibatches: int = 1):
  """States after `num_steps` steps and metrics [seeds, num_steps], one seed a key, in one program."""
  train_step = step.make_train_step(
      agent.seeing, optimizer, epochs=epochs, minibatches=minibatches, microbatches=1
  )
  data = stateful(agent.algorithm.rollout).data

  def run(key, data):
    return step.repeat(train_step, num_steps)(initial_state(agent, optimizer, key), data)

  return jax.jit(jax.vmap(run, (0, None)))(keys, data)

"""Rules of actions, learnt from what happened: `a` fails where this is so, `a` works where all of these are.

A state is F features, each so or not. A literal is a feature with what it is: [2 F], of which half hold at a
time. A failing rule is an action and a literal with which it never worked. A working rule is an action and
all literals that held whenever it worked. Both are consistent: nothing that was seen speaks against them.
Of these only such are kept as correct what a model foretells wrongly, by greedy set cover: the one that
corrects most of what is left, until nothing is left that one could correct.

Rules are arrays, and are carried out as such: [A, 2 F] bool of failing ones, [A] of working ones, and
[A, 2 F] of what they ask for.

Source: Zhou et al., 2025, https://arxiv.org/abs/2504.15785, where a language model proposes the rules, writes
them as code, and the set cover is that of all transitions which the model foretells wrongly.
"""

from typing import NamedTuple

import jax
import jax.numpy as jnp


class Rules(NamedTuple):
  """What is kept."""

  fails: jax.Array  # [A, 2 F] bool, the action fails where the literal holds
  works: jax.Array  # [A] bool, there is a rule that says where the action works
  asks: jax.Array  # [A, 2 F] bool, the literals that it asks for


def no_rules(num_actions: int, num_features: int) -> Rules:
  """What nothing was learnt from."""
  none = jnp.zeros((num_actions, 2 * num_features), bool)
  return Rules(none, jnp.zeros(num_actions, bool), none)


def literals(features: jax.Array) -> jax.Array:
  """[..., 2 F] bool: which features [..., F] are so, and behind them which are not."""
  return jnp.concatenate([features, ~features], axis=-1)


def consistent_rules(
    features: jax.Array, actions: jax.Array, worked: jax.Array, valid: jax.Array, *, num_actions: int,
    least: int,
) -> Rules:
  """All rules that transitions speak for and none of them against.

  Args:
    features: [M, F] bool, before the action.
    actions: [M] int32.
    worked: [M] bool.
    valid: [M] bool, False for rows that are empty.
    num_actions: A.
    least: transitions that speak for a rule, at least so many.
  """
  holds = literals(features).astype(jnp.float32)
  chosen = jax.nn.one_hot(actions, num_actions) * valid[:, None]
  good, bad = (chosen * x[:, None] for x in (worked, ~worked))
  with_good, with_bad = good.T @ holds, bad.T @ holds  # [A, 2 F], how often
  fails = (with_good == 0) & (with_bad >= least)
  num_good = good.sum(axis=0)
  asks = with_good == num_good[:, None]
  missing = asks.astype(jnp.float32) @ (1 - holds).T  # [A, M], literals asked for that do not hold
  against = jnp.sum((missing.T == 0) * bad, axis=0) > 0
  return Rules(fails, (num_good >= least) & ~against, asks)


def corrected(rules: Rules, features: jax.Array, actions: jax.Array, foretold: jax.Array) -> jax.Array:
  """[...] bool, what is foretold [...] of actions [...] in states [..., F], where no rule knows better."""
  holds = literals(features)
  fails = jnp.any(rules.fails[actions] & holds, axis=-1)
  works = rules.works[actions] & jnp.all(holds | ~rules.asks[actions], axis=-1)
  return ~fails & (works | foretold)


def covering(
    rules: Rules, features: jax.Array, actions: jax.Array, worked: jax.Array, wrong: jax.Array, *,
    max_rules: int,
) -> Rules:
  """Of consistent rules, those of a greedy cover of the transitions that a model foretells wrongly.

  Args:
    rules: that transitions do not speak against.
    features: [M, F] bool.
    actions: [M] int32.
    worked: [M] bool.
    wrong: [M] bool, what the model foretells is not what came; False for empty rows.
    max_rules: that are kept, at most.
  """
  num_actions, width = rules.fails.shape
  holds, mine = literals(features), jax.nn.one_hot(actions, num_actions, dtype=bool)
  failing = rules.fails[None] & mine[:, :, None] & holds[:, None] & (wrong & ~worked)[:, None, None]
  asked = jnp.all(holds[:, None] | ~rules.asks[None], axis=2)
  working = rules.works[None] & mine & asked & (wrong & worked)[:, None]
  covers = jnp.concatenate([failing.reshape(failing.shape[0], -1), working], axis=1)  # [M, A 2F + A]

  def choose(carry, _):
    left, kept = carry
    gains = jnp.sum(covers & left[:, None], axis=0)
    best = jnp.argmax(gains)
    useful = gains[best] > 0
    return (left & ~(covers[:, best] & useful), kept.at[best].max(useful)), None

  none = jnp.zeros(covers.shape[1], bool)
  kept = jax.lax.scan(choose, (jnp.ones_like(wrong), none), length=max_rules)[0][1]
  fails, works = kept[: num_actions * width].reshape(num_actions, width), kept[num_actions * width:]
  return Rules(fails, works, rules.asks)

"""Returns of steps that another policy took, over rows in which one episode follows the other.

All are the recursion G_t = Q_t + δ_t + γ c_{t+1} (G_{t+1} - Q_{t+1}): how far a step's error is carried back
is up to the trace c of the action behind it.

| | c | the value of what follows |
|---|---|---|
| `retrace` | λ min(1, π / μ) | E_π Q |
| `q_lambda` | λ | E_π Q, or max Q |
| `watkins_q_lambda` | λ where the action is the best one, else 0 | max Q |
| `peng_q_lambda` | λ, and errors of max Q in place of those of Q | max Q |
| `upgo` | 1 where the step was better than expected, else 0 | V |

`temporal.vtrace` is their relative for state values. Episodes end as in `temporal.gae_episodes`: what
follows a truncated step counts by its value. Nothing here stops gradients.
"""

import chex
import jax
import jax.numpy as jnp

from rlx.advantages.temporal import accumulated, gae_episodes


def retrace(
    rewards: jax.Array, taken: jax.Array, expected_next: jax.Array, terminated: jax.Array,
    truncated: jax.Array, ratios: jax.Array, *, discount: float, lambda_: float,
) -> jax.Array:
  """Targets of Q that are safe for any two policies and do not cut traces where they are alike.

      G_t = Q_t + Σ_{s >= t} γ^(s-t) (Π_{t < i <= s} c_i) (r_s + γ E_π Q(x_{s+1}, ·) - Q_s)
      c_i = λ min(1, π / μ)

  Args:
    rewards: [..., T] reward after each action.
    taken: [..., T] Q of the action that was taken.
    expected_next: [..., T] E_π Q of where it led.
    terminated: [..., T] bool, nothing comes after the step.
    truncated: [..., T] bool, the episode was cut off after the step.
    ratios: [..., T] π / μ of the action: of the policy that is judged to the one that acted.
    discount: γ per step.
    lambda_: in [0, 1].
  Returns:
    [..., T] float32.
  Source: Munos et al., 2016, https://arxiv.org/abs/1606.02647, eq. 3 and 4.
  """
  traces = lambda_ * jnp.minimum(ratios.astype(jnp.float32), 1)
  return _traced(rewards, taken, expected_next, terminated, truncated, traces, discount)


def q_lambda(
    rewards: jax.Array, taken: jax.Array, expected_next: jax.Array, terminated: jax.Array,
    truncated: jax.Array, *, discount: float, lambda_: float,
) -> jax.Array:
  """`retrace` without ratios: errors correct what the other policy did. Safe while the two are near for λ.

  With the E_π Q of the policy that is judged it is Q^π(λ), with max Q it is Q*(λ).

  Args:
    rewards: as for `retrace`, as is all else.
    taken: Q of the actions.
    expected_next: E_π Q, or max Q.
    terminated: ends.
    truncated: cuts.
    discount: γ per step.
    lambda_: in [0, 1]; it converges for λ < (1 - γ) / (γ ε), with ε the distance of the policies.
  Source: Harutyunyan et al., 2016, https://arxiv.org/abs/1602.04951, eq. 6 and algorithm 1.
  """
  traces = jnp.full(rewards.shape, lambda_, jnp.float32)
  return _traced(rewards, taken, expected_next, terminated, truncated, traces, discount)


def watkins_q_lambda(
    rewards: jax.Array, taken: jax.Array, best_next: jax.Array, terminated: jax.Array,
    truncated: jax.Array, is_best: jax.Array, *, discount: float, lambda_: float,
) -> jax.Array:
  """Q(λ) that looks ahead as far as the actions are the best ones.

  Args:
    rewards: as for `retrace`, as is all else.
    taken: Q of the actions.
    best_next: [..., T] max Q of where the action led.
    terminated: ends.
    truncated: cuts.
    is_best: [..., T] bool, True where the action has the largest Q.
    discount: γ per step.
    lambda_: in [0, 1].
  Source: Watkins, 1989, Learning from Delayed Rewards; Sutton and Barto, 2018,
    http://incompleteideas.net/book/the-book-2nd.html, section 12.10.
  """
  return _traced(rewards, taken, best_next, terminated, truncated, lambda_ * is_best, discount)


def peng_q_lambda(
    rewards: jax.Array, best_now: jax.Array, best_next: jax.Array, terminated: jax.Array,
    truncated: jax.Array, *, discount: float, lambda_: float,
) -> jax.Array:
  """λ-returns with max Q for the value of a state: traces are never cut, and targets are biased for it.

  Args:
    rewards: as for `retrace`, as is all else.
    best_now: [..., T] max Q before the action.
    best_next: [..., T] max Q of where it led.
    terminated: ends.
    truncated: cuts.
    discount: γ per step.
    lambda_: in [0, 1].
  Source: Peng and Williams, 1994, https://doi.org/10.1016/B978-1-55860-335-6.50035-0.
  """
  advantages = gae_episodes(
      rewards, best_now, best_next, terminated, truncated, discount=discount, lambda_=lambda_
  )
  return advantages + best_now


def upgo(
    rewards: jax.Array, values: jax.Array, next_values: jax.Array, terminated: jax.Array,
    truncated: jax.Array, *, discount: float,
) -> jax.Array:
  """Returns that follow what was done as long as it was better than expected, and the value from there on.

      G_t = r_t + γ ( G_{t+1} if r_{t+1} + γ V(s_{t+2}) >= V(s_{t+1}) else V(s_{t+1}) )

  The policy gradient takes ρ (G - V) with ρ = min(1, π / μ).

  Args:
    rewards: as for `retrace`, as is all else.
    values: [..., T] value before each action.
    next_values: [..., T] value of where it led.
    terminated: ends.
    truncated: cuts.
    discount: γ per step.
  Returns:
    [..., T] float32.
  Source: UPGO: AlphaStar, Vinyals et al., 2019, https://doi.org/10.1038/s41586-019-1724-z, methods, policy
    updates; the one-step look-ahead in place of Q is theirs.
  """
  behind = jnp.where(terminated, 0, next_values)
  better = rewards + discount * behind >= values
  return _traced(rewards, values, next_values, terminated, truncated, better, discount)


def _traced(rewards, taken, next_values, terminated, truncated, traces, discount) -> jax.Array:
  """The recursion above; a trace is that of the action itself, and none crosses the end of an episode."""
  chex.assert_equal_shape([rewards, taken, next_values, terminated, truncated, traces])
  taken = taken.astype(jnp.float32)
  errors = rewards + discount * jnp.where(terminated, 0, next_values) - taken
  following = jnp.concatenate([traces[..., 1:], jnp.zeros_like(traces[..., :1])], axis=-1)
  return taken + accumulated(errors, jnp.where(terminated | truncated, 0, discount * following))

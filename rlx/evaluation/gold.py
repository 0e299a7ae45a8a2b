"""What a policy is in a world whose true reward is known, exactly: sums over all answers, without chance."""

import jax
import jax.numpy as jnp
import numpy as np

from rlx.envs import gold
from rlx.errors import above, at_least, between
from rlx.evaluation.evaluation import Evaluation
from rlx.evaluation.preferences import area_under_curve, calibration_error
from rlx.types import Models, World

_HALVINGS = 40
_LINE = 17  # points of a grid along an axis
_NEAR = 0.0025  # nats: the root of less is rounding
_ASKED = 16  # times n answers to a prompt, of which a verifier is measured
_NO_CHANCE = 0  # the seed of these
_FARTHEST = 64.0  # times as far as the policy has gone


def measured(world: gold.Worlds, policy: gold.LogLinear, *, at_kl: float) -> Evaluation:
  """Gain, price and breadth of a policy; rewards are the true ones, which nobody learns from.

  The metrics, means over prompts: `gain`, in true reward over the reference; `kl`, KL(π || ref) in nats;
  `entropy`; `best`, the chance of the answer of the largest reward; `rare`, the chance of answers that the
  reference says with less than a tenth of an even share; `exploitability`, how much above 1/2 the best answer
  wins against the policy's; `gain_at_kl`, the gain where θ is stretched or shortened until KL(π || ref) is
  `at_kl`, so that policies are compared at the same price.

  Args:
    world: what it is measured in.
    policy: what is measured.
    at_kl: in nats, above 0.
  """
  above(0, at_kl=at_kl)

  def ask(models: Models, memory: World) -> dict[str, jax.Array]:
    del memory
    there, params = models['world'], models['policy']
    logprobs = policy.logprobs(params)
    probs = jnp.exp(logprobs)
    rare = there.base < -jnp.log(10 * there.base.shape[1])
    best = there.gold == there.gold.max(axis=1, keepdims=True)
    share = lambda which: jnp.mean(jnp.sum(jnp.where(which, probs, 0), axis=1))
    priced = policy.logprobs({**params, 'theta': _scale(policy, params, at_kl) * params['theta']})
    return {
        'gain': gold.gain(there, logprobs), 'kl': gold.divergence(there, logprobs),
        'entropy': -jnp.mean(jnp.sum(probs * logprobs, axis=1)), 'best': share(best), 'rare': share(rare),
        'exploitability': gold.exploitability(there, logprobs), 'gain_at_kl': gold.gain(there, priced),
    }

  return Evaluation(ask=ask, read=lambda answer: ({name: float(x) for name, x in answer.items()}, []))


def scalarised(
    world: gold.Worlds, policy: gold.LogLinear, *, weight: float, beta: float
) -> Evaluation:
  """How much of the best policy for two rewards at once a policy has.

  The metrics, means over prompts: `first` and `second`, gains in the two rewards over the reference; `value`,
  w first + (1 - w) second - β KL(π || ref), as a share of what the closed-form optimum has.

  Args:
    world: with two rewards, such as `two_sided_worlds`.
    policy: what is measured.
    weight: w in [0, 1], of the first.
    beta: β, above 0.
  """
  between(0, 1, weight=weight)
  above(0, beta=beta)

  def ask(models: Models, memory: World) -> dict[str, jax.Array]:
    del memory
    there = models['world']
    mixed = there.replace(gold=weight * there.gold + (1 - weight) * there.other)
    value = lambda logprobs: gold.gain(mixed, logprobs) - beta * gold.divergence(there, logprobs)
    logprobs = policy.logprobs(models['policy'])
    return {
        'first': gold.gain(there, logprobs),
        'second': gold.gain(there.replace(gold=there.other), logprobs),
        'value': value(logprobs) / value(gold.best(mixed, mixed.gold, beta=beta)),
    }

  return Evaluation(ask=ask, read=lambda answer: ({name: float(x) for name, x in answer.items()}, []))


def compromise(world: gold.Worlds, policy: gold.LogLinear, *, farthest: float) -> Evaluation:
  """How good a compromise between two rewards a policy is, where it is log-linear in two features.

  The metrics, means over prompts: `first` and `second`, the rewards; `volume`, their product, which is the
  hypervolume of the one point above no reward at all, as a share of the largest on a grid of policies.

  Args:
    world: with two rewards and two features, such as `bent_worlds`.
    policy: what is measured.
    farthest: the largest number in θ on the grid, in both directions, above 0.
  """
  above(0, farthest=farthest)

  def ask(models: Models, memory: World) -> dict[str, jax.Array]:
    del memory
    there, params = models['world'], models['policy']

    def had(theta):
      probs = jnp.exp(policy.logprobs({**params, 'theta': theta}))
      return [jnp.mean(jnp.sum(probs * rewards, axis=1)) for rewards in (there.gold, there.other)]

    line = jnp.linspace(-farthest, farthest, _LINE)
    grid = jnp.stack(jnp.meshgrid(line, line), axis=-1).reshape(-1, 2)
    most = jnp.max(jax.lax.map(lambda theta: jnp.prod(jnp.stack(had(theta))), grid, batch_size=_LINE))
    first, second = had(params['theta'])
    return {'first': first, 'second': second, 'volume': first * second / most}

  return Evaluation(ask=ask, read=lambda answer: ({name: float(x) for name, x in answer.items()}, []))


def taught(world: gold.Worlds, policy: gold.LogLinear, *, beta: float) -> Evaluation:
  """How near a policy comes to the best one, and how it orders answers.

  The metrics, means over prompts: `nll`, -log π of answers of the best policy, in nats; `right`, the share of
  pairs of answers of the reference whose better one the policy says more likely.

  Args:
    world: what it is measured in.
    policy: what is measured.
    beta: of the best policy; see `gold.best`.
  """

  def ask(models: Models, memory: World) -> dict[str, jax.Array]:
    del memory
    there, logprobs = models['world'], policy.logprobs(models['policy'])
    best = jnp.exp(gold.best(there, there.gold, beta=beta))
    return {'nll': -jnp.mean(jnp.sum(best * logprobs, axis=1)), 'right': _ordered(there, logprobs)}

  return Evaluation(ask=ask, read=lambda answer: ({name: float(x) for name, x in answer.items()}, []))


def checked(world: gold.Worlds, policy: gold.LogLinear) -> Evaluation:
  """What of its checks a policy passes, in expectation: `all` of them, and the `share`.

  Args:
    world: with checks, such as `rubric_worlds`.
    policy: what is measured.
  """

  def ask(models: Models, memory: World) -> dict[str, jax.Array]:
    del memory
    checks, probs = models['world'].checks, jnp.exp(policy.logprobs(models['policy']))
    expected = lambda x: jnp.mean(jnp.sum(probs * x, axis=1))
    return {'all': expected(checks.all(axis=2)), 'share': expected(checks.mean(axis=2))}

  return Evaluation(ask=ask, read=lambda answer: ({name: float(x) for name, x in answer.items()}, []))


def judged(world: gold.Worlds, judge: gold.Linear | gold.Hidden) -> Evaluation:
  """The metric `right`: the share of pairs of answers of the reference that a reward model orders right.

  Args:
    world: what it is measured in.
    judge: what is measured.
  """

  def ask(models: Models, memory: World) -> dict[str, jax.Array]:
    del memory
    return {'right': _ordered(models['world'], judge.rewards(models['judge']))}

  return Evaluation(ask=ask, read=lambda answer: ({name: float(x) for name, x in answer.items()}, []))


def judged_of(
    world: gold.Worlds, policy: gold.LogLinear, judge: gold.Linear | gold.Hidden
) -> Evaluation:
  """As `judged`, of pairs of answers of a policy, which has moved on from where the labels were bought.

  The metrics: `right`, and `margin`, the mean lead of the better answer of such a pair in the reward model's
  rewards, in their deviations over answers of the policy.

  Args:
    world: what it is measured in.
    policy: whose answers they are.
    judge: what is measured.
  """

  def ask(models: Models, memory: World) -> dict[str, jax.Array]:
    del memory
    logprobs = policy.logprobs(models['policy'])
    there, rewards = models['world'].replace(base=logprobs), judge.rewards(models['judge'])
    mean = lambda x: jnp.sum(jnp.exp(logprobs) * x, axis=1, keepdims=True)
    deviation = jnp.sqrt(jnp.mean(mean(jnp.square(rewards - mean(rewards)))))
    return {
        'right': _ordered(there, rewards),
        'margin': _mean_lead(there, rewards) / jnp.maximum(deviation, 1e-6),
    }

  return Evaluation(ask=ask, read=lambda answer: ({name: float(x) for name, x in answer.items()}, []))


def implied(world: gold.Worlds, policy: gold.LogLinear) -> Evaluation:
  """The metric `right`: the share of pairs of answers of the reference that log-ratios to it order right.

  The log-ratio is the reward that a policy stands for; the true rewards say what is right, no label.

  Args:
    world: what it is measured in.
    policy: what is measured.
  """

  def ask(models: Models, memory: World) -> dict[str, jax.Array]:
    del memory
    there = models['world']
    return {'right': _ordered(there, policy.logprobs(models['policy']) - there.base)}

  return Evaluation(ask=ask, read=lambda answer: ({name: float(x) for name, x in answer.items()}, []))


def proxy(world: gold.Worlds, policy: gold.LogLinear, judge: gold.Linear) -> Evaluation:
  """What a policy gains in the eyes of its reward model, beside what it gains.

  The metrics: `gain`, in the reward model's rewards, in deviations of the answers to a prompt as the true
  ones are; `gap`, by how much that is above the gain in true reward.

  Args:
    world: what it is measured in.
    policy: what is measured.
    judge: whose eyes.
  """

  def ask(models: Models, memory: World) -> dict[str, jax.Array]:
    del memory
    there, logprobs = models['world'], policy.logprobs(models['policy'])
    seen = gold.standard(judge.rewards(models['judge']))
    gained = gold.gain(there.replace(gold=seen), logprobs)
    return {'gain': gained, 'gap': gained - gold.gain(there, logprobs)}

  return Evaluation(ask=ask, read=lambda answer: ({name: float(x) for name, x in answer.items()}, []))


def verifier_quality(
    world: gold.Worlds, policy: gold.LogLinear, judge: gold.Linear, *, bar: float, scale: float, best_of: int
) -> Evaluation:
  """What a verifier is worth, and what a policy has made of it.

  The metrics: `right`, the chance that an answer of the policy is right, exactly; of answers of the
  reference, `auc` and `calibration_error` of the chance that the verifier gives, and `best_of`, the chance
  that the best of n, as it says, is right.

  Args:
    world: what it is measured in.
    policy: what is measured.
    judge: the verifier.
    bar: see `gold.right`.
    scale: see `rewards.learned.probable`.
    best_of: n.
  """
  at_least(1, best_of=best_of)

  def ask(models: Models, memory: World) -> tuple[jax.Array, ...]:
    del memory
    there, right = models['world'], gold.right(models['world'], bar=bar)
    chances = jax.nn.sigmoid(scale * judge.rewards(models['judge']))
    probs = jnp.exp(policy.logprobs(models['policy']))
    shape = (_ASKED, best_of, there.gold.shape[0])
    said = jnp.moveaxis(jax.random.categorical(jax.random.key(_NO_CHANCE), there.base, shape=shape), -1, 0)
    at = lambda x: jnp.take_along_axis(x, said.reshape(len(x), -1), axis=1).reshape(said.shape)
    chosen = jnp.argmax(at(chances), axis=2)[..., None]
    of_best = jnp.mean(jnp.take_along_axis(at(right), chosen, axis=2))
    return jnp.mean(jnp.sum(jnp.where(right, probs, 0), axis=1)), of_best, at(chances), at(right)

  def read(answer):
    share, of_best, chances, right = answer
    return {
        'right': float(share), 'best_of': float(of_best),
        'auc': area_under_curve(chances.reshape(-1), right.reshape(-1)),
        'calibration_error': calibration_error(chances.reshape(-1), right.reshape(-1)),
    }, []

  return Evaluation(ask=ask, read=read)


def found_meanings(
    world: gold.Worlds, policy: gold.LogLinear, twins: gold.Twins, *, bar: float, tries: int
) -> Evaluation:
  """How many right meanings a policy finds in several answers, and how well a classifier tells meanings.

  The metrics: `meanings`, the expected number of different right ones among some answers, mean over prompts;
  `right`, the chance that an answer is right; `passed`, that one of them is; `accuracy`, the share of pairs
  of answers to a prompt that the classifier tells as they are, those of one meaning and those of two counting
  the same.

  Args:
    world: with meanings, such as `paraphrased_worlds`.
    policy: what is measured.
    twins: the classifier.
    bar: see `gold.right`.
    tries: answers to a prompt.
  """
  at_least(1, tries=tries)

  def ask(models: Models, memory: World) -> dict[str, jax.Array]:
    del memory
    there, probs = models['world'], jnp.exp(policy.logprobs(models['policy']))
    right, meanings = gold.right(there, bar=bar), there.meanings
    of_meaning = jax.nn.one_hot(meanings, meanings.shape[1])  # [X, K, M], some of which nobody means
    chance = jnp.einsum('xk,xkm->xm', jnp.where(right, probs, 0), of_meaning, precision='highest')
    share = jnp.sum(jnp.where(right, probs, 0), axis=1)
    answers, prompts = jnp.arange(meanings.shape[1]), jnp.arange(len(meanings))[:, None, None]
    said = twins.odds(models['twins'], prompts, answers[:, None], answers[None]) > 0
    alike = meanings[:, :, None] == meanings[:, None, :]
    told = lambda which: jnp.mean(said == alike, where=which)
    return {
        'meanings': jnp.mean(jnp.sum(1 - (1 - chance) ** tries, axis=1)), 'right': jnp.mean(share),
        'passed': jnp.mean(1 - (1 - share) ** tries),
        'accuracy': (told(alike & ~jnp.eye(len(answers), dtype=bool)[None]) + told(~alike)) / 2,
    }

  return Evaluation(ask=ask, read=lambda answer: ({name: float(x) for name, x in answer.items()}, []))


def by_category(world: gold.Worlds, policy: gold.LogLinear, *, head: int) -> Evaluation:
  """Gains in true reward over the reference, by category.

  The metrics: `head`, the mean over prompts of the first categories; `tail`, the mean over the other
  categories, each of which counts the same.

  Args:
    world: with categories, such as `tailed_worlds`.
    policy: what is measured.
    head: how many categories are the first.
  """
  at_least(1, head=head)

  def ask(models: Models, memory: World) -> dict[str, jax.Array]:
    del memory
    there = models['world']
    more = jnp.exp(policy.logprobs(models['policy'])) - jnp.exp(there.base)
    gains, first = jnp.sum(more * there.gold, axis=1), there.categories < head
    once = jax.ops.segment_sum(jnp.ones_like(gains), there.categories, num_segments=len(gains))
    even = jnp.where(first, 0, 1 / once[there.categories])
    return {'head': jnp.mean(gains, where=first), 'tail': jnp.sum(gains * even) / jnp.sum(even)}

  return Evaluation(ask=ask, read=lambda answer: ({name: float(x) for name, x in answer.items()}, []))


def voted(world: gold.Worlds, voters: gold.Voters) -> Evaluation:
  """Whether the strength of labels that were bought, as reward models vote, says which of them are wrong.

  The metrics: `auc`, the chance that a label of the better answer is stronger than one of the worse;
  `wrong`, the share of the latter. Nobody learns from it.

  Args:
    world: which answers are better.
    voters: see `gold.Voters`.
  """

  def ask(models: Models, memory: World) -> tuple[jax.Array, jax.Array]:
    rows = jax.tree.map(lambda x: x.reshape(-1, *x.shape[2:]), memory['comparisons'])
    rewards = models['world'].gold[rows['tokens'][:, 0], rows['tokens'][:, 1]]
    return voters.strength(models['voters'], rows), rewards[0::2] > rewards[1::2]

  def read(answer):
    strength, right = answer
    told = {'auc': area_under_curve(strength, right), 'wrong': 1 - float(np.mean(right))}
    return told, []

  return Evaluation(ask=ask, read=read)


def _ordered(there: gold.World, scores: jax.Array) -> jax.Array:
  """[] the share of pairs of answers of the reference that scores [X, K] order as the true reward does."""
  drawn = _drawn(there)
  return jnp.sum(drawn * (_lead(scores) > 0)) / jnp.sum(drawn)


def _mean_lead(there: gold.World, scores: jax.Array) -> jax.Array:
  """[] by how much scores [X, K] put the better one of a pair of answers of the reference ahead."""
  drawn = _drawn(there)
  return jnp.sum(drawn * _lead(scores)) / jnp.sum(drawn)


def _lead(x: jax.Array) -> jax.Array:
  """[X, K, K] of the first of two answers."""
  return x[:, :, None] - x[:, None, :]


def _drawn(there: gold.World) -> jax.Array:
  """[X, K, K] chances of pairs of the reference whose first answer is the better one."""
  return jnp.where(_lead(there.gold) > 0, jnp.exp(there.base[:, :, None] + there.base[:, None, :]), 0)


def overoptimisation_fit(kl: np.ndarray, gain: np.ndarray, *, logarithmic: bool) -> float:
  """R² of d (α - β log d), or of d (α - β d), for gains of a run as it goes on; d is the root of the KL.

  Args:
    kl: [N] KL(π || ref) in nats; points below 0.0025 are left out.
    gain: [N] in true reward.
    logarithmic: which form; the first is that of policy gradients and direct alignment.
  Raises:
    ValueError: fewer than three points are left.
  Source: Gao et al., 2022, https://arxiv.org/abs/2210.10760, eq. 1 (best of n) and 2; for direct alignment,
    Rafailov et al., 2024, https://arxiv.org/abs/2406.02900.
  """
  far = np.asarray(kl) > _NEAR
  root, gain = np.sqrt(np.asarray(kl)[far]), np.asarray(gain)[far]
  if len(root) < 3:
    raise ValueError(f'{len(root)} points with a KL above {_NEAR} nats; a fit of two numbers needs 3')
  falling = root * np.log(root) if logarithmic else root**2
  terms = np.stack([root, -falling], axis=1)
  rest = gain - terms @ np.linalg.lstsq(terms, gain, rcond=None)[0]
  return float(1 - np.sum(rest**2) / np.sum((gain - gain.mean()) ** 2))


def _scale(policy: gold.LogLinear, params: dict, at_kl: float) -> jax.Array:
  """[] what θ is multiplied by for a KL of `at_kl`, found by halving: the KL rises with it."""
  there = params['world']

  def halve(_, ends):
    low, high = ends
    middle = (low + high) / 2
    stretched = policy.logprobs({**params, 'theta': middle * params['theta']})
    short = gold.divergence(there, stretched) < at_kl
    return jnp.where(short, middle, low), jnp.where(short, high, middle)

  return jax.lax.fori_loop(0, _HALVINGS, halve, (jnp.float32(0), jnp.float32(_FARTHEST)))[0]

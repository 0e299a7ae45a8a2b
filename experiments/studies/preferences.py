"""What methods of preferences gain and what they pay, in a world whose true reward is known. Five seeds.

    python -m rlx.experiments.studies.preferences --output=docs/studies/preferences

Every method begins from the reference, learns from the same comparisons (`rlx/envs/gold.py`), and never sees
the gold reward. It is measured as it goes: gain in gold reward over the reference, and KL to it, both exact.
Where the gain is largest is its Goodhart point. Methods that sample learn from a reward model, which was
fitted to the same comparisons.
"""

import argparse
from collections.abc import Callable, Mapping
import functools
from pathlib import Path
import time
from types import SimpleNamespace
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import optax

from rlx.algorithms.bradley_terry import bradley_terry
from rlx.algorithms.dpo import dpo
from rlx.algorithms.grpo import grpo
from rlx.algorithms.kto import kto
from rlx.algorithms.reference_free import cpo, orpo, simpo
from rlx.envs import gold
from rlx.experiments.studies import common
from rlx.losses import anchors, comparisons, preference
from rlx.rewards.of_learners import best_and_worst
from rlx.run import style
from rlx.step import make_train_step, repeat
from rlx.types import Algorithm, State

POLICY, JUDGE = gold.LogLinear(), gold.Linear()
WORLD = dict(num_prompts=64, num_answers=32, width=24, hump=1.5, hidden=0.5, spread=1.0)
PAIRS, SHARPNESS = 192, 1.0  # labels; how sure they are
ROWS, GROUP = 128, 4  # of a batch; samples a prompt
BETA = 0.1
TASK = SimpleNamespace(prompt_columns=1, action_columns=1)


class Method(NamedTuple):
  """How a method is made of a rollout, and whether it samples."""

  make: Callable[[Callable], Algorithm]
  samples: bool = False


def _dpo(loss: Callable, **parts) -> Method:
  return Method(lambda rollout: dpo(rollout, POLICY, POLICY, loss=loss, **parts))


def _with_beta(loss: Callable, **numbers) -> Method:
  return _dpo(functools.partial(loss, beta=BETA, **numbers))


def _scored(models, batch, key):
  del key
  return {**batch, 'rewards': JUDGE.apply(models['judge'], batch)}


METHODS: Mapping[str, Method] = {
    'DPO': _with_beta(preference.sigmoid),
    'cDPO': _with_beta(preference.sigmoid, smoothing=0.2),
    'robust DPO': _with_beta(preference.robust, flips=0.2),
    'IPO': _with_beta(preference.ipo),
    'hinge': _with_beta(preference.hinge),
    'EXO': _with_beta(preference.exo, smoothing=0.1),
    'NCA': _with_beta(preference.nca),
    'BCO': _with_beta(preference.bco),
    'SPPO': _with_beta(preference.sppo_hard),
    'AOT': _with_beta(preference.aot),
    'AOT unpaired': _with_beta(preference.aot_unpaired),
    'APO zero': _with_beta(preference.apo_zero),
    'DiscoPOP': _with_beta(preference.discopop, tau=0.05),
    'f-DPO, JS': _dpo(
        functools.partial(preference.sigmoid, beta=BETA), divergence=comparisons.jensen_shannon),
    'KTO': Method(lambda rollout: kto(
        rollout, POLICY, POLICY, TASK, beta=BETA, desirable=1.0, undesirable=1.0)),
    'CPO': Method(lambda rollout: cpo(rollout, POLICY, beta=BETA, nll_coef=1.0)),
    'SimPO': Method(lambda rollout: simpo(rollout, POLICY, beta=2.0, margin=1.0)),
    'ORPO': Method(lambda rollout: orpo(rollout, POLICY, odds_coef=0.5)),
    'online DPO': Method(
        lambda rollout: dpo(rollout, POLICY, POLICY, loss=functools.partial(preference.sigmoid, beta=BETA)),
        samples=True),
    'GRPO': Method(
        lambda rollout: grpo(rollout, _scored, POLICY, anchors.kl_in_loss(POLICY, coef=BETA), clip_low=0.2,
                             clip_high=0.2, entropy_coef=0.0), samples=True),
}


def recorded(models, world, key):
  """Some of the comparisons that there are, drawn by chance."""
  del models
  pairs = jax.random.randint(key, (ROWS // 2,), 0, PAIRS)
  rows = (2 * pairs[:, None] + jnp.arange(2)[None]).reshape(-1)
  batch = {name: x[rows] for name, x in world['data'].items()}
  return {**batch, 'groups': jnp.arange(ROWS) // 2}, {}


def sampled(models, world, key):
  """Groups of samples of the policy."""
  prompt_key, answer_key = jax.random.split(key)
  prompts = jax.random.randint(prompt_key, (ROWS // GROUP,), 0, WORLD['num_prompts'])
  batch = POLICY.sample(
      models['policy'], prompts[:, None], jnp.ones_like(prompts), answer_key, group_size=GROUP
  )
  return {**batch, 'groups': jnp.arange(ROWS) // GROUP}, {}


def paired(models, world, key):
  """The best and the worst of each group, as the reward model says."""
  draw_key, reward_key = jax.random.split(key)
  batch, world = sampled(models, world, draw_key)
  return best_and_worst(_scored(models, batch, reward_key)), world


def learnt(name: str, worlds, data, judges, *, steps: int, every: int, rate: float, seeds: int):
  """(gain, KL) [points, seeds] of a method as it learns, from the reference on."""
  method = METHODS[name]
  rollout = (paired if name == 'online DPO' else sampled) if method.samples else recorded
  trained, slow = 'policy', {'reference': jax.vmap(POLICY.init)(worlds), 'judge': judges}
  state, step = _begun(method.make(rollout), trained, jax.vmap(POLICY.init)(worlds), slow, rate, seeds)
  dispatch = jax.jit(jax.vmap(repeat(step, every)))
  look = jax.jit(jax.vmap(_measured))
  seen = [look(worlds, state.params['policy'])]
  for _ in range(steps // every):
    state, _ = dispatch(state, data)
    seen.append(look(worlds, state.params['policy']))
  return tuple(np.stack(x) for x in zip(*seen, strict=True))


def _measured(world: gold.World, params) -> tuple[jax.Array, jax.Array]:
  logprobs = POLICY.logprobs(params)
  return gold.gain(world, logprobs), gold.divergence(world, logprobs)


def _begun(algorithm, trained, params, slow, rate, seeds):
  """States [seeds] and the step of one."""
  optimizer = optax.adam(rate)
  step = make_train_step(algorithm, optimizer, epochs=1, minibatches=1, microbatches=1)
  keys = jax.random.split(jax.random.key(3), seeds)
  begin = lambda params, slow, key: State(
      step=jnp.int32(0), params={trained: params}, slow=slow, opt_state=optimizer.init({trained: params}),
      world={}, key=key,
  )
  return jax.vmap(begin)(params, slow, keys), step


def judged(worlds, data, *, steps: int, seeds: int):
  """Reward models [seeds], fitted to the comparisons; and their accuracy on others, of sure labels."""
  params = jax.vmap(JUDGE.init)(worlds)
  algorithm = bradley_terry(recorded, JUDGE, centring=0.01)
  state, step = _begun(algorithm, 'judge', params, {}, 1e-2, seeds)
  state, _ = jax.jit(jax.vmap(repeat(step, steps)))(state, data)
  fresh = _comparisons(worlds, jax.random.key(11), seeds, sharpness=jnp.inf)
  rewards = jax.vmap(JUDGE.apply)(state.params['judge'], fresh)
  return state.params['judge'], np.mean(rewards[:, 0::2] > rewards[:, 1::2], axis=1)


def _comparisons(worlds, key, seeds, *, sharpness):
  draw = functools.partial(gold.labelled, num=PAIRS, sharpness=sharpness)
  return jax.vmap(draw)(worlds, jax.random.split(key, seeds))


def main(argv: list[str] | None = None) -> None:
  """Runs the study and writes a page and its figure."""
  arguments = _parser().parse_args(argv)
  began, seeds = time.monotonic(), arguments.seeds
  keys = jax.random.split(jax.random.key(0), seeds)
  worlds = jax.jit(jax.vmap(functools.partial(gold.gold_world, **WORLD)))(keys)
  data = _comparisons(worlds, jax.random.key(1), seeds, sharpness=SHARPNESS)
  judges, accuracy = judged(worlds, data, steps=arguments.steps, seeds=seeds)
  how = dict(steps=arguments.steps, every=arguments.every, rate=arguments.rate, seeds=seeds)
  curves = {}
  for name in arguments.methods:
    curves[name] = learnt(name, worlds, data, judges, **how)
    gains, kls = curves[name]
    print(f'{time.monotonic() - began:5.0f} s  {name}: {_line(gains, kls)}', flush=True)
  curves['best for the reward model'] = optimum(worlds, judges)
  _write(Path(arguments.output), curves, arguments, accuracy, time.monotonic() - began)


def optimum(worlds, judges):
  """(gain, KL) [points, seeds] of ref exp(r / β) / Z, over prices β: what a perfect optimiser would reach."""
  def at(beta):
    each = lambda world, judge: gold.best(world, JUDGE.rewards(judge), beta=beta)
    logprobs = jax.vmap(each)(worlds, judges)
    return jax.vmap(gold.gain)(worlds, logprobs), jax.vmap(gold.divergence)(worlds, logprobs)

  return tuple(np.stack(x) for x in zip(*map(at, np.geomspace(100, 0.02, 30)), strict=True))


def _line(gains: np.ndarray, kls: np.ndarray) -> str:
  peak = gains.argmax(axis=0)[None]
  at_peak = lambda x: np.take_along_axis(x, peak, axis=0)[0]
  cells = (at_peak(gains), at_peak(kls), gains[-1], kls[-1])
  return ' | '.join(f'{np.median(x):.2f} ({x.min():.2f} to {x.max():.2f})' for x in cells)


def _write(output: Path, curves, arguments, accuracy, seconds: float) -> None:
  output.parent.mkdir(parents=True, exist_ok=True)
  _draw(output.with_suffix('.png'), curves)
  order = sorted(curves, key=lambda name: -np.median(curves[name][0].max(axis=0)))
  lines = [f'| {name} | {_line(*curves[name])} |\n' for name in order]
  page = PAGE.format(
      pairs=PAIRS, steps=arguments.steps, seeds=arguments.seeds, figure=output.with_suffix('.png').name,
      minutes=seconds / 60, accuracy=100 * np.median(accuracy), worst=100 * accuracy.min(), beta=BETA,
      **WORLD,
  )
  output.with_suffix('.md').write_text(page + ''.join(lines))


def _draw(path: Path, curves) -> None:
  figure = style.figure(8, 5)
  axes = figure.subplots()
  for index, (name, (gains, kls)) in enumerate(curves.items()):
    order = np.argsort(np.median(kls, axis=1), kind='stable')
    x, y = np.sqrt(np.median(kls, axis=1))[order], np.median(gains, axis=1)[order]
    best = name.startswith('best')
    line = ':' if best else '-' if index < 10 else '--'
    axes.plot(x, y, label=name, linewidth=1, linestyle=line, color='black' if best else f'C{index % 10}')
  axes.set(xlabel='root of KL to the reference', ylabel='gain in gold reward', title='Gain and price')
  axes.legend(fontsize=6, ncol=2)
  figure.savefig(path, dpi=120)


def _parser() -> argparse.ArgumentParser:
  parser = argparse.ArgumentParser(prog='preferences', description=__doc__.partition('\n')[0])
  parser.add_argument('--output', default=str(common.RESULTS / 'preferences'))
  parser.add_argument('--methods', nargs='+', default=list(METHODS), choices=list(METHODS), metavar='NAME')
  parser.add_argument('--seeds', type=int, default=5)
  parser.add_argument('--steps', type=int, default=600)
  parser.add_argument('--every', type=int, default=10, help='steps between measurements')
  parser.add_argument('--rate', type=float, default=1e-2, help='of learning')
  return parser


PAGE = """# Preferences: what methods gain and what they pay

Written by `python -m rlx.experiments.studies.preferences`; {minutes:.1f} minutes on two CPU cores that had
other work. {seeds} seeds, each a world of its own ([rlx/envs/gold.py](../../rlx/envs/gold.py)): {num_prompts}
prompts with {num_answers} answers of {width} features; the gold reward is linear in them but for the first,
which is good to have up to a point that the reference seldom passes (hump {hump}), and a rest of standard
deviation {hidden} that no model sees. All methods begin from the reference and learn from
the same {pairs} comparisons of its answers, labelled by Bradley and Terry; {steps} steps of Adam, β = {beta}
where there is one. GRPO and online DPO ask a linear reward model that was fitted to the same labels: right on
{accuracy:.0f} % of fresh pairs in the median (worst seed {worst:.0f} %). Gains are of gold reward over the
reference, in standard deviations of the answers to a prompt.

How to read it. The world was made so that a reward model can be overdone: in a first one, without the
hump (48 features, 16 answers; DPO, IPO and GRPO were tried), no method was, and of the humps 1 and 2 the
reward model's best policy was looked at before 1.5 was taken. Nothing was tuned to a method: one learning
rate, one β (SimPO 2, margin 1; ORPO 0.5), so this is no ranking; most ranges overlap, and CPO, ORPO and
SPPO have hardly moved. The Goodhart point is picked by the gold reward, seed by seed, which nobody could
do in earnest. "Best for the reward model" is best for that, at each KL, and not for the gold reward:
others may be above it.

KTO and APO zero are the same here, to the digits shown: answers to other prompts are less likely under
the policy than under the reference (in one seed by 9 nats on average after 300 steps), so KTO's z is 0 in
98 % of the steps tried, and at z = 0, on pairs, KTO is half of APO zero. Of KTO's own reference point the
page says nothing. DiscoPOP goes the wrong way first: its slope at the reference is positive (+0.78 in
units of β h), with a local optimum at β h = -0.12. That is the published formula, eq. 5, and TRL's.

![gain over root KL]({figure})

Median over seeds (lowest to highest). The Goodhart point is where the gain of a seed was largest; a method
whose end is far below it has overdone it.

| method | gain at the Goodhart point | KL there, nats | gain at the end | KL at the end |
|---|---|---|---|---|
"""


if __name__ == '__main__':
  main()

"""Internal RL: gates and codes by hand, a frozen decoder, switches at subgoals, a reward that tokens miss."""

import functools
from pathlib import Path

import chex
import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest

from rlx import config as configs
from rlx import step as train_steps
from rlx import types
from rlx.algorithms import internal_rl
from rlx.engine.speaker import Speaker
from rlx.envs import subgoals
from rlx.losses import policy as policy_losses
from rlx.models import controller as controllers
from rlx.models.language import LanguageModel
from rlx.models.transformer import TransformerConfig
from rlx.rollout import internal as acting
from rlx.run import train
from rlx.run.build import build
from rlx.run.writers import read_metrics
from tests.whole_runs import numbers, run_in

STEPS, ORDER, SEEDS, CODE_SIZE, HIDDEN = 14, (0, 2, 1), 3, 4, 32
GRID = subgoals.subgoals(size=4, cells=(1, 7, 14, 8), unseen=((0, 2), (2, 1)))
MODEL = LanguageModel(TransformerConfig(
    vocab_size=GRID.vocab_size, num_layers=2, width=32, num_heads=2, num_kv_heads=2, head_size=16,
    mlp_size=64, context_length=STEPS,
))
WORLD = dict(grid=GRID, num_lower=1)
POLICY = Speaker(model=MODEL, decoding=None, scoring=None)  # its functions are all that is asked for
READER = controllers.Reader(width=32, code_size=CODE_SIZE)
ROWS = dict(batch_size=8, num_steps=STEPS)
PRICE = dict(num_lower=1, price=0.2, price_steps=300, switch_nats=2.0)
CONFIG = Path(__file__).parents[2] / 'experiments/configs/latent/internal_rl_subgoals.py'
close = functools.partial(np.testing.assert_allclose, rtol=1e-4, atol=1e-5)
discover = jax.jit(controllers.discover)
forward = jax.jit(lambda params, model, x: model.forward(params, x)[0], static_argnums=1)


def begin(seed):
  """A decoder and a controller with random parameters, and rows of a demonstrator."""
  keys = jax.random.split(jax.random.key(seed), 3)
  controller = controllers.init(keys[1], width=32, code_size=CODE_SIZE, hidden_size=HIDDEN, rank=16)
  tokens = subgoals.demonstrate(GRID, keys[2], 8, STEPS)['tokens']
  return MODEL.init(keys[0]), controller, tokens


def with_gate(controller, bias):
  """The same controller with a switch that always, or never, says yes."""
  return {**controller, 'switch': {**controller['switch'], 'out_bias': jnp.full(1, bias)}}


# --- the grid ---------------------------------------------------------------------------------------------


def test_demonstrations_go_from_colour_to_colour_and_leave_successions_out():
  batch = jax.tree.map(np.asarray, subgoals.demonstrate(GRID, jax.random.key(0), 300, STEPS))
  cells, actions = batch['tokens'][:, 1::2], batch['tokens'][:, 2::2] - GRID.first_action
  assert (batch['tokens'][:, 0] == GRID.begin).all() and (np.asarray(GRID.colours)[cells[:, 0]] < 0).all()
  seen = set()
  for row, moves, goals in zip(cells, actions, batch['goals'], strict=True):
    for t in range(STEPS - 1):
      down, right = subgoals.MOVES[moves[t]]
      assert row[t + 1] == row[t] + 4 * down + right  # no demonstrator walks against a wall
      entered = GRID.colours[row[t + 1]]
      assert entered in (-1, goals[t])
      assert (goals[t + 1] != goals[t]) == (entered == goals[t])
      seen.add((int(goals[t]), int(goals[t + 1])))
  pairs = {(a, b) for a in range(4) for b in range(4) if a != b}
  assert {pair for pair in seen if pair[0] != pair[1]} == pairs - {(0, 2), (2, 1)}


def test_an_order_advances_fails_and_is_done_for_good():
  order = jnp.array(ORDER)
  after = lambda progress, entered: int(subgoals.advance(jnp.int32(progress), jnp.int32(entered), order))
  assert [after(0, 0), after(1, 2), after(2, 1)] == [1, 2, 3]
  assert [after(1, -1), after(1, 0), after(-1, 0), after(3, 2)] == [1, -1, -1, 3]
  landed, entered = subgoals.move(GRID, jnp.array([0, 0, 1]), jnp.array([0, 1, 0]))  # walls are no entrance
  assert landed.tolist() == [0, 1, 1] and entered.tolist() == [-1, 0, -1]


@pytest.mark.parametrize(
    ('changes', 'message'),
    [
        ({'cells': (1, 1)}, 'different cells from 0 to 15'),
        ({'cells': (1, 16)}, 'different cells from 0 to 15'),
        ({'cells': (1, 4, 10)}, 'cell 0 has no way to colour 2'),
        ({'cells': (1, 7), 'unseen': ((0, 1),)}, 'nothing may follow'),
    ],
)
def test_a_bad_grid_raises(changes, message):
  with pytest.raises(ValueError, match=message):
    subgoals.subgoals(**{'size': 4, 'unseen': (), **changes})


# --- the controller ---------------------------------------------------------------------------------------


@pytest.mark.slow
def test_codes_follow_the_recurrence():
  """Against a loop; gates are 0 or 1, and both occur."""
  _, controller, _ = begin(0)
  e = jax.random.normal(jax.random.key(5), (8, STEPS, 32))
  codes = discover(with_gate(controller, 0.0), e, jax.random.key(1))
  proposed = discover(with_gate(controller, 1e3), e, jax.random.key(1)).z
  gates, z = np.asarray(codes.gates), np.zeros((8, CODE_SIZE))
  assert set(gates.ravel()) == {0.0, 1.0} and (gates[:, 0] == 1).all()
  for t in range(STEPS):
    z = gates[:, t, None] * proposed[:, t] + (1 - gates[:, t, None]) * z
    close(codes.z[:, t], z)


@pytest.mark.slow
def test_a_gate_that_stays_shut_keeps_the_first_code_and_pays_once():
  policy, controller, tokens = begin(0)
  shut, wide = (with_gate(controller, bias) for bias in (-1e3, 1e3))
  e = jax.random.normal(jax.random.key(5), (8, STEPS, 32))
  kept = discover(shut, e, jax.random.key(1))
  close(kept.z, jnp.broadcast_to(kept.z[:, :1], kept.z.shape))
  assert kept.gates.sum() == 8 and discover(wide, e, jax.random.key(1)).gates.sum() == 8 * STEPS
  loss = jax.jit(lambda c, price, nats: internal_rl.discover_loss(
      c, policy, MODEL, tokens, jax.random.key(1), price=price, switch_nats=nats, **WORLD
  )[0])
  close(loss(shut, 0.5, 2.0) - loss(shut, 0.5, 0.0), 0.5 * 2.0 / STEPS)
  close(loss(wide, 0.5, 2.0) - loss(wide, 0.5, 0.0), 0.5 * 2.0)


@pytest.mark.slow
def test_the_price_is_the_divergence_from_a_standard_normal():
  """KL(N(μ, σ²) ‖ N(0, 1)) by samples of the mean difference of log densities."""
  _, controller, _ = begin(0)
  e = jax.random.normal(jax.random.key(5), (2, 3, 32))
  mean, log_std = (np.asarray(x, np.float64) for x in jax.jit(controllers.encode)(controller, e))
  noise = np.random.default_rng(0).normal(size=(200_000, 1, 1, 1))
  x = mean + np.exp(log_std) * noise
  expected = (-0.5 * np.square(noise) - log_std + 0.5 * np.square(x)).mean(0).sum(-1)
  kl = discover(controller, e, jax.random.key(1)).kl
  np.testing.assert_allclose(kl, expected, rtol=0.03, atol=0.02)


@pytest.mark.slow
def test_the_encoder_sees_what_follows_and_the_switch_does_not():
  _, controller, _ = begin(0)
  e = jax.random.normal(jax.random.key(5), (1, STEPS, 32))
  sees = jax.jit(jax.jacrev(lambda e: controllers.encode(controller, e)[0][0].sum(-1)))(e)
  influence = np.abs(sees[:, 0]).sum(-1) > 0
  np.testing.assert_array_equal(influence, np.triu(np.ones((STEPS, STEPS), bool)))
  asks = lambda e, z: controllers.switch(controller, e, z).sum()
  looks = jax.grad(asks, argnums=(0, 1))(e[:, 0], e[:, 0, :CODE_SIZE])
  assert all(np.abs(x).min() > 0 for x in looks)


@pytest.mark.slow
def test_nothing_flows_into_the_frozen_policy():
  policy, controller, tokens = begin(0)
  loss = lambda policy, controller: internal_rl.discover_loss(
      controller, policy, MODEL, tokens, jax.random.key(1), price=0.2, switch_nats=2.0, **WORLD
  )[0]
  frozen, trained = jax.jit(jax.grad(loss, argnums=(0, 1)))(policy, controller)
  assert not any(np.any(x) for x in jax.tree.leaves(frozen))
  assert all(np.any(x) for x in jax.tree.leaves(trained))


@pytest.mark.parametrize('positions', ['rope', 'learned'])
@pytest.mark.slow
def test_two_parts_of_a_decoder_are_the_whole(positions):
  model = MODEL.replace(num_layers=3, positions=positions, window=3, sliding_layers=(0, 2))
  params, tokens = model.init(jax.random.key(0)), jnp.arange(12).reshape(2, 6)
  whole = forward(params, model, tokens)
  for num_lower in (1, 2):
    lower, upper = model.split(params, num_lower)
    close(forward(*upper, forward(*lower, tokens)), whole)
  for num_lower in (0, 3):
    with pytest.raises(ValueError, match=f'num_lower={num_lower} of 3'):
      model.split(params, num_lower)


# --- acting -----------------------------------------------------------------------------------------------


@pytest.mark.slow
def test_acting_step_by_step_is_the_whole_row():
  """Codes that acting drew, written into whole rows: the actions are as likely as greedy ones should be."""
  policy, controller, _ = begin(0)
  controller = {**with_gate(controller, 0.0), 'up': 3 * controller['up']}
  policy = {**policy, 'embedding': 30 * policy['embedding']}  # sharp logits: sampled actions are greedy ones
  actor = controllers.init_actor(jax.random.key(1), width=32, code_size=CODE_SIZE, hidden_size=HIDDEN)
  batch = jax.jit(lambda key: acting.act(
      functools.partial(controllers.draw, actor), controller, policy, MODEL, key,
      order=ORDER, num=8, steps=STEPS, **WORLD,
  ))(jax.random.key(2))
  lower, upper = MODEL.split(policy, 1)
  stream = forward(*lower, controllers.steps(policy, MODEL, batch['tokens'][:, :-1]))
  close(controllers.read(stream), batch['streams'], atol=1e-4)
  z, rows = jnp.zeros((8, CODE_SIZE)), []
  for t in range(STEPS):
    wanted = (controllers.switch(controller, batch['streams'][:, t], z) > 0) | (t == 0)
    np.testing.assert_array_equal(wanted, batch['switched'][:, t])
    z = jnp.where(wanted[:, None], batch['codes'][:, t], z)
    rows.append(z)
  assert 0.1 < batch['switched'].mean() < 0.9
  hidden = forward(*upper, controllers.write(controller, stream, jnp.stack(rows, axis=1)))
  logprobs = acting.action_logprobs(*upper, hidden, GRID)
  assert internal_rl.taken(logprobs, batch['tokens'], GRID).mean() > -0.1


@pytest.mark.slow
def test_only_switches_of_open_rows_count():
  actor = controllers.init_actor(jax.random.key(1), width=4, code_size=2, hidden_size=3)
  actor = {**actor, 'log_std': jnp.array([0.0, np.log(2.0)])}
  batch = {
      'streams': jnp.ones((1, 3, 4)), 'codes': jnp.array([[[1.0, 2.0], [9.0, 9.0], [0.0, 4.0]]]),
      'switched': jnp.array([[True, False, True]]), 'open': jnp.array([[True, True, False]]),
  }
  expected = -0.5 * (1 + 1) - np.log(2) - np.log(2 * np.pi)
  close(internal_rl.code_logprobs(actor, batch), [expected])


# --- the three stages -------------------------------------------------------------------------------------


def stages():
  """The three algorithms."""
  return (
      internal_rl.cloning(GRID, POLICY, **ROWS),
      internal_rl.discovery(GRID, POLICY, READER, **ROWS, **PRICE),
      internal_rl.internal_rl(GRID, POLICY, READER, READER, **ROWS, num_lower=1, order=ORDER),
  )


@pytest.mark.slow
def test_the_rows_of_all_stages_are_batches():
  policy, controller, _ = begin(0)
  actor = controllers.init_actor(jax.random.key(1), width=32, code_size=CODE_SIZE, hidden_size=HIDDEN)
  models, key = {'policy': policy, 'controller': controller, 'actor': actor}, jax.random.key(0)

  def first(algorithm):
    rollout = types.stateful(algorithm.rollout)
    return algorithm.advantage(models, rollout(models, rollout.begin(key), key)[0], key)

  for algorithm in stages():
    batch = jax.eval_shape(functools.partial(first, algorithm))
    types.check(batch)
    assert batch['tokens'].shape == (8, 2 * STEPS + 1)
    loss, _ = jax.eval_shape(lambda batch, loss=algorithm.loss: loss(models, batch, key), batch)
    assert loss.shape == ()


def test_rewards_of_all_rows_are_one_group():
  rewards = jnp.array([1.0, 0.0, 0.0, 1.0])
  switched, is_open = jnp.ones((4, 3), bool), jnp.arange(3)[None] < jnp.arange(4)[:, None]
  batch = {'rewards': rewards, 'switched': switched, 'open': is_open}
  batch = stages()[-1].advantage({}, batch, jax.random.key(0))
  close(batch['advantages'], np.array([1, -1, -1, 1]) * 0.5 / np.std([1, 0, 0, 1], ddof=1))
  assert batch['codes/switches'].tolist() == [0, 1, 2, 3]


@pytest.mark.parametrize(
    ('changes', 'message'),
    [
        ({'order': (0, 4)}, r'order=\(0, 4\): need colours from 0 to 3'),
        ({'order': ()}, 'at least one'),
        ({'num_steps': STEPS + 1}, 'num_steps=15: from 1 to the 14 columns'),
        ({'actor': controllers.Reader(width=32, code_size=5)}, r'code_size=\[4, 5\]'),
        ({'actor': controllers.Reader(width=16, code_size=CODE_SIZE)}, r'\[16\] numbers, the policy has 32'),
    ],
)
def test_what_does_not_fit_raises(changes, message):
  given = dict(controller=READER, actor=READER, **ROWS, num_lower=1, order=ORDER)
  with pytest.raises(ValueError, match=message):
    internal_rl.internal_rl(GRID, POLICY, **{**given, **changes})


def test_a_price_that_does_not_rise_raises():
  with pytest.raises(ValueError, match='price_steps=0'):
    internal_rl.discovery(GRID, POLICY, READER, **ROWS, **{**PRICE, 'price_steps': 0})


@pytest.mark.slow
def test_a_config_runs_all_stages_and_goes_on_where_it_stopped(tmp_path):
  """Stopped in the second stage, while its price rises, it ends in the same numbers to the bit."""
  config = configs.load(f'{CONFIG}:smoke').unlock()
  config.mesh.data, config.population.size = 1, 1
  whole = train.train(config, tmp_path / 'whole', quiet=True, command='')
  assert whole.finished and whole.step == 12
  rows = read_metrics(tmp_path / 'whole/metrics.jsonl')
  prices = [row['codes/price'] for row in rows if 'codes/price' in row]
  full = config.discover.algorithm.price
  close(prices, [0, full / 2, full, full])
  assert 0 <= rows[-1]['eval/order/arrives'] <= 1 and rows[-1]['codes/switches'] >= 1
  again, resumed, _ = run_in(config, tmp_path / 'twice', stops=(6,))
  assert (tmp_path / 'whole/metrics.jsonl').read_bytes() == again
  state, _ = train.restore(build(config), tmp_path / 'whole')
  chex.assert_trees_all_equal(numbers(state), numbers(resumed))


# --- what is learned --------------------------------------------------------------------------------------


def descend(loss, params, key, *, steps, learning_rate):
  """Adam on fresh demonstrations; `loss(params, tokens, key, progress)`, progress from 0 to 1."""
  optimizer = optax.chain(
      optax.clip_by_global_norm(1.0), optax.adam(optax.cosine_decay_schedule(learning_rate, steps))
  )

  def step(carry, inputs):
    (params, opt_state), (key, t) = carry, inputs
    data_key, key = jax.random.split(key)
    tokens = subgoals.demonstrate(GRID, data_key, 64, STEPS)['tokens']
    updates, opt_state = optimizer.update(jax.grad(loss)(params, tokens, key, t / steps), opt_state, params)
    return (optax.apply_updates(params, updates), opt_state), None

  inputs = jax.random.split(key, steps), jnp.arange(steps)
  return jax.lax.scan(step, (params, optimizer.init(params)), inputs)[0][0]


@functools.cache
def prepared():
  """Cloned policies and their controllers, [SEEDS, ...]. A map, not `vmap`: a CPU is slow at stacks of small
  matrix products."""

  def one(seed):
    policy, controller, _ = begin(seed)
    clone_key, discover_key = jax.random.split(jax.random.fold_in(jax.random.key(7), seed))
    cloning = lambda policy, tokens, key, progress: -internal_rl.clone(policy, MODEL, tokens, GRID).mean()
    policy = descend(cloning, policy, clone_key, steps=400, learning_rate=1e-2)
    # The price rises at first: at its full height from the start, nothing is bought and nothing learned.
    discovery = lambda controller, tokens, key, progress: internal_rl.discover_loss(
        controller, policy, MODEL, tokens, key, price=0.2 * jnp.minimum(1, 2 * progress), switch_nats=2.0,
        **WORLD,
    )[0]
    return policy, descend(discovery, controller, discover_key, steps=600, learning_rate=1e-2)

  return jax.jit(lambda seeds: jax.lax.map(one, seeds))(jnp.arange(SEEDS))


def measure(policy, controller):
  """Nats an action without and with codes; how often it switches, and a subgoal ends; both at once."""
  batch = subgoals.demonstrate(GRID, jax.random.key(99), 500, STEPS)
  plain = -internal_rl.clone(policy, MODEL, batch['tokens'], GRID).mean()
  logprobs, codes = internal_rl.steered(
      controller, policy, MODEL, batch['tokens'], jax.random.key(1), **WORLD
  )
  (below, lower), _ = MODEL.split(policy, 1)
  stream, _ = lower.forward(below, controllers.steps(policy, MODEL, batch['tokens'][:, :-1]))
  e = controllers.read(stream)[:, 1:].reshape(-1, 32)
  # Behind the code that was in use, as acting does: at one half, and not drawn.
  previous = codes.z[:, :-1].reshape(-1, CODE_SIZE)
  switched = (controllers.switch(controller, e, previous) > 0).reshape(500, STEPS - 1)
  ended = batch['goals'][:, 1:] != batch['goals'][:, :-1]
  return plain, -logprobs.mean(), switched.mean(), ended.mean(), (switched & ended).mean()


def reinforced(policy, controller, key, *, order, steps, num, tokens):
  """Rewards [steps] of policies over codes, or with `tokens` of the policy itself, which then learns."""
  actor = controllers.init_actor(jax.random.key(1), width=32, code_size=CODE_SIZE, hidden_size=HIDDEN)
  algorithm = internal_rl.internal_rl(
      GRID, POLICY, READER, READER, batch_size=num, num_steps=STEPS, num_lower=1, order=order
  )
  params, slow, learning_rate = {'actor': actor}, {'policy': policy, 'controller': controller}, 1e-2
  if tokens:
    algorithm = of_tokens(algorithm, order=order, num=num, steps=STEPS, **WORLD)
    params, slow, learning_rate = {'policy': policy}, {'controller': controller}, 1e-3
  optimizer = optax.adam(learning_rate)
  train_step = train_steps.make_train_step(algorithm, optimizer, epochs=1, minibatches=1, microbatches=1)
  state = train_steps.begin(algorithm, optimizer, params, slow, key)
  return train_steps.repeat(train_step, steps)(state)[1]['reward/mean']


def of_tokens(parent, **world):
  """The same with a policy that draws moves without codes, and learns by their log-probabilities."""
  no_codes = lambda e, key: jnp.zeros((world['num'], CODE_SIZE))

  def rollout(models, memory, key):
    return acting.act(no_codes, models['controller'], models['policy'], MODEL, key, **world), memory

  def loss(models, batch, key):
    del key
    logprobs = internal_rl.clone(models['policy'], MODEL, batch['tokens'], GRID) * batch['open']
    return jnp.mean(policy_losses.reinforce(jnp.sum(logprobs, axis=-1), batch['advantages'])), {}

  return types.Algorithm(rollout=rollout, advantage=parent.advantage, loss=loss)


@pytest.mark.slow
def test_switches_align_with_the_ends_of_subgoals():
  """Three seeds; nobody tells the controller where subgoals end, which they do at 0.30 of the steps.

  Seen: 0.73, 0.54, 0.70 of switches are at such an end (0.30 by chance), and 0.71, 0.53, 0.60 of ends at a
  switch. Nats an action: 0.65 without codes, 0.35, 0.37, 0.43 with them; who knows the goal needs 0.31.
  """
  found = jax.jit(lambda models: jax.lax.map(lambda x: jnp.stack(measure(*x)), models))(prepared())
  plain, coded, switched, ended, both = np.asarray(found).T
  assert (coded < 0.8 * plain).all()
  assert (switched > 0.15).all() and (switched < 0.45).all()
  assert (both / switched > 1.5 * ended).all() and np.median(both / switched) > 0.6
  assert np.median(both / ended) > 0.5


@pytest.mark.slow
def test_codes_learn_a_succession_that_was_never_demonstrated():
  """Three seeds, rows of 256, the order 0, 2: from colour 0, no demonstrator ever went to 2.

  Mean reward of steps 1 to 20 with the policy frozen: 0.00, all seeds. Of steps 81 to 100: 0.33, 0.14, 0.03;
  of steps 181 to 200: 0.47, 0.20, 0.09. As compiled outside of tests: 0.51, 0.14, 0.16 of steps 81 to 100.
  That part of the paper's claim shows. The other does not: the cloned policy gets there once in a thousand
  rows, and so token RL, which may change everything, has 0.94, 0.83, 0.70 in steps 41 to 60. With two unseen
  successions (0, 2, 1) tokens got nothing in 80 steps of all seeds, but codes got nothing in 160 either.

  These are the draws of an earlier train step with the same update. With those of `make_train_step`, codes
  have 0.47, 0.16, 0.003 in steps 81 to 100 (another key: 0.31, 0.13, 0.004), and tokens 0.05, 0.57, 0.00 in
  steps 41 to 60 (another key: 0.07, 0.91, 0.88). So one seed of three does not learn with codes, and which of
  the two is faster depends on the draws of the first success; only the median of codes is asserted. Why
  tokens were luckier in all six runs of before is not known.
  """
  learn = lambda tokens, steps: np.asarray(jax.jit(lambda models: jax.lax.map(
      lambda x: reinforced(*x, jax.random.key(3), order=(0, 2), steps=steps, num=256, tokens=tokens), models
  ))(prepared()))
  codes = learn(False, 100)
  early, late = codes[:, :20].mean(axis=1), codes[:, 80:].mean(axis=1)
  assert (early < 0.05).all() and np.median(late) > 0.1 and (late > early).all()

"""Formulas of the algorithms that learn online: hand values, limits that are a parent, and what is held."""

import dataclasses
import functools

import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest

from rlx.algorithms.control import c51, ddpg, dqn, iqn, munchausen_dqn, qr_dqn, td3, tqc
from rlx.algorithms.control.droq import droq
from rlx.algorithms.control.mpo import mpo
from rlx.algorithms.control.redq import redq
from rlx.algorithms.control.sac import sac
from rlx.envs.control import probes
from rlx.envs.control.recall import recall
from rlx.models import critics, networks
from rlx.models.recurrent import gru
from rlx.rollout.control.recurrent import recurrent
from tests.cases import cases

SHAPE = dict(hidden=(4,), activation='tanh')


def test_projected_atoms():
  z = jnp.array([0.0, 1.0, 2.0])
  moved = jnp.array([[-1.0, 0.25, 5.0], [0.5, 1.0, 1.5]])
  probabilities = jnp.array([[0.5, 0.4, 0.1], [0.2, 0.5, 0.3]])
  # Row 0: -1 stays at 0; 0.25 is 3/4 at 0 and 1/4 at 1; 5 stays at 2.
  wanted = [[0.5 + 0.3, 0.1, 0.1], [0.1, 0.1 + 0.5 + 0.15, 0.15]]
  np.testing.assert_allclose(c51.projected(moved, probabilities, z), wanted, rtol=1e-6)


def test_a_projection_keeps_mass_and_inside_the_atoms_the_mean():
  z = critics.atoms(num_atoms=11, low=-1.0, high=1.0)
  probabilities = jax.nn.softmax(jax.random.normal(jax.random.key(0), (5, 11)))
  moved = 0.1 * jnp.arange(5)[:, None] + 0.4 * z[None]
  m = c51.projected(moved, probabilities, z)
  np.testing.assert_allclose(m.sum(axis=1), 1, rtol=1e-5)
  np.testing.assert_allclose(m @ z, jnp.sum(moved * probabilities, axis=1), atol=1e-6)


def test_atoms_span_an_interval():
  with pytest.raises(ValueError, match='at least 2, and low below high'):
    critics.atoms(num_atoms=11, low=1.0, high=1.0)


def test_quantile_huber_by_hand():
  # τ = 1/4, 3/4. Errors y - θ: θ = 0: 2, -1; θ = 3: -1, -4. Huber (1): 1.5, 0.5; 0.5, 3.5.
  quantiles, targets = jnp.array([[0.0, 3.0]]), jnp.array([[2.0, -1.0]])
  loss = qr_dqn.quantile_huber(quantiles, targets, critics.midpoints(2), delta=1.0)
  wanted = (0.25 * 1.5 + 0.75 * 0.5) / 2 + (0.25 * 0.5 + 0.25 * 3.5) / 2
  np.testing.assert_allclose(loss, [wanted], rtol=1e-6)


@pytest.mark.slow
def test_quantiles_are_where_the_loss_is_least():
  targets = jnp.arange(100.0)[None]
  loss = lambda q: qr_dqn.quantile_huber(q, targets, critics.midpoints(4), delta=1e-3).sum()
  at_quantiles = jnp.array([[12.0, 37.0, 62.0, 87.0]]) + 0.5
  assert jnp.abs(jax.grad(loss)(at_quantiles)).max() < 0.02
  assert (jnp.abs(jax.grad(loss)(at_quantiles + 10)) > 0.05).all()


def test_levels_of_each_row_are_its_own():
  quantiles, targets = jnp.zeros((2, 1)), jnp.array([[2.0], [-2.0]])
  loss = qr_dqn.quantile_huber(quantiles, targets, jnp.array([[0.9], [0.9]]), delta=1.0)
  np.testing.assert_allclose(loss, [0.9 * 1.5, 0.1 * 1.5], rtol=1e-6)  # too low is dear, too high is not


@pytest.mark.parametrize('layer_norm', [False, True])
def test_an_implicit_quantile_is_that_of_the_formula(layer_norm):
  env = probes.seen(discrete=True)
  policy = critics.greedy_on_implicit_quantiles(
      env, hidden=(5, 4), activation='tanh', layer_norm=layer_norm, num_cosines=3, num_quantiles=6,
      epsilon=0.0,
  )
  params = policy.init(jax.random.key(0))
  seen, levels = jnp.array([[0.3], [-1.0]]), jnp.array([[0.1, 0.5], [0.9, 0.2]])
  found = policy.at(params, seen, levels)
  layers = {name: jax.device_get(x['layers']) for name, x in params.items()}
  dense = lambda name, i, x: x @ layers[name][i]['kernel'] + layers[name][i]['bias']
  norm = lambda x: (x - x.mean()) / x.std() if layer_norm else x
  for row in range(2):
    psi = np.tanh(norm(dense('seen', 1, np.tanh(norm(dense('seen', 0, np.asarray(seen[row])))))))
    for i in range(2):
      waves = np.cos(np.pi * np.asarray(levels[row, i]) * np.arange(3))
      wanted = dense('of_both', 0, psi * np.maximum(dense('level', 0, waves), 0))
      np.testing.assert_allclose(found[row, :, i], wanted, rtol=1e-5)
  of_all = policy.at(params, seen, jnp.broadcast_to(critics.midpoints(6), (2, 6)))
  np.testing.assert_allclose(policy.outputs(params, seen), of_all, rtol=1e-6)
  np.testing.assert_allclose(policy.values(params, seen), of_all.mean(axis=-1), rtol=1e-6)


def test_implicit_quantiles_learn_a_distribution_at_levels_that_were_never_drawn():
  """Of one state and one return, uniform in 0 to 4, the quantile at τ is 4 τ."""
  env = probes.seen(discrete=True)
  policy = critics.greedy_on_implicit_quantiles(
      env, hidden=(32,), activation='relu', layer_norm=False, num_cosines=16, num_quantiles=8, epsilon=0.0
  )
  params, seen = policy.init(jax.random.key(0)), jnp.ones((64, 1))
  optimizer = optax.adam(1e-2)

  def loss(params, key):
    level_key, return_key = jax.random.split(key)
    levels = jax.random.uniform(level_key, (64, 8))
    returns = 4 * jax.random.uniform(return_key, (64, 8))
    return qr_dqn.quantile_huber(policy.at(params, seen, levels)[:, 0], returns, levels, delta=0.1).mean()

  def update(carry, key):
    params, state = carry
    updates, state = optimizer.update(jax.grad(loss)(params, key), state)
    return (optax.apply_updates(params, updates), state), None

  begin = params, optimizer.init(params)
  (params, _), _ = jax.jit(lambda carry, keys: jax.lax.scan(update, carry, keys))(
      begin, jax.random.split(jax.random.key(1), 600)
  )
  levels = jnp.linspace(0.1, 0.9, 9)
  np.testing.assert_allclose(policy.at(params, seen[:1], levels[None])[0, 0], 4 * levels, atol=0.25)


def test_what_implicit_quantiles_cannot_be_made_of_is_refused():
  numbers = dict(activation='relu', layer_norm=False, num_quantiles=8, epsilon=0.1)
  make = critics.greedy_on_implicit_quantiles
  with pytest.raises(ValueError, match='it needs discrete actions, a layer, a cosine and a quantile'):
    make(probes.seen(discrete=False), hidden=(4,), num_cosines=3, **numbers)
  with pytest.raises(ValueError, match='num_cosines=0'):
    make(probes.seen(discrete=True), hidden=(4,), num_cosines=0, **numbers)
  with pytest.raises(ValueError, match='num_levels=0: at least 1'):
    iqn.iqn(None, None, num_levels=0, num_target_levels=1, discount=1.0, huber_delta=1.0, target_period=1)


def test_the_highest_quantiles_of_all_critics_are_left_out_whose_ever_they_are():
  quantiles = jnp.array([[[1.0, 9.0, 5.0]], [[2.0, 3.0, 4.0]]])  # two critics, one row
  np.testing.assert_array_equal(tqc.truncated(quantiles, dropped=1), [[1, 2, 3, 4]])
  np.testing.assert_array_equal(tqc.truncated(quantiles, dropped=0), [[1, 2, 3, 4, 5, 9]])
  for dropped in (-1, 3):
    with pytest.raises(ValueError, match=f'dropped={dropped} of 3 quantiles of each critic: from 0 to 2'):
      tqc.truncated(quantiles, dropped=dropped)


def test_a_double_target_is_what_the_lagging_network_says_of_the_best_of_the_other():
  online, lagging = jnp.array([[1.0, 2.0], [5.0, 0.0]]), jnp.array([[9.0, 3.0], [4.0, 6.0]])
  np.testing.assert_array_equal(dqn.double_target(online, lagging), [3, 4])
  np.testing.assert_array_equal(dqn.max_target(online, lagging), [9, 6])


@pytest.mark.slow
def test_dueling_advantages_have_no_mean_and_there_is_one_value_more():
  env = probes.seen(discrete=True)
  network = networks.dueling(env, layer_norm=False, **SHAPE)
  params, seen = network.init(jax.random.key(0)), jnp.array([[0.3], [-1.0]])
  q = network.apply(params, seen)
  last = params['layers'][-1]
  raised = {'layers': [*params['layers'][:-1], {**last, 'bias': last['bias'].at[0].add(2.0)}]}
  np.testing.assert_allclose(network.apply(raised, seen), q + 2, rtol=1e-5)
  shifted = {'layers': [*params['layers'][:-1], {**last, 'bias': last['bias'].at[1:].add(2.0)}]}
  np.testing.assert_allclose(network.apply(shifted, seen), q, rtol=1e-5)


@pytest.mark.slow
@pytest.mark.parametrize('epsilon', [0.0, 0.2])
def test_an_epsilon_greedy_policy_says_how_likely_it_was(epsilon):
  env = probes.seen(discrete=True)
  network = networks.action_values(env, layer_norm=False, **SHAPE)
  policy = networks.epsilon_greedy(env, network=lambda env: network, epsilon=epsilon)
  params, seen = policy.init(jax.random.key(0)), jnp.ones((1000, 1))
  actions, logprobs = policy.sample(params, seen, jax.random.key(1))
  best = policy.mode(params, seen)
  np.testing.assert_array_equal(best, network.apply(params, seen).argmax(axis=-1))
  share = (actions != best).mean()
  assert share == 0 if epsilon == 0 else abs(share - epsilon / 2) < 0.03
  likely = jnp.where(actions == best, 1 - epsilon / 2, epsilon / 2)
  np.testing.assert_allclose(jnp.exp(logprobs), likely, rtol=1e-5)
  again, entropy = policy.score(params, seen, actions)
  np.testing.assert_allclose(again, logprobs, rtol=1e-5)
  wanted = 0 if epsilon == 0 else -(0.9 * np.log(0.9) + 0.1 * np.log(0.1))
  np.testing.assert_allclose(entropy, wanted, rtol=1e-5, atol=1e-7)
  with pytest.raises(ValueError, match='probability'):
    networks.epsilon_greedy(env, network=lambda env: network, epsilon=1.5)


def transitions(env, num=6):
  keys = jax.random.split(jax.random.key(7), 4)
  return {
      'observations': jax.random.normal(keys[0], (num, 1)), 'rewards': jax.random.normal(keys[1], (num,)),
      'next_observations': jax.random.normal(keys[2], (num, 1)), 'terminated': jnp.arange(num) == 0,
      'actions': jnp.arange(num) % 2 if env.actions.shape == () else jax.random.uniform(keys[3], (num, 1)),
  }


def actor_critic():
  env = probes.better(discrete=False)
  policy = networks.deterministic(env, exploration_noise=0.1, **SHAPE)
  critic = networks.critics(env, num=2, layer_norm=False, **SHAPE)
  init = lambda network, seed: network.init(jax.random.key(seed))
  models = {'policy': init(policy, 0), 'critic': init(critic, 1)}
  return env, policy, critic, models, {'target_policy': init(policy, 2), 'target': init(critic, 3)}


@pytest.mark.slow
def test_td3_without_noise_is_ddpg():
  env, policy, critic, params, slow = actor_critic()
  parent = ddpg.ddpg(None, policy, critic, discount=0.9, target_rate=0.1)
  noise = dict(smoothing_noise=0.0, noise_clip=0.5)
  child = td3.td3(None, policy, critic, discount=0.9, target_rate=0.1, target_period=1, **noise)
  batch, key = transitions(env), jax.random.key(0)
  losses = [lambda p, loss=a.loss: loss({**slow, **p}, batch, key)[0] for a in (parent, child)]
  grads = [jax.jit(jax.grad(loss))(params) for loss in losses]
  jax.tree.map(np.testing.assert_array_equal, *grads)
  jax.tree.map(np.testing.assert_array_equal, *(a.track(slow, params, jnp.int32(0)) for a in (parent, child)))


def test_targets_of_td3_move_at_every_second_update():
  _, policy, critic, params, slow = actor_critic()
  noise = dict(smoothing_noise=0.2, noise_clip=0.5)
  algorithm = td3.td3(None, policy, critic, discount=0.9, target_rate=0.1, target_period=2, **noise)
  moved = lambda update: jax.tree.leaves(
      jax.tree.map(lambda a, b: bool((a != b).any()), algorithm.track(slow, params, jnp.int32(update)), slow)
  )
  assert not any(moved(0)) and any(moved(1)) and not any(moved(2)) and any(moved(3))


def test_smoothing_stays_inside_its_clip():
  env, policy, critic, params, slow = actor_critic()
  batch = transitions(env)
  seen = []
  spy = networks.Network(
      init=critic.init, apply=lambda p, o, a: seen.append(a) or critic.apply(p, o, a)
  )
  noise = dict(smoothing_noise=10.0, noise_clip=0.25)
  algorithm = td3.td3(None, policy, spy, discount=0.9, target_rate=0.1, target_period=2, **noise)
  algorithm.loss({**slow, **params}, batch, jax.random.key(0))
  smoothed, mode = seen[0], policy.mode(slow['target_policy'], batch['next_observations'])
  np.testing.assert_allclose(jnp.abs(smoothed - mode), 0.25, atol=1e-6)


def test_rows_of_stretches_and_weights_count_as_they_say():
  env = probes.better(discrete=True)
  policy = networks.epsilon_greedy(
      env, network=lambda env: networks.action_values(env, layer_norm=False, **SHAPE), epsilon=0.1
  )
  models = {'policy': policy.init(jax.random.key(0)), 'target': policy.init(jax.random.key(1))}
  algorithm = dqn.dqn(
      None, policy, target=dqn.max_target, discount=0.5, huber_delta=1e9, target_period=1
  )
  batch = transitions(env)
  spans, weights = jnp.array([1.0, 2, 3, 1, 2, 3]), jnp.array([1.0, 0, 0.5, 1, 0.25, 0])
  loss, _ = algorithm.loss(models, {**batch, 'spans': spans, 'weights': weights}, None)
  q = np.array(policy.values(models['policy'], batch['observations']))[np.arange(6), batch['actions']]
  behind = np.array(policy.values(models['target'], batch['next_observations'])).max(axis=1)
  delta = q - (batch['rewards'] + np.where(batch['terminated'], 0, 0.5**spans) * behind)
  np.testing.assert_allclose(loss, np.mean(weights * delta**2 / 2), rtol=1e-5)
  told = algorithm.advantage(models, {**batch, 'spans': spans}, None)
  np.testing.assert_allclose(told['priorities'], np.abs(delta), rtol=1e-5)


def judged(algorithm):
  """Priorities |Q - y| of six transitions, and Q and Q̄ of them and of what follows them [6, A]."""
  env = probes.better(discrete=True)
  policy = networks.epsilon_greedy(
      env, network=lambda env: networks.action_values(env, layer_norm=False, **SHAPE), epsilon=0.1
  )
  models = {'policy': policy.init(jax.random.key(0)), 'target': policy.init(jax.random.key(1))}
  batch = transitions(env)
  values = lambda model, name: np.array(policy.values(models[model], batch[name]), np.float64)
  told = algorithm(policy).advantage(models, batch, None)['priorities']
  lagging = values('target', 'observations'), values('target', 'next_observations')
  return batch, told, values('policy', 'observations')[np.arange(6), batch['actions']], *lagging


def munchausen(**hyper):
  known = dict(discount=0.5, huber_delta=1.0, target_period=1, target_rate=0.1)
  return lambda policy: munchausen_dqn.munchausen_dqn(None, policy, **known, **hyper)


def test_munchausen_is_paid_for_being_sure():
  batch, told, q, lagging, behind = judged(munchausen(alpha=0.9, tau=0.3, lowest=-0.2))
  log_policy = lambda values: values / 0.3 - np.log(np.exp(values / 0.3).sum(axis=1, keepdims=True))
  bonus = np.clip(0.3 * log_policy(lagging)[np.arange(6), batch['actions']], -0.2, 0)
  soft = np.sum(np.exp(log_policy(behind)) * (behind - 0.3 * log_policy(behind)), axis=1)
  assert (bonus == -0.2).any() and (bonus > -0.2).any()
  y = batch['rewards'] + 0.9 * bonus + np.where(batch['terminated'], 0, 0.5) * soft
  np.testing.assert_allclose(told, np.abs(q - y), rtol=1e-4)


def test_munchausen_without_bonus_and_temperature_is_dqn():
  _, cold, *_ = judged(munchausen(alpha=0.0, tau=1e-5, lowest=-1.0))
  _, plain, *_ = judged(
      lambda policy: dqn.dqn(
          None, policy, target=dqn.max_target, discount=0.5, huber_delta=1.0, target_period=1
      )
  )
  np.testing.assert_allclose(cold, plain, atol=1e-4)


# --- ensembles ----------------------------------------------------------------------------------------------


def surely(policy):
  """The policy without chance, so that two algorithms do the same whatever their keys are."""
  sample = lambda params, seen, key: (policy.mode(params, seen), jnp.zeros(seen.shape[:-1]))
  return dataclasses.replace(policy, sample=sample)


def soft_gradients(*algorithms, critic):
  env = probes.better(discrete=False)
  policy, temperature = networks.squashed_gaussian(env, **SHAPE), networks.positive(initial=0.5)
  keys = jax.random.split(jax.random.key(0), 4)
  params = {
      'policy': policy.init(keys[0]), 'critic': critic.init(keys[1]), 'temperature': temperature.init(keys[2])
  }
  models = {**params, 'target': critic.init(keys[3])}
  numbers = dict(discount=0.9, target_rate=0.1, target_entropy=-1.0)
  batch = transitions(env)
  for factory in algorithms:
    algorithm = factory(None, env, surely(policy), critic, temperature, **numbers)
    loss = lambda params, loss=algorithm.loss: loss({**models, **params}, batch, jax.random.key(1))[0]
    yield jax.jit(jax.grad(loss))(params)


@pytest.mark.slow
def test_redq_of_one_critic_is_sac_of_one():
  critic = networks.critics(probes.better(discrete=False), num=1, layer_norm=False, **SHAPE)
  close(*soft_gradients(sac, functools.partial(redq, subset=1), critic=critic))


@pytest.mark.slow
def test_droq_that_drops_nothing_is_redq_with_layer_norm():
  env = probes.better(discrete=False)
  dropping = critics.dropout_critics(env, num=2, rate=0.0, **SHAPE)
  normal = networks.critics(env, num=2, layer_norm=True, **SHAPE)
  (first,) = soft_gradients(functools.partial(droq, num_critics=2), critic=dropping)
  (second,) = soft_gradients(functools.partial(redq, subset=2), critic=normal)
  close(first, second)


@pytest.mark.slow
def test_dropout_is_drawn_anew_for_each_critic_and_key():
  env = probes.better(discrete=False)
  critic = critics.dropout_critics(env, num=2, hidden=(32,), activation='tanh', rate=0.5)
  params = jax.tree.map(lambda x: x[:1].repeat(2, axis=0), critic.init(jax.random.key(0)))
  ones = jnp.ones((1, 1))
  values = [critic.apply(params, ones, ones, jax.random.key(seed)) for seed in (0, 0, 1)]
  np.testing.assert_array_equal(values[0], values[1])
  assert values[0][0] != values[0][1] and values[0][0] != values[2][0]
  with pytest.raises(ValueError, match='rate=1'):
    critics.dropout_critics(env, num=2, rate=1.0, **SHAPE)


def test_a_subset_is_of_the_ensemble():
  critic = networks.critics(probes.better(discrete=False), num=2, layer_norm=False, **SHAPE)
  with pytest.raises(ValueError, match='subset=3 of 2 critics'):
    list(soft_gradients(functools.partial(redq, subset=3), critic=critic))


def close(first, second):
  jax.tree.map(lambda a, b: np.testing.assert_allclose(a, b, rtol=1e-4, atol=1e-6), first, second)


# --- MPO ----------------------------------------------------------------------------------------------------


@pytest.mark.slow
def test_the_duals_of_mpo():
  """dL_η/dη = ε - KL(w | uniform); where the policy is the lagging one, K = 0 and the multipliers fall."""
  env, num, eta = probes.better(discrete=False), 5, 0.7
  policy = networks.squashed_gaussian(env, **SHAPE)
  critic = networks.critics(env, num=1, layer_norm=False, **SHAPE)
  temperature, multiplier = networks.positive(initial=eta), networks.positive(initial=2.0)
  names = ('mean_multiplier', 'spread_multiplier')
  keys = jax.random.split(jax.random.key(0), 3)
  params = {
      'policy': policy.init(keys[0]), 'critic': critic.init(keys[1]), 'temperature': temperature.init(None),
      **{name: multiplier.init(None) for name in names},
  }
  slow = {'target_policy': params['policy'], 'target': critic.init(keys[2])}
  algorithm = mpo(
      None, policy, critic, temperature, multiplier, multiplier, num_actions=num, epsilon=0.1,
      mean_limit=0.02, spread_limit=0.01, discount=0.9, lambda_=1.0, target_rate=0.1,
  )
  batch, key = in_stretches(env, policy, params['policy']), jax.random.key(1)
  loss = lambda params: algorithm.loss({**slow, **params}, batch, key)
  grads, metrics = jax.jit(jax.grad(loss, has_aux=True))(params)
  draw = lambda k: policy.sample(params['policy'], batch['observations'], k)[0]
  actions = jax.vmap(draw)(jax.random.split(jax.random.split(key)[1], num))
  worth = jax.vmap(lambda a: critic.apply(slow['target'], batch['observations'], a)[0])(actions)
  weights = np.asarray(jax.nn.softmax(worth / eta, axis=0))
  kl = np.sum(weights * np.log(weights * num), axis=0).mean()
  np.testing.assert_allclose(grads['temperature']['log'], eta * (0.1 - kl), rtol=1e-4)
  for name, limit in (('mean', 0.02), ('spread', 0.01)):
    np.testing.assert_allclose(metrics[f'kl/target_{name}'], 0, atol=1e-6)
    np.testing.assert_allclose(grads[f'{name}_multiplier']['log'], 2.0 * limit, rtol=1e-3)


def in_stretches(env, policy, params, length=2):
  """Transitions as rows [B, length], as likely as the policy says."""
  batch = transitions(env)
  batch['sampler_logprobs'] = policy.score(params, batch['observations'], batch['actions'])[0]
  batch['truncated'] = jnp.arange(len(batch['rewards'])) == 3
  return jax.tree.map(lambda x: x.reshape(-1, length, *x.shape[1:]), batch)


@pytest.mark.parametrize('moved', cases(['mean', 'spread'], at_once=['spread']))
def test_mean_and_spread_of_mpo_have_bounds_of_their_own(moved):
  """Of a Gaussian whose spread is a parameter: who moves has its divergence, and the other none."""
  env = probes.better(discrete=False)
  policy = networks.gaussian(env, **SHAPE, initial_log_std=-0.5)
  critic, dual = networks.critics(env, num=1, layer_norm=False, **SHAPE), networks.positive(initial=1.0)
  old = policy.init(jax.random.key(0))
  changed = {'mean': jax.tree.map(lambda x: x + 0.2, old['mean']), 'spread': old['log_std'] + 0.3}
  new = {**old, {'mean': 'mean', 'spread': 'log_std'}[moved]: changed[moved]}
  batch = in_stretches(env, policy, old)
  names = ('temperature', 'mean_multiplier', 'spread_multiplier')
  models = {
      'policy': new, 'target_policy': old, **{name: dual.init(None) for name in names},
      **dict.fromkeys(('critic', 'target'), critic.init(jax.random.key(2))),
  }
  algorithm = mpo(
      None, policy, critic, dual, dual, dual, num_actions=3, epsilon=0.1, mean_limit=0.02, spread_limit=0.01,
      discount=0.9, lambda_=1.0, target_rate=0.1,
  )
  metrics = algorithm.loss(models, batch, jax.random.key(3))[1]
  draws = jax.vmap(lambda k: policy.sample(old, batch['observations'], k)[0])(
      jax.random.split(jax.random.key(4), 20_000)
  )
  logprobs = lambda params: jax.vmap(lambda a: policy.score(params, batch['observations'], a)[0])(draws)
  divergence = jnp.mean(logprobs(old) - logprobs(new))
  other = 'spread' if moved == 'mean' else 'mean'
  assert float(divergence) > 0.01
  np.testing.assert_allclose(metrics[f'kl/target_{moved}'], divergence, rtol=0.05)
  np.testing.assert_allclose(metrics[f'kl/target_{other}'], 0, atol=1e-6)


def test_the_critic_of_mpo_follows_retrace():
  """With λ = 1 and actions as likely as the lagging policy makes them, later errors are carried back."""
  env = probes.better(discrete=False)
  policy = networks.gaussian(env, **SHAPE, initial_log_std=-0.5)
  critic, dual = networks.critics(env, num=1, layer_norm=False, **SHAPE), networks.positive(initial=1.0)
  params, names = policy.init(jax.random.key(0)), ('temperature', 'mean_multiplier', 'spread_multiplier')
  flat_critic = critic.init(jax.random.key(2))
  zero = jax.tree.map(jnp.zeros_like, flat_critic)
  models = {
      'policy': params, 'target_policy': params, **{name: dual.init(None) for name in names},
      'critic': zero, 'target': zero,
  }
  batch = in_stretches(env, policy, params)

  def error(lambda_):
    algorithm = mpo(
        None, policy, critic, dual, dual, dual, num_actions=3, epsilon=0.1, mean_limit=0.02,
        spread_limit=0.01, discount=0.9, lambda_=lambda_, target_rate=0.1,
    )
    return float(algorithm.loss(models, batch, jax.random.key(3))[1]['loss/critic'])

  rewards, ends = np.asarray(batch['rewards']), np.asarray(batch['terminated'] | batch['truncated'])
  carried = rewards[:, 0] + np.where(ends[:, 0], 0, 0.9 * rewards[:, 1])
  both = np.stack([carried, rewards[:, 1]], axis=1)
  np.testing.assert_allclose(error(0.0), np.mean(rewards**2), rtol=1e-5)
  np.testing.assert_allclose(error(1.0), np.mean(both**2), rtol=1e-5)


# --- memory -------------------------------------------------------------------------------------------------


def remembered():
  """Two batches of a rollout on a task of three steps, one behind the other, and the parameters."""
  env = recall(num_steps=3)
  network = gru(env, size=4)
  rollout = recurrent(env, network, num_envs=2, num_steps=5)
  params = network.init(jax.random.key(0))
  draw = jax.jit(rollout.draw)
  first, world = draw({'policy': params}, rollout.begin(jax.random.key(1)), jax.random.key(2))
  second, _ = draw({'policy': params}, world, jax.random.key(3))
  return network, params, first, second


@pytest.mark.slow
def test_a_loss_reads_what_the_rollout_read():
  network, params, first, second = remembered()
  np.testing.assert_array_equal(first['starts'][0], [1, 0, 0, 1, 0])
  np.testing.assert_array_equal(second['starts'][0], [0, 1, 0, 0, 1])
  np.testing.assert_array_equal(first['carries'], 0)
  assert (second['carries'] != 0).all(), 'the episode goes on'
  for batch in (first, second):
    _, logits, _ = network.scan(params, batch['carries'], batch['observations'], batch['starts'])
    logprobs = jnp.take_along_axis(jax.nn.log_softmax(logits), batch['actions'][..., None], axis=-1)[..., 0]
    np.testing.assert_allclose(logprobs, batch['sampler_logprobs'], rtol=1e-5)
  both = lambda name: jnp.concatenate([first[name], second[name]], axis=1)
  carries, _, _ = network.scan(params, first['carries'], both('observations'), both('starts'))
  np.testing.assert_allclose(carries[:, 4], second['carries'], rtol=1e-5)


@pytest.mark.slow
def test_nothing_is_remembered_of_the_episode_before():
  network, params, first, _ = remembered()
  starts, seen = first['starts'], first['observations']
  read = lambda seen: network.scan(params, first['carries'], seen, starts)[1]
  before, after = read(seen), read(seen.at[:, :3].add(1.0))
  np.testing.assert_array_equal(before[:, 3:], after[:, 3:])
  assert (before[:, 2] != after[:, 2]).all()
  of_the_cue = jax.grad(lambda seen: read(seen)[:, 2].sum())(seen)
  assert (of_the_cue[:, 0] != 0).any() and (of_the_cue[:, 3:] == 0).all()


def test_recall_pays_for_the_cue_at_the_end():
  env = recall(num_steps=3)
  state, seen = env.reset(jax.random.key(0))
  cue = seen[0]
  assert abs(cue) == 1 and seen[1] == 0
  for last in (False, True):
    new = env.step(state, jnp.int32(0), None)
    assert new.reward == 0 and not new.terminated and new.observation[0] == 0
    assert new.observation[1] == last
    state = new.state
  paid = [env.step(state, jnp.int32(action), None) for action in (0, 1)]
  np.testing.assert_array_equal([x.reward for x in paid], [-cue, cue])
  assert all(x.terminated for x in paid)
  with pytest.raises(ValueError, match='num_steps=1'):
    recall(num_steps=1)

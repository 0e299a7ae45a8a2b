"""Named models: any number of any shape in a run, what they stand on, roles, and what comes from files."""

import json
from pathlib import Path
import types

import chex
import jax
import jax.numpy as jnp
from ml_collections import ConfigDict
import numpy as np
import pytest

from rlx import config as configs
from rlx import lens
from rlx.losses import anchors
from rlx.models import drafter, hf, peft
from rlx.models.language import LanguageModel
from rlx.run import examining, states, train
from rlx.run.build import build
from rlx.run.writers import read_metrics
from rlx.types import Algorithm
from tests.whole_runs import in_the_repository, run_in

ROOT = Path(__file__).parents[2]
QUICKSTART = 'experiments/configs/quickstart/arithmetic.py:smoke'
MATH = 'experiments/configs/math/gsm8k_grpo.py:smoke'
LORA = {
    'name': 'lora', 'rank': 2, 'alpha': 4.0, 'targets': 'layers/(query|value)', 'full': '', 'directory': '',
}


@pytest.fixture(scope='module', autouse=True)
def here():
  with in_the_repository():
    yield


def quickstart(*overrides) -> ConfigDict:
  config = configs.load(QUICKSTART)
  for text in ('mesh.data=1', *overrides):
    configs.override(config, *text.split('=', 1))
  return config.unlock()


@pytest.fixture(scope='module')
def larger(tmp_path_factory):
  """A directory with a model of another shape than the one in the repository, over the same vocabulary."""
  directory = tmp_path_factory.mktemp('models') / 'larger'
  numerics = dict(dtype='float32', param_dtype='float32', remat=False)
  kernels = dict(attention='reference', decode_attention='reference')
  shape = hf.shape_of(directory='experiments/data/tiny_model', context_length=0, **numerics, **kernels)
  bigger = LanguageModel(shape).replace(num_layers=3, width=48, mlp_size=80)
  settings = {'bos_token_id': 1, 'eos_token_id': 2}
  hf.save(directory, bigger.init(jax.random.key(5)), bigger.shape, family='qwen2', settings=settings)
  return str(directory)


def five_models(larger: str) -> ConfigDict:
  """PPO of a LoRA, against a larger reference, with a critic and a reward model of shapes of their own.

  Both `policy` and `judge`'s trunk are adapters on one base from a directory; the reference is another one.
  """
  config = configs.load(MATH).unlock()
  del config['sft']
  base = config.models.policy.to_dict()
  config.stages, config.mesh.data, config.steps = ('main',), 1, 4
  small = {
      'name': 'qwen2', 'num_layers': 1, 'width': 8, 'num_heads': 2, 'num_kv_heads': 1, 'mlp_size': 16,
      'context_length': 256, 'tied': True, 'dtype': 'float32', 'remat': False, 'attention': 'reference',
  }
  config.models = {
      'base': base, 'policy': LORA, 'taste': LORA, 'reference': {**base, 'directory': larger},
      'small': small, 'value': {'name': 'value_head', 'names': {'policy': 'small'}},
      'judge': {'name': 'reward_head', 'names': {'policy': 'taste'}},
  }
  config.trained = ('policy', 'value')
  held = ('base', 'reference', 'judge', 'taste', 'small')
  config.slow = {**{name: name for name in held}, 'yesterday': 'policy'}
  config.reward = {'name': 'learned'}
  config.algorithm = {
      'name': 'ppo', 'clip_low': 0.2, 'clip_high': 0.2, 'entropy_coef': 0.0, 'value_coef': 0.5,
      'value_clip': 0.2, 'discount': 1.0, 'lambda_': 0.95, 'kl': {'name': 'kl_in_reward', 'coef': 0.1},
  }
  adam = {'name': 'adam', 'b1': 0.9, 'b2': 0.95, 'eps': 1e-8}
  config.optimizer = {
      'name': 'per_model', 'policy': {**adam, 'learning_rate': 1e-2},
      'value': {'name': 'every', 'period': 2, 'optimizer': {**adam, 'learning_rate': 1e-3}},
  }
  config.evals = {'held_out': {'name': 'likelihood', 'every': 2, 'problems': 4}}
  config.log.headline = 'eval/held_out/nll'
  return config


def _assert_other_files_are_refused(config, directory, workdir):
  """A run does not go on with other files under a frozen model than it began with."""
  config_file = Path(directory) / 'config.json'
  before = config_file.read_text()
  config_file.write_text(before.replace('{', '{\n  "note": "another",', 1))
  with pytest.raises(configs.ConfigError, match='are not those that the run began with') as error:
    train.train(config, workdir, quiet=True, command='')
  config_file.write_text(before)
  assert '\n' not in str(error.value)


@pytest.mark.slow
def test_models_of_many_shapes_are_one_run(larger, tmp_path):
  """It learns, is stopped and goes on to the bit, leaves what others load, and saves no frozen weights; with
  other files under one of these it does not go on."""
  config = five_models(larger)
  whole = train.train(config, tmp_path / 'whole', quiet=True, command='')
  rows = read_metrics(tmp_path / 'whole/metrics.jsonl')
  assert whole.finished and rows[-1]['optimizer/grad_norm'] > 0 and np.isfinite(rows[-1]['eval/held_out/nll'])
  again, _, _ = run_in(config, tmp_path / 'twice', stops=(2,))
  _assert_other_files_are_refused(config, larger, tmp_path / 'twice')
  assert (tmp_path / 'whole/metrics.jsonl').read_bytes() == again
  manifest = json.loads(max((tmp_path / 'whole/checkpoints').glob('*/manifest.json')).read_text())
  saved = ' '.join(manifest['arrays'])
  assert 'yesterday' in saved and 'judge' in saved and "'base'" not in saved and "'reference'" not in saved
  run = build(config)
  state, _ = train.restore(run, tmp_path / 'whole')
  chex.assert_trees_all_equal(state.slow['yesterday'].keys(), state.params['policy'].keys())
  shape = run.stages[0].models['base'].model.functions.shape
  adapters, _ = peft.load(tmp_path / 'whole/adapter', shape, family='qwen2')
  chex.assert_trees_all_equal(adapters, jax.device_get(state.params['policy']))


@pytest.mark.slow
def test_models_of_many_shapes_are_sharded(larger):
  """Adapters, copies and critics are split as what they belong to, and the numbers stay."""
  metrics = []
  for axes in ({'fsdp': 1, 'tensor': 1}, {'fsdp': 2, 'tensor': 2}):
    config = five_models(larger)
    config.mesh.update(data=1, **axes)
    run = build(config)
    with jax.set_mesh(run.mesh):
      frozen = states.load_frozen(run, 0, {})
      state = states.begin(run, 0, {}, 0, frozen)
      query = frozen['base']['layers']['query']
      lagging = state.slow['yesterday']['layers']['query_lora_b']
      trunk = state.slow['judge']['trunk']['layers']['query']
      for leaf in (query, lagging, trunk):
        assert len(leaf.sharding.device_set) == axes['fsdp'] * axes['tensor']
        assert axes['tensor'] == 1 or not leaf.sharding.is_fully_replicated
      stage = run.stages[0]
      metrics.append(jax.device_get(stage.program.dispatch(state, stage.rollout.data, frozen)[1]))
  chex.assert_trees_all_close(*metrics, rtol=2e-3, atol=1e-5)


@pytest.mark.slow
def test_a_population_shares_what_is_frozen(larger):
  config = five_models(larger)
  config.population.size = 2
  config.evals = {'held_out': {'name': 'likelihood', 'every': 2, 'problems': 4}}
  run = build(config)
  state, frozen = states.abstract_state(run, 0)
  assert frozen['base']['embedding'].ndim == 2 and 'base' not in state.slow
  assert state.slow['yesterday']['layers']['query_lora_a'].shape[0] == 2
  train.check(run)


DRAFTER = {'name': 'drafter', 'num_layers': 1}


@pytest.mark.slow
def test_a_model_that_was_trained_is_held_as_it_became():
  """Not as its files are: they are read again only for what no stage has trained."""
  config = configs.load(MATH).unlock()
  config.mesh.data = 1
  config.models.value = {'name': 'value_head'}
  config.trained, config.slow = ('value',), {'policy': 'policy'}
  run = build(config)
  first, second = run.stages
  assert first.frozen == second.frozen == () and second.learnt == {'policy'}
  with jax.set_mesh(run.mesh):
    begun = states.begin(run, 0, {}, 0).models
    trained = jax.tree.map(lambda x: x + 1, begun)
    state = states.begin(run, 1, trained, 2)
  chex.assert_trees_all_equal(state.slow['policy'], trained['policy'])
  chex.assert_trees_all_equal(state.params['value']['trunk'], trained['policy'])


def test_a_drafter_of_a_lora_begins_as_what_the_adapters_make_of_the_base():
  config = configs.load(MATH).unlock()
  del config['sft']
  config.models = {'base': config.models.policy.to_dict(), 'policy': LORA, 'drafter': DRAFTER}
  config.stages, config.mesh.data = ('main',), 1
  config.trained, config.slow = ('policy', 'drafter'), {'base': 'base'}
  run = build(config)
  with jax.set_mesh(run.mesh):
    frozen = states.load_frozen(run, 0, {})
    fresh = states.begin(run, 0, {}, 0, frozen).params['policy']
    adapters = jax.tree.map(lambda x: x + 1, fresh)
    state = states.begin(run, 0, {'policy': adapters}, 1, frozen)
  seen = run.stages[0].models['policy'].model.view(adapters, frozen)
  chex.assert_trees_all_equal(state.params['drafter'], drafter.init(seen, num_layers=1))


def two_decoders() -> ConfigDict:
  """The quickstart's SFT stage, with a second decoder of another shape."""
  config = quickstart()
  config.stages = ('main',)
  stage = config.sft.to_dict()
  del config['sft'], config['reward']
  for name, section in {**stage, 'stop': ConfigDict()}.items():
    setattr(config, name, section)
  config.models.judge = {**config.models.policy, 'width': 32}
  config.trained, config.slow = ('judge',), {'policy': 'policy'}
  config.algorithm = {'name': 'sft', 'names': {'policy': 'judge'}}
  config.evals = {'held_out': {'name': 'text.verified', 'every': 2, 'problems': 4}}
  return config


@pytest.mark.slow
def test_a_role_is_given_to_a_model_of_another_name():
  """SFT trains `policy`; with a role it trains the judge, and the policy stays as it is."""
  run = build(two_decoders())
  with jax.set_mesh(run.mesh):
    state = states.begin(run, 0, {}, 0)
    before = jax.device_get(state.models)
    after, _ = run.stages[0].program.dispatch(state, None)
  chex.assert_trees_all_equal(jax.device_get(after.slow['policy']), before['policy'])
  moved = jnp.abs(after.params['judge']['embedding'] - before['judge']['embedding']).max()
  assert moved > 0 and after.params['judge']['embedding'].shape[1] == 32


@pytest.mark.slow
def test_evaluations_are_any_number_each_at_its_own_time(tmp_path, monkeypatch):
  """Two evaluations of two models, one that reads the world; the headline is named."""
  monkeypatch.syspath_prepend(str(ROOT / 'tests/run'))
  config = two_decoders()
  config.evals = {
      'policy': {'name': 'text.verified', 'every': 4, 'problems': 4},
      'judge': {'name': 'text.verified', 'every': 2, 'problems': 4, 'names': {'policy': 'judge'}},
      'world': {'name': 'pieces.seen', 'every': 2},
  }
  config.log.headline = 'eval/judge/accuracy'
  train.train(config, tmp_path, quiet=True, command='')
  rows = {row['step']: row for row in read_metrics(tmp_path / 'metrics.jsonl')}
  assert [step for step, row in rows.items() if 'eval/policy/accuracy' in row] == [0, 4]
  assert [step for step, row in rows.items() if 'eval/judge/accuracy' in row] == [0, 2, 4]
  assert rows[2]['eval/world/models'] == 2 and 'eval/world/memories' in rows[4]


@pytest.mark.slow
def test_a_model_can_be_made_of_others_alone(monkeypatch):
  monkeypatch.syspath_prepend(str(ROOT / 'tests/run'))
  config = two_decoders()
  config.models.judge.width = 64
  names = {'first': 'policy', 'second': 'judge'}
  config.models.mean = {'name': 'pieces.between', 'names': names, 'share': 0.25}
  config.evals.held_out.names = {'policy': 'mean'}
  run = build(config)
  with jax.set_mesh(run.mesh):
    state = states.begin(run, 0, {}, 0)
    shown = run.stages[0].view(state.models)
    examining.make_ask(run, run.stages[0], run.evals[0])(state.models, state.world, {})
  policy, judge = (shown[name]['embedding'] for name in ('policy', 'judge'))
  np.testing.assert_allclose(shown['mean']['embedding'], 0.25 * policy + 0.75 * judge, rtol=1e-6)
  assert 'mean' not in state.models


WRONG = [
    ({'reward': {'name': 'verifier'}}, "config has ['reward'], which nobody asks for"),
    ({'models.reward': DRAFTER}, "config.models has ['reward'], names of sections"),
    ({'models.extra': DRAFTER}, "config.models has ['extra'], which no stage has"),
    ({'models.policy': LORA}, "asks for ['base']"),
    ({'models.policy': {**LORA, 'names': {'base': 'judge'}}, 'trained': ('policy',), 'slow': {},
      'algorithm': {'name': 'sft'}}, "'policy' stands on ['judge']"),
    ({'algorithm.names': {'policy': 'critic'}}, "names: ['critic'] is no model of the run"),
    ({'algorithm.names': {'plicy': 'judge'}}, "names has ['plicy'], which sft() does not ask for"),
    ({'slow.judge': 'judge'}, "['judge'] are in trained and in slow"),
    ({'slow.policy': 'judge'}, "slow: ['policy'] are models of their own"),
    ({'model': {'name': 'transformer'}}, 'model is now models.policy'),
    ({'eval': {'every': 2}}, 'eval is now evals.<name>'),
    ({'models.judge.num_layers': 0}, 'num_layers=0'),
    ({'evals.held_out.every': 0}, 'evals.held_out.every=0'),
    ({'stages': ('sft', 'main')}, "the config has no sections ['sft']"),
]


@pytest.mark.parametrize('changes, words', WRONG)
def test_what_does_not_fit_together_is_one_line(changes, words):
  config = two_decoders()
  for path, value in changes.items():
    *sections, name = path.split('.')
    section = config
    for part in sections:
      section = section[part]
    section[name] = ConfigDict(value) if isinstance(value, dict) else value
  with pytest.raises(configs.ConfigError) as error:
    train.check(build(config))
  assert words in str(error.value) and '\n' not in str(error.value), str(error.value)


def test_models_over_other_tokens_are_refused(larger, tmp_path):
  config = five_models(larger)
  few = build(config).stages[0].models['reference'].model.functions.replace(vocab_size=300)
  settings = {'bos_token_id': 1, 'eos_token_id': 2}
  hf.save(tmp_path / 'few', few.init(jax.random.key(0)), few.shape, family='qwen2', settings=settings)
  config.models.reference.directory = str(tmp_path / 'few')
  with pytest.raises(configs.ConfigError, match=r'know \[300, 384\] tokens'):
    build(config)


# --- lenses -------------------------------------------------------------------------------------------------


def test_roles_hide_and_uncover_names():
  models = {'policy': 1, 'judge': 2}
  shown = lens.cast(models, {'policy': 'judge', 'critic': 'policy'})
  assert shown['policy'] == 2 and shown['critic'] == 1 and shown['judge'] == 2
  uncovered = lens.own_names(shown)
  assert uncovered['policy'] == 1 and uncovered['judge'] == 2


def test_an_anchor_scores_the_model_that_has_the_role():
  reference = types.SimpleNamespace(score=lambda params, batch: (params, None))
  anchor = lens.bind(anchors.kl_in_loss(reference, coef=0.5), {'reference': 'base'})
  assert anchor.annotate({'base': 3, 'reference': 4}, {})['reference_logprobs'] == 3 and anchor.coef == 0.5


def test_what_is_tracked_under_a_role_goes_back_to_its_model():
  follow = lambda slow, params, update: {**slow, 'target': slow['target'] + params['critic']}
  nothing = lambda models, batch, key: batch
  algorithm = Algorithm(rollout=nothing, loss=nothing, track=follow)
  bound = lens.bind(algorithm, {'critic': 'value', 'target': 'lagging'})
  slow = {'lagging': 10, 'target': 5, 'other': 7}
  assert bound.track(slow, {'value': 1, 'critic': 100}, 0) == {'lagging': 11, 'target': 5, 'other': 7}

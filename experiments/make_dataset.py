"""`rlx make-dataset --config=FILE --source=SOURCE --output=FILE`: transitions to learn from offline.

A source is `random` (uniformly random actions), `sampled` or `mode` (the policy of a run, as it explores or
at its best), or `replay` (what the replay store of a run remembers). In D4RL's words: *medium* is `sampled`
of a run that was stopped early, *medium-replay* is `replay` of it, *expert* is `sampled` of a finished one.
"""


from rlx.experiments.commands import EXIT_DONE, CommandError, Parser, positive, seed

SOURCES = ('random', 'sampled', 'mode', 'replay')


def main(argv: list[str]) -> int:
  """Runs the command; returns the exit code."""
  arguments = _parser().parse_args(argv)
  if bool(arguments.config) == bool(arguments.workdir):
    raise CommandError('give either --config=FILE (of an environment) or --workdir=DIR (of a run)')
  if arguments.config and arguments.source != 'random':
    raise CommandError(f'--source={arguments.source} is of a run; give its --workdir=DIR')
  from rlx.data import transitions as datasets
  from rlx.run.checkpoint import environment

  try:
    datasets.check_place(arguments.output)
  except ValueError as error:
    raise CommandError(f'--output: {error}') from error
  run = _run(arguments)
  dataset, at_step = _dataset(arguments, run)
  description = {
      'environment': run.config.env.to_dict(), 'source': arguments.source, 'step': at_step,
      'seed': arguments.seed, 'made_with': environment(),
  }
  datasets.save(arguments.output, dataset, description)
  returns = [float(episode['rewards'].sum()) for episode in datasets.trajectories(dataset)]
  mean = sum(returns) / len(returns)
  print(f'{len(dataset["rewards"])} transitions, {len(returns)} episodes, mean return {mean:.1f}')
  return EXIT_DONE


def _run(arguments):
  """The run that the environment, the policy and the store are of."""
  from rlx import config as configs
  from rlx.errors import ConfigError
  from rlx.run.build import build

  if arguments.config:
    config = configs.load(arguments.config)
  else:
    from rlx.run.opened import config_of

    config = config_of(arguments.workdir)
  if 'env' not in config:
    raise ConfigError('the config has no section env: transitions are of a control environment')
  return build(config)


def _dataset(arguments, run):
  """The transitions, and after how many train steps the run made them (None without a run)."""
  import jax

  from rlx.data import transitions as datasets
  from rlx.run import train

  numbers = dict(num_envs=arguments.num_envs, num_steps=arguments.num_steps)
  env, key = run.task, jax.random.key(arguments.seed)
  if arguments.source == 'random':
    return datasets.roll_out(env, datasets.random_actions(env), key, **numbers), None
  first = lambda tree: jax.tree.map(lambda x: x[0], tree) if run.population > 1 else tree
  with jax.set_mesh(run.mesh):
    state, position = train.restore(run, arguments.workdir)
  if arguments.source == 'replay':
    return _remembered(first(jax.device_get(state.world)), arguments.workdir), position.step
  models = run.stages[position.stage].view(first(jax.device_get(state.models)))
  act = _policy(run, models['policy'], arguments.source)
  return jax.jit(lambda key: datasets.roll_out(env, act, key, **numbers))(key), position.step


def _policy(run, params, source):
  """What the policy of a run does: `(observations, key) -> actions`."""
  policy = run.stages[-1].models['policy'].model.functions
  if source == 'mode':
    return lambda observations, key: policy.mode(params, observations)
  return lambda observations, key: policy.sample(params, observations, key)[0]


def _remembered(world, workdir):
  """The rows of a replay store, oldest first, episode by episode where it was fed by one environment."""
  import numpy as np

  from rlx.data import transitions as datasets

  if not isinstance(world, dict) or 'store' not in world:
    raise CommandError(f'--source=replay: the rollout of {workdir} has no replay store; it learns on policy')
  store = world['store']
  size, first = int(store['size']), int(store['next'])
  rows = {name: x for name, x in store['rows'].items() if name in datasets.COLUMNS}
  if missing := [name for name in datasets.COLUMNS if name not in rows]:
    raise CommandError(f'--source=replay: the store of {workdir} has no {missing}')
  full = size == len(rows['rewards'])
  order = np.roll(np.arange(size), -first) if full else np.arange(size)
  num_envs = len(np.asarray(world['agents'].returns))
  order = order.reshape(-1, num_envs).T.reshape(-1)  # the environments take turns in the store
  rows = {name: np.array(x)[order] for name, x in rows.items()}
  ends = np.arange(1, num_envs + 1) * (size // num_envs) - 1
  rows['truncated'][ends] = ~rows['terminated'][ends]  # another environment comes next
  return rows


def _parser() -> Parser:
  parser = Parser(
      prog='rlx make-dataset',
      description='Writes what a policy does in an environment, or what a run remembers, as one file.',
  )
  parser.add_argument('--config', metavar='FILE[:ARG]', help='a config with the environment, for random')
  parser.add_argument('--workdir', metavar='DIR', help='of a run; its newest checkpoint is taken')
  parser.add_argument('--source', choices=SOURCES, required=True)
  parser.add_argument('--num_envs', type=positive, default=16, help='streams of episodes')
  parser.add_argument('--num_steps', type=positive, default=1000, help='of each stream')
  parser.add_argument('--seed', type=seed, default=0)
  parser.add_argument('--output', required=True, metavar='FILE', help='an .npz file')
  return parser

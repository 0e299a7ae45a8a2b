"""HER: DDPG finds the way through a maze that pays on arrival alone.

Paper: Andrychowicz et al., 2017, https://arxiv.org/abs/1707.01495

    rlx --config=control/her_maze --workdir=runs/her_maze

Result: not run yet.
"""

from ml_collections import ConfigDict

from rlx.experiments.configs.control import ddpg_pendulum as parent

MAX_STEPS = 50


def get_config(arg: str = '') -> ConfigDict:
  """Arguments: those of ddpg_pendulum."""
  config = parent.get_config(arg)
  config.env = {
      'name': 'maze', 'layout': 'u', 'starts': 'S', 'goals': 'SM.G',
      'max_steps': MAX_STEPS,
  }
  config.rollout.update(
      name='hindsight_replay',
      relabel={'name': 'maze.relabel'},
      goal_size=2,
      share=0.8,  # the authors': 4 goals in hindsight for each that was wanted
      horizon=MAX_STEPS,
  )
  config.models.policy.exploration_noise = 0.3
  config.evals.episodes.max_steps = min(config.evals.episodes.max_steps, MAX_STEPS)
  return config

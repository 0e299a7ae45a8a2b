"""The generalisation gap of implicit Q-learning, from the data of `bc_levels`.

Paper: Mediratta et al., 2023, https://arxiv.org/abs/2312.05742

    rlx --config=offline/iql_levels --workdir=runs/iql_levels_10
    rlx --config=offline/iql_levels:num_levels=1000 --workdir=runs/iql_levels_1000

Result: it shows. Final eval/levels/held_out_return after 2000 train steps, median of 5 seeds (worst): 0.734
(0.716), '10 levels' 0.186 (0.178), '10 levels, five times the data' 0.182 (0.17), 'cloning' 0.7 (0.696).
Claimed, and got (95 % interval over seeds): above '10 levels' by 0.3, got 0.5407 (0.524 to 0.562); above '10
levels, five times the data' by 0.3, got 0.5433 (0.5307 to 0.5667); final eval/levels/gap: below '10 levels'
by 0.3, got 0.7267 (0.7113 to 0.7607). 63 CPU-s on 1 cores of a CPU; `rlx reproduce offline/iql_levels`.
"""

from ml_collections import ConfigDict

from rlx.experiments.claims import Arm, Claim, above, final
from rlx.experiments.configs.offline import bc_levels as parent


def get_config(arg: str = '') -> ConfigDict:
  """Arguments: those of bc_levels."""
  config = parent.get_config(arg)
  shape = {'hidden': (64, 64), 'activation': 'relu'}
  config.models.value = {'name': 'state_value', **shape}
  config.models.critic = {'name': 'discrete_critics', 'num': 2, **shape}
  config.trained = ('policy', 'value', 'critic')
  config.slow = {'target': 'critic'}
  config.algorithm = {
      'name': 'iql',
      'discount': 0.9,
      'target_rate': 0.01,
      'expectile': 0.8,
      'sharpness': 10.0,  # returns are at most 1
      'weight_max': 100.0,
  }
  return config


def claim() -> Claim:
  """8000 transitions of 1000 levels, of 10, and 40,000 of 10. `bc_levels` compares IQL with cloning."""
  held_out, few = final('eval/levels/held_out_return'), 'offline/iql_levels:num_levels=10'
  return Claim(
      paper='S204',
      says='the gap of offline RL closes with the number of levels, and not with more data of few',
      argument='num_levels=1000',
      reading=held_out,
      asserts=(
          above('10 levels', by=0.3),
          above('10 levels, five times the data', by=0.3),
          above('10 levels', by=0.3, reading=final('eval/levels/gap', lower=True)),
      ),
      controls=(
          Arm('10 levels', config=few),
          Arm('10 levels, five times the data', {'data.num_envs': 500}, few),
      ),
      beside=(Arm('cloning', config='offline/bc_levels:num_levels=1000'),),
      minutes=4.0,
  )

"""What the configs of the algorithms that learn online say of themselves, over five seeds.

Each test runs a config as it stands, its seeds side by side. Numbers are means of undiscounted returns over
the episodes of the config's evaluation: the interquartile mean of the seeds, and the worst of them.
"""

import pytest

from rlx.evaluation.aggregates import interquartile_mean
from tests.control import runs

SEEN = [  # config, IQM and worst that were seen, and those that are asked for
    ('dqn_cartpole', (500, 464), (400, 300)),  # seen over ten seeds
    ('c51_cartpole', (500, 500), (400, 300)),
    ('qr_dqn_cartpole', (500, 469), (400, 300)),
    ('a2c_cartpole', (500, 247), (400, 120)),
    ('tqc_pendulum', (-172, -175), (-250, -500)),
    ('td3_pendulum', (-170, -231), (-250, -600)),
    ('ddpg_pendulum', (-172, -176), (-250, -500)),
    ('mpo_pendulum', (-174, -179), (-250, -500)),
    ('ppo_recurrent_recall', (1, 1), (0.9, 0.5)),  # chance is 0
]


@pytest.mark.slow
@pytest.mark.parametrize(('name', 'seen', 'asked'), SEEN, ids=[row[0] for row in SEEN])
def test_a_config_learns_what_it_says(name, seen, asked):
  returns, _ = runs.learnt(name)
  reached = interquartile_mean(returns[:, None]), float(returns.min())
  assert reached[0] > asked[0] and reached[1] > asked[1], f'{reached}: {seen} were seen, {asked} are asked'

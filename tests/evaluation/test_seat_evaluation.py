"""Evaluations of seats: payoffs, and versions of a model that play each other."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from rlx.envs.seats import one_seat
from rlx.envs.worlds.questions import questions
from rlx.errors import ConfigError
from rlx.evaluation import nash, seats
from rlx.experiments import evaluate_matches, evaluate_run
from rlx.experiments.commands import CommandError
from rlx.models.league import COUNT, POLICIES
from tests.kuhn_players import KUHN, MODEL, SPEAKER
from tests.once import once

PLAYERS = once(lambda: [MODEL.init(jax.random.key(seed)) for seed in (0, 1)])
HOW = {'problems': 24, 'turn_tokens': 1, 'max_turns': 3}


@pytest.mark.slow
def test_versions_meet_at_both_seats_and_what_one_wins_the_other_loses():
  exam = seats.versions(KUHN, {'player': SPEAKER}, size=2, **HOW)
  stacked = jax.tree.map(lambda *x: jnp.stack(x), *PLAYERS())
  payoffs = np.asarray(jax.jit(exam.ask)({'player': stacked}, None))
  np.testing.assert_allclose(payoffs, -payoffs.T, atol=1e-6)
  assert payoffs[0, 1] != 0 and exam.read(payoffs)[0]['0_1'] == payoffs[0, 1]


@pytest.mark.slow
def test_what_speakers_get_at_both_seats_is_what_versions_get():
  exam = seats.versions(KUHN, {'player': SPEAKER}, size=2, **HOW)
  payoffs = exam.ask({'player': jax.tree.map(lambda *x: jnp.stack(x), *PLAYERS())}, None)
  alone = seats.episodes(KUHN, dict.fromkeys(KUHN.seats, SPEAKER), 0, **HOW)
  ask = jax.jit(alone.ask)
  there, back = (
      alone.read(ask({'first': PLAYERS()[i], 'second': PLAYERS()[1 - i]}, None))[0] for i in (0, 1)
  )
  assert there['payoff_first'] == -there['payoff_second'] and 'legal' in there
  np.testing.assert_allclose(payoffs[0, 1], (there['payoff_first'] + back['payoff_second']) / 2, atol=1e-6)


@pytest.mark.slow
def test_a_league_is_as_far_from_nash_as_who_draws_its_versions():
  """Room that is empty is not drawn; a league of one is that one."""
  speakers = dict.fromkeys(KUHN.seats, SPEAKER)
  of_one, of_league = nash.nash_conv(KUHN, speakers), nash.nash_conv_of_league(KUHN, speakers)

  def far(exam, model):
    return float(jax.jit(exam.ask)(dict.fromkeys(KUHN.seats, model), None)[nash.EXPLOITABILITY])

  sharp = [jax.tree.map(lambda x: 4 * x, player) for player in PLAYERS()]  # who are sure of their moves
  stacked = jax.tree.map(lambda *x: jnp.stack(x), *sharp)
  league = lambda count: {POLICIES: stacked, COUNT: jnp.int32(count)}
  alone = [far(of_one, player) for player in sharp]
  np.testing.assert_allclose(far(of_league, league(1)), alone[0], rtol=1e-5)
  assert far(of_league, league(2)) < np.mean(alone)  # it is convex


@pytest.mark.slow
def test_a_game_is_replayed_as_text_in_the_order_of_its_moves():
  exam = seats.episodes(KUHN, dict.fromkeys(KUHN.seats, SPEAKER), 24, **HOW)
  answer = jax.device_get(jax.jit(exam.ask)({'first': PLAYERS()[0], 'second': PLAYERS()[1]}, None))
  metrics, told = exam.read(answer)
  paid, lengths = [], set()
  for game in told:
    dealt, lines = game['prompt'].splitlines(), game['completion'].splitlines()
    assert [line.partition(':')[0] for line in dealt] == ['first', 'second']
    moves = [line.split() for line in lines if '>' in line]
    assert [seat for seat, *_ in moves] == ['first', 'second', 'first'][: len(moves)]
    # What one reads, the other has just said.
    heard = [i for i, line in enumerate(lines) if '<' in line]
    assert all(lines[i].split()[2] == lines[i - 1].split()[2] for i in heard)
    paid.append(sum(float(move[3][1:-1]) for move in moves if move[0] == 'first' and len(move) > 3))
    lengths.add(len(moves))
    assert game['correct'] == (paid[-1] > 0)
  assert lengths > {1} and np.isclose(np.mean(paid), metrics['payoff_first'], atol=1e-6)


def test_a_world_of_one_seat_has_no_matches():
  task = one_seat(questions(bits=2, decoys=0, cost=0.1, held_out_share=0.3))
  with pytest.raises(ConfigError, match='has 2 seats at least'):
    seats.versions(task, {'player': SPEAKER}, size=2, **HOW)


def test_the_table_names_who_got_what(tmp_path):
  rows = [{'name': 'runs/a@40', 'elo': 35.2, 'payoffs': [0, 0.25]}, {
      'name': 'runs/b@20', 'elo': -35.2, 'payoffs': [-0.25, 0]}]
  lines = evaluate_matches.table(rows).splitlines()
  assert lines[1].split() == ['1', '+0.000', '+0.250', '+35', 'runs/a@40'] and len(lines) == 3
  assert evaluate_matches.place('runs/a@40') == ('runs/a', 40)
  assert evaluate_matches.place(str(tmp_path)) == (str(tmp_path), None)
  with pytest.raises(CommandError, match='DIR@STEP'):
    evaluate_matches.place('runs/a@last')


@pytest.mark.parametrize('option', ['--games=3', '--player=policy'])
def test_options_of_matches_without_a_match_are_refused(option, tmp_path):
  with pytest.raises(CommandError, match='for --against'):
    evaluate_run.main([f'--workdir={tmp_path}', option])


@pytest.mark.parametrize('option', ['--eval=default', '--output=there.jsonl'])
def test_a_match_has_no_other_evaluation_and_no_texts(option, tmp_path):
  with pytest.raises(CommandError, match='an evaluation of its own'):
    evaluate_run.main([f'--workdir={tmp_path}', f'--against={tmp_path}', option])

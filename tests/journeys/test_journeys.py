"""Everybody gets where they want to: the ways of `journeys.py`, walked from a wheel."""

import pytest

from tests import wheels
from tests.journeys import journeys

pytestmark = pytest.mark.slow


@pytest.fixture(scope='module')
def programs(tmp_path_factory):
  folder = tmp_path_factory.mktemp('wheel')
  return wheels.install(wheels.build(folder), folder / 'venv')


@pytest.mark.parametrize('who', journeys.JOURNEYS)
def test_they_get_where_they_want_to(who, programs, tmp_path):
  assert journeys.walk(journeys.JOURNEYS[who], tmp_path, programs)

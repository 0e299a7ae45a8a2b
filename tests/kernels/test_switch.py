"""Who asks by name gets that or an error; only 'auto' chooses, and it says so."""

import logging

import jax
import jax.numpy as jnp
import pytest

from rlx.kernels import switch

CAN, CANNOT = (lambda: ''), (lambda: 'no such device')


def test_what_is_asked_for_runs():
  assert switch.choose('op', 'slow', {'fast': CAN, 'slow': CAN}) == 'slow'


def test_auto_takes_the_first_that_can_run():
  assert switch.choose('op', 'auto', {'fast': CANNOT, 'plain': CAN, 'slow': CAN}) == 'plain'


def test_nothing_replaces_what_cannot_run():
  with pytest.raises(ValueError, match=r"op: .*'fast' cannot run here: no such device.*\('plain', 'slow'\)"):
    switch.choose('op', 'fast', {'fast': CANNOT, 'plain': CAN, 'broken': CANNOT, 'slow': CAN})


def test_unknown_names_are_refused_with_the_list():
  with pytest.raises(ValueError, match=r"op: .*'quick' is not one of \('auto', 'fast', 'slow'\)"):
    switch.choose('op', 'quick', {'fast': CAN, 'slow': CANNOT})


def test_auto_with_nothing_to_choose_says_why():
  with pytest.raises(ValueError, match='fast: no such device; slow: no such device'):
    switch.choose('op', 'auto', {'fast': CANNOT, 'slow': CANNOT})


def test_a_choice_is_logged_once(caplog, monkeypatch):
  monkeypatch.setattr(switch, '_logged', set())
  with caplog.at_level(logging.INFO, logger='rlx.kernels'):
    for op in ('one', 'one', 'two'):
      switch.choose(op, 'auto', {'fast': CAN, 'slow': CAN})
    switch.choose('one', 'auto', {'fast': CANNOT, 'slow': CAN})
    switch.choose('three', 'slow', {'fast': CAN, 'slow': CAN})  # it was asked for: nothing to tell
  assert caplog.messages == ["one runs as 'fast'", "two runs as 'fast'", "one runs as 'slow'"]


class Device:
  platform, device_kind = 'gpu', 'a GPU'

  def __init__(self, compute_capability):
    self.compute_capability = compute_capability


@pytest.mark.parametrize(
    ('capability', 'ampere', 'hopper'),
    [('7.5', False, False), ('8.6', True, False), ('9.0', True, True), ('10.0', True, False)],
)
def test_compute_capability(monkeypatch, capability, ampere, hopper):
  monkeypatch.setattr(jax, 'devices', lambda: [Device(capability)])
  assert (not switch.no_gpu((8, 0)), not switch.no_hopper()) == (ampere, hopper)
  largest = 256 if capability in ('9.0', '10.0') else 128
  for size, fits in ((64, True), (60, False), (largest, True), (largest + 8, False)):
    assert (not switch.no_cudnn(jnp.zeros((1, size), jnp.bfloat16))) == (ampere and fits)
  assert 'float32' in switch.no_cudnn(jnp.zeros((1, 64)))


def test_a_cpu_is_no_gpu():
  assert 'this is cpu' in switch.no_gpu((8, 0)) and 'this is cpu' in switch.no_hopper()


def test_packages():
  assert switch.no_package('jax') == ''
  assert switch.no_package('no_such_package') == 'the package no_such_package is not installed'

"""Files are replaced whole or not at all."""

import pytest

from rlx.files import replacing, write_atomically


def test_what_goes_wrong_leaves_the_old_file_and_nothing_beside_it(tmp_path):
  path = tmp_path / 'a'
  write_atomically(path, b'old')
  with pytest.raises(KeyboardInterrupt), replacing(path) as file:
    file.write(b'half of the ne')
    assert path.read_bytes() == b'old'
    raise KeyboardInterrupt
  assert path.read_bytes() == b'old' and list(tmp_path.iterdir()) == [path]
  write_atomically(path, b'new')
  assert path.read_bytes() == b'new' and list(tmp_path.iterdir()) == [path]

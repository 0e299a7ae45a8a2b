"""What a compiled program does on a device: products, collectives and their bytes, loops counted as they run.

A compiler's own estimate counts the body of a loop once. Here the text of the compiled program is read: a
loop whose length the compiler knows (a scan over layers, say) counts that often, and one whose length the
data decide (a decoding loop) as often as its own code says (`kernels/loops.py`), or the caller.

    costs = read(compiled.as_text())
    costs.flops, costs.num_bytes, costs.collectives
"""

from collections import Counter
from collections.abc import Callable, Iterator, Mapping
import dataclasses
import functools
import itertools
import math
import re

import numpy as np

from rlx.kernels import loops

_BYTES = {
    'pred': 1, 's4': 0.5, 'u4': 0.5, 's8': 1, 'u8': 1, 's16': 2, 'u16': 2, 's32': 4, 'u32': 4, 's64': 8,
    'u64': 8, 'f8e4m3fn': 1, 'f8e5m2': 1, 'bf16': 2, 'f16': 2, 'f32': 4, 'f64': 8, 'c64': 8, 'c128': 16,
}
COLLECTIVES = ('all-gather', 'all-reduce', 'reduce-scatter', 'all-to-all', 'collective-permute')
_ARRAY = re.compile(r'(\w+)\[([\d,]*)\](\{[^{}]*\})?')
_ON_CHIP = 'S(1)'  # in a layout: memory of the compute unit, not the device's
# What moves nothing, or whose bytes are counted elsewhere.
_FREE = (
    'parameter', 'constant', 'tuple', 'get-tuple-element', 'bitcast', 'while', 'conditional', 'call',
    'after-all', 'partition-id', 'replica-id', 'opt-barrier', 'iota', 'custom-call-done', 'async-start',
    'async-done', 'async-update', 'copy-done', 'slice-done', 'dynamic-slice-done', 'fusion-done',
)
_FUSED = ('fusion', 'fusion-start')  # GPUs start some fusions and wait for them later
_HEAD = re.compile(r'^\s*(?:ROOT )?%?([\w.\-]+) = (.*)$')
_OPCODE = re.compile(r'^([\w\-]+)\(')
_COMPUTATION = re.compile(r'^(ENTRY )?%?([\w.\-]+) (?:\(.*\) -> .*)?\{$')
_CALLED = re.compile(r'(?:calls|to_apply|body|condition|true_computation|false_computation)=%?([\w.\-]+)')
_BRANCHES = re.compile(r'branch_computations=\{([^}]*)\}')
_TRIPS = re.compile(r'"known_trip_count":\{"n":"(\d+)"')
_CHANNEL = re.compile(r'channel_id=(\d+)')
_OP_NAME = re.compile(r'op_name="([^"]*)"')


@dataclasses.dataclass(frozen=True)
class Instruction:
  """One instruction of a program's text."""

  name: str
  opcode: str
  shapes: tuple[tuple[str, tuple[int, ...]], ...]  # (dtype, sizes) of what it gives
  on_chip: bool  # what it gives is not in the device's memory
  operands: tuple[str, ...]
  arguments: str  # as they are written: the number of a parameter
  rest: str  # attributes

  @property
  def num_bytes(self) -> float:
    """Bytes of what it gives, in the device's memory."""
    return 0 if self.on_chip else sum(map(_size, self.shapes))

  @property
  def op_name(self) -> str:
    """The path of the traced operation that it comes from."""
    found = _OP_NAME.search(self.rest)
    return found[1] if found else ''


@dataclasses.dataclass(frozen=True)
class Collective:
  """One collective, and how often it runs.

  Attributes:
    kind: one of `COLLECTIVES`.
    shapes: (dtype, sizes) of what it gives.
    groups: the devices of each group, as they are numbered in the program.
    times: how often it runs.
    op_name: the path of the traced operation.
  """

  kind: str
  shapes: tuple[tuple[str, tuple[int, ...]], ...]
  groups: tuple[tuple[int, ...], ...]
  times: float
  op_name: str

  @property
  def size(self) -> int:
    """Devices of a group."""
    return len(self.groups[0]) if self.groups else 1

  @property
  def num_bytes(self) -> float:
    """Bytes that a device receives each time, in a ring: of a gather what it lacks, of a sum that twice."""
    given = sum(map(_size, self.shapes))
    share = (self.size - 1) / self.size
    return {
        'all-gather': given * share, 'all-reduce': 2 * given * share, 'all-to-all': given * share,
        'reduce-scatter': given * (self.size - 1), 'collective-permute': given,
    }[self.kind]


@dataclasses.dataclass(frozen=True)
class Costs:
  """What a program does on a device.

  Attributes:
    flops: of matrix products, two a multiplication.
    num_bytes: that are read from the device's memory and written to it, by every instruction that is not part
      of a fusion; of what is sliced, gathered or updated in place, only the part.
    collectives: each with the number of times that it runs.
    loops: name of the traced operation -> how often its body runs in all, for loops whose length the compiler
      does not know.
  """

  flops: float
  num_bytes: float
  collectives: tuple[Collective, ...]
  loops: Mapping[str, float]

  def collective_bytes(self, kind: str = '') -> float:
    """Bytes that a device receives, by all collectives or those of a kind."""
    return sum(x.num_bytes * x.times for x in self.collectives if x.kind.startswith(kind))


def _size(shape: tuple[str, tuple[int, ...]]) -> float:
  """Bytes of an array."""
  return _BYTES[shape[0]] * math.prod(shape[1])


def as_often_as_it_says(loop: str) -> float:
  """What the path of a loop says of how often it runs (`loops.times`); 1 where it says nothing."""
  said = re.search(rf'\b{loops.PREFIX}(\d+)\)*/while$', loop)
  return float(said[1]) if said else 1.0


def read(text: str, *, trips: Callable[[str], float] = as_often_as_it_says) -> Costs:
  """What a compiled program does.

  Args:
    text: of the compiled program, `compiled.as_text()`.
    trips: how often a loop runs whose length is not known, by the path of the traced operation. Of the
      branches of a condition the one with the most products counts.
  """
  computations, entry = parse(text)
  decided, collectives, moved, seen = Counter(), [], [0.0], set()

  def visit(name: str, times: float, in_fusion: bool = False) -> float:
    flops = 0.0
    table = {x.name: x for x in computations[name]}
    for x in computations[name]:
      kind = x.opcode.removesuffix('-start')
      if not in_fusion and x.opcode not in _FREE:
        moved[0] += times * _moved(x, table, computations)
      if kind in COLLECTIVES:
        channel = (kind, *_CHANNEL.findall(x.rest))
        # On a TPU the fusions that begin, go on with and end a collective all hold it.
        if not in_fusion or channel not in seen:
          collectives.append(_collective(x, kind, times))
        seen.add(channel)
      elif x.opcode == 'while':
        often = _known_trips(x, computations)
        if often is None:
          often = trips(x.op_name)
          decided[x.op_name] += often * times
        flops += often * visit(_attribute(x, 'body'), times * often)
      elif x.opcode == 'conditional':
        branches = list(_branches(x))
        heaviest = max(branches, key=lambda branch: _products(computations, branch))
        flops += visit(heaviest, times)
      elif x.opcode in ('dot', 'convolution', 'ragged-dot'):
        flops += _dot_flops(x, table)
      elif x.opcode == 'custom-call':
        flops += _custom_flops(x, table)
      elif x.opcode not in ('reduce', 'reduce-window', 'scatter', 'sort', 'map', 'select-and-scatter'):
        fused = in_fusion or x.opcode in _FUSED
        flops += sum(visit(called, times, fused) for called in _CALLED.findall(x.rest))
    return flops

  flops = visit(entry, 1.0)
  return Costs(flops, moved[0], tuple(collectives), dict(decided))


def _moved(x: Instruction, table: Mapping[str, Instruction], computations) -> float:
  """Bytes that an instruction reads and writes."""
  given = lambda name: table[name].num_bytes if name in table else 0
  if x.opcode in ('dynamic-slice', 'gather', 'slice'):
    return 2 * x.num_bytes
  if x.opcode in ('copy-start', 'slice-start', 'dynamic-slice-start'):  # (from, to, ..), to on the chip
    return _size(x.shapes[1])
  if x.opcode == 'dynamic-update-slice':
    return 2 * given(x.operands[1])
  if x.opcode == 'scatter':
    return 3 * given(x.operands[-1])
  if x.opcode == 'custom-call' and len(x.shapes) > 1 and 'tpu_custom_call' not in x.rest:
    return _size(x.shapes[0]) + sum(map(given, x.operands))  # beside its result it gives room to work in
  if x.opcode not in _FUSED:
    return x.num_bytes + sum(map(given, x.operands))
  inside = computations[_attribute(x, 'calls')]
  total = _written(inside)
  for parameter, operand in zip(_parameters(inside), x.operands, strict=True):
    total += min(given(operand), _read_of(parameter, inside, computations))
  return total


def _parameters(inside: list[Instruction]) -> list[Instruction]:
  return sorted((x for x in inside if x.opcode == 'parameter'), key=lambda x: int(x.arguments))


def _read_of(value: Instruction, inside: list[Instruction], computations) -> float:
  """Bytes that a fusion reads of one of its operands: all (infinity), or the parts that it takes of it."""
  if value is inside[-1]:
    return math.inf
  total = 0.0
  for user in inside:
    if value.name not in user.operands:
      continue
    if user.opcode in ('bitcast', 'convert', 'copy', 'reshape') and _count(user) == _count(value):
      total += _read_of(user, inside, computations)
    elif user.opcode in ('dynamic-slice', 'slice', 'gather') and user.operands[0] == value.name:
      total += user.num_bytes
    elif user.opcode in ('dynamic-update-slice', 'scatter') and user.operands[0] == value.name:
      total += 0  # written in place
    elif user.opcode == 'fusion':
      total += _read_in(user, value, inside, computations)
    else:
      return math.inf
  return total


def _read_in(user: Instruction, value: Instruction, inside: list[Instruction], computations) -> float:
  """Bytes that a fusion within a fusion reads of a value; where it only hands it on, what is read of that."""
  within, total = computations[_attribute(user, 'calls')], 0.0
  for parameter, name in zip(_parameters(within), user.operands, strict=True):
    if name == value.name:
      read_here = _read_of(parameter, within, computations)
      only_hands_on = math.isinf(read_here) and len(within) <= 2 and _count(user) == _count(value)
      total += _read_of(user, inside, computations) if only_hands_on else read_here
  return total


def _count(x: Instruction) -> int:
  """How many numbers an instruction gives."""
  return sum(math.prod(sizes) for _, sizes in x.shapes)


def _written(inside: list[Instruction]) -> float:
  """Bytes that a fusion writes: what it gives, or the part of it that is updated in place."""
  table = {x.name: x for x in inside}

  def written(given: Instruction) -> float:
    root = given
    while root.opcode in ('bitcast', 'convert', 'copy') and root.operands and root.operands[0] in table:
      root = table[root.operands[0]]
    if root.opcode == 'tuple':
      return sum(written(table[name]) for name in root.operands)
    if root.opcode == 'dynamic-update-slice':
      return table[root.operands[1]].num_bytes
    if root.opcode == 'scatter':
      return table[root.operands[-1]].num_bytes
    return given.num_bytes

  return written(inside[-1])


def parse(text: str) -> tuple[dict[str, list[Instruction]], str]:
  """The computations of a program's text, and the name of the one that it begins with."""
  computations, entry, current = {}, '', None
  for line in text.splitlines():
    if current is None:
      if head := _COMPUTATION.match(line):
        current = computations.setdefault(head[2], [])
        entry = head[2] if head[1] else entry
    elif line.startswith('}') and not line.startswith('}}'):
      current = None
    elif found := _HEAD.match(line):
      current.append([found[1], found[2]])
    elif current:  # what a TPU's kernel says of itself goes over several lines
      current[-1][1] += line
  return {name: list(itertools.starmap(_instruction, lines)) for name, lines in computations.items()}, entry


def _instruction(name: str, text: str) -> Instruction:
  kind, text = _cut(text) if text.startswith('(') else text.split(' ', 1)
  opcode = _OPCODE.match(text.strip())
  arguments, rest = _cut(text.strip()[len(opcode[1]):])
  found = [(dtype, sizes, layout) for dtype, sizes, layout in _ARRAY.findall(kind) if dtype in _BYTES]
  shapes = tuple((dtype, tuple(int(n) for n in sizes.split(',') if n)) for dtype, sizes, _ in found)
  return Instruction(
      name=name, opcode=opcode[1], shapes=shapes, operands=tuple(re.findall(r'%([\w.\-]+)', arguments)),
      on_chip=bool(found) and all(_ON_CHIP in layout for *_, layout in found), arguments=arguments[1:-1],
      rest=rest,
  )


def _cut(text: str) -> tuple[str, str]:
  """What stands in the parentheses that a text begins with, and what follows."""
  depth = 0
  for i, letter in enumerate(text):
    depth += (letter == '(') - (letter == ')')
    if not depth:
      return text[: i + 1], text[i + 1 :]
  return text, ''


def _attribute(x: Instruction, name: str) -> str:
  return re.search(rf'\b{name}=%?([\w.\-]+)', x.rest)[1]


def _branches(x: Instruction) -> Iterator[str]:
  if listed := _BRANCHES.search(x.rest):
    yield from re.findall(r'%?([\w.\-]+)', listed[1])
  else:
    yield from _CALLED.findall(x.rest)


def _known_trips(x: Instruction, computations) -> int | None:
  """How often a loop runs that counts up to a number: as the compiler says, or as its condition does."""
  if found := _TRIPS.search(x.rest):
    return int(found[1])
  table = {i.name: i for i in computations[_attribute(x, 'condition')]}
  *_, root = table.values()
  numbers = [table[name] for name in root.operands if name in table and table[name].opcode == 'constant']
  counts = root.opcode == 'compare' and 'direction=LT' in root.rest
  if root.opcode == 'fusion':
    *_, inside = computations[_attribute(root, 'calls')]
    counts = inside.opcode == 'compare' and 'direction=LT' in inside.rest
  return int(numbers[0].arguments) if counts and len(numbers) == 1 else None


def _products(computations, name: str) -> int:
  """How many numbers the products of a computation give; to compare branches."""
  total = 0
  for x in computations[name]:
    if x.opcode in ('dot', 'convolution', 'custom-call', 'ragged-dot'):
      total += sum(math.prod(sizes) for _, sizes in x.shapes)
    total += sum(_products(computations, called) for called in _CALLED.findall(x.rest))
    total += sum(_products(computations, branch) for branch in _branches(x) if _BRANCHES.search(x.rest))
  return total


def _dot_flops(x: Instruction, table: Mapping[str, Instruction]) -> float:
  """2 x (numbers that it gives) x (numbers that are summed for each)."""
  left, right = (table[name].shapes[0][1] for name in x.operands[:2])
  if x.opcode == 'convolution':  # a TPU's matrix products
    return 2.0 * math.prod(x.shapes[0][1]) * _summed_by_convolution(x, right)
  found = re.search(r'lhs_contracting_dims=\{([\d,]*)\}', x.rest)
  summed = math.prod(left[int(i)] for i in found[1].split(',') if i) if found else left[-1]
  return 2.0 * math.prod(x.shapes[0][1]) * summed


def _summed_by_convolution(x: Instruction, kernel: tuple[int, ...]) -> float:
  """How many numbers are summed for each: input features, times the places of a window that meet the input.

  A batch of products is written as a window as long as the batch over a dilated input, one place of which is
  met at a time.
  """
  labels = re.search(r'dim_labels=[^_]*_([^-]*)->', x.rest)[1]
  summed = kernel[labels.index('i')]
  window = re.search(r'window=\{([^}]*)\}', x.rest)
  dilated = window is not None and 'dilate' in window[1]
  spatial = [kernel[i] for i, label in enumerate(labels) if label.isdigit()]
  return summed * (1 if dilated else math.prod(spatial))


def _custom_flops(x: Instruction, table: Mapping[str, Instruction]) -> float:
  """Of a kernel as its name says (`loops.products`), of a library's matrix product; others count nothing."""
  if said := re.search(rf'\b{loops.PRODUCTS}(\d+)', x.op_name):
    return float(said[1])
  if not re.search(r'custom_call_target="[^"]*(gemm|matmul|dot)', x.rest, re.IGNORECASE):
    return 0.0
  left, right = (table[name].shapes[0][1] for name in x.operands[:2])
  if found := re.search(r'"lhs_contracting_dimensions":\[([^\]]*)\]', x.rest):
    summed = math.prod(left[int(i)] for i in re.findall(r'\d+', found[1]))
    return 2.0 * math.prod(x.shapes[0][1]) * summed
  given = math.prod(x.shapes[0][1])
  return 2.0 * math.sqrt(math.prod(left) * math.prod(right) * given)  # (m n)(n k)(m k) = (m n k)^2


def _collective(x: Instruction, kind: str, times: float) -> Collective:
  shapes = x.shapes
  if x.opcode.endswith('-start') and len(shapes) > 1:  # (operands, results), and of some a context
    shapes = shapes[len(x.operands):2 * len(x.operands)]
  return Collective(kind, shapes, _groups(x.rest), times, x.op_name)


@functools.lru_cache(maxsize=4096)
def _groups(text: str) -> tuple[tuple[int, ...], ...]:
  """The devices of each group of a collective."""
  if listed := re.search(r'replica_groups=\{(\{[\d,{} ]*\})\}', text):
    return tuple(tuple(int(n) for n in group.split(',')) for group in re.findall(r'\{([\d, ]+)\}', listed[1]))
  if iota := re.search(r'replica_groups=\[([\d,]+)\]<=\[([\d,]+)\](?:T\(([\d,]+)\))?', text):
    return _iota_groups(*iota.groups())
  if named := re.search(r"replica_groups=mesh\[([^\]]*)\] ?\{([^}]*)\}", text):
    return _mesh_groups(*named.groups())
  if pairs := re.search(r'source_target_pairs=\{(.*?)\}\}', text):
    return tuple(tuple(int(n) for n in pair.split(',')) for pair in re.findall(r'\{([\d, ]+)', pairs[1]))
  return ()


def _mesh_groups(sizes: str, along: str) -> tuple[tuple[int, ...], ...]:
  """Groups along named axes of a mesh of the devices."""
  sizes = {name: int(size) for name, size in re.findall(r"'(\w+)'=(\d+)", sizes)}
  names, along = list(sizes), re.findall(r"'(\w+)'", along)
  devices = np.arange(math.prod(sizes.values())).reshape(*sizes.values())
  first = [i for i, name in enumerate(names) if name not in along]
  devices = devices.transpose(*first, *(names.index(name) for name in along))
  return tuple(map(tuple, devices.reshape(-1, math.prod(sizes[name] for name in along)).tolist()))


def _iota_groups(shape: str, sizes: str, order: str | None) -> tuple[tuple[int, ...], ...]:
  """Groups that are written as a reshaped, transposed count of the devices."""
  numbers = lambda text: [int(n) for n in text.split(',')]
  devices = np.arange(math.prod(numbers(sizes))).reshape(numbers(sizes))
  if order:
    devices = devices.transpose(numbers(order))
  return tuple(map(tuple, devices.reshape(numbers(shape)).tolist()))

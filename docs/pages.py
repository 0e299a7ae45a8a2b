"""Pages that are written when the site is built: the start, algorithms with their runs, modules.

mkdocs-gen-files runs this; nothing of it lands in the repository.
"""

import ast
from pathlib import Path

import mkdocs_gen_files

from rlx.experiments import catalogue

ROOT = Path(__file__).parents[1]
ALGORITHMS = ROOT / 'rlx' / 'algorithms'
CONFIGS = catalogue.configs()


def copied(source: str, page: str) -> None:
  """A document of the repository's top as a page; its links are written as seen from docs/."""
  text = (ROOT / source).read_text().replace('](docs/', '](')
  for folder in ('rlx/', 'experiments/', 'kernels/', 'colabs/', 'tests/'):
    text = text.replace(f']({folder}', f'](../{folder}')
  with mkdocs_gen_files.open(page, 'w') as file:
    file.write(text)


def documented(path: Path) -> bool:
  """Whether a module says anything: an empty `__init__` has no page."""
  return ast.get_docstring(ast.parse(path.read_text())) is not None


def pages(folder: str, files: list[Path], base: Path) -> None:
  """A page a module, and the list of them, nested as their folders are."""
  nav = mkdocs_gen_files.Nav()
  for path in files:
    parts = path.relative_to(ROOT).with_suffix('').parts
    parts = parts if parts[0] == 'rlx' else ('rlx', *parts)
    parts = parts[:-1] if parts[-1] == '__init__' else parts
    where = path.relative_to(base).with_suffix('').parts
    where = (*where[:-1], 'index') if where[-1] == '__init__' else where
    page = Path(*where).with_suffix('.md')
    nav[(*where[:-1], 'about') if where[-1] == 'index' else where] = page.as_posix()
    name = '.'.join(parts)
    with mkdocs_gen_files.open(Path(folder) / page, 'w') as file:
      file.write(f'# {name}\n\n::: {name}\n    options:\n      show_root_heading: false\n')
      if path.is_relative_to(ALGORITHMS):
        file.write(runs(path))
  with mkdocs_gen_files.open(f'{folder}/SUMMARY.md', 'w') as file:
    file.writelines(nav.build_literate_nav())


def runs(path: Path) -> str:
  """The configs that choose an algorithm, what came out when they were run, and their curves."""
  using = [config for config, text in CONFIGS.items() if catalogue.chooses(text, path.stem)]
  if not using:
    return ''
  text = '\n## Runs\n'
  for config in using:
    name = config.relative_to(ROOT / 'experiments/configs').with_suffix('').as_posix()
    depth = '../' * len(path.relative_to(ROOT / 'rlx').parts)
    text += f'\n### [{name}]({depth}experiments/configs/{name}.py)\n\n'
    said = CONFIGS[config]
    text += f'{catalogue.paragraph(catalogue.docstring(config))}\n\nResult: {catalogue.result(said)}\n'
    picture = config.parent / 'results' / f'{config.stem}.png'
    if picture.exists():
      page = f'curves/{name}.png'
      with mkdocs_gen_files.open(page, 'wb') as file:
        file.write(picture.read_bytes())
      text += f'\n![{name} and the arms that it is compared with]({depth.removeprefix("../")}{page})\n'
  return text


def main() -> None:
  copied('README.md', 'index.md')
  copied('CONTRIBUTING.md', 'contributing.md')
  public = [path for path in sorted((ROOT / 'rlx').rglob('*.py')) if documented(path)]
  pages('algorithms', [path for path in public if path.is_relative_to(ALGORITHMS)], ALGORITHMS)
  pages('reference', [path for path in public if not path.is_relative_to(ALGORITHMS)], ROOT / 'rlx')


main()

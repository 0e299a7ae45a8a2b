"""Links out of the documents: to the page of a module where it has one, else to a file of the repository."""

import posixpath
import re

PAGES = {'README.md': 'index.md', 'CONTRIBUTING.md': 'contributing.md'}  # as pages.py writes them
LINK = re.compile(r'\]\((?!https?://|#|mailto:)([^)\s#]+)(#[^)\s]*)?\)')


def on_page_markdown(markdown: str, *, page, config, files) -> str:
  """Links that leave docs/ get an address; those between its pages stay as they are."""
  folder = posixpath.dirname(page.file.src_uri)

  def elsewhere(match: re.Match) -> str:
    target = posixpath.normpath(posixpath.join('docs', folder, match[1]))
    if target.startswith('docs/') and files.get_file_from_path(target.removeprefix('docs/')) is not None:
      return match[0]
    if target in PAGES:
      return f']({posixpath.relpath(PAGES[target], folder or ".")}{match[2] or ""})'
    for prefix, pages in (('rlx/algorithms/', 'algorithms/'), ('rlx/', 'reference/')):
      name = f'{pages}{target.removeprefix(prefix).removesuffix(".py")}.md'
      if target.startswith(prefix) and files.get_file_from_path(name) is not None:
        return f']({posixpath.relpath(name, folder or ".")}{match[2] or ""})'
    return f']({config.repo_url.rstrip("/")}/blob/main/{target}{match[2] or ""})'

  return LINK.sub(elsewhere, markdown)

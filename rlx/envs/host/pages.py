"""Pages of HTML in a folder as a world: a reader opens one, follows links by number, and fills in forms.

Pure Python (`html.parser`), without a network: what is not in the folder cannot be reached. A form is
answered by a page too: the one whose name is its `action`, shown with what was filled in.
"""

from html.parser import HTMLParser
from pathlib import Path
from typing import NamedTuple
from urllib.parse import unquote, urldefrag

_HIDDEN = frozenset({'script', 'style', 'head', 'template'})
_BLOCKS = frozenset({
    'p', 'div', 'section', 'article', 'h1', 'h2', 'h3', 'h4', 'h5', 'h6', 'li', 'ul', 'ol', 'table', 'tr',
    'br', 'hr', 'form',
})
_FIELDS = frozenset({'input', 'textarea', 'select'})


class Page(NamedTuple):
  """What is to be read of a page.

  Attributes:
    text: with links as `[1: its words]` and fields as `[field 1: its name]`.
    links: where each link goes.
    fields: names of the fields.
    action: where the form goes; '' for nowhere.
  """

  text: str
  links: list[str]
  fields: list[str]
  action: str


class Pages:
  """A folder of pages; where to begin is the column `page` of the row."""

  def __init__(self, *, folder: str):
    """Nothing is read yet.

    Args:
      folder: of the pages.
    """
    self._folder = Path(folder).resolve()
    self._filled: dict[str, str] = {}
    self._page = Page('', [], [], '')

  def _trial(self) -> None:
    """Raises `ValueError` where there is no such folder."""
    if not self._folder.is_dir():
      raise ValueError(f'there is no folder of pages {self._folder}')

  def reset(self, page: str, **columns) -> None:
    """Begins with a page; raises `ValueError` where there is none of that name."""
    del columns
    self._show(page)

  def read(self) -> str:
    """Returns the page that is open."""
    return self._page.text

  def follow(self, link: int) -> str:
    """Follows a link, and returns the page behind it.

    Args:
      link: its number.
    """
    if not 1 <= link <= len(self._page.links):
      raise ValueError(f'there is no link {link}; the page has {len(self._page.links)}')
    return self._show(self._page.links[link - 1])

  def fill(self, field: int, value: str) -> str:
    """Fills in a field of the form.

    Args:
      field: its number.
      value: what is written there.
    """
    if not 1 <= field <= len(self._page.fields):
      raise ValueError(f'there is no field {field}; the page has {len(self._page.fields)}')
    name = self._page.fields[field - 1]
    self._filled[name] = value
    return f'{name} = {value}'

  def submit(self) -> str:
    """Sends the form, and returns the page that answers."""
    if not self._page.action:
      raise ValueError('the page has no form')
    filled = '\n'.join(f'{name} = {value}' for name, value in self._filled.items())
    shown = self._show(self._page.action)
    return f'{shown}\n{filled}' if filled else shown

  def _show(self, name: str) -> str:
    path = (self._folder / unquote(urldefrag(name).url).lstrip('/')).resolve()
    if not path.is_relative_to(self._folder) or not path.is_file():
      raise ValueError(f'there is no page {name!r}')
    self._page, self._filled = parse(path.read_text(errors='replace')), {}
    return self._page.text


def parse(html: str) -> Page:
  """What is to be read of a page of HTML, however broken."""
  reader = _Reader()
  reader.feed(html)
  reader.close()
  lines = (' '.join(line.split()) for line in ''.join(reader.text).split('\n'))
  return Page('\n'.join(line for line in lines if line), reader.links, reader.fields, reader.action)


class _Reader(HTMLParser):
  """Collects text, links and fields."""

  def __init__(self):
    super().__init__(convert_charrefs=True)
    self.text: list[str] = []
    self.links: list[str] = []
    self.fields: list[str] = []
    self.action = ''
    self._hidden = 0  # how deep in what nobody sees
    self._in_link = False

  def handle_starttag(self, tag, attrs):
    given = {name: value or '' for name, value in attrs}
    self._hidden += tag in _HIDDEN
    if tag in _BLOCKS:
      self.text.append('\n')
    if tag == 'a' and given.get('href'):
      self._close_link()
      self.links.append(given['href'])
      self.text.append(f'[{len(self.links)}: ')
      self._in_link = True
    elif tag == 'form':
      self.action = given.get('action', '')
    elif tag in _FIELDS and given.get('name') and given.get('type') not in ('hidden', 'submit'):
      self.fields.append(given['name'])
      self.text.append(f' [field {len(self.fields)}: {given["name"]}] ')

  def handle_endtag(self, tag):
    self._hidden -= tag in _HIDDEN and self._hidden > 0
    if tag == 'a':
      self._close_link()
    if tag in _BLOCKS:
      self.text.append('\n')

  def handle_data(self, data):
    if not self._hidden:
      self.text.append(data)

  def _close_link(self):
    if self._in_link:
      self.text.append(']')
      self._in_link = False

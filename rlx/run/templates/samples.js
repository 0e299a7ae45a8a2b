'use strict';
// Shows the samples of the step and the split that are chosen; texts of models only ever become text nodes.
const all = JSON.parse(document.getElementById('data').textContent);
const at = document.getElementById('at'), split = document.getElementById('split');
const cards = document.getElementById('samples'), texts = ['prompt', 'completion', 'solution'];

function element(kind, name, text) {
  const made = document.createElement(kind);
  made.className = name;
  made.textContent = text;
  return made;
}

function shown(value) {
  return typeof value === 'number' ? String(Number(value.toPrecision(4))) : String(value);
}

function card(row) {
  const made = element('div', 'card', '');
  for (const name of texts.filter((name) => row[name])) {
    made.append(element('div', 'kind', name), element('pre', '', row[name]));
  }
  if ('correct' in row) {
    const mark = row.correct ? 'right' : 'wrong';
    made.append(element('div', 'mark ' + mark, (row.correct ? '✓ ' : '✗ ') + mark));
  }
  const rest = Object.keys(row).filter((name) => ![...texts, 'correct', 'split'].includes(name));
  made.append(element('div', 'rest', rest.map((name) => name + ' ' + shown(row[name])).join(' · ')));
  return made;
}

function show() {
  const now = all[Number(at.value)];
  document.getElementById('step').textContent = now.step.toLocaleString('en');
  const chosen = now.rows.filter((row) => row.split === split.value).map(card);
  cards.replaceChildren(...(chosen.length ? chosen : [element('p', '', 'none at this step')]));
}

for (const name of new Set(all.flatMap((one) => one.rows.map((row) => row.split)))) {
  split.append(new Option(name, name));
}
at.addEventListener('input', show);
split.addEventListener('change', show);
show();

// What stands in the sheet over a view: a finding, a class, a cell of the matrix, a rule's manual.

const severity = (finding) => el("span", { class: `severity ${finding.severity}` }, finding.severity);

function findingLinks(findings) {
  if (!findings.length) return el("p", { class: "soft" }, "No findings.");
  return el("ul", { class: "found" }, findings.map((f) =>
    el("li", {}, severity(f), " ", el("a", { href: `#finding-${f.id}` }, `${f.code} ${f.message}`))));
}

const classLink = (id) => el("a", { href: `#class-${id}` }, data.classes[id].name);

const listed = (items) => items.flatMap((item, index) => (index ? [", ", item] : [item]));

function facts(pairs) {
  return el("dl", { class: "facts" }, pairs
    .filter(([, value]) => value !== null && value !== "" && !(Array.isArray(value) && !value.length))
    .map(([name, value]) => [el("dt", {}, name), el("dd", {}, value)]));
}

function codeOf(end) {
  const [first, lines] = data.excerpts[end.excerpt];
  return el("pre", { tabindex: "0", "aria-label": `Code of ${end.path} around line ${end.line}` },
    el("code", {}, lines.map((line, index) => {
      const here = first + index === end.line;
      const from = end.column - 1;
      const to = from + end.width;
      const text = here && end.width
        ? [line.slice(0, from), el("mark", {}, line.slice(from, to)), line.slice(to)]
        : [line];
      return el("span", { class: here ? "row here" : "row" },
        el("span", { class: "number" }, String(first + index)), text, "\n");
    })));
}

// One figure for each place, with everything that is said of it.
function endFigures(ends) {
  const places = new Map();
  for (const end of ends) {
    const place = `${end.path}:${end.line}:${end.column}`;
    places.set(place, [...(places.get(place) || []), end]);
  }
  return [...places].map(([place, there]) => el("figure", { class: "end" },
    el("figcaption", {}, el("code", {}, broken(place)),
      there.map((end) => [" \u2014 ", end.message ? inline(end.message) : el("strong", {}, "the finding")])),
    codeOf(there[0])));
}

function signatureDifference(difference) {
  const row = (symbol, side, tag) =>
    el("div", {}, el("b", {}, broken(symbol)), el("div", { class: "row" },
      difference.parameters.filter(([what]) => what === "same" || what === side)
        .map(([what, text]) => el(what === "same" ? "span" : tag, {}, text))));
  return [
    el("h3", {}, "Signatures"),
    el("div", { class: "difference" },
      row(difference.promised, "promised", "del"), row(difference.mine, "mine", "ins")),
  ];
}

function findingBody(finding) {
  const row = data.history[finding.key];
  return [
    el("p", {}, severity(finding), " ",
      el("a", { href: `#rule-${finding.code}` }, `${finding.code} ${finding.name}`),
      finding.gone ? ` \u2014 gone since: last seen in ${finding.release}` : ""),
    el("p", { class: "message" }, finding.message),
    finding.reasons.length
      ? [el("h3", {}, "Reasons"), el("ul", {}, finding.reasons.map((r) => el("li", {}, inline(r))))] : [],
    finding.hint ? el("p", { class: "hint" }, el("strong", {}, "Hint: "), inline(finding.hint)) : [],
    finding.diff ? signatureDifference(finding.diff) : [],
    el("h3", {}, finding.ends.length > 1 ? "Both ends" : "Where"),
    el("div", { class: "ends" }, endFigures(finding.ends)),
    hasHistory
      ? [el("h3", {}, "Releases"), el("p", {}, span(row)), strip(row)] : [],
  ];
}

function classBody(id) {
  const klass = data.classes[id];
  const row = rowOf.get(id);
  const table = tableOf.get(klass.root);
  return [
    facts([
      ["Defined in", el("code", {}, `${klass.path}:${klass.line}`)],
      ["Derives from", listed([
        ...klass.bases.map(classLink), ...klass.others,
        ...klass.missing.map((name) => `${name} (not found)`)])],
      ["Derived classes", listed(children[id].map(classLink))],
      ["Holds", klass.holds.map((held) => el("div", {},
        el("code", {}, held.attr), held.many ? ": several of " : ": ", listed(held.classes.map(classLink))))],
    ]),
    el("h3", {}, `Findings (${tally(findingsOfClass[id])})`),
    findingLinks(findingsOfClass[id]),
    row ? [
      el("h3", {}, "Hooks"),
      el("table", { class: "list" }, el("tbody", {}, table.hooks.map((hook, index) =>
        el("tr", {},
          el("td", {}, badge(row.letters[index])),
          el("td", {}, el("a", { href: `#cell-${id}-${index}` }, hook.name)),
          el("td", {}, stateWords(row, index)))))),
    ] : [],
  ];
}

// An absent hook is printed as a dot; on the page a dot in the middle is easier to see.
const glyph = (letter) => (letter === "." ? "\u00b7" : letter);

const badge = (letter) =>
  el("span", { class: `state s-${stateOf[letter].state}`, "aria-hidden": "true" }, glyph(letter));

function stateWords(row, index) {
  const state = stateOf[row.letters[index]];
  const number = row.definitions[index];
  const owner = number === null ? "" : data.definitions[number].owner;
  if (state.state === "inherited") return `inherits from ${owner}`;
  if (state.state === "raises") return `raises only, in ${owner}`;
  return state.words;
}

function cellBody(id, index) {
  const klass = data.classes[id];
  const row = rowOf.get(id);
  const hook = tableOf.get(klass.root).hooks[index];
  const definition = row.definitions[index] === null ? null : data.definitions[row.definitions[index]];
  const own = cellFindings(id, hook.name);
  const owner = definition && classNumbers.get(`${definition.path}\n${definition.owner}`);
  const above = owner === null || owner === undefined || owner === id
    ? [] : cellFindings(owner, hook.name);
  return [
    el("p", {}, badge(row.letters[index]), " ", classLink(id), " ", stateWords(row, index), "."),
    facts([
      ["Declared", el("code", {}, hook.declaration)],
      ["", `${hook.spread}.`],
      ["Answers with", definition && el("code", {}, definition.signature)],
      ["Defined in", definition && el("code", {}, `${definition.path}:${definition.line}`)],
    ]),
    el("h3", {}, "Findings"),
    findingLinks(own),
    above.length ? [el("h3", {}, `Findings of ${definition.owner}`), findingLinks(above)] : [],
  ];
}

function ruleBody(code) {
  const concerned = data.findings.filter((f) => f.code === code);
  return [
    el("div", { class: "manual" }, data.rules[code].blocks.slice(1).map(([kind, text]) => {
      if (kind === "code") return el("pre", { tabindex: "0" }, el("code", {}, text));
      if (kind === "ul") return el("ul", {}, text.split("\n").map((item) => el("li", {}, inline(item))));
      return el(kind === "h2" ? "h3" : kind, {}, inline(text));
    })),
    el("h3", {}, "In this report"),
    findingLinks(concerned),
  ];
}

// The findings as a list; the sheet shows one of them.

const found = { severity: new Set(), code: "", gone: false, by: "severity", down: false };

const COLUMNS = [
  ["severity", "Severity", (f) => (f.severity === "error" ? "0" : "1") + f.code],
  ["code", "Rule", (f) => f.code],
  ["symbol", "Where", (f) => `${f.symbol}\n${f.path}`],
  ["message", "Finding", (f) => f.message],
];

function findingsShown() {
  const key = COLUMNS.find(([name]) => name === found.by)[2];
  const sign = found.down ? -1 : 1;
  return data.findings
    .filter((f) => (found.gone || !f.gone) && (!found.severity.size || found.severity.has(f.severity)))
    .filter((f) => (!found.code || f.code === found.code) && f.text.includes(asked.text))
    .sort((a, b) => sign * key(a).localeCompare(key(b)) || a.id - b.id);
}

function findingRow(finding) {
  return el("tr", {},
    el("td", {}, severity(finding)),
    el("td", {}, el("code", {}, finding.code), el("br"), el("span", { class: "soft" }, finding.name)),
    el("td", {}, el("code", {}, broken(finding.symbol)), el("br"),
      el("span", { class: "soft" }, broken(`${finding.path}:${finding.line}`))),
    el("td", {}, el("a", { href: `#finding-${finding.id}` }, finding.message),
      finding.gone ? el("span", { class: "soft" }, ` (last in ${finding.release})`) : null));
}

function drawFindings(frame, redraw) {
  const rows = findingsShown();
  if (!rows.length) {
    frame.replaceChildren(el("p", { class: "empty" }, data.findings.length
      ? "Nothing matches: clear the search or the filters." : "No findings."));
    return rows;
  }
  frame.replaceChildren(el("table", { class: "list cards findings" },
    el("thead", {}, el("tr", {}, COLUMNS.map(([name, title]) => el("th", {
      scope: "col", "aria-sort": found.by === name ? (found.down ? "descending" : "ascending") : null,
    }, el("button", { type: "button", click: () => {
      found.down = found.by === name && !found.down;
      found.by = name;
      redraw();
      frame.querySelector("th[aria-sort] button").focus();
    } }, title))))),
    el("tbody", {}, rows.map(findingRow))));
  return rows;
}

function findingsView() {
  const frame = el("div", { class: "scroll" });
  const paper = el("div", { class: "on-paper", id: "paper" });
  let rows = [];
  const draw = () => { rows = drawFindings(frame, redraw); };
  const redraw = () => { draw(); say(); };
  const codes = Object.keys(data.rules);
  const present = data.findings.filter((f) => !f.gone);
  const number = (kind) => present.filter((f) => f.severity === kind).length;
  return {
    title: `Findings (${present.length})`,
    bar: [
      ["error", "warning"].map((kind) => toggle(
        [el("span", { class: `severity ${kind}` }, kind), el("span", { class: "soft" }, String(number(kind)))],
        false, (on) => { found.severity[on ? "add" : "delete"](kind); redraw(); })),
      choice("Rule", [["", "all"], ...codes.map((code) => [code, `${code} ${data.rules[code].name}`])],
        (value) => { found.code = value; redraw(); }),
      hasHistory ? toggle("also those of earlier releases", false, (on) => { found.gone = on; redraw(); }) : null,
    ],
    body: [frame, paper],
    draw,
    status: () =>
      `${rows.length} of ${count(found.gone ? data.findings.length : present.length, "finding")}`,
  };
}

// On paper every finding of the list is there in full.
function layOut() {
  byId("paper").replaceChildren(...findingsShown().map((finding) =>
    el("article", { class: "paper-finding" },
      el("h2", {}, `${finding.code} ${finding.symbol}`), findingBody(finding))));
}

// In which releases each finding is there.

const past = { kind: "" };

const span = (row) =>
  row.first === row.last ? `only in ${row.first}` : `from ${row.first} to ${row.last}`;

const mark = (number, release) => el("span", {
  class: number ? "there" : "gone", title: `${release}: ${count(number, "finding")}`,
  role: "img", "aria-label": `${release}: ${number || "none"}`,
}, number ? String(number) : "\u00b7");

function strip(row) {
  return el("p", { class: "strip" }, row.counts.map((number, index) =>
    el("span", {}, el("span", { class: "soft" }, data.releases[index]), " ", mark(number, data.releases[index]))));
}

const KINDS = {
  "": ["all", () => true],
  gone: ["gone", (row) => row.last !== latest],
  new: ["new in the last release", (row) => row.first === latest],
  all: ["in every release", (row) => row.counts.every((n) => n > 0)],
};

function historyRow(row, index) {
  const finding = data.findings.find((f) => f.key === index);
  return el("tr", {},
    el("td", { class: "code" }, row.code),
    el("td", {}, el("a", { href: `#finding-${finding.id}` }, broken(row.symbol)), el("br"),
      el("span", { class: "soft" }, broken(row.path))),
    el("td", {}, row.first),
    el("td", {}, row.last === latest ? "still there" : row.last),
    row.counts.map((number, at) => el("td", { class: "release" }, mark(number, data.releases[at]))));
}

function historyView() {
  const frame = el("div", { class: "scroll" });
  let rows = [];
  const draw = () => {
    rows = data.history.map((row, index) => [row, index]).filter(([row]) =>
      KINDS[past.kind][1](row) && wanted(`${row.code}\n${row.symbol}\n${row.path}`));
    frame.replaceChildren(rows.length ? el("table", { class: "list" },
      el("thead", {}, el("tr", {},
        ["Rule", "Where", "First", "Last"].map((title) => el("th", { scope: "col" }, title)),
        data.releases.map((name) => el("th", { scope: "col", class: "release" }, name)))),
      el("tbody", {}, rows.map(([row, index]) => historyRow(row, index))))
      : el("p", { class: "empty" }, "Nothing matches: clear the search or the filter."));
  };
  return {
    title: "History",
    bar: [choice("Show", Object.entries(KINDS).map(([value, [text]]) => [value, text]),
      (value) => { past.kind = value; draw(); say(); })],
    legend: el("p", { class: "legend" },
      "A finding is the same in two releases where path, rule and symbol are; a number counts them."),
    body: frame,
    draw,
    status: () => `${rows.length} of ${data.history.length}`,
  };
}

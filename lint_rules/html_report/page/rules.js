// The rules that found something, with their manuals.

function rulesView() {
  const frame = el("div", { class: "scroll" });
  const draw = () => {
    const codes = Object.keys(data.rules).filter((code) =>
      wanted(`${code}\n${data.rules[code].name}\n${data.rules[code].summary}`));
    frame.replaceChildren(codes.length ? el("table", { class: "list cards" },
      el("thead", {}, el("tr", {}, ["Rule", "What it reports", `Findings in ${latest}`].map((title) =>
        el("th", { scope: "col" }, title)))),
      el("tbody", {}, codes.map((code) => el("tr", {},
        el("td", { class: "code" }, el("a", { href: `#rule-${code}` }, `${code} ${data.rules[code].name}`)),
        el("td", {}, inline(data.rules[code].summary)),
        el("td", {}, tally(data.findings.filter((f) => f.code === code && !f.gone)))))))
      : el("p", { class: "empty" }, "No rule matches."));
  };
  return { title: "Rules", bar: [], body: frame, draw, status: () => "" };
}

// Which view is shown, what the sheet over it shows, the search and the keyboard.

const familyChoices = [];

// One choice of the family for every view that shows one.
function familyChoice(indices) {
  if (indices.length < 2) return null;
  const label = choice("Family", indices.map((i) => [String(i), familyName(data.families[i])]), (value) => {
    asked.family = Number(value);
    graph.at = null;
    show(current);
  });
  familyChoices.push(label.querySelector("select"));
  return label;
}

asked.family = data.families.reduce((best, family, index) => {
  const size = (i) => data.classes.filter((k) => k.root === data.families[i].root && data.families[i].table).length;
  return size(index) > size(best) ? index : best;
}, 0);

const views = {
  hierarchy: hierarchyView(), matrix: matrixView(), findings: findingsView(),
  ...(hasHistory ? { history: historyView() } : {}), rules: rulesView(),
};
let current = "hierarchy";
const sheet = byId("sheet");

function say() {
  byId("said").textContent = views[current].status();
  views[current].shownText.textContent = views[current].status();
}

function show(name) {
  current = name;
  const view = views[name];
  if (view.families && !view.families.includes(asked.family)) asked.family = view.families[0];
  for (const select of familyChoices) select.value = String(asked.family);
  for (const [other, { section, link }] of Object.entries(views)) {
    section.hidden = other !== name;
    if (other === name) link.setAttribute("aria-current", "page");
    else link.removeAttribute("aria-current");
  }
  view.draw();
  say();
}

// The title and content of the sheet for a hash, with what comes before and after; null for none.
function sheetFor(hash) {
  const [, kind, first, second] = /^#(finding|class|cell|rule)-([A-Z0-9]+)(?:-(\d+))?$/.exec(hash) || [];
  const id = Number(first);
  if (kind === "finding" && data.findings[id]) {
    const order = findingsShown().map((f) => f.id);
    const at = order.indexOf(id);
    const near = (step) => (at >= 0 && at + step in order ? `#finding-${order[at + step]}` : null);
    const { code, symbol } = data.findings[id];
    return { title: `${code} ${symbol}`, body: findingBody(data.findings[id]), before: near(-1), after: near(1) };
  }
  if (kind === "class" && data.classes[id]) return { title: data.classes[id].name, body: classBody(id) };
  if (kind === "cell" && rowOf.has(id)) {
    const hook = tableOf.get(data.classes[id].root).hooks[Number(second)];
    if (hook) return { title: `${data.classes[id].name}.${hook.name}`, body: cellBody(id, Number(second)) };
  }
  if (kind === "rule" && data.rules[first]) {
    return { title: `${first} ${data.rules[first].name}`, body: ruleBody(first) };
  }
  return null;
}

function route() {
  const name = location.hash.slice(1);
  if (Object.hasOwn(views, name)) {
    if (sheet.open) sheet.close();
    if (name !== current) show(name);
    return;
  }
  const content = sheetFor(location.hash);
  if (!content) return;
  byId("sheet-title").replaceChildren(...broken(content.title));
  byId("sheet-body").replaceChildren(...[content.body].flat(Infinity).filter(Boolean));
  byId("sheet-body").scrollTop = 0;
  for (const [button, hash] of [["previous", content.before], ["next", content.after]]) {
    byId(button).hidden = hash === undefined;
    byId(button).disabled = !hash;
    byId(button).onclick = () => { location.hash = hash; };
  }
  if (!sheet.open) sheet.showModal();
  byId("sheet-title").focus();
}

function start() {
  const { summary } = data;
  const present = data.findings.filter((f) => !f.gone);
  byId("title").textContent = `mla-guard report: ${latest}`;
  byId("facts").textContent = `${tally(present)} in ${count(summary.classes, "backend class", "backend classes")} ` +
    `(${count(summary.files, "file")})` + (hasHistory ? `; history of ${count(data.releases.length, "release")}` : "");
  for (const [name, view] of Object.entries(views)) {
    view.link = el("a", { href: `#${name}` }, view.title);
    view.shownText = el("span", { class: "shown" });
    const body = [view.body].flat().filter(Boolean);
    view.section = el("section", { id: `view-${name}`, "aria-label": view.title },
      el("h2", { class: "on-paper" }, view.title),
      el("div", { class: "bar" }, view.bar, view.shownText), view.legend || null, body);
    byId("views").append(view.link);
    byId("content").append(view.section);
  }
  if (summary.failures.length) {
    byId("content").prepend(el("div", { class: "hint" },
      el("strong", {}, "Not read: "),
      summary.failures.map((f) => el("div", {}, `${f.path}:${f.line}: ${f.message}`))));
  }
  if (summary.unresolved.length) {
    views.findings.section.append(el("details", { class: "unjudged" },
      el("summary", {}, `${count(summary.unresolved.length, "place")} not judged`),
      el("ul", {}, summary.unresolved.map((u) => el("li", {}, el("code", {}, broken(`${u.path}:${u.line}`)), ` ${u.message}`)))));
  }
  show(current);
  route();
}

const search = byId("search");
search.addEventListener("input", () => {
  asked.text = search.value.trim().toLowerCase();
  views[current].draw();
  say();
});
search.addEventListener("keydown", (event) => {
  if (event.key === "Escape") {
    search.value = "";
    search.dispatchEvent(new Event("input"));
    byId("content").focus();
  }
});
document.addEventListener("keydown", (event) => {
  const typing = event.target.closest("input, select, textarea");
  if (event.key === "/" && !typing && !event.ctrlKey && !event.metaKey && !event.altKey) {
    event.preventDefault();
    if (sheet.open) sheet.close();
    search.focus();
    search.select();
  }
});
byId("close").addEventListener("click", () => sheet.close());
sheet.addEventListener("click", (event) => { if (event.target === sheet) sheet.close(); });
sheet.addEventListener("close", () => history.replaceState(null, "", `#${current}`));
window.addEventListener("hashchange", route);
window.addEventListener("beforeprint", () => {
  for (const view of Object.values(views)) view.draw();
  layOut();
});
window.addEventListener("afterprint", () => byId("paper").replaceChildren());
start();

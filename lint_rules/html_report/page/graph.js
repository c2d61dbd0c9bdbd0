// The hierarchy: bases to the left, a column for each level, what a wrapper holds below it.

const ROW = 30;
const PORT = 20;
const LETTER = 7.25;
const HEIGHT = 24;
const SMALL = 6.7;
const ROOM = 38;

const graph = { folded: new Set(), zoom: 1, links: false, at: null };

// Where each visible class stands: a class on the row of its first child, its children below each other.
function layout(root) {
  const places = new Map();
  const widths = [];
  const visit = (id, depth, top) => {
    const klass = data.classes[id];
    const tallied = findingsOfClass[id].length;
    const below = children[id].filter((child) => data.classes[child].root === root && firstBase(child, root) === id);
    const open = !graph.folded.has(id);
    const label = klass.name + (below.length ? (open ? "  \u25be" : `  \u25b8${size(id, root)}`) : "");
    const width = (label.length + (tallied ? String(tallied).length + 3 : 0)) * LETTER + 20;
    const place = { id, depth, y: top, label, width, below, open };
    places.set(id, place);
    const ports = klass.holds.map((held) => cut(portText(held)).length * SMALL + 34);
    widths[depth] = Math.max(widths[depth] || 0, width, ...ports);
    let bottom = top;
    if (open) for (const child of below) bottom = visit(child, depth + 1, bottom);
    return Math.max(bottom, top + ROW + klass.holds.length * PORT);
  };
  const height = visit(root, 0, 10);
  const starts = widths.map((_, depth) =>
    16 + widths.slice(0, depth).reduce((sum, width) => sum + width + 44, 0));
  for (const place of places.values()) place.x = starts[place.depth];
  const last = widths.length - 1;
  return { places, height: height + 10, width: starts[last] + widths[last] + 16 };
}

const firstBase = (id, root) => data.classes[id].bases.find((b) => data.classes[b].root === root);

function size(id, root) {
  return children[id].filter((c) => firstBase(c, root) === id)
    .reduce((sum, child) => sum + 1 + size(child, root), 0);
}

const cut = (text) => (text.length > ROOM ? `${text.slice(0, ROOM - 1)}\u2026` : text);

const portText = (held) =>
  `${held.attr}: ${held.classes.map((c) => data.classes[c].name).join(" | ") || "?"}${held.many ? " [ ]" : ""}`;

function nodeLabel(place) {
  const klass = data.classes[place.id];
  const holds = klass.holds.length ? `, holds ${klass.holds.map(portText).join(", ")}` : "";
  const found = findingsOfClass[place.id];
  return `${klass.name}${found.length ? `, ${tally(found)}` : ""}${holds}`;
}

function drawNode(place) {
  const klass = data.classes[place.id];
  const found = findingsOfClass[place.id];
  const kinds = ["node"];
  if (klass.root === place.id) kinds.push("root");
  if (klass.holds.length) kinds.push("wrapper");
  if (found.length) kinds.push("found");
  if (found.length && !errorsIn(found)) kinds.push("mild");
  if (asked.text && !wanted(classText(klass))) kinds.push("faint");
  const [name, fold] = place.label.split("  ");
  const node = svg("g", {
    class: kinds.join(" "), role: "treeitem", tabindex: "-1", "data-class": place.id,
    "aria-level": place.depth + 1, "aria-label": nodeLabel(place),
    "aria-expanded": place.below.length ? String(place.open) : null,
    transform: `translate(${place.x} ${place.y})`,
  },
    svg("title", {}, `${klass.path}:${klass.line}`),
    svg("rect", { width: place.width, height: HEIGHT, rx: klass.holds.length ? 12 : 4 }),
    svg("text", { x: 10, y: 16 }, name,
      found.length ? svg("tspan", { class: "tally", dx: LETTER },
        `${errorsIn(found) ? "\u25b2" : "\u25b3"}${found.length}`) : null,
      fold ? svg("tspan", { class: "fold", dx: LETTER, "data-fold": "" }, fold) : null));
  return node;
}

function drawPorts(place) {
  return data.classes[place.id].holds.map((held, index) => {
    const y = place.y + ROW + index * PORT;
    return svg("g", { class: "port", "data-class": place.id },
      svg("path", { class: "stub", d: `M${place.x + 12} ${place.y + HEIGHT}V${y + 6}h10` }),
      svg("text", { x: place.x + 26, y: y + 10 }, `\u25c7 ${cut(portText(held))}`),
      svg("title", {}, portText(held)));
  });
}

function drawEdges(places, root) {
  const parts = [];
  for (const place of places.values()) {
    for (const base of data.classes[place.id].bases) {
      const parent = places.get(base);
      if (!parent) continue;
      const [x, y] = [parent.x + parent.width, parent.y + HEIGHT / 2];
      const to = place.y + HEIGHT / 2;
      if (base === firstBase(place.id, root)) {
        parts.push(svg("path", { class: "edge", d: `M${x + 9} ${y}H${place.x - 16}V${to}H${place.x}` }));
        parts.push(svg("path", { class: "tip", d: `M${x + 1} ${y}l9 -5v10z` }));
      } else {
        parts.push(svg("path", { class: "edge second",
          d: `M${x} ${y}C${x + 40} ${y} ${place.x - 40} ${to} ${place.x} ${to}` }));
      }
    }
    data.classes[place.id].holds.forEach((held, index) => held.classes.forEach((inner) => {
      const target = places.get(inner);
      if (!target) return;
      const y = place.y + ROW + index * PORT + 6;
      const [x, end] = [target.x + target.width * 0.6, target.y + HEIGHT];
      const path = target.y < y
        ? `M${place.x + 24} ${y}C${place.x - 30} ${y} ${x} ${end + 60} ${x} ${end}`
        : `M${place.x + 24} ${y}C${place.x - 30} ${y} ${x} ${target.y - 60} ${x} ${target.y}`;
      parts.push(svg("path", { class: "held", d: path, "data-from": place.id, "data-to": inner }));
    }));
  }
  return parts;
}

// Shows the links of the class that is pointed at, else of the one with the focus.
function light(frame, part) {
  const at = part || frame.querySelector(".node:focus");
  const id = at ? at.dataset.class : null;
  const ends = new Set();
  for (const path of frame.querySelectorAll(".held")) {
    const on = path.dataset.from === id || path.dataset.to === id;
    path.classList.toggle("lit", on);
    path.classList.toggle("away", !on && !graph.links);
    if (on) ends.add(path.dataset.from).add(path.dataset.to);
  }
  for (const node of frame.querySelectorAll(".node")) {
    node.classList.toggle("lit", ends.has(node.dataset.class));
  }
}

function drawGraph(frame) {
  const root = data.families[asked.family].root;
  const { places, height, width } = layout(root);
  const drawn = [...places.values()];
  const picture = svg("svg", {
    role: "tree", "aria-label": `Classes below ${data.classes[root].name}`,
    viewBox: `0 0 ${width} ${height}`, width: width * graph.zoom, height: height * graph.zoom,
  },
    svg("g", { "aria-hidden": "true" }, drawEdges(places, root), drawn.map(drawPorts)),
    drawn.map(drawNode));
  frame.replaceChildren(picture);
  light(frame, null);
  const current = picture.querySelector(`[data-class="${graph.at}"].node`) || picture.querySelector(".node");
  rove(picture, current, false);
}

function graphKeys(frame, event) {
  const node = event.target.closest(".node");
  if (!node) return;
  const id = Number(node.dataset.class);
  const nodes = [...frame.querySelectorAll(".node")];
  const index = nodes.indexOf(node);
  const open = node.getAttribute("aria-expanded");
  const go = (target) => {
    if (!target) return;
    graph.at = Number(target.dataset.class);
    rove(frame, target, true);
  };
  const fold = (folded) => {
    graph.folded[folded ? "add" : "delete"](id);
    graph.at = id;
    drawGraph(frame);
    frame.querySelector("[tabindex='0']").focus();
  };
  const keys = {
    ArrowDown: () => go(nodes[index + 1]),
    ArrowUp: () => go(nodes[index - 1]),
    Home: () => go(nodes[0]),
    End: () => go(nodes[nodes.length - 1]),
    ArrowRight: () => (open === "false" ? fold(false) : open === "true" && go(nodes[index + 1])),
    ArrowLeft: () => {
      if (open === "true") return fold(true);
      const parent = firstBase(id, data.classes[id].root);
      return go(frame.querySelector(`.node[data-class="${parent}"]`));
    },
    Enter: () => { location.hash = `#class-${id}`; },
    " ": () => { location.hash = `#class-${id}`; },
  };
  if (keys[event.key]) {
    event.preventDefault();
    keys[event.key]();
  }
}

function hierarchyView() {
  const frame = el("div", { class: "graph" });
  const draw = () => drawGraph(frame);
  const zoom = (factor) => {
    graph.zoom = factor === 0
      ? Math.min(1, (frame.clientWidth - 4) / frame.firstChild.viewBox.baseVal.width)
      : Math.min(3, Math.max(0.2, graph.zoom * factor));
    draw();
  };
  const folding = (folded) => {
    const root = data.families[asked.family].root;
    graph.folded = new Set(folded ? data.classes.map((_, id) => id).filter((id) => id !== root) : []);
    draw();
  };
  frame.addEventListener("keydown", (event) => graphKeys(frame, event));
  frame.addEventListener("click", (event) => {
    const node = event.target.closest(".node");
    if (!node) return;
    const id = Number(node.dataset.class);
    graph.at = id;
    if (event.target.closest("[data-fold]")) {
      graph.folded[graph.folded.has(id) ? "delete" : "add"](id);
      draw();
    } else {
      rove(frame, node, true);
      location.hash = `#class-${id}`;
    }
  });
  const pointed = (event) => light(frame, event.target.closest("[data-class]"));
  frame.addEventListener("pointerover", pointed);
  frame.addEventListener("focusin", pointed);
  const button = (text, label, act) =>
    el("button", { type: "button", "aria-label": label, click: act }, text);
  return {
    title: "Hierarchy",
    bar: [
      familyChoice(data.families.map((_, index) => index)),
      button("\u2212", "Zoom out", () => zoom(1 / 1.25)),
      button("+", "Zoom in", () => zoom(1.25)),
      button("Fit", "Fit the width", () => zoom(0)),
      button("Unfold all", "Unfold all classes", () => folding(false)),
      button("Fold all", "Fold all classes below the first level", () => folding(true)),
      toggle("All links of wrappers", graph.links, (on) => { graph.links = on; light(frame, null); }),
    ],
    legend: el("p", { class: "legend" },
      "Arrows point at the base class; round is a wrapper, \u25c7 what it holds (point at it to see where). ",
      "\u25b2 errors, \u25b3 only warnings. Arrow keys move and fold, Enter opens."),
    body: frame,
    draw,
    status: () => {
      const family = data.classes.filter((k) => k.root === data.families[asked.family].root);
      const matching = family.filter((k) => wanted(classText(k))).length;
      return asked.text ? `${matching} of ${count(family.length, "class", "classes")} match` : "";
    },
  };
}

// Elements are built from names and text: no string of the data is ever parsed as HTML.

const SVG = "http://www.w3.org/2000/svg";

function fill(node, attributes, children) {
  for (const [name, value] of Object.entries(attributes || {})) {
    if (typeof value === "function") node.addEventListener(name, value);
    else if (value === true) node.setAttribute(name, "");
    else if (value !== false && value !== null && value !== undefined) node.setAttribute(name, value);
  }
  node.append(...children.flat(Infinity).filter((child) => child !== null && child !== undefined));
  return node;
}

const el = (tag, attributes, ...children) =>
  fill(document.createElement(tag), attributes, children);

const svg = (tag, attributes, ...children) =>
  fill(document.createElementNS(SVG, tag), attributes, children);

const byId = (id) => document.getElementById(id);

// Where a path or dotted name may be broken into lines: behind a separator.
const broken = (text) =>
  text.split(/(?<=[./_])(?=[^./_])/).flatMap((part, index) => (index ? [el("wbr"), part] : [part]));

const count = (number, noun, plural) => `${number} ${number === 1 ? noun : plural || noun + "s"}`;

// `code` in prose.
function inline(text) {
  return text.split(/`([^`]+)`/).map((part, index) => (index % 2 ? el("code", {}, part) : part));
}

// Moves a roving tabindex to `node`: one stop for the tab key, arrows inside.
function rove(container, node, focus) {
  for (const old of container.querySelectorAll("[tabindex='0']")) old.setAttribute("tabindex", "-1");
  node.setAttribute("tabindex", "0");
  if (focus) node.focus();
}

function toggle(label, pressed, change) {
  const button = el("button", { type: "button", class: "chip", "aria-pressed": String(pressed) }, label);
  button.addEventListener("click", () => {
    const now = button.getAttribute("aria-pressed") !== "true";
    button.setAttribute("aria-pressed", String(now));
    change(now);
  });
  return button;
}

function choice(label, options, change) {
  const select = el(
    "select",
    { change: () => change(select.value) },
    options.map(([value, text]) => el("option", { value }, text)),
  );
  return el("label", { class: "choice" }, el("span", {}, label), select);
}

// The matrix of hooks and backends: one tab stop, arrows inside, Enter opens.

const matrix = { states: new Set(), found: false, sort: "name", column: null, row: 0, cell: 0 };

const ORDER = "D.rdiI";

function depthFirst(root) {
  const order = new Map();
  const visit = (id) => {
    if (order.has(id)) return;
    order.set(id, order.size);
    children[id].forEach(visit);
  };
  visit(root);
  return order;
}

// The rows and columns that the search and the chips leave.
function matrixShown(root, table) {
  const shows = (row, index) =>
    (!matrix.states.size || matrix.states.has(row.letters[index])) &&
    (!matrix.found || cellFindings(row.class, table.hooks[index].name).length > 0);
  let columns = table.hooks.map((_, index) => index);
  let rows = table.rows;
  if (asked.text) {
    const named = rows.filter((row) => wanted(classText(data.classes[row.class])));
    const hooks = columns.filter((index) => wanted(table.hooks[index].name));
    if (named.length || !hooks.length) rows = named;
    if (hooks.length) columns = hooks;
  }
  if (matrix.states.size || matrix.found) {
    rows = rows.filter((row) => columns.some((index) => shows(row, index)));
    columns = columns.filter((index) => rows.some((row) => shows(row, index)));
  }
  const order = depthFirst(root);
  const name = (row) => data.classes[row.class].name;
  const by = {
    name: () => 0,
    hierarchy: (a, b) => order.get(a.class) - order.get(b.class),
    file: (a, b) => data.classes[a.class].path.localeCompare(data.classes[b.class].path),
    findings: (a, b) => findingsOfClass[b.class].length - findingsOfClass[a.class].length,
    column: (a, b) =>
      ORDER.indexOf(a.letters[matrix.column]) - ORDER.indexOf(b.letters[matrix.column]),
  }[matrix.sort];
  rows = [...rows].sort((a, b) => by(a, b) || name(a).localeCompare(name(b)));
  return { rows, columns, shows };
}

function cellLabel(row, index, hook) {
  const found = cellFindings(row.class, hook.name);
  return `${data.classes[row.class].name}, ${hook.name}: ${stateWords(row, index)}` +
    (found.length ? `, ${tally(found)}` : "");
}

function matrixCell(row, index, hook, shown) {
  const found = cellFindings(row.class, hook.name);
  const letter = row.letters[index];
  const kinds = [`s-${stateOf[letter].state}`];
  if (!shown) kinds.push("off");
  if (found.length) kinds.push("has");
  if (errorsIn(found)) kinds.push("bad");
  return el("td", {
    class: kinds.join(" "), role: "gridcell", tabindex: "-1", "aria-label": cellLabel(row, index, hook),
    "data-hash": `#cell-${row.class}-${index}`, "data-column": index,
  }, glyph(letter));
}

function drawMatrix(frame, told) {
  const root = data.families[asked.family].root;
  const table = tableOf.get(root);
  const { rows, columns, shows } = matrixShown(root, table);
  told.textContent = "Point at a cell, or move to it, to read here what it says.";
  if (!rows.length || !columns.length) {
    frame.replaceChildren(el("p", { class: "empty" }, table.hooks.length
      ? "Nothing matches: clear the search or the filters."
      : "The base class declares no hook, and no caller asks for one."));
    return { rows, columns, table };
  }
  const head = el("tr", { role: "row" },
    el("th", { class: "corner", role: "columnheader", tabindex: "-1", scope: "col" },
      `${count(rows.length, "class", "classes")} \u00d7 ${count(columns.length, "hook")}`),
    columns.map((index) => {
      const hook = table.hooks[index];
      const sorted = matrix.sort === "column" && matrix.column === index;
      return el("th", {
        role: "columnheader", scope: "col", tabindex: "-1", title: hook.declaration, "data-sort": index,
        "aria-label": `${hook.name}: ${hook.spread}; sort by it`,
        "aria-sort": sorted ? "ascending" : null, "data-column": index,
      }, el("div", { class: sorted ? "column sorted" : "column" }, hook.name));
    }));
  const body = rows.map((row) => {
    const klass = data.classes[row.class];
    const found = findingsOfClass[row.class];
    return el("tr", { role: "row" },
      el("th", {
        scope: "row", role: "rowheader", tabindex: "-1", title: `${klass.path}:${klass.line}`,
        "data-hash": `#class-${row.class}`,
        "aria-label": `${klass.name}${found.length ? `, ${tally(found)}` : ""}`,
      }, klass.name, found.length ? el("span", { class: "soft" }, ` ${errorsIn(found) ? "\u25b2" : "\u25b3"}${found.length}`) : null),
      columns.map((index) => matrixCell(row, index, table.hooks[index], shows(row, index))));
  });
  const grid = el("table", {
    class: "matrix", role: "grid", "aria-label": `Hooks of ${data.classes[root].name} by class`,
    "aria-rowcount": rows.length + 1, "aria-colcount": columns.length + 1,
  }, el("thead", { role: "rowgroup" }, head), el("tbody", { role: "rowgroup" }, body));
  frame.replaceChildren(grid);
  const line = grid.rows[Math.min(matrix.row, rows.length)];
  rove(grid, line.cells[Math.min(matrix.cell, columns.length)], false);
  return { rows, columns, table };
}

function matrixKeys(frame, event) {
  const cell = event.target.closest("td, th");
  if (!cell) return;
  const grid = cell.closest("table");
  const [row, column] = [cell.parentNode.rowIndex, cell.cellIndex];
  const [bottom, right] = [grid.rows.length - 1, cell.parentNode.cells.length - 1];
  const moves = {
    ArrowDown: [row + 1, column], ArrowUp: [row - 1, column],
    ArrowRight: [row, column + 1], ArrowLeft: [row, column - 1],
    PageDown: [Math.min(row + 10, bottom), column], PageUp: [Math.max(row - 10, 0), column],
    Home: [event.ctrlKey ? 0 : row, 0], End: [event.ctrlKey ? bottom : row, right],
  };
  if (moves[event.key]) {
    event.preventDefault();
    const [to, at] = moves[event.key];
    if (to < 0 || to > bottom || at < 0 || at > right) return;
    [matrix.row, matrix.cell] = [to, at];
    rove(grid, grid.rows[to].cells[at], true);
  } else if (event.key === "Enter" || event.key === " ") {
    event.preventDefault();
    cell.click();
  }
}

function matrixView() {
  const frame = el("div", { class: "scroll" });
  const told = el("p", { class: "told", "aria-hidden": "true" });
  let last = { rows: [], columns: [], table: { hooks: [], rows: [] } };
  const draw = () => { last = drawMatrix(frame, told); tell(); };
  const redraw = () => { draw(); say(); };
  frame.addEventListener("keydown", (event) => matrixKeys(frame, event));
  frame.addEventListener("click", (event) => {
    const cell = event.target.closest("td, th");
    if (!cell) return;
    [matrix.row, matrix.cell] = [cell.parentNode.rowIndex, cell.cellIndex];
    if (cell.dataset.sort !== undefined) {
      const column = Number(cell.dataset.sort);
      const again = matrix.sort === "column" && matrix.column === column;
      matrix.sort = again ? "name" : "column";
      matrix.column = again ? null : column;
      redraw();
      frame.querySelector("[tabindex='0']").focus();
    } else if (cell.dataset.hash) {
      rove(frame, cell, true);
      location.hash = cell.dataset.hash;
    }
  });
  const pointed = (event) => {
    const cell = event.target.closest("td, th");
    for (const old of frame.querySelectorAll(".lit")) old.classList.remove("lit");
    if (!cell) return;
    told.textContent = cell.title && cell.tagName === "TH"
      ? `${cell.getAttribute("aria-label") || cell.textContent} \u2014 ${cell.title}`
      : cell.getAttribute("aria-label") || cell.textContent;
    const head = frame.querySelector(`th[data-column="${cell.dataset.column}"]`);
    if (head) head.classList.add("lit");
    cell.parentNode.cells[0].classList.add("lit");
  };
  frame.addEventListener("pointerover", pointed);
  frame.addEventListener("focusin", pointed);
  const totals = new Map(data.states.map((state) => [state.letter, el("span", { class: "soft" })]));
  const tell = () => {
    for (const [letter, total] of totals) {
      total.textContent = last.table.rows.reduce((n, row) => n + row.letters.split(letter).length - 1, 0);
    }
  };
  const families = data.families.map((_, index) => index).filter((i) => data.families[i].table);
  return {
    title: "Matrix",
    families,
    bar: [
      familyChoice(families),
      choice("Rows by", [
        ["name", "name"], ["hierarchy", "hierarchy"], ["file", "file"], ["findings", "findings"],
      ], (value) => { matrix.sort = value; redraw(); }),
      data.states.map((state) => toggle([badge(state.letter), `${state.words} `, totals.get(state.letter)], false, (on) => {
        matrix.states[on ? "add" : "delete"](state.letter);
        redraw();
      })),
      toggle("with findings", false, (on) => { matrix.found = on; redraw(); }),
    ],
    legend: el("p", { class: "legend" },
      el("span", { class: "on-paper" }, data.states.map((s) => [el("code", {}, s.letter), ` ${s.words}. `])),
      "Arrow keys move, Enter opens a cell or sorts by a hook. ",
      "\u25b2 an error stands at the cell, \u25b3 a warning."),
    body: [frame, told, chainTable()],
    draw,
    status: () => `${last.rows.length} of ${count(last.table.rows.length, "class", "classes")}, ` +
      `${last.columns.length} of ${count(last.table.hooks.length, "hook")}`,
  };
}

// How hooks get through wrappers that declare routes.
function chainTable() {
  if (!data.chains) return null;
  return el("section", {},
    el("h3", {}, "Routes through wrappers"),
    el("p", { class: "legend" },
      Object.entries(data.chainWords).map(([letter, words]) => [el("code", {}, letter), ` ${words}. `])),
    el("div", { class: "scroll" }, el("table", { class: "matrix routes" },
      el("thead", {}, el("tr", {}, el("th", { class: "corner", scope: "col" }, "Chain"),
        data.chains.names.map((name) => el("th", { scope: "col" }, el("div", { class: "column" }, name))))),
      el("tbody", {}, data.chains.rows.map((row) => el("tr", {},
        el("th", { scope: "row" }, row.chain),
        [...row.letters].map((letter) => el("td", { title: data.chainWords[letter] }, letter))))))));
}

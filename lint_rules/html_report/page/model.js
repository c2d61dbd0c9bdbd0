// The embedded data, and what every view asks of it.

const data = JSON.parse(byId("data").textContent);
const latest = data.releases[data.releases.length - 1];
const hasHistory = data.releases.length > 1;

data.findings.forEach((finding, id) => {
  finding.id = id;
  finding.gone = finding.release !== latest;
  finding.text = [
    finding.code, finding.name, finding.severity, finding.symbol, finding.path, finding.message,
    ...finding.reasons,
  ].join("\n").toLowerCase();
});

const classNumbers = new Map(data.classes.map((k, id) => [`${k.path}\n${k.qualname}`, id]));
const findingsOfClass = data.classes.map(() => []);
const findingsOfCell = new Map();
for (const finding of data.findings) {
  const owner = classNumbers.get(`${finding.path}\n${finding.owner}`);
  if (finding.gone || owner === undefined) continue;
  findingsOfClass[owner].push(finding);
  if (finding.hook) {
    const key = `${owner}\n${finding.hook}`;
    findingsOfCell.set(key, [...(findingsOfCell.get(key) || []), finding]);
  }
}
const cellFindings = (klass, hook) => findingsOfCell.get(`${klass}\n${hook}`) || [];

const children = data.classes.map(() => []);
data.classes.forEach((klass, id) => klass.bases.forEach((base) => children[base].push(id)));

const stateOf = Object.fromEntries(data.states.map((state) => [state.letter, state]));
const tableOf = new Map(
  data.families.filter((f) => f.table).map((family) => [family.root, family.table]),
);
const rowOf = new Map();
for (const table of tableOf.values()) for (const row of table.rows) rowOf.set(row.class, row);

// What the reader has asked for; every view reads it.
const asked = { text: "", family: 0 };

const wanted = (text) => text.toLowerCase().includes(asked.text);
const classText = (klass) => `${klass.name}\n${klass.path}`;

const errorsIn = (findings) => findings.filter((f) => f.severity === "error").length;

// "2 errors, 1 warning": never by colour alone.
function tally(findings) {
  const errors = errorsIn(findings);
  const parts = [];
  if (errors) parts.push(count(errors, "error"));
  if (findings.length > errors) parts.push(count(findings.length - errors, "warning"));
  return parts.join(", ") || "no findings";
}

function familyName(family) {
  const root = data.classes[family.root];
  const below = data.classes.filter((k) => k.root === family.root).length - 1;
  const twins = data.families.filter((f) => data.classes[f.root].name === root.name);
  const where = twins.length > 1 ? `, ${root.path}` : "";
  return `${root.name} (${count(below, "class", "classes")})${where}`;
}

const MOST = 2000, MOST_LINKS = 8000; // as many as a browser draws and moves without delay
const ROUND_FROM = 40, DENSE_FROM = 300; // with more rows, start with circles; with more links, draw links faintly
const ROW = 36, HIGH = 26, GAP = 64, DOT = 10, RING = 90, PAD = 28; // in pixels, unless zoomed
const byId = id => document.getElementById(id);
const walk = JSON.parse(byId("walk").textContent), top = document.documentElement;
const svg = byId("drawing"), world = byId("view"), card = byId("card"), search = byId("search");
const ruler = document.createElement("canvas").getContext("2d");
const view = { x: 0, y: 0, k: 1 };
let shown = [], drawnLinks = [], shownHits = [], highlighted = [], isRound = false;
let pinned = null, hovered = null, focused = null;

const controls = new RegExp(walk.page.controls, "gu"), names = { "\t": "\\t", "\n": "\\n", "\r": "\\r" };
const escapeUnit = unit => `\\u${unit.charCodeAt(0).toString(16).padStart(4, "0")}`;
const escapeCharacter = character => names[character] ?? character.split("").map(escapeUnit).join("");
const escapeControls = text => text && text.replace(controls, escapeCharacter);
const joinId = id => Array.isArray(id) ? id.join("/") : id, idText = id => escapeControls(joinId(id));
const clamp = (value, least, most) => Math.min(Math.max(value, least), most);
function cut(text, most) {
  const characters = [...text.slice(0, 4 * most)]; // whole characters, which may take two units
  return characters.length > most || text.length > 4 * most ? characters.slice(0, most - 1).join("") + "…" : text;
}
function width(text, size) {
  ruler.font = `${size}px system-ui, sans-serif`;
  return ruler.measureText(text).width;
}

// The data: nodes in the order of the walk, so that parents come before children; links point as stored.
const nodes = walk.nodes.map((node, place) => ({
  ...node, place, name: escapeControls(node.title) ?? idText(node.id),
  type: escapeControls(node.type), path: escapeControls(node.path), tags: node.tags.map(escapeControls),
  searchText: `${joinId(node.id)}\n${node.title ?? ""}`.toLowerCase(),
  unlisted: walk.page.unlisted[place], parent: null, children: [], links: [], depth: 0, below: 0, folded: false,
}));
const nodeById = new Map(nodes.map(node => [JSON.stringify(node.id), node]));
const links = walk.edges.map(edge => ({
  ...edge, type: escapeControls(edge.type),
  from: nodeById.get(JSON.stringify(edge.from)), to: nodeById.get(JSON.stringify(edge.to)), child: null,
}));
walk.spanning_tree.forEach((step, place) => {
  const parent = nodeById.get(JSON.stringify(step.from)), child = nodeById.get(JSON.stringify(step.to));
  child.parent = parent;
  child.depth = parent.depth + 1;
  parent.children.push(child);
  links[walk.page.steps[place]].child = child;
});
for (const node of nodes.slice().reverse()) if (node.parent) node.parent.below += node.below + 1;
const linkCounts = new Map();
for (const link of links) {
  const pair = [link.from.place, link.to.place].sort().join();
  link.nth = linkCounts.get(pair) ?? 0; // links between the same two nodes get different curves
  linkCounts.set(pair, link.nth + 1);
  for (const node of new Set([link.from, link.to])) node.links.push(link);
}

// Layout: each leaf has its own row, and a parent is in the middle of its children.
// Rows go from top to bottom, or around a circle.
function chooseShown() {
  shown = [];
  for (const node of nodes) {
    node.shown = shown.length < MOST && (!node.parent || (node.parent.shown && !node.parent.folded));
    if (node.shown) shown.push(node);
  }
  const candidates = links.filter(link => link.from.shown && link.to.shown);
  drawnLinks = candidates.sort((one, other) => !one.child - !other.child).slice(0, MOST_LINKS);
  for (const link of links) link.shown = false;
  for (const link of drawnLinks) link.shown = true;
}
function assignRows() {
  const order = [], stack = shown.filter(node => !node.parent).reverse();
  let count = 0;
  while (stack.length) {
    const node = stack.pop();
    node.open = node.children.filter(child => child.shown);
    if (!node.open.length) node.row = count++;
    stack.push(...node.open.slice().reverse());
    order.push(node);
  }
  for (const node of order.slice().reverse())
    if (node.open.length) node.row = (node.open[0].row + node.open[node.open.length - 1].row) / 2;
  shown = order;
  return count;
}
function placeInColumns() {
  const widest = [], labels = [], starts = [0];
  for (const node of shown) {
    node.width = node.textWidth + 18;
    widest[node.depth] = Math.max(widest[node.depth] ?? 0, node.width);
  }
  for (const { child, textWidth } of drawnLinks)
    if (child) labels[child.depth] = Math.max(labels[child.depth] ?? 0, textWidth);
  for (let depth = 1; depth < widest.length; depth++)
    starts[depth] = starts[depth - 1] + widest[depth - 1] + (labels[depth] ?? 0) + GAP;
  for (const node of shown)
    Object.assign(node, { x: starts[node.depth], y: node.row * ROW, end: starts[node.depth] + widest[node.depth] });
}
function placeInRings(count) {
  const last = [], gap = [], radius = [], away = shown.filter(node => !node.parent).length > 1 ? 1 : 0;
  for (const { depth, row } of shown) {
    if (depth in last) gap[depth] = Math.min(gap[depth] ?? count, row - last[depth]);
    last[depth] = row;
  }
  for (let depth = 0; depth < last.length; depth++) {
    const least = depth ? radius[depth - 1] + RING : away * RING;
    radius[depth] = gap[depth] ? Math.max(least, (1.6 * DOT * count) / (2 * Math.PI * gap[depth])) : least;
  }
  for (const node of shown) {
    node.radius = radius[node.depth];
    node.angle = (2 * Math.PI * node.row) / count - Math.PI / 2;
    [node.x, node.y] = polar(node.angle, node.radius);
    node.width = DOT;
  }
}
const polar = (angle, radius) => [radius * Math.cos(angle), radius * Math.sin(angle)];

// A link is a cubic curve of four points, from its source to its target.
function curveInColumns({ from, to, child }) {
  const shift = child ? 0 : 6, apart = to.x > from.x + from.width || from.x > to.x + to.width;
  const right = to.x >= from.x + from.width || !apart;
  const p = [right ? from.x + from.width : from.x, from.y + shift];
  const q = [apart && right ? to.x : to.x + to.width, to.y + shift];
  const reach = (q[0] - p[0]) / 2, beyond = from.end + 14 + Math.min(Math.abs(q[1] - p[1]) / 8, GAP);
  return apart ? [p, [p[0] + reach, p[1]], [q[0] - reach, q[1]], q] : [p, [beyond, p[1]], [beyond, q[1]], q];
}
function curveInRings({ from, to, child }) {
  const middle = child ? (from.radius + to.radius) / 2 : Math.min(from.radius, to.radius) * 0.6;
  const c = polar((from.radius ? from : to).angle, middle), d = polar((to.radius ? to : from).angle, middle);
  return [shorten([from.x, from.y], c), c, d, shorten([to.x, to.y], d)];
}
function shorten([x, y], [toX, toY]) {
  const length = Math.hypot(toX - x, toY - y) || 1;
  return [x + ((toX - x) / length) * DOT * 0.6, y + ((toY - y) / length) * DOT * 0.6];
}
function curve(link) {
  const { from, to, nth } = link;
  const x = isRound ? from.x + DOT / 2 : from.x + from.width, far = 34 + 14 * nth;
  if (from === to) return [[x, from.y - 5], [x + far, from.y - far], [x + far, from.y + far], [x, from.y + 5]];
  const [p, c, d, q] = isRound ? curveInRings(link) : curveInColumns(link);
  return [p, [c[0], c[1] + 18 * nth], [d[0], d[1] + 18 * nth], q];
}
function labelSpot({ child, points: [p, c, d, q] }) {
  if (child && !isRound) return [child.x - 12, child.y - 5, "end"];
  return [(p[0] + 3 * c[0] + 3 * d[0] + q[0]) / 8, (p[1] + 3 * c[1] + 3 * d[1] + q[1]) / 8 - 3, "middle"];
}


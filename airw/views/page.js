// The drawing: texts are only ever set as text.
function make(tag, attributes, parent, text = "") {
  const made = document.createElementNS("http://www.w3.org/2000/svg", tag);
  for (const [name, value] of Object.entries(attributes)) made.setAttribute(name, value);
  made.textContent = text;
  parent.append(made);
  return made;
}
function drawNode(node, layer) {
  const kind = `node${node.parent ? "" : " root"}${node.folded ? " folded" : ""}`, left = isRound && node.x < -1;
  const place = { "data-place": node.place, transform: `translate(${node.x} ${node.y})` };
  const about = { role: "treeitem", tabindex: -1, "aria-level": node.depth + 1, "aria-label": spoken(node) };
  if (node.children.length) about["aria-expanded"] = !node.folded;
  node.box = make("g", { class: kind, ...place, ...about }, layer);
  const dot = { x: -DOT / 2, y: -DOT / 2, height: DOT, rx: DOT / 2 }, box = { x: 0, y: -HIGH / 2, height: HIGH, rx: 7 };
  make("rect", { width: node.width, ...(isRound ? dot : box) }, node.box);
  node.anchor = left ? "end" : "start";
  node.text = make("text", { x: 9, y: 4.5, "text-anchor": node.anchor }, node.box, node.label);
}
function drawLink(link, layer) {
  link.points = curve(link);
  const [p, c, d, q] = link.points, kind = link.child ? "" : " reference";
  link.path = make("path", { class: `link${kind}`, d: `M${p}C${c} ${d} ${q}` }, layer);
  [link.x, link.y, link.anchor] = labelSpot(link);
  const spot = { x: link.x, y: link.y, "text-anchor": link.anchor };
  link.text = make("text", { class: `type${kind}`, ...spot }, layer, link.label);
}
function undrawn() {
  const all = [["artifacts", shown.length, nodes.length], ["links", drawnLinks.length, links.length]];
  const some = all.filter(([, drawn, there]) => drawn < there)
    .map(([what, drawn, there]) => `${drawn.toLocaleString("en")} of ${there.toLocaleString("en")} ${what}`);
  return some.length ? `Drawn: ${some.join(", ")}, those that the walk came to first. The list has all.` : "";
}
function spoken(node) {
  return `${cut(node.name, 200)}, ${node.parent ? `hop ${node.depth}` : "root"}, ${node.links.length} links`;
}
function draw() {
  const held = nodeAt({ target: document.activeElement });
  choose();
  for (const node of shown) {
    const hidden = node.folded ? node.below : node.children.filter(child => !child.shown).length;
    node.label = cut(node.name, 32) + (hidden ? ` +${hidden}` : "");
    node.textWidth = width(node.label, 13);
  }
  for (const link of drawnLinks) {
    link.label = cut(link.type, 24);
    link.textWidth = width(link.label, 11);
  }
  const count = rows();
  if (isRound) rings(count); else columns();
  const under = document.createDocumentFragment(), over = document.createDocumentFragment();
  for (const link of drawnLinks.slice().reverse()) drawLink(link, under); // references below the tree
  for (const node of shown) drawNode(node, over);
  byId("links").replaceChildren(under);
  byId("nodes").replaceChildren(over);
  (held?.shown ? held : shown[0])?.box.setAttribute("tabindex", 0);
  byId("undrawn").textContent = undrawn();
  svg.classList.toggle("round", isRound);
  svg.classList.toggle("dense", drawnLinks.length > DENSE_FROM);
  lit = [];
  find(); // which thins the labels out
  light();
  if (held?.shown) held.box.focus();
}

// Labels thin out: first roots, then what was searched for, is near a root or has much below; none over another.
function thin() {
  const size = Math.max(1, (isRound ? 0.8 : 0.6) / view.k), inBoxes = size === 1 && !isRound;
  const { isFree, take } = room(HIGH * size), dot = DOT * Math.min(size, 2.5);
  const left = (x, anchor, w) => x - { start: 0, middle: w / 2, end: w }[anchor];
  world.style.setProperty("--size", size);
  svg.classList.toggle("loose", !inBoxes);
  const name = node => {
    const side = node.anchor === "end" ? -1 : 1, off = isRound ? side * (dot / 2 + 3 * size) : 0;
    const w = inBoxes ? node.width : node.textWidth * size, high = inBoxes ? HIGH : 15 * size;
    if (isRound) node.text.setAttribute("x", off);
    node.text.classList.toggle("thin", !isFree(left(node.x + off, node.anchor, w), node.y, w, high));
  };
  const order = (one, other) => other.isHit - one.isHit || one.depth - other.depth || other.below - one.below;
  shown.filter(node => !node.parent).forEach(name);
  for (const { x, y, open } of shown) if (isRound && open.length) take(x - dot / 2, y, dot, dot); // leaves are too many
  shown.filter(node => node.parent).sort(order).forEach(name);
  for (const { text, textWidth: w, x, y, anchor } of drawnLinks)
    text.classList.toggle("thin", size > 1 || !isFree(left(x, anchor, w), y - 4, w, 12));
}
function room(high) {
  const bands = new Map(); // boxes by the stripes of the drawing that they touch
  const touched = (y, h) => [Math.floor((y - h / 2) / high), Math.floor((y + h / 2) / high)];
  const take = (x, y, w, h) => {
    for (const band of touched(y, h)) bands.get(band)?.push([x, y, w, h]) ?? bands.set(band, [[x, y, w, h]]);
    return true;
  };
  const isFree = (x, y, w, h) => {
    const isHit = ([otherX, otherY, otherW, otherH]) =>
      x < otherX + otherW && otherX < x + w && Math.abs(y - otherY) < (h + otherH) / 2;
    return !touched(y, h).some(band => bands.get(band)?.some(isHit)) && take(x, y, w, h);
  };
  return { isFree, take };
}

// The view: how far the drawing is moved and zoomed.
function move(x, y, k = view.k) {
  const zoomed = k !== view.k;
  Object.assign(view, { x, y, k });
  world.setAttribute("transform", `translate(${x} ${y}) scale(${k})`);
  if (zoomed) thin();
}
function zoom(by, x = svg.clientWidth / 2, y = svg.clientHeight / 2) {
  const k = clamp(view.k * by, 0.002, 8);
  move(x - ((x - view.x) * k) / view.k, y - ((y - view.y) * k) / view.k, k);
}
function fit(smallest = 0) {
  const side = isRound ? 110 : 0, span = (least, most, room) => room / Math.max(most - least, 1);
  const [left, right, high, low] = shown.reduce(([a, b, c, d], { x, y, width: w }) =>
    [Math.min(a, x), Math.max(b, x + w), Math.min(c, y - HIGH), Math.max(d, y + HIGH)], [0, 0, 0, 0]);
  const wide = svg.clientWidth - 2 * PAD - 2 * side, tall = svg.clientHeight - 2 * PAD - 30;
  const whole = clamp(Math.min(span(left, right, wide), span(high, low, tall)), 0.002, 1.2), k = Math.max(whole, smallest);
  if (k > whole && shown.length) move(PAD, svg.clientHeight / 2 - shown[0].y * k, k);
  else move((svg.clientWidth - (left + right) * k) / 2, (svg.clientHeight - 30 - (high + low) * k) / 2, k);
}
function reveal({ x, y, width: w }) {
  const [atX, atY] = [view.x + (x + w / 2) * view.k, view.y + y * view.k];
  const inside = atX > PAD && atX < svg.clientWidth - PAD && atY > PAD && atY < svg.clientHeight - PAD;
  if (!inside) move(view.x + svg.clientWidth / 2 - atX, view.y + svg.clientHeight / 2 - atY);
}

// What is pointed at, focused or pinned is lit with its links, and told on the card.
function light() {
  const node = pinned ?? hovered ?? focused;
  for (const element of lit) element.classList.remove("on", "at");
  lit = [];
  const on = (element, kind = "on") => { element.classList.add(kind); lit.push(element); };
  for (const link of node?.links.filter(each => each.shown) ?? [])
    for (const element of [link.path, link.text, link.from.box, link.to.box]) on(element);
  if (node?.shown) { on(node.box); on(node.box, "at"); }
  svg.classList.toggle("pinned", pinned !== null);
  tell(node);
}
function tell(node) {
  card.hidden = !node;
  if (!node) return;
  const add = (parent, tag, text) => {
    const made = Object.assign(document.createElement(tag), { textContent: text, dir: "auto" });
    return parent.appendChild(made);
  };
  card.replaceChildren();
  add(card, "h2", node.name);
  const facts = add(card, "dl", ""), list = add(card, "ul", ""), { type, path, depth: hop } = node;
  const told = { id: said(node.id), type, tags: node.tags.join(", "), path, hop, "left out here": node.unlisted || null };
  for (const [name, value] of Object.entries(told))
    if (value !== null && value !== "") { add(facts, "dt", name); add(facts, "dd", value); }
  for (const link of node.links.slice(0, 12)) {
    const called = cut(link.type, 40), isOut = link.from === node, other = cut((isOut ? link.to : link.from).name, 60);
    add(list, "li", isOut ? `${called} → ${other}` : `← ${called} ${other}`);
  }
  if (node.links.length > 12) add(list, "li", `and ${node.links.length - 12} more`);
}
function pin(node) {
  pinned = node === pinned ? null : node;
  light();
}
function fold(node) {
  if (!node?.children.length) return;
  const { x, y } = node;
  node.folded = !node.folded;
  draw();
  move(view.x + (x - node.x) * view.k, view.y + (y - node.y) * view.k);
  node.box.focus();
}
function find() {
  const wanted = search.value.trim().toLowerCase();
  for (const node of nodes) node.isHit = wanted !== "" && node.sought.includes(wanted);
  for (const node of shown) node.box.classList.toggle("hit", node.isHit);
  const hits = nodes.filter(node => node.isHit);
  found = hits.filter(node => node.shown);
  svg.classList.toggle("searching", wanted !== "");
  thin();
  const rest = hits.length - found.length;
  byId("found").textContent = wanted ? `${hits.length} found${rest ? `, ${rest} of them not drawn` : ""}` : "";
}
function next() {
  if (!found.length) return;
  pinned = found[(found.indexOf(pinned) + 1) % found.length];
  reveal(pinned);
  light();
}
function turn() {
  isRound = !isRound;
  byId("radial").setAttribute("aria-pressed", isRound);
  draw();
  fit(isRound ? 0 : 0.75);
}
function asList() {
  byId("listed").setAttribute("aria-pressed", top.classList.toggle("listed"));
}

// Hands: mouse, touch and keys.
const nodeAt = event => nodes[event.target.closest?.(".node")?.dataset.place] ?? null;
function goTo(node) {
  if (!node) return;
  shown.forEach(each => each.box.setAttribute("tabindex", each === node ? 0 : -1));
  node.box.focus();
  reveal(node);
}
function nodeKey(event) {
  const node = nodeAt(event), place = shown.indexOf(node);
  const ways = {
    ArrowRight: () => goTo(node.open[0]), ArrowLeft: () => goTo(node.parent), ArrowUp: () => goTo(shown[place - 1]),
    ArrowDown: () => goTo(shown[place + 1]), Home: () => goTo(shown[0]), End: () => goTo(shown[shown.length - 1]),
    Enter: () => pin(node), " ": () => fold(node),
  };
  if (!node || !ways[event.key] || event.ctrlKey || event.metaKey || event.altKey) return;
  event.preventDefault();
  ways[event.key]();
}
function pageKey(event) {
  if (event.key === "Escape") { search.value = ""; find(); pin(pinned); }
  const ways = {
    "+": () => zoom(1.25), "=": () => zoom(1.25), "-": () => zoom(0.8), 0: () => fit(), r: turn, "/": () => search.focus(),
  };
  if (event.target === search || !ways[event.key] || event.ctrlKey || event.metaKey || event.altKey) return;
  event.preventDefault();
  ways[event.key]();
}
let grip = null, dragged = false;
function drag(event) {
  if (!grip || !(event.buttons & 1)) return;
  const x = event.clientX - grip.x, y = event.clientY - grip.y;
  if (!dragged && Math.hypot(x, y) < 4) return;
  dragged = true;
  svg.setPointerCapture(event.pointerId);
  move(grip.fromX + x, grip.fromY + y);
}
svg.addEventListener("pointerdown", event => {
  grip = { x: event.clientX, y: event.clientY, fromX: view.x, fromY: view.y };
  dragged = false;
});
svg.addEventListener("pointermove", drag);
svg.addEventListener("pointerover", event => { hovered = nodeAt(event); light(); });
svg.addEventListener("pointerleave", () => { hovered = null; light(); });
// Not on the drawing itself, which browsers would then focus like a link.
svg.parentElement.addEventListener("focusin", event => {
  focused = nodeAt(event);
  hovered = null; // of the mouse and the keys, the last one counts
  light();
});
svg.parentElement.addEventListener("focusout", () => { focused = null; light(); });
svg.addEventListener("click", event => { if (!dragged) pin(nodeAt(event) ?? pinned); });
svg.addEventListener("dblclick", event => fold(nodeAt(event)));
svg.addEventListener("keydown", nodeKey);
svg.addEventListener("wheel", event => {
  event.preventDefault();
  const { left, top: high } = svg.getBoundingClientRect();
  zoom(Math.exp(-event.deltaY * (event.deltaMode ? 0.03 : 0.0015)), event.clientX - left, event.clientY - high);
}, { passive: false });
document.addEventListener("keydown", pageKey);
search.addEventListener("input", find);
search.form.addEventListener("submit", event => { event.preventDefault(); next(); });
byId("closer").addEventListener("click", () => zoom(1.25));
byId("farther").addEventListener("click", () => zoom(0.8));
byId("fit").addEventListener("click", () => fit());
byId("radial").addEventListener("click", turn);
byId("listed").addEventListener("click", asList);

draw();
if (new Set(shown.map(node => node.row)).size > ROUND_FROM) turn(); else fit(0.75);

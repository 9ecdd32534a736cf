// The drawing. Titles and ids are set as text content only, never as HTML.
function createSvg(tag, attributes, parent, text = "") {
  const element = document.createElementNS("http://www.w3.org/2000/svg", tag);
  for (const [name, value] of Object.entries(attributes)) element.setAttribute(name, value);
  element.textContent = text;
  parent.append(element);
  return element;
}
function drawNode(node, layer) {
  const kind = `node${node.parent ? "" : " root"}${node.folded ? " folded" : ""}`, left = isRound && node.x < -1;
  const place = { "data-place": node.place, transform: `translate(${node.x} ${node.y})` };
  const aria = { role: "treeitem", tabindex: -1, "aria-level": node.depth + 1, "aria-label": ariaLabel(node) };
  if (node.children.length) aria["aria-expanded"] = !node.folded;
  node.box = createSvg("g", { class: kind, ...place, ...aria }, layer);
  const dot = { x: -DOT / 2, y: -DOT / 2, height: DOT, rx: DOT / 2 }, box = { x: 0, y: -HIGH / 2, height: HIGH, rx: 7 };
  createSvg("rect", { width: node.width, ...(isRound ? dot : box) }, node.box);
  node.anchor = left ? "end" : "start";
  node.text = createSvg("text", { x: 9, y: 4.5, "text-anchor": node.anchor }, node.box, node.label);
}
function drawLink(link, layer) {
  link.points = curve(link);
  const [p, c, d, q] = link.points, kind = link.child ? "" : " reference";
  link.path = createSvg("path", { class: `link${kind}`, d: `M${p}C${c} ${d} ${q}` }, layer);
  [link.x, link.y, link.anchor] = labelSpot(link);
  const spot = { x: link.x, y: link.y, "text-anchor": link.anchor };
  link.text = createSvg("text", { class: `type${kind}`, ...spot }, layer, link.label);
}
function describeUndrawn() {
  const counts = [["artifacts", shown.length, nodes.length], ["links", drawnLinks.length, links.length]];
  const partial = counts.filter(([, drawn, total]) => drawn < total)
    .map(([noun, drawn, total]) => `${drawn.toLocaleString("en")} of ${total.toLocaleString("en")} ${noun}`);
  const note = "those that the walk reached first. The list contains all.";
  return partial.length ? `Drawn: ${partial.join(", ")}, ${note}` : "";
}
function ariaLabel(node) {
  return `${cut(node.name, 200)}, ${node.parent ? `hop ${node.depth}` : "root"}, ${node.links.length} links`;
}
function draw() {
  const active = nodeAt({ target: document.activeElement });
  chooseShown();
  for (const node of shown) {
    const hidden = node.folded ? node.below : node.children.filter(child => !child.shown).length;
    node.label = cut(node.name, 32) + (hidden ? ` +${hidden}` : "");
    node.textWidth = width(node.label, 13);
  }
  for (const link of drawnLinks) {
    link.label = cut(link.type, 24);
    link.textWidth = width(link.label, 11);
  }
  const count = assignRows();
  if (isRound) placeInRings(count); else placeInColumns();
  const under = document.createDocumentFragment(), over = document.createDocumentFragment();
  for (const link of drawnLinks.slice().reverse()) drawLink(link, under); // references lie below links of the tree
  for (const node of shown) drawNode(node, over);
  byId("links").replaceChildren(under);
  byId("nodes").replaceChildren(over);
  (active?.shown ? active : shown[0])?.box.setAttribute("tabindex", 0);
  byId("undrawn").textContent = describeUndrawn();
  svg.classList.toggle("round", isRound);
  svg.classList.toggle("dense", drawnLinks.length > DENSE_FROM);
  highlighted = [];
  find(); // also thins the labels
  highlight();
  if (active?.shown) active.box.focus();
}

// Show only labels that do not overlap: first roots, then search hits, then nodes near a root or with many below.
function thinLabels() {
  const size = Math.max(1, (isRound ? 0.8 : 0.6) / view.k), inBoxes = size === 1 && !isRound;
  const { isFree, take } = createSpace(HIGH * size), dot = DOT * Math.min(size, 2.5);
  const left = (x, anchor, w) => x - { start: 0, middle: w / 2, end: w }[anchor];
  world.style.setProperty("--size", size);
  svg.classList.toggle("loose", !inBoxes);
  const placeName = node => {
    const side = node.anchor === "end" ? -1 : 1, off = isRound ? side * (dot / 2 + 3 * size) : 0;
    const w = inBoxes ? node.width : node.textWidth * size, high = inBoxes ? HIGH : 15 * size;
    if (isRound) node.text.setAttribute("x", off);
    node.text.classList.toggle("thin", !isFree(left(node.x + off, node.anchor, w), node.y, w, high));
  };
  const order = (one, other) => other.isHit - one.isHit || one.depth - other.depth || other.below - one.below;
  shown.filter(node => !node.parent).forEach(placeName);
  // Names do not cover the dots of parents; there are too many leaves to keep free, too.
  for (const { x, y, open } of shown) if (isRound && open.length) take(x - dot / 2, y, dot, dot);
  shown.filter(node => node.parent).sort(order).forEach(placeName);
  for (const { text, textWidth: w, x, y, anchor } of drawnLinks)
    text.classList.toggle("thin", size > 1 || !isFree(left(x, anchor, w), y - 4, w, 12));
}
function createSpace(high) {
  // Boxes by the horizontal bands they touch, so that a new box is compared with few others.
  const bands = new Map();
  const bandsOf = (y, h) => [Math.floor((y - h / 2) / high), Math.floor((y + h / 2) / high)];
  const take = (x, y, w, h) => {
    for (const band of bandsOf(y, h)) bands.get(band)?.push([x, y, w, h]) ?? bands.set(band, [[x, y, w, h]]);
    return true;
  };
  const isFree = (x, y, w, h) => {
    const isHit = ([otherX, otherY, otherW, otherH]) =>
      x < otherX + otherW && otherX < x + w && Math.abs(y - otherY) < (h + otherH) / 2;
    return !bandsOf(y, h).some(band => bands.get(band)?.some(isHit)) && take(x, y, w, h);
  };
  return { isFree, take };
}

// The view: moving and zooming the drawing.
function move(x, y, k = view.k) {
  const zoomed = k !== view.k;
  Object.assign(view, { x, y, k });
  world.setAttribute("transform", `translate(${x} ${y}) scale(${k})`);
  if (zoomed) thinLabels();
}
function zoom(by, x = svg.clientWidth / 2, y = svg.clientHeight / 2) {
  const k = clamp(view.k * by, 0.002, 8);
  move(x - ((x - view.x) * k) / view.k, y - ((y - view.y) * k) / view.k, k);
}
function fit(smallest = 0) {
  const side = isRound ? 110 : 0, scale = (least, most, space) => space / Math.max(most - least, 1);
  const [left, right, high, low] = shown.reduce(([a, b, c, d], { x, y, width: w }) =>
    [Math.min(a, x), Math.max(b, x + w), Math.min(c, y - HIGH), Math.max(d, y + HIGH)], [0, 0, 0, 0]);
  const wide = svg.clientWidth - 2 * PAD - 2 * side, tall = svg.clientHeight - 2 * PAD - 30;
  const whole = clamp(Math.min(scale(left, right, wide), scale(high, low, tall)), 0.002, 1.2);
  const k = Math.max(whole, smallest);
  if (k > whole && shown.length) move(PAD, svg.clientHeight / 2 - shown[0].y * k, k);
  else move((svg.clientWidth - (left + right) * k) / 2, (svg.clientHeight - 30 - (high + low) * k) / 2, k);
}
function reveal({ x, y, width: w }) {
  const [atX, atY] = [view.x + (x + w / 2) * view.k, view.y + y * view.k];
  const inside = atX > PAD && atX < svg.clientWidth - PAD && atY > PAD && atY < svg.clientHeight - PAD;
  if (!inside) move(view.x + svg.clientWidth / 2 - atX, view.y + svg.clientHeight / 2 - atY);
}

// Highlight the pinned, hovered or focused node with its links, and show it on the card.
function highlight() {
  const node = pinned ?? hovered ?? focused;
  for (const element of highlighted) element.classList.remove("on", "at");
  highlighted = [];
  const mark = (element, kind = "on") => { element.classList.add(kind); highlighted.push(element); };
  for (const link of node?.links.filter(link => link.shown) ?? [])
    for (const element of [link.path, link.text, link.from.box, link.to.box]) mark(element);
  if (node?.shown) { mark(node.box); mark(node.box, "at"); }
  svg.classList.toggle("pinned", pinned !== null);
  showCard(node);
}
function showCard(node) {
  card.hidden = !node;
  if (!node) return;
  const add = (parent, tag, text) => {
    return parent.appendChild(Object.assign(document.createElement(tag), { textContent: text, dir: "auto" }));
  };
  card.replaceChildren();
  add(card, "h2", node.name);
  const facts = add(card, "dl", ""), list = add(card, "ul", ""), { type, path, depth: hop } = node;
  const tags = node.tags.join(", "), unlisted = node.unlisted || null;
  const fields = { id: idText(node.id), type, tags, path, hop, "left out here": unlisted };
  for (const [name, value] of Object.entries(fields))
    if (value !== null && value !== "") { add(facts, "dt", name); add(facts, "dd", value); }
  for (const link of node.links.slice(0, 12)) {
    const isOut = link.from === node, typeText = cut(link.type, 40);
    const other = cut((isOut ? link.to : link.from).name, 60);
    add(list, "li", isOut ? `${typeText} → ${other}` : `← ${typeText} ${other}`);
  }
  if (node.links.length > 12) add(list, "li", `and ${node.links.length - 12} more`);
}
function pin(node) {
  pinned = node === pinned ? null : node;
  highlight();
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
  const query = search.value.trim().toLowerCase();
  for (const node of nodes) node.isHit = query !== "" && node.searchText.includes(query);
  for (const node of shown) node.box.classList.toggle("hit", node.isHit);
  const hits = nodes.filter(node => node.isHit);
  shownHits = hits.filter(node => node.shown);
  svg.classList.toggle("searching", query !== "");
  thinLabels();
  const rest = hits.length - shownHits.length;
  byId("found").textContent = query ? `${hits.length} found${rest ? `, ${rest} of them not drawn` : ""}` : "";
}
function pinNextHit() {
  if (!shownHits.length) return;
  pinned = shownHits[(shownHits.indexOf(pinned) + 1) % shownHits.length];
  reveal(pinned);
  highlight();
}
function toggleRound() {
  isRound = !isRound;
  byId("radial").setAttribute("aria-pressed", isRound);
  draw();
  fit(isRound ? 0 : 0.75);
}
function toggleList() {
  byId("listed").setAttribute("aria-pressed", top.classList.toggle("listed"));
}

// Input: mouse, touch and keys.
const nodeAt = event => nodes[event.target.closest?.(".node")?.dataset.place] ?? null;
function goTo(node) {
  if (!node) return;
  shown.forEach(other => other.box.setAttribute("tabindex", other === node ? 0 : -1));
  node.box.focus();
  reveal(node);
}
function handleNodeKey(event) {
  const node = nodeAt(event), place = shown.indexOf(node);
  const actions = {
    ArrowRight: () => goTo(node.open[0]), ArrowLeft: () => goTo(node.parent), ArrowUp: () => goTo(shown[place - 1]),
    ArrowDown: () => goTo(shown[place + 1]), Home: () => goTo(shown[0]), End: () => goTo(shown[shown.length - 1]),
    Enter: () => pin(node), " ": () => fold(node),
  };
  if (!node || !actions[event.key] || event.ctrlKey || event.metaKey || event.altKey) return;
  event.preventDefault();
  actions[event.key]();
}
function handlePageKey(event) {
  if (event.key === "Escape") { search.value = ""; find(); pin(pinned); }
  const actions = {
    "+": () => zoom(1.25), "=": () => zoom(1.25), "-": () => zoom(0.8), 0: () => fit(), r: toggleRound,
    "/": () => search.focus(),
  };
  if (event.target === search || !actions[event.key] || event.ctrlKey || event.metaKey || event.altKey) return;
  event.preventDefault();
  actions[event.key]();
}
let dragStart = null, dragged = false;
function drag(event) {
  if (!dragStart || !(event.buttons & 1)) return;
  const x = event.clientX - dragStart.x, y = event.clientY - dragStart.y;
  if (!dragged && Math.hypot(x, y) < 4) return;
  dragged = true;
  svg.setPointerCapture(event.pointerId);
  move(dragStart.fromX + x, dragStart.fromY + y);
}
svg.addEventListener("pointerdown", event => {
  dragStart = { x: event.clientX, y: event.clientY, fromX: view.x, fromY: view.y };
  dragged = false;
});
svg.addEventListener("pointermove", drag);
svg.addEventListener("pointerover", event => { hovered = nodeAt(event); highlight(); });
svg.addEventListener("pointerleave", () => { hovered = null; highlight(); });
// These listen on the parent: with a listener, browsers would make the drawing itself focusable, like a link.
svg.parentElement.addEventListener("focusin", event => {
  focused = nodeAt(event);
  hovered = null; // the last used input counts: mouse or keys
  highlight();
});
svg.parentElement.addEventListener("focusout", () => { focused = null; highlight(); });
svg.addEventListener("click", event => { if (!dragged) pin(nodeAt(event) ?? pinned); });
svg.addEventListener("dblclick", event => fold(nodeAt(event)));
svg.addEventListener("keydown", handleNodeKey);
svg.addEventListener("wheel", event => {
  event.preventDefault();
  const { left, top: high } = svg.getBoundingClientRect();
  zoom(Math.exp(-event.deltaY * (event.deltaMode ? 0.03 : 0.0015)), event.clientX - left, event.clientY - high);
}, { passive: false });
document.addEventListener("keydown", handlePageKey);
search.addEventListener("input", find);
search.form.addEventListener("submit", event => { event.preventDefault(); pinNextHit(); });
byId("closer").addEventListener("click", () => zoom(1.25));
byId("farther").addEventListener("click", () => zoom(0.8));
byId("fit").addEventListener("click", () => fit());
byId("radial").addEventListener("click", toggleRound);
byId("listed").addEventListener("click", toggleList);

draw();
if (new Set(shown.map(node => node.row)).size > ROUND_FROM) toggleRound(); else fit(0.75);

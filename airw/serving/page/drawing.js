// The drawing of a walk: the query in the middle, its roots around it, and a ring for each further hop.
import { count, keyOf, nameOf, oneLine } from "./texts.js";

const MOST = 300, MOST_LINKS = 600; // artifacts and further links that are drawn
const LONGEST = 26, DENSE_FROM = 120; // characters of a label; artifacts from which they are drawn small
const SIZES = { query: 6, hit: 6, router: 4.5, seen: 2.5 }, PAD_Y = 24, HIGH = 14, WIDEST = 110; // pixels
const EASE = 90; // milliseconds in which a node goes two thirds of its way
const QUERY = "query";
const ruler = document.createElement("canvas").getContext("2d");

function createSvg(tag, kind, parent) {
  const element = document.createElementNS("http://www.w3.org/2000/svg", tag);
  element.setAttribute("class", kind);
  parent.append(element);
  return element;
}

export class Drawing {
  constructor(svg, caption, onPick) {
    Object.assign(this, { svg, caption });
    [this.linkLayer, this.nodeLayer, this.labelLayer] = svg.children;
    this.isStill = matchMedia("(prefers-reduced-motion: reduce)");
    new ResizeObserver(() => this.change()).observe(svg);
    this.nodeLayer.addEventListener("click", event => onPick(event.target.dataset.key ?? null));
    this.clear();
  }

  clear() {
    for (const layer of [this.linkLayer, this.nodeLayer, this.labelLayer]) layer.replaceChildren();
    this.nodes = new Map();
    this.links = new Map();
    this.committed = this.undrawn = this.edges = 0;
    this.draw(QUERY, "query", null, "");
    this.change();
  }

  /** Draw a committed node; if there is no room, one that was only seen goes. */
  commit({ type, id, parent, artifact_id, metadata = {} }) {
    const key = keyOf(id), kind = type === "hit" ? "hit" : "router";
    this.committed += 1;
    if (!this.nodes.has(key) && this.nodes.size > MOST) this.dropSeen();
    if (this.nodes.has(key) || this.nodes.size <= MOST) {
      const name = oneLine(metadata.title || metadata.name || nameOf(artifact_id ?? id), LONGEST);
      this.draw(key, kind, parent === null ? QUERY : keyOf(parent), name);
    } else this.undrawn += 1;
    this.change();
  }

  /** Draw the other end of a link that was read: a new node, or a link between two that are there. */
  addEdge({ source, target }) {
    this.edges += 1;
    const from = this.nodes.get(keyOf(source)), to = this.nodes.get(keyOf(target));
    if (!from) return;
    if (!to) {
      if (this.nodes.size > MOST) return;
      this.draw(keyOf(target), "seen", from.key, "");
    } else if (to.parent !== from && from.parent !== to && from !== to) this.cross(from, to);
    this.change();
  }

  /** Emphasize a node, and the way to it from the query. */
  highlight(key) {
    for (const each of this.svg.querySelectorAll(".on")) each.classList.remove("on");
    for (let node = this.nodes.get(key); node; node = node.parent)
      for (const part of [node.circle, node.line, node.label]) part?.classList.add("on");
  }

  draw(key, kind, parentKey, name) {
    const parent = this.nodes.get(parentKey) ?? (key === QUERY ? null : this.nodes.get(QUERY));
    let node = this.nodes.get(key);
    if (!node) {
      const { x = 0, y = 0 } = parent ?? {};
      node = { key, children: new Set(), x, y, toX: x, toY: y };
      node.line = parent && createSvg("path", "link", this.linkLayer);
      node.circle = createSvg("circle", "", this.nodeLayer);
      node.circle.dataset.key = key;
      this.nodes.set(key, node);
    }
    if (node.parent !== parent && !isBelow(parent, node)) {
      node.parent?.children.delete(node);
      node.parent = parent;
      parent?.children.add(node);
    }
    Object.assign(node, { kind, name });
    node.circle.setAttribute("class", kind);
    node.circle.setAttribute("r", SIZES[kind]);
    node.line?.setAttribute("class", `link ${kind}${parentKey === QUERY ? " root" : ""}`);
    if (name && !node.label) node.label = createSvg("text", "thin", this.labelLayer);
    if (node.label) node.label.textContent = name;
    ruler.font = "11px system-ui, sans-serif";
    node.width = ruler.measureText(name).width;
  }

  cross(from, to) {
    const key = [from.key, to.key].sort().join();
    if (this.links.has(key) || this.links.size >= MOST_LINKS) return;
    this.links.set(key, { from, to, line: createSvg("path", "link cross", this.linkLayer) });
  }

  dropSeen() {
    const seen = [...this.nodes.values()].find(node => node.kind === "seen" && !node.children.size);
    if (!seen) return;
    seen.parent?.children.delete(seen);
    this.nodes.delete(seen.key);
    for (const part of [seen.line, seen.circle]) part.remove();
    for (const [key, link] of this.links)
      if (link.from === seen || link.to === seen) {
        link.line.remove();
        this.links.delete(key);
      }
  }

  /** Lay out and paint with the next frame; many changes in one frame cost one layout. */
  change() {
    this.isStale = true;
    this.frame ??= requestAnimationFrame(time => this.paint(time));
  }

  paint(time, still = this.isStill.matches) {
    if (this.isStale) this.layOut();
    const part = still ? 1 : 1 - Math.exp(-Math.min(time - (this.time ?? time - 16), 100) / EASE);
    let isMoving = false;
    for (const node of this.nodes.values()) {
      const isFar = Math.abs(node.toX - node.x) + Math.abs(node.toY - node.y) > 0.3;
      node.x = isFar ? node.x + (node.toX - node.x) * part : node.toX;
      node.y = isFar ? node.y + (node.toY - node.y) * part : node.toY;
      isMoving ||= isFar;
    }
    for (const node of this.nodes.values()) place(node);
    for (const { from, to, line } of this.links.values()) {
      const bend = { x: (from.x + to.x) / 4, y: (from.y + to.y) / 4 }; // towards the middle
      line.setAttribute("d", `M${at(from)}Q${at(bend)} ${at(to)}`);
    }
    this.time = isMoving ? time : null;
    this.frame = isMoving ? requestAnimationFrame(next => this.paint(next)) : null;
  }

  // Each leaf gets a share of the circle, less if it was only seen. A parent is in the middle of its leaves.
  layOut() {
    this.isStale = false;
    const { clientWidth: wide, clientHeight: high } = this.svg, root = this.nodes.get(QUERY), order = [];
    this.svg.setAttribute("viewBox", `${-wide / 2} ${-high / 2} ${wide} ${high}`);
    const stack = [[root, 0]];
    while (stack.length) { // no recursion: a walk may be deeper than the stack of a browser
      const [node, ring] = stack.pop();
      node.ring = ring;
      order.push(node);
      for (const child of [...node.children].reverse()) stack.push([child, ring + 1]);
    }
    for (const node of order.slice().reverse()) {
      const shares = [...node.children].reduce((sum, each) => sum + each.share, 0);
      node.share = Math.max(node.kind === "seen" ? 0.4 : 1, shares);
    }
    root.from = -Math.PI / 2;
    for (const node of order) {
      const turn = node === root ? (2 * Math.PI) / node.share : node.turn;
      const angle = node.from + (node.share * turn) / 2;
      Object.assign(node, { toX: Math.cos(angle) * node.ring, toY: Math.sin(angle) * node.ring });
      let from = node.from;
      for (const child of node.children) {
        Object.assign(child, { from, turn });
        from += child.share * turn;
      }
    }
    for (const node of order) node.side = node.toX < -0.01 ? -1 : 1;
    stretch(order, "toX", 0.6 * wide); // the rest is for labels
    stretch(order, "toY", high - 2 * PAD_Y);
    this.svg.classList.toggle("dense", order.length > DENSE_FROM);
    this.thinLabels(wide);
    this.describe();
  }

  // Show only labels that cover no other label and no committed node; earlier nodes come first.
  thinLabels(wide) {
    const labelled = [...this.nodes.values()].filter(node => node.label);
    const boxes = labelled.map(({ toX, toY }) => [toX - 6, toY - 6, toX + 6, toY + 6]);
    labelled.forEach((node, place) => {
      const { side, width: size } = node, near = node.toX + side * 9;
      const [left, right] = side > 0 ? [near, near + size] : [near - size, near];
      const box = [left, node.toY - HIGH / 2, right, node.toY + HIGH / 2];
      const covers = ([a, b, c, d], other) => other !== place && a < right && left < c && b < box[3] && box[1] < d;
      const fits = Math.max(-left, right) < wide / 2 && !boxes.some(covers);
      if (fits) boxes.push(box);
      node.label.setAttribute("text-anchor", side > 0 ? "start" : "end");
      node.label.classList.toggle("thin", !fits);
    });
  }

  describe() {
    const all = count(this.committed, "artifact"), drawn = (this.committed - this.undrawn).toLocaleString("en");
    const partial = this.undrawn ? ` Drawn: ${drawn} of ${all}.` : "";
    this.caption.textContent = `${all} reached, ${count(this.edges, "link")} read.${partial}`;
  }
}

/** Stretch a drawing to the space along one axis, though not to absurd distances, and put it in the middle. */
function stretch(nodes, axis, space) {
  const places = nodes.map(node => node[axis]), least = Math.min(...places), most = Math.max(...places);
  const scale = Math.min(Math.max(space, 40) / Math.max(most - least, 1), WIDEST);
  for (const node of nodes) node[axis] = (node[axis] - (least + most) / 2) * scale;
}

const round = number => Math.round(number * 10) / 10;
const at = ({ x, y }) => `${round(x)} ${round(y)}`;

function isBelow(node, top) {
  for (let each = node; each; each = each.parent) if (each === top) return true;
  return false;
}

function place(node) {
  node.circle.setAttribute("cx", round(node.x));
  node.circle.setAttribute("cy", round(node.y));
  if (node.parent) node.line.setAttribute("d", `M${at(node.parent)}L${at(node)}`);
  node.label?.setAttribute("x", round(node.x + node.side * 9));
  node.label?.setAttribute("y", round(node.y + 4));
}

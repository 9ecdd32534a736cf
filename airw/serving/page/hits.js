// The list of hits: in the order of their arrival while the walk runs, then in the final order.
import { clean, count, keyOf, make, nameOf, oneLine } from "./texts.js";

const MOST = 200; // hits that have an element
const LONGEST = 4000; // characters of a passage
const MOST_STEPS = 6; // of a path; the middle of a longer one is left out

export class HitList {
  /** Show hits in an `ol`; call `onFocus` with the key of the hit that is pointed at, or null. */
  constructor(list, note, onFocus) {
    Object.assign(this, { list, note });
    const report = event => onFocus(event.target.closest?.("li")?.dataset.key ?? null);
    for (const name of ["pointerover", "focusin"]) list.addEventListener(name, report);
    for (const name of ["pointerleave", "focusout"]) list.addEventListener(name, () => onFocus(null));
    this.clear();
  }

  clear() {
    this.nodes = new Map(); // all committed nodes, by key: the names along a path
    this.hits = []; // in the order of arrival
    this.list.replaceChildren();
    this.list.classList.remove("final");
    this.describeRest();
  }

  get size() {
    return this.hits.length;
  }

  /** Add a committed node; a router has no element, but a name in the paths of others. */
  add(event) {
    const { type, id, parent, metadata = {} } = event;
    const taken = metadata.airw_facts ?? {}; // facts whose names the document itself uses
    const key = keyOf(id), edge = oneLine("walk_edge" in taken ? taken.walk_edge : metadata.walk_edge, 60);
    const node = { key, id, parent: parent === null ? null : keyOf(parent), parentId: parent, edge };
    this.nodes.set(key, Object.assign(node, factsOf(event, id)));
    if (type !== "hit") return;
    node.place = this.hits.push(node);
    if (node.place <= MOST) this.list.append(this.elementOf(node));
    this.describeRest();
  }

  /**
   * Bring the hits into their final order, and move each to its new place.
   *
   * What is in the middle of the reader's attention stays where it is on the screen: the hit with the focus, else the
   * first one in the window. The element with the focus is never taken out of the page, so it keeps the focus.
   */
  rank(ranking) {
    const order = this.findRanked(ranking);
    const shown = order.slice(0, MOST).map(node => this.elementOf(node));
    const before = new Map([...this.list.children].map(each => [each, each.getBoundingClientRect().top]));
    const active = document.activeElement.closest?.("#hits > li") ?? null;
    const anchor = this.chooseAnchor(active, before);
    for (const each of this.list.children) if (!shown.includes(each) && each !== active) each.remove();
    let isBefore = shown.includes(active);
    for (const each of shown) {
      if (each === active) isBefore = false;
      else if (isBefore) this.list.insertBefore(each, active);
      else this.list.append(each);
    }
    order.forEach((node, place) => this.number(node, place + 1));
    this.list.classList.add("final");
    this.describeRest();
    const jump = anchor?.isConnected ? anchor.getBoundingClientRect().top - before.get(anchor) : 0;
    scrollBy({ top: jump, behavior: "instant" });
    glide(before);
  }

  /** Return the hits in their final order; those that the ranking leaves out come last. */
  findRanked(ranking) {
    const ranked = new Set();
    for (const { hit: place, score, replaced } of ranking) {
      const node = this.hits[place]; // the places of hits in the stream, from 0
      if (!node) continue;
      node.score = score;
      if (replaced) this.replace(node, replaced);
      ranked.add(node);
    }
    for (const node of this.hits) node.isRanked = ranked.has(node);
    return [...ranked, ...this.hits.filter(node => !node.isRanked)];
  }

  /** Show what the ranking has in the place of a hit; its element stays, and so does the focus in it. */
  replace(node, hit) {
    Object.assign(node, factsOf(hit, node.id));
    if (!node.element) return;
    node.element.querySelector(".title bdi").textContent = node.title;
    node.element.querySelector(".facts").replaceChildren(...listFacts(node));
    node.element.querySelector(".passage").textContent = node.passage;
  }

  chooseAnchor(active, before) {
    const isSeen = each => before.get(each) < innerHeight && before.get(each) > -each.offsetHeight;
    if (active && isSeen(active)) return active;
    return scrollY ? [...before.keys()].find(isSeen) : null; // at the top of the page, the top stays
  }

  number(node, place) {
    node.place = place;
    if (!node.element) return;
    node.element.classList.toggle("dropped", !node.isRanked);
    node.element.querySelector(".rank").textContent = node.isRanked ? place : "–";
    node.element.querySelector(".score").textContent = formatScore(node.score);
  }

  elementOf(node) {
    if (node.element) return node.element;
    const item = make("li"), heading = make("h2"), button = make("button", "title"), facts = make("p", "facts");
    const passage = make("p", "passage", node.passage);
    item.dataset.key = node.key;
    button.type = "button";
    button.append(make("bdi", "", node.title));
    button.setAttribute("aria-expanded", "false");
    button.addEventListener("click", () => {
      button.setAttribute("aria-expanded", item.classList.toggle("open"));
    });
    const score = make("span", "score", formatScore(node.score));
    heading.append(make("span", "rank", node.place.toLocaleString("en")), button, score);
    facts.append(...listFacts(node));
    passage.dir = "auto";
    item.append(heading, facts, ...this.describePath(node), passage);
    node.element = item;
    return item;
  }

  /** Return the path from a root to a node, as one paragraph; nothing for a root. */
  describePath(node) {
    const steps = [];
    for (let at = node; at && steps.length < 1000; at = this.nodes.get(at.parent)) {
      steps.unshift(at);
      if (at.parent !== null && !this.nodes.has(at.parent)) steps.unshift({ title: nameOf(at.parentId) });
    }
    if (steps.length < 2) return [];
    const path = make("p", "path"), half = MOST_STEPS / 2, isLong = steps.length > MOST_STEPS;
    steps.forEach((step, place) => {
      if (isLong && place >= half && place < steps.length - half) {
        if (place === half) path.append(` › … ${count(steps.length - MOST_STEPS, "step")} …`);
        return;
      }
      if (place) path.append(" › ", ...(step.edge ? [make("i", "", step.edge), " › "] : []));
      path.append(make("bdi", "", step.title));
    });
    return [path];
  }

  describeRest() {
    const rest = this.hits.length - Math.min(this.hits.length, MOST);
    this.note.hidden = !rest;
    this.note.textContent = rest ? `And ${count(rest, "more hit")}, not listed here.` : "";
  }
}

/** Return what the page shows of a hit; of a router, only the title counts. */
function factsOf({ artifact_id, source, surface_kind, score, text, metadata = {} }, id) {
  const title = oneLine(metadata.title || metadata.name || "", 160) || nameOf(artifact_id ?? id);
  const file = oneLine(metadata.skill_path || metadata.path, 200);
  return { title, file, source, kind: oneLine(surface_kind, 40), score, passage: clean(text, LONGEST) };
}

/** Return the facts below the title of a hit, with separators. */
function listFacts({ source, kind, file, title }) {
  const parts = [source, kind, file && file !== title ? file : ""].filter(Boolean);
  return parts.flatMap((part, place) => [place ? " · " : "", make("bdi", "", oneLine(part, 200))]);
}

const formatScore = score => typeof score === "number" ? score.toFixed(3) : "";

/** Move elements from where they were to where they are. */
function glide(before) {
  if (matchMedia("(prefers-reduced-motion: reduce)").matches) return;
  const timing = { duration: 350, easing: "ease-out" };
  // All places are read before the first animation starts, as each makes the browser lay out the page again.
  const moves = [...before].map(([element, top]) =>
    [element, element.isConnected ? top - element.getBoundingClientRect().top : 0]);
  for (const [element, by] of moves) {
    if (Math.abs(by) > 1) element.animate([{ transform: `translateY(${by}px)` }, { transform: "none" }], timing);
  }
}

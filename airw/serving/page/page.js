// The form, the link that starts a walk again, and the walk itself.
import { Drawing } from "./drawing.js";
import { HitList } from "./hits.js";
import { Lost, readJson, readWalk, Refused } from "./stream.js";
import { byId, clean, count, make, oneLine } from "./texts.js";

const SLICE = 10; // milliseconds of work between two frames
const SPEAK_EVERY = 5000; // milliseconds between two sentences for screen readers
const FIELDS = ["policy", "node_budget", "max_depth", "timeout", "params"];
const EMPTY = ["max_depth", "params"]; // those that may be empty
const STOPS = {
  exhausted: "Ended: nothing more to reach", node_budget: "Ended: the limit of artifacts is reached",
  timeout: "Ended: the time is over", sufficient: "Ended: the policy has enough", max_hits: "Ended: enough hits",
  closed: "Stopped", failed: "Failed",
};
const form = byId("form"), query = byId("query"), stop = byId("stop"), picture = byId("picture");
const tokenPlace = `airw-token ${location.pathname}`; // other servers may be mounted beside this one
const addressOf = name => new URL(name, document.baseURI);
const headers = () => {
  const token = sessionStorage.getItem(tokenPlace);
  return token ? { Authorization: `Bearer ${token}` } : {};
};
const drawing = new Drawing(byId("drawing"), byId("caption"), showHit);
export const hits = new HitList(byId("hits"), byId("unlisted"), key => drawing.highlight(key));
let running = null, lastSpoken = 0, heartbeat = 15, waiting = null; // a walk that may go on

function showHit(key) {
  const item = [...byId("hits").children].find(each => each.dataset.key === key);
  item?.scrollIntoView({ block: "nearest" });
  item?.querySelector("button").focus({ preventScroll: true });
}

// What the page says.
function show(text, { isSpoken = false } = {}) {
  byId("status").textContent = text;
  if (!isSpoken && performance.now() - lastSpoken < SPEAK_EVERY) return;
  lastSpoken = performance.now();
  byId("spoken").textContent = text;
}
function complain(text) {
  const problem = byId("problem");
  problem.textContent = clean(text, 600);
  problem.hidden = !text;
  byId("again").hidden = byId("further").hidden = true;
}
function askForToken(isWrong) {
  byId("token-form").hidden = false;
  if (isWrong) complain("The server does not accept this token.");
  byId("token").focus();
}

// The corpora and policies of the server.
async function load() {
  const hadToken = Boolean(headers().Authorization);
  try {
    fill(await readJson(await fetch(addressOf("corpora"), { headers: headers(), cache: "no-store" })));
  } catch (error) {
    if (error.status === 401) askForToken(hadToken);
    else complain(`The corpora could not be listed: ${error.message}`);
    return false;
  }
  byId("token-form").hidden = true;
  byId("forget").hidden = !hadToken;
  complain("");
  return true;
}
function fill({ corpora = [], policies = [], default_policy: chosen = "path-coverage", limits = {} }) {
  byId("ticks").replaceChildren(...corpora.map(({ name, counts, error, detail }) => {
    const label = make("label"), box = make("input");
    Object.assign(box, { type: "checkbox", name: "corpus", value: name, checked: !error, disabled: Boolean(error) });
    if (error) label.title = oneLine(detail, 300);
    label.append(box, " ", make("bdi", "", oneLine(name, 80)));
    const size = counts?.artifacts?.toLocaleString("en");
    if (size) label.append(make("span", "size", size));
    return label;
  }));
  byId("policy").replaceChildren(...policies.map(each => new Option(each.name ?? each)));
  byId("policy").value = chosen;
  const bounds = { node_budget: "max_node_budget", max_depth: "max_hops", timeout: "max_timeout" };
  for (const [name, limit] of Object.entries(bounds)) if (limits[limit]) byId(name).max = limits[limit];
  heartbeat = limits.heartbeat ?? heartbeat;
  if (limits.max_query_chars) query.maxLength = limits.max_query_chars;
}

// The link: all parameters are in the fragment, which no browser sends to a server.
const ticked = () => [...form.querySelectorAll("[name=corpus]:checked")].map(box => box.value);
function writeLink() {
  const fields = FIELDS.map(name => [name, byId(name).value]).filter(([, value]) => value !== "");
  const pairs = [["query", query.value], ...ticked().map(name => ["corpus", name]), ...fields];
  return `#${new URLSearchParams(pairs)}`;
}
function readLink() {
  const link = new URLSearchParams(location.hash.slice(1));
  if (!link.has("query")) return false;
  const wanted = link.getAll("corpus"), boxes = [...form.querySelectorAll("[name=corpus]")];
  query.value = link.get("query");
  for (const box of boxes) box.checked = wanted.includes(box.value);
  for (const name of FIELDS) if (link.has(name) || EMPTY.includes(name)) byId(name).value = link.get(name) ?? "";
  const unknown = wanted.filter(name => !boxes.some(box => box.value === name));
  if (!byId("policy").value) unknown.push(link.get("policy"));
  if (unknown.length) complain(`The link names what is not on this server: ${unknown.join(", ")}`);
  return !unknown.length;
}
async function copyLink() {
  history.replaceState(null, "", writeLink());
  const isCopied = await navigator.clipboard?.writeText(location.href).then(() => true, () => false);
  show(isCopied ? "The link is copied." : "The address of this page is now the link.", { isSpoken: true });
}

// The walk.
function readForm() {
  const names = ticked(), number = name => Number(byId(name).value), params = byId("params").value.trim();
  if (!names.length) throw new SyntaxError("Tick at least one corpus.");
  let policy = byId("policy").value;
  if (params) {
    try {
      policy = { name: policy, params: JSON.parse(params) };
    } catch {
      throw new SyntaxError("The parameters of the policy must be a JSON object, such as {\"width\": 8}.");
    }
  }
  return {
    query: query.value, operators: true, ...(names.length === 1 ? { corpus: names[0] } : { corpora: names }), policy,
    edges: true, hold: true,
    node_budget: number("node_budget"), timeout: number("timeout"),
    ...(byId("max_depth").value === "" ? {} : { max_depth: number("max_depth") }),
  };
}
async function walk() {
  running?.abort();
  complain("");
  let request;
  try {
    request = readForm();
  } catch (error) {
    complain(error.message);
    return;
  }
  await begin(request);
}
async function begin(request) {
  hits.clear();
  drawing.clear();
  await run("traverse", request, request);
}
/** Go on with the walk that waits, in the same list and drawing; walk again if the server no longer holds it. */
async function goOn() {
  const { token, limit, request } = waiting, asked = Number(byId(limit).value);
  const before = request[limit] ?? waiting.depth;
  const raised = asked > before ? asked : limit === "max_depth" ? before + 1 : 2 * before;
  const larger = { ...request, [limit]: Math.min(raised, Number(byId(limit).max) || raised) };
  byId(limit).value = larger[limit];
  query.focus({ preventScroll: true }); // the button goes
  complain("");
  await run("traverse/continue", { continue: token, [limit]: larger[limit] }, larger);
}
/** Show the events of a request: `request` is sent, and `whole` starts the same walk from the beginning. */
async function run(path, request, whole) {
  const control = running = new AbortController(), { signal } = control;
  waiting = null;
  picture.hidden = stop.hidden = false;
  document.body.classList.add("walking");
  show("Walking …", { isSpoken: true });
  const found = () => count(hits.size, "hit");
  const onBreak = () => show(`The connection broke after ${found()}. Asking again …`, { isSpoken: true });
  try {
    const options = { headers: headers(), signal, onBreak, heartbeat };
    let begun = performance.now();
    for await (const event of readWalk(addressOf(path), request, options)) {
      if (!document.hidden && performance.now() - begun > SLICE) {
        await nextFrame();
        begun = performance.now();
      }
      if (signal.aborted) break;
      handle(event, whole);
    }
  } catch (error) {
    if (error.status === 410 && running === control) return begin(whole);
    if (!signal.aborted) fail(error);
  }
  if (running !== control) return; // another walk has started
  running = null;
  document.body.classList.remove("walking");
  if (document.activeElement === stop) query.focus({ preventScroll: true });
  stop.hidden = true;
  if (signal.aborted) show(`Stopped after ${found()}.`, { isSpoken: true });
  picture.hidden = !drawing.committed;
}
/** Wait for the next frame, but not for ever: a page that nobody sees has none. */
const nextFrame = () => new Promise(resolve => {
  requestAnimationFrame(resolve);
  setTimeout(resolve, 100);
});
function handle({ name, data }, whole) {
  if (name === "hit" || name === "router") {
    hits.add(data);
    drawing.commit(data);
    show(`Walking: ${count(hits.size, "hit")} so far …`, { isSpoken: hits.size === 1 });
  } else if (name === "edge") drawing.addEdge(data);
  else if (name === "progress") {
    const parts = [count(hits.size, "hit"), `step ${data.step}`, `${count(data.edges, "link")} read`];
    show(`Walking: ${parts.join(", ")}, ${data.waiting.toLocaleString("en")} waiting …`);
  } else if (name === "summary") finish(data, whole);
  else if (name === "error") fail(new Refused(data.status, data.detail));
}
function finish(summary, whole) {
  if (summary.ranking) hits.rank(summary.ranking);
  const { stop: reason, emitted, seconds, steps, edges, left_out = {} } = summary;
  const left = Object.entries(left_out).map(([limit, number]) => `${number.toLocaleString("en")} by ${limit}`);
  const more = summary.at_least?.length ? "at least " : "", lost = (summary.lost ?? []).map(each => each.name);
  const parts = [
    `${STOPS[reason] ?? oneLine(reason, 60)}.`,
    `${count(emitted, "hit")} in ${seconds.toFixed(2)} s, ${count(steps, "step")}, ${count(edges, "link")} read.`,
  ];
  if (left.length) parts.push(`Left out: ${more}${left.join(", ")}.`);
  show(parts.join(" "), { isSpoken: true });
  if (lost.length) complain(`Without an answer: ${lost.join(", ")}. The hits are those of the other corpora.`);
  if (!summary.continue) return;
  const limit = reason === "exhausted" ? "max_depth" : reason;
  waiting = { token: summary.continue, limit, request: whole, depth: summary.depth };
  byId("further").hidden = false;
}
function fail(error) {
  if (error.status === 401) askForToken(Boolean(headers().Authorization));
  else complain(`The walk failed: ${error.message}`);
  byId("again").hidden = !(error instanceof Lost);
  show(hits.size ? `Failed after ${count(hits.size, "hit")}.` : "No walk.");
}

form.addEventListener("submit", event => {
  event.preventDefault();
  if (location.hash !== writeLink()) history.pushState(null, "", writeLink());
  walk();
});
byId("again").addEventListener("click", () => {
  query.focus({ preventScroll: true }); // the button goes
  form.requestSubmit();
});
byId("further").addEventListener("click", goOn);
stop.addEventListener("click", () => running?.abort());
byId("copy").addEventListener("click", copyLink);
byId("forget").addEventListener("click", () => { sessionStorage.removeItem(tokenPlace); location.reload(); });
byId("token-form").addEventListener("submit", event => {
  event.preventDefault();
  sessionStorage.setItem(tokenPlace, byId("token").value.trim());
  byId("token").value = "";
  start();
});
document.addEventListener("keydown", event => {
  if (event.key === "Escape") running?.abort();
  const isTyped = event.target.matches("input, select") || event.ctrlKey || event.metaKey || event.altKey;
  if (event.key !== "/" || isTyped) return;
  event.preventDefault();
  query.focus();
});
addEventListener("popstate", () => { if (readLink()) walk(); });
async function start() {
  if (!await load()) return;
  if (readLink()) walk();
  else query.focus({ preventScroll: true });
}
start();

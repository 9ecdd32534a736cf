// Server-sent events of one request, read with fetch: an EventSource could send neither a token nor a body.

const LONGEST_LINE = 8_000_000; // characters; a server that sends more in one line is broken
const WAITS = [500, 2000]; // milliseconds before the first and the second attempt to go on

/** An answer that is no stream of events; `detail` is the server's own sentence. */
export class Refused extends Error {
  constructor(status, detail) {
    super(detail);
    this.status = status;
  }
}

/** Return the JSON of an answer; throw `Refused` with the detail of a problem. */
export async function readJson(response) {
  const body = await response.json().catch(() => ({}));
  const { status } = response;
  if (!response.ok) throw new Refused(status, String(body?.detail ?? `the server answered ${status}`));
  return body;
}

/** The server has been silent for longer than its heartbeats allow. */
export class Lost extends Error {}

/** Aborts a request once nothing has come for a time; the clock runs only while somebody waits. */
class Patience {
  constructor(seconds) {
    this.seconds = seconds;
    this.control = new AbortController();
  }

  async wait(promise) {
    const timer = setTimeout(() => this.control.abort(), this.seconds * 1000);
    try {
      return await promise;
    } finally {
      clearTimeout(timer);
    }
  }
}

/** Yield `{id, name, data}` for each event of a body of text/event-stream. */
export async function* readEvents(body, patience) {
  const reader = body.pipeThrough(new TextDecoderStream()).getReader();
  let rest = "", event = { id: "", name: "message", data: [] };
  try {
    for (;;) {
      const { value, done } = await patience.wait(reader.read());
      if (done) return;
      const lines = (rest + value).split(/\r\n|\n|\r(?!$)/); // a CR at the end may be half of a CR LF
      rest = lines.pop();
      if (rest.length > LONGEST_LINE) throw new Refused(0, "the server sent a line without end");
      for (const line of lines) {
        const colon = line.indexOf(":");
        const field = colon < 0 ? line : line.slice(0, colon);
        const text = colon < 0 ? "" : line.slice(colon + 1).replace(/^ /, "");
        if (field === "id") event.id = text;
        else if (field === "event") event.name = text;
        else if (field === "data") event.data.push(text);
        else if (line === "") {
          if (event.data.length) yield { ...event, data: JSON.parse(event.data.join("\n")) };
          event = { id: event.id, name: "message", data: [] };
        }
      }
    }
  } finally {
    reader.cancel().catch(() => {}); // a reader that goes away early closes the connection, which stops the walk
  }
}

/**
 * Yield the events of a walk until its `summary` or `error`.
 *
 * If the connection breaks before, ask again for the events after the last: the server walks again and leaves out the
 * others. After two attempts without any event, give up.
 *
 * The server sends something every `heartbeat` seconds. After three of them without anything, throw `Lost`.
 */
export async function* readWalk(address, request, { headers, signal, onBreak, heartbeat }) {
  const body = JSON.stringify(request);
  let last = "", failures = 0;
  for (;;) {
    const patience = new Patience(3 * heartbeat);
    try {
      const known = last ? { "Last-Event-ID": last } : {};
      const sent = { "Content-Type": "application/json", Accept: "text/event-stream", ...headers, ...known };
      const either = AbortSignal.any([signal, patience.control.signal]);
      const options = { method: "POST", headers: sent, body, signal: either, cache: "no-store" };
      const response = await patience.wait(fetch(address, options));
      const isStream = (response.headers.get("content-type") ?? "").startsWith("text/event-stream");
      if (!response.ok || !isStream) await readJson(response).then(() => Promise.reject(new Refused(0, "no stream")));
      for await (const event of readEvents(response.body, patience)) {
        if (event.name === "error" && event.id !== "end") break; // the server stops; it, or another one, goes on
        failures = 0;
        last = event.id || last;
        yield event;
        if (event.name === "summary" || event.name === "error") return;
      }
    } catch (error) {
      if (signal.aborted || error instanceof Refused || error instanceof SyntaxError) throw error;
      if (patience.control.signal.aborted) {
        throw new Lost(`the connection was lost: nothing came for ${3 * heartbeat} seconds`);
      }
    }
    if (failures === WAITS.length) throw new Refused(0, "the connection broke before the walk ended");
    onBreak();
    await pause(WAITS[failures++], signal);
  }
}

function pause(milliseconds, signal) {
  return new Promise((resolve, reject) => {
    const timer = setTimeout(resolve, milliseconds);
    signal.addEventListener("abort", () => { clearTimeout(timer); reject(signal.reason); }, { once: true });
  });
}

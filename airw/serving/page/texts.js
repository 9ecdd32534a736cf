// Texts of documents and servers, made harmless to read: they are set as text content only, never as HTML.

const CONTROLS =
  /[\u0000-\u0008\u000b-\u001f\u007f-\u009f\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069]|\p{Surrogate}/gu;

export const byId = id => document.getElementById(id);

/** Return a text with its control characters made visible, and at most `most` characters of it. */
export function clean(value, most = 300) {
  const text = String(value ?? "").slice(0, 4 * most); // a character may take two units, an escape six
  const escaped = text.replace(CONTROLS, unit => `\\u${unit.charCodeAt(0).toString(16).padStart(4, "0")}`);
  const characters = [...escaped.slice(0, 4 * most)];
  return characters.length > most ? characters.slice(0, most - 1).join("") + "…" : escaped;
}

/** Return a text on one line. */
export const oneLine = (value, most) => clean(String(value ?? "").slice(0, 20000).replace(/\s+/g, " ").trim(), most);

export const count = (number, noun) => `${number.toLocaleString("en")} ${noun}${number === 1 ? "" : "s"}`;

/** Return an element with a class and a text; `bdi` keeps the direction of a text from the words around it. */
export function make(tag, kind = "", text = "") {
  const element = document.createElement(tag);
  if (kind) element.className = kind;
  if (text) element.textContent = text;
  return element;
}

/** Return a key for the id of a node: a text, or a pair of the names of a corpus and an artifact. */
export const keyOf = id => JSON.stringify(id ?? null);

/** Return the id of a node as people read it. */
export const nameOf = id => oneLine(Array.isArray(id) ? id.join("/") : id, 120);

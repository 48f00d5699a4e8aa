// Text of models, scripts and files, made fit to be shown. Everything that reaches the page passes through `clean`.

// Escape sequences of terminals: colours, cursor movements, titles, links.
const ESCAPES = /\u001b(?:\[[0-?]*[ -/]*[@-~]|\][^\u0007\u001b]*(?:\u0007|\u001b\\)?|[PX^_][^\u001b]*(?:\u001b\\)?|[ -/]*[0-~])/g;
// Other control characters, and characters that change the direction of the text around them.
const UNSEEN = /[\u0000-\u0008\u000b-\u001f\u007f-\u009f\u061c\u200e\u200f\u202a-\u202e\u2066-\u2069]/g;
const SUSPECT = /[\u0000-\u0008\u000b-\u001f\u007f-\u009f\u061c\u200e\u200f\u202a-\u202e\u2066-\u2069]/;

/// Drops escape sequences and makes what could not be seen visible, so that no text can pose as another one.
export function clean(text) {
  const plain = String(text);
  return SUSPECT.test(plain) ? plain.replace(/\r\n?/g, "\n").replace(ESCAPES, "").replace(UNSEEN, visible) : plain;
}

function visible(character) {
  const code = character.charCodeAt(0);
  if (code < 0x20) return String.fromCharCode(0x2400 + code);
  return code === 0x7f ? "\u2421" : `\u27e8U+${code.toString(16).toUpperCase().padStart(4, "0")}\u27e9`;
}

/// What a table of ours has for a name from outside. A name such as `constructor` or `__proto__` is in every object of the
/// language, but in no table.
export function inTable(table, name) {
  return table && Object.hasOwn(table, name) ? table[name] : undefined;
}

/// The first line of a text, cut to a number of characters.
export function firstLine(text, limit = 160) {
  const line = String(text ?? "").trim().split("\n", 1)[0];
  return line.length > limit ? `${line.slice(0, limit - 1)}…` : line;
}

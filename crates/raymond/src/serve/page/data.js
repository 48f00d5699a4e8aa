// Where the page's data come from. All views ask for paths of the API; this module answers over HTTP, and embedded.js
// from the data in an exported file.

const KEPT_TOKEN = "raymond.token";

/// An answer that is no success: `status` is 0 where the server could not be reached.
export class Problem extends Error {
  constructor(status, title, detail, body) {
    super(detail || title);
    Object.assign(this, { status, title, detail, body: body ?? {} });
  }
}

export class HttpData {
  constructor(token) {
    this.token = token;
    this.isEmbedded = false;
    this.onreach = () => {};
    this.onrefuse = () => {};
  }

  get(path, query, options) {
    return this.send("GET", path, query, undefined, options);
  }

  post(path, body) {
    return this.send("POST", path, null, body);
  }

  async send(method, path, query, body, options = {}) {
    const headers = { Authorization: `Bearer ${this.token}` };
    if (body !== undefined) headers["Content-Type"] = "application/json";
    const address = apiAddress(path, query);
    let response;
    try {
      response = await fetch(address, { method, headers, body: body === undefined ? undefined : JSON.stringify(body), signal: options.signal, cache: "no-store" });
    } catch (error) {
      if (error.name === "AbortError") throw error;
      this.onreach(false);
      throw new Problem(0, "raymond serve cannot be reached");
    }
    if (response.status === 401) this.onrefuse();
    else this.onreach(true);
    if (options.raw) return response.ok ? response : Promise.reject(await problemOf(response));
    if (!response.ok) throw await problemOf(response);
    return response.json();
  }
}

/// The address of an API path. Names are encoded: they may hold any character.
export function apiAddress(path, query) {
  const parts = path.map((part) => encodeURIComponent(part)).join("/");
  const given = Object.entries(query ?? {}).flatMap(([name, value]) => [value].flat().map((one) => [name, one]));
  const pairs = given.filter(([, value]) => value !== null && value !== undefined && value !== "");
  const text = new URLSearchParams(pairs).toString();
  return `/api/v1/${parts}${text ? `?${text}` : ""}`;
}

async function problemOf(response) {
  const body = await response.json().catch(() => ({}));
  return new Problem(response.status, body.title ?? `status ${response.status}`, body.detail ?? "", body);
}

/// Takes the token out of the address, so that it stays in no history, and keeps it for this origin.
export function takeToken() {
  const given = /^#token=([A-Za-z0-9_\-.~%]+)/.exec(location.hash);
  if (given) {
    keepToken(decodeURIComponent(given[1]));
    history.replaceState(null, "", "#/");
  }
  return localStorage.getItem(KEPT_TOKEN) ?? "";
}

export function keepToken(token) {
  localStorage.setItem(KEPT_TOKEN, token.trim().replace(/^.*#token=/, ""));
}

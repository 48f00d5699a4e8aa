// A small library for pages: `h` describes an element, `draw` makes the document look like the description and changes
// only what differs, so that focus, selection and scrolling stay. Text is always text: there is no way to pass markup.

import { clean } from "./text.js";

const SVG_SPACE = "http://www.w3.org/2000/svg";

/// Describes an element. `key` tells it apart from its siblings, `mount` is called with the element once it is in the
/// page, `style` is an object, and properties that begin with `on` are functions.
export function h(tag, properties, ...children) {
  return { tag, properties: properties ?? {}, key: properties?.key, children: children.flat(Infinity).filter(isShown).map(described), element: null };
}

function isShown(child) {
  return child !== null && child !== undefined && child !== false && child !== true;
}

function described(child) {
  return typeof child === "object" ? child : { tag: "#text", text: clean(child), element: null };
}

/// Makes `container` show the descriptions.
export function draw(container, ...children) {
  const wanted = children.flat(Infinity).filter(isShown).map(described);
  const mounts = [];
  patchChildren(container, container.raymondTree ?? [], wanted, mounts);
  container.raymondTree = wanted;
  for (const [mount, element] of mounts) mount(element);
}

function patchChildren(parent, before, after, mounts) {
  const keyed = new Map();
  const free = [];
  for (const old of before) old.key === undefined ? free.push(old) : keyed.set(old.key, old);
  const kept = new Set();
  for (const now of after) {
    const old = now.key === undefined ? takeFree(free, now.tag) : takeKeyed(keyed, now);
    if (old) {
      kept.add(old);
      patch(old, now, mounts);
    }
  }
  // What is gone leaves first: then the rest need not be moved, and the element with the focus keeps it.
  for (const old of before) if (!kept.has(old)) old.element.remove();
  let place = parent.firstChild;
  for (const now of after) {
    if (!now.element) create(now, parent.namespaceURI, mounts);
    if (now.element === place) place = place.nextSibling;
    else parent.insertBefore(now.element, place);
  }
}

function takeFree(free, tag) {
  const index = free.findIndex((old) => old.tag === tag);
  return index < 0 ? null : free.splice(index, 1)[0];
}

function takeKeyed(keyed, now) {
  const old = keyed.get(now.key);
  if (!old || old.tag !== now.tag) return null;
  keyed.delete(now.key);
  return old;
}

function create(now, space, mounts) {
  if (now.tag === "#text") {
    now.element = document.createTextNode(now.text);
    return;
  }
  const inSvg = now.tag === "svg" || (space === SVG_SPACE && now.tag !== "foreignObject");
  now.element = inSvg ? document.createElementNS(SVG_SPACE, now.tag) : document.createElement(now.tag);
  for (const [name, value] of Object.entries(now.properties)) setProperty(now.element, name, value, undefined);
  patchChildren(now.element, [], now.children, mounts);
  // A choice can be made once the options are there.
  if (now.tag === "select" && now.properties.value !== undefined) now.element.value = now.properties.value;
  if (now.properties.mount) mounts.push([now.properties.mount, now.element]);
}

function patch(old, now, mounts) {
  now.element = old.element;
  if (now.tag === "#text") {
    if (old.text !== now.text) now.element.data = now.text;
    return;
  }
  for (const name of Object.keys(old.properties)) {
    if (!(name in now.properties)) setProperty(now.element, name, null, old.properties[name]);
  }
  for (const [name, value] of Object.entries(now.properties)) setProperty(now.element, name, value, old.properties[name]);
  patchChildren(now.element, old.children, now.children, mounts);
}

function setProperty(element, name, value, before) {
  if (name === "key" || name === "mount" || value === before) return;
  if (name === "style") setStyle(element, value ?? {}, before ?? {});
  // What a handler returns must not count: false would keep the browser from doing what it usually does.
  else if (name.startsWith("on")) element[name] = typeof value === "function" ? (event) => void value(event) : null;
  else if (name === "value" || name === "checked") element[name] = value ?? "";
  else if (value === null || value === undefined || value === false) element.removeAttribute(name);
  // Links lead only into this page.
  else if (name === "href" && !/^(#|url\(#)/.test(value)) element.removeAttribute(name);
  else element.setAttribute(name, value === true ? "" : clean(value));
}

function setStyle(element, now, before) {
  for (const name of Object.keys(before)) if (!(name in now)) element.style.removeProperty(name);
  for (const [name, value] of Object.entries(now)) if (before[name] !== value) element.style.setProperty(name, value);
}

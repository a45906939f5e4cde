// Building blocks. Text from engines only ever becomes a text node: nothing here parses HTML.

const SVG = "http://www.w3.org/2000/svg";

function fill(node, attributes, children) {
  for (const [name, value] of Object.entries(attributes)) {
    if (value === false || value === null || value === undefined) continue;
    node.setAttribute(name, value === true ? "" : value);
  }
  for (const child of children.flat(Infinity)) {
    if (child !== null && child !== undefined) node.append(child);
  }
  return node;
}

export function el(tag, attributes = {}, ...children) {
  return fill(document.createElement(tag), attributes, children);
}

export function svg(tag, attributes = {}, ...children) {
  return fill(document.createElementNS(SVG, tag), attributes, children);
}

/** Put new content into a place, keeping the focus on the element with the same data-key. */
export function show(place, ...children) {
  const focused = place.contains(document.activeElement) ? document.activeElement.dataset.key : null;
  place.replaceChildren(...children.flat(Infinity).filter((child) => child !== null && child !== undefined));
  if (focused) place.querySelector(`[data-key="${CSS.escape(focused)}"]`)?.focus();
}

const UNKNOWN = "–";

/** A count for people: 12,345 or 1.2 M. */
export function count(value) {
  if (value === null || value === undefined) return UNKNOWN;
  if (value >= 1e9) return `${(value / 1e9).toFixed(1)} G`;
  if (value >= 1e7) return `${(value / 1e6).toFixed(1)} M`;
  return Math.round(value).toLocaleString("en");
}

export function seconds(value) {
  if (value === null || value === undefined) return UNKNOWN;
  if (value >= 100) return `${Math.round(value)} s`;
  if (value >= 1) return `${value.toFixed(2)} s`;
  if (value >= 0.0995) return `${Math.round(value * 1e3)} ms`;
  return `${(value * 1e3).toPrecision(3)} ms`;
}

export function bytes(value) {
  if (value === null || value === undefined) return UNKNOWN;
  const units = ["B", "KB", "MB", "GB", "TB"];
  let at = 0;
  while (value >= 1000 && at < units.length - 1) { value /= 1000; at += 1; }
  return `${at ? value.toPrecision(3) : value} ${units[at]}`;
}

export function percent(part, whole) {
  return whole > 0 ? `${((100 * part) / whole).toFixed(part === whole || part === 0 ? 0 : 1)} %` : UNKNOWN;
}

/** A time of day; with its date where that is not the day of ``now``. Both RFC 3339. */
export function clock(at, now) {
  const time = new Date(at).toLocaleTimeString("en-GB");
  return day(at) === day(now) ? time : `${day(at)} ${time}`;
}

export function day(at) {
  return new Date(at).toLocaleDateString("en-GB", { day: "numeric", month: "short", year: "numeric" });
}

/**
 * Makes elements that are in the page equal to ones newly rendered, touching only what differs: focus, scroll
 * position, opened details and text being typed stay as they are.
 */

/** Attributes that belong to the reader or to the scripts, not to the server. */
const OURS = new Set(["style", "open", "data-torch", "aria-current", "aria-busy", "data-state"]);

/** @param {Node} node what tells it from its siblings */
function keyOf(node) {
  if (!(node instanceof Element)) return null;
  return node.getAttribute("data-key") ?? node.getAttribute("data-session") ?? (node.id || null);
}

/** @param {Element} old @param {Element} fresh */
function sameInside(old, fresh) {
  const hash = fresh.getAttribute("data-hash");
  return hash !== null && hash === old.getAttribute("data-hash");
}

/** @param {Element} old @param {Element} fresh */
function morphAttributes(old, fresh) {
  const isCurrent = old.classList.contains("current");
  for (const { name, value } of fresh.attributes) {
    if (!OURS.has(name) && old.getAttribute(name) !== value) old.setAttribute(name, value);
  }
  for (const { name } of [...old.attributes]) {
    if (!OURS.has(name) && !fresh.hasAttribute(name)) old.removeAttribute(name);
  }
  if (isCurrent) old.classList.add("current");
}

/**
 * @param {Element} old stays in the page
 * @param {Element} fresh is used up
 */
export function morph(old, fresh) {
  if (sameInside(old, fresh)) return;
  // What the reader has had fetched into it is worth more than the empty shell.
  if (old.getAttribute("data-state") === "loaded" && old.matches(".loaded")) return;
  morphAttributes(old, fresh);
  if (old instanceof HTMLInputElement || old instanceof HTMLTextAreaElement) return;
  morphChildren(old, fresh);
}

/** @param {Node} a @param {Node} b */
function alike(a, b) {
  return a.nodeType === b.nodeType && a.nodeName === b.nodeName && keyOf(a) === keyOf(b);
}

/**
 * @param {Element} old
 * @param {ParentNode} fresh
 */
export function morphChildren(old, fresh) {
  const keyed = new Map();
  for (const child of old.children) if (keyOf(child) !== null) keyed.set(keyOf(child), child);
  let place = old.firstChild;
  for (const next of [...fresh.childNodes]) {
    const key = keyOf(next);
    const known = key === null ? null : keyed.get(key);
    const match = known && alike(known, next) ? known : place && key === null && alike(place, next) ? place : null;
    if (!match) {
      old.insertBefore(next, place);
      continue;
    }
    if (match === place) place = place.nextSibling;
    else old.insertBefore(match, place);
    if (match instanceof Element) morph(match, next);
    else if (match.nodeValue !== next.nodeValue) match.nodeValue = next.nodeValue;
  }
  while (place) {
    const rest = place.nextSibling;
    place.remove();
    place = rest;
  }
}

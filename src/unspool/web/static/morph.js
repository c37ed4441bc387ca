/**
 * Makes elements that are in the page equal to ones newly rendered, touching only what differs: focus, scroll
 * position, opened details and text being typed stay as they are.
 */

/** Attributes that belong to the reader or to the scripts, not to the server. */
const OURS = new Set(["style", "open", "data-torch", "aria-current", "aria-busy", "data-state"]);

/** What tells a node from its siblings. @param {any} node */
const keyOf = ({ dataset, id }) => dataset?.key ?? dataset?.session ?? dataset?.project ?? (id || null);

function morphAttributes(old, fresh) {
  const isCurrent = old.classList.contains("current");
  for (const name of new Set([...old.getAttributeNames(), ...fresh.getAttributeNames()])) {
    const value = fresh.getAttribute(name);
    if (OURS.has(name) || old.getAttribute(name) === value) continue;
    if (value === null) old.removeAttribute(name);
    else old.setAttribute(name, value);
  }
  old.classList.toggle("current", isCurrent);
}

/** @param {any} old stays in the page @param {any} fresh is used up */
export function morph(old, fresh) {
  const isSame = fresh.dataset.hash !== undefined && fresh.dataset.hash === old.dataset.hash;
  // What the reader has had fetched into it is worth more than the empty shell.
  if (isSame || (old.matches(".loaded") && old.dataset.state)) return;
  morphAttributes(old, fresh);
  if (!old.matches("input, textarea, select")) morphChildren(old, fresh);
}

/** @param {Element} old @param {ParentNode} fresh */
export function morphChildren(old, fresh) {
  const keyed = new Map([...old.children].map((child) => [keyOf(child), child]));
  let place = old.firstChild;
  for (const next of [...fresh.childNodes]) {
    const key = keyOf(next);
    const match = key === null ? place : keyed.get(key);
    if (match?.nodeName !== next.nodeName || keyOf(match) !== key) {
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

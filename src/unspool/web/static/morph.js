/**
 * Updates elements in the page to match newly rendered ones, changing only what differs: focus, scroll position, opened
 * details and text being typed are kept.
 */

/** Attributes set by the reader or by scripts, not by the server. */
const LOCAL = new Set(["style", "open", "data-context-state", "aria-current", "aria-busy", "data-state"]);

/** What identifies a node among its siblings. @param {any} node */
const keyOf = ({ dataset, id }) => dataset?.key ?? dataset?.session ?? dataset?.project ?? (id || null);

function morphAttributes(old, fresh) {
  const isCurrent = old.classList.contains("current");
  for (const name of new Set([...old.getAttributeNames(), ...fresh.getAttributeNames()])) {
    const value = fresh.getAttribute(name);
    if (LOCAL.has(name) || old.getAttribute(name) === value) continue;
    if (value === null) old.removeAttribute(name);
    else old.setAttribute(name, value);
  }
  old.classList.toggle("current", isCurrent);
}

/** @param {any} old stays in the page @param {any} fresh is consumed */
export function morph(old, fresh) {
  const isSame = fresh.dataset.hash !== undefined && fresh.dataset.hash === old.dataset.hash;
  // Keep content that the reader has loaded.
  if (isSame || (old.matches(".loaded") && old.dataset.state)) return;
  morphAttributes(old, fresh);
  if (!old.matches("input, textarea, select")) morphChildren(old, fresh);
}

/** @param {Element} old @param {ParentNode} fresh */
export function morphChildren(old, fresh) {
  const keyed = new Map([...old.children].map((child) => [keyOf(child), child]));
  let position = old.firstChild;
  for (const next of [...fresh.childNodes]) {
    const key = keyOf(next);
    const match = key === null ? position : keyed.get(key);
    if (match?.nodeName !== next.nodeName || keyOf(match) !== key) {
      old.insertBefore(next, position);
      continue;
    }
    if (match === position) position = position.nextSibling;
    else old.insertBefore(match, position);
    if (match instanceof Element) morph(match, next);
    else if (match.nodeValue !== next.nodeValue) match.nodeValue = next.nodeValue;
  }
  while (position) {
    const rest = position.nextSibling;
    position.remove();
    position = rest;
  }
}

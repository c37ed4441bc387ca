/** Helpers for all modules: finding elements, fetching from the server, showing messages. */

/** @type {(selector: string, root?: ParentNode) => any} */
export const find = (selector, root = document) => root.querySelector(selector);

/** @type {(selector: string, root?: ParentNode) => any[]} */
export const findAll = (selector, root = document) => [...root.querySelectorAll(selector)];

/** @param {any} event @param {string} selector */
export const inside = (event, selector) => event.target.closest?.(selector);

/** @param {string} selector @param {(element: any) => void} listener */
export function onClick(selector, listener) {
  document.addEventListener("click", (event) => {
    const element = inside(event, selector);
    if (element) listener(element);
  });
}

/** @param {string} tag @param {Record<string, string>} attributes @param {...any} children */
export function make(tag, attributes, ...children) {
  const element = document.createElement(tag);
  for (const [name, value] of Object.entries(attributes)) element.setAttribute(name, value);
  element.append(...children);
  return element;
}

/** @param {string} url @param {AbortSignal} [signal] @throws {Error} with a message to show, and the status as cause */
async function request(url, signal) {
  const response = await fetch(url, { signal }).catch((error) => {
    throw signal?.aborted ? error : new Error("The server cannot be reached.");
  });
  if (response.ok) return response;
  const { status } = response;
  if (status === 401) throw new Error("Your session has expired. Open the link printed by `unspool serve` again.");
  const message = status === 404 ? "Not found. It may have been removed." : `The request failed (${status}).`;
  throw new Error(message, { cause: status });
}

/** Parse HTML that the server has sanitized. @param {string} html */
export function parse(html) {
  const template = document.createElement("template");
  template.innerHTML = html;
  return document.importNode(template.content, true);
}

export const fetchFragment = async (url, signal) => parse(await (await request(url, signal)).text());

/** @param {Response} response @throws {Error} with a message to show, for example if a proxy sent a page of its own */
const jsonOf = (response) =>
  response.json().catch(() => {
    throw new Error("The response could not be read.");
  });

export const fetchJson = async (url, signal) => jsonOf(await request(url, signal));

/** The key that this browser needs to change anything. Servers on other ports cannot read its local storage. */
function key() {
  try {
    return localStorage.getItem("unspool-key") ?? "";
  } catch {
    return "";
  }
}

/** Request a change. @throws {Error} with a message for the reader and the error code as cause */
export async function postJson(url, body) {
  const headers = { "content-type": "application/json", "x-unspool-key": key() };
  const response = await fetch(url, { method: "POST", headers, body: JSON.stringify(body) }).catch(() => {
    // The connection may have been lost after the request was sent.
    throw new Error("The server cannot be reached. The change may not have been made.");
  });
  if (response.ok) return jsonOf(response);
  // A proxy sends other errors than this server.
  const error = (await response.json().catch(() => null))?.error;
  throw new Error(error?.message ?? `The request failed (${response.status}).`, { cause: error?.code });
}

const CONTENT = "unspool:content";

/** Tell other modules that elements were added to the page. @param {ParentNode} root */
export const contentAdded = (root) => document.dispatchEvent(new CustomEvent(CONTENT, { detail: root }));

/** @param {(root: ParentNode) => void} listener called with the document, and with everything added later */
export function onContent(listener) {
  listener(document);
  document.addEventListener(CONTENT, ({ detail }) => listener(detail));
}

/** @type {Set<string>} */
const work = new Set();

/**
 * Lists the pending changes of the transcript and its URL in `data-busy` of the page. No script depends on it; tests
 * wait until the page has settled. @param {string} what @param {boolean} isUnderWay
 */
export function busy(what, isUnderWay) {
  if (work.has(what) === isUnderWay) return;
  work[isUnderWay ? "add" : "delete"](what);
  document.documentElement.dataset.busy = [...work].join(" ");
}

let toastTimer = 0;

/** Show a short message for a moment. @param {string} text */
export function toast(text) {
  const box = find("#toast");
  box.textContent = text;
  box.hidden = false;
  clearTimeout(toastTimer);
  toastTimer = setTimeout(() => (box.hidden = true), 3500);
}

const liveRegion = make("div", { "aria-live": "polite", class: "hidden" });

/** Announce something to screen readers. @param {string} text */
export function announce(text) {
  document.body.append(liveRegion);
  liveRegion.textContent = text;
}

/** Milliseconds before failed work is retried. */
const SHORTEST_RETRY = 1000;
const LONGEST_RETRY = 15_000;

/**
 * Merge calls that come close together, and delay them while the page is hidden. Failed work is retried: the next call
 * may come much later, and the page would be outdated until then.
 * @param {() => any} work @param {number} pause ms
 */
export function debounce(work, pause) {
  let [timer, retryTimer, retryPause] = [0, 0, SHORTEST_RETRY];
  const run = async () => {
    timer = 0;
    clearTimeout(retryTimer);
    if (document.hidden) return document.addEventListener("visibilitychange", soon, { once: true });
    try {
      await work();
      retryPause = SHORTEST_RETRY;
    } catch (error) {
      // It was removed, so retrying is useless.
      if (error instanceof Error && error.cause === 404) return;
      clearTimeout(retryTimer);
      retryTimer = setTimeout(soon, retryPause);
      retryPause = Math.min(retryPause * 2, LONGEST_RETRY);
    }
  };
  const soon = () => void (timer ||= setTimeout(run, pause));
  return soon;
}

/** Orders requests for the same content, because their responses can arrive out of order. */
export class RequestOrder {
  requests = 0;
  shown = 0;

  /** @returns {() => boolean} call it before showing a response: false if a later response is already shown */
  next() {
    const request = ++this.requests;
    return () => {
      if (request < this.shown) return false;
      this.shown = request;
      return true;
    };
  }
}

/** @param {number} number */
export const grouped = (number) => number.toLocaleString("en");

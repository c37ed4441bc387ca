/** Helpers that all modules share: finding elements, fetching from the server, saying something to the reader. */

/** @type {(selector: string, root?: ParentNode) => any} */
export const find = (selector, root = document) => root.querySelector(selector);

/** @type {(selector: string, root?: ParentNode) => any[]} */
export const findAll = (selector, root = document) => [...root.querySelectorAll(selector)];

/** @param {any} event @param {string} selector what it happened in */
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

/** @param {string} url @param {AbortSignal} [signal] @throws {Error} a sentence for the reader, caused by the status */
async function request(url, signal) {
  const response = await fetch(url, { signal }).catch((error) => {
    throw signal?.aborted ? error : new Error("The server is not reachable.");
  });
  if (response.ok) return response;
  const { status } = response;
  if (status === 401) throw new Error("Access has run out. Open the address that unspool printed once more.");
  const sentence = status === 404 ? "This is no longer there." : `The server could not answer (${status}).`;
  throw new Error(sentence, { cause: status });
}

/** Elements rendered, cleaned and escaped by the server. @param {string} html */
export function parse(html) {
  const template = document.createElement("template");
  template.innerHTML = html;
  return document.importNode(template.content, true);
}

export const fetchFragment = async (url, signal) => parse(await (await request(url, signal)).text());

export const fetchJson = async (url, signal) => (await request(url, signal)).json();

const CONTENT = "unspool:content";

/** Tell the others that elements were put into the page. @param {ParentNode} root */
export const announceContent = (root) => document.dispatchEvent(new CustomEvent(CONTENT, { detail: root }));

/** @param {(root: ParentNode) => void} listener called with all that is there, and with all that comes */
export function onContent(listener) {
  listener(document);
  document.addEventListener(CONTENT, ({ detail }) => listener(detail));
}

/** @type {Set<string>} */
const work = new Set();

/**
 * Keeps in `data-busy` of the page what is yet to be done to the transcript and its address. Nothing depends on it; who
 * looks from outside knows when the page is at rest. @param {string} what @param {boolean} isUnderWay
 */
export function busy(what, isUnderWay) {
  if (work.has(what) === isUnderWay) return;
  work[isUnderWay ? "add" : "delete"](what);
  document.documentElement.dataset.busy = [...work].join(" ");
}

let toastTimer = 0;

/** A short word at the edge of the page. @param {string} text */
export function toast(text) {
  const box = find("#toast");
  box.textContent = text;
  box.hidden = false;
  clearTimeout(toastTimer);
  toastTimer = setTimeout(() => (box.hidden = true), 3500);
}

const voice = make("div", { "aria-live": "polite", class: "hidden" });

/** Said to those who listen instead of looking. @param {string} text */
export function whisper(text) {
  document.body.append(voice);
  voice.textContent = text;
}

/** Calls that come close together become one; none while nobody looks. @param {() => any} work @param {number} pause ms */
export function calmly(work, pause) {
  let timer = 0;
  const run = async () => {
    timer = 0;
    if (document.hidden) return document.addEventListener("visibilitychange", soon, { once: true });
    // What could not be fetched now is fetched with the next event.
    await Promise.resolve(work()).catch(() => undefined);
  };
  const soon = () => void (timer ||= setTimeout(run, pause));
  return soon;
}

/** @param {number} number */
export const grouped = (number) => number.toLocaleString("en");

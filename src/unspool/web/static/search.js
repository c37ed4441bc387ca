/** Search as you type, on the search page and in the filter of the list. */

import { contentAdded, fetchFragment, find, findAll, RequestOrder } from "./dom.js";
import { failure } from "./lazy-load.js";
import { morph, morphChildren } from "./morph.js";

/** Calls `ask` shortly after the last keystroke, and aborts earlier calls. @param {(signal: AbortSignal) => any} ask */
export function asTyped(ask) {
  let timer = 0;
  let abort = new AbortController();
  return () => {
    clearTimeout(timer);
    abort.abort();
    abort = new AbortController();
    timer = setTimeout(ask, 120, abort.signal);
  };
}

/** @typedef {{input: any, box: any, ask: (given: string[][], signal: AbortSignal) => Promise<any>}} Searched */

/** @param {Searched} searched @param {boolean} isPage whether the address is that of the results */
function connect({ input, box, ask }, isPage) {
  const type = asTyped(async (signal) => {
    const given = [...new FormData(input.form)].filter(([, value]) => value !== "");
    try {
      await ask(given, signal);
      contentAdded(box);
      const query = given.length ? `?${new URLSearchParams(given)}` : "";
      if (isPage) history.replaceState(null, "", location.pathname + query);
    } catch (error) {
      if (!signal.aborted) box.replaceChildren(failure(error, type));
    }
  });
  input.form.addEventListener("input", type);
  const move = (event) => {
    const step = { ArrowDown: 1, ArrowUp: -1 }[event.key];
    if (!step) return;
    event.preventDefault();
    const stops = [input, ...findAll("li > a", box)];
    stops[stops.indexOf(document.activeElement) + step]?.focus();
  };
  input.addEventListener("keydown", move);
  box.addEventListener("keydown", move);
}

async function showResults(box, given, signal) {
  morphChildren(box, await fetchFragment(`/results?${new URLSearchParams(given)}`, signal));
}

const lists = new RequestOrder();

/**
 * Update the list and its filters, whose links contain the typed text. @param {string[][]} given
 * @param {AbortSignal} [signal] @returns {Promise<boolean>} false if the list shows the response to a later request
 */
export async function fetchList(given, signal) {
  const isLatest = lists.next();
  const { session } = find("main").dataset;
  const query = new URLSearchParams([...given, ...(session ? [["here", session]] : [])]);
  const fresh = find("#sessions", await fetchFragment(`/list?${query}`, signal));
  if (!isLatest()) return false;
  morph(find("#sessions"), fresh);
  return true;
}

/** Scroll the list next to a session to that session, unless it is visible. */
function showOpenSession() {
  const link = find(".layout:not(.home) > #sessions [aria-current=page]");
  const pane = link?.closest("#sessions");
  if (!pane || !link.checkVisibility()) return;
  const [box, row] = [pane.getBoundingClientRect(), link.getBoundingClientRect()];
  if (row.top < box.top || row.bottom > box.bottom) pane.scrollTop += row.top - box.top - box.height / 3;
}

export function startSearch() {
  const [results, list] = [find("#results"), find("[data-list]")];
  if (results) connect({ input: find("#query"), box: results, ask: (given, signal) => showResults(results, given, signal) }, true);
  if (list) connect({ input: find("#filter"), box: list, ask: fetchList }, document.body.dataset.pageKind === "sessions");
  showOpenSession();
}

/** Search as you type, on the search page and in the filter of the list. */

import { contentAdded, fetchFragment, find, findAll } from "./dom.js";
import { failure } from "./lazy-load.js";
import { morphChildren } from "./morph.js";

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

/** @param {any} input @param {any} box for the results @param {string} address @param {boolean} isPage */
function connect(input, box, address, isPage) {
  const type = asTyped(async (signal) => {
    const given = [...new FormData(input.form)].filter(([, value]) => value !== "");
    const query = given.length ? `?${new URLSearchParams(given)}` : "";
    try {
      const content = await fetchFragment(address + query, signal);
      morphChildren(box, find("[data-list]", content) ?? content);
      contentAdded(box);
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

export function startSearch() {
  const [results, list] = [find("#results"), find("[data-list]")];
  if (results) connect(find("#query"), results, "/results", true);
  if (list) connect(find("#filter"), list, "/list", document.body.dataset.pageKind === "sessions");
}

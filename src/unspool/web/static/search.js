/**
 * Search as you type, on the page of the search and in the filter of the list.
 */

import { announceContent, fetchFragment, find, findAll } from "./dom.js";
import { failure } from "./lazy.js";
import { morphChildren } from "./morph.js";

/**
 * Asks a little after the last keystroke; a newer question ends the older one.
 * @param {(signal: AbortSignal) => Promise<void>} ask
 * @returns {() => void}
 */
export function asTyped(ask) {
  let timer = 0;
  let abort = new AbortController();
  return () => {
    clearTimeout(timer);
    abort.abort();
    abort = new AbortController();
    const { signal } = abort;
    timer = window.setTimeout(() => ask(signal).catch(() => undefined), 120);
  };
}

/** @param {HTMLFormElement} form @returns {string} what it asks, without what is empty */
function queryOf(form) {
  const given = [...new FormData(form)].filter(([, value]) => value !== "");
  return new URLSearchParams(given).toString();
}

/**
 * @param {HTMLInputElement} input
 * @param {HTMLElement} box filled with the answer
 * @param {string} fragment address of the answer alone
 * @param {boolean} isPage whether the address of the page follows
 */
function connect(input, box, fragment, isPage) {
  const form = input.form;
  const type = asTyped(async (signal) => {
    const query = queryOf(form);
    const suffix = query && `?${query}`;
    box.setAttribute("aria-busy", "true");
    try {
      const content = await fetchFragment(fragment + suffix, signal);
      morphChildren(box, find("[data-list]", content) ?? content);
      announceContent(box);
      if (isPage) history.replaceState(history.state, "", location.pathname + suffix);
    } catch (error) {
      if (!signal.aborted) box.replaceChildren(failure(error, type));
    } finally {
      if (!signal.aborted) box.removeAttribute("aria-busy");
    }
  });
  form.addEventListener("input", type);
  input.addEventListener("keydown", (event) => {
    if (event.key !== "ArrowDown") return;
    event.preventDefault();
    find("li > a", box)?.focus();
  });
  box.addEventListener("keydown", (event) => {
    const step = { ArrowDown: 1, ArrowUp: -1 }[event.key];
    if (!step) return;
    event.preventDefault();
    const links = findAll("li > a", box);
    (links[links.indexOf(document.activeElement) + step] ?? input).focus();
  });
}

export function startSearch() {
  const query = find("#query");
  const results = find("#results");
  if (query && results) connect(query, results, "/results", true);
  const filter = find("#filter");
  const list = find("[data-list]");
  if (filter && list) connect(filter, list, "/list", document.body.dataset.pageKind === "sessions");
}

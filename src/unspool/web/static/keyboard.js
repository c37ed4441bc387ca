/** Keyboard shortcuts. They are disabled while the reader types, and leave key combinations to the browser. */

import { find, findAll, inside, onClick } from "./dom.js";

/** The links that j and k step through on pages without a transcript. */
const LINKS = "#sessions li.session > a, #results li > a, .events a.event-title";
const EVENTS = ".mark[data-indices]";
const TYPING = "input, textarea, select, [contenteditable]";

/** @typedef {import("./app.js").Reading} Reading */
/** @typedef {1 | -1} Direction */

function stepThroughLinks(direction) {
  const links = findAll(LINKS).filter((link) => link.checkVisibility());
  const at = links.indexOf(document.activeElement);
  (at < 0 ? links.at(direction > 0 ? 0 : -1) : links[at + direction])?.focus();
}

/** @param {Reading} reading @param {string} marks @param {Direction} direction */
function stepThroughMarks({ navigation, rail }, marks, direction) {
  const next = rail.next(marks, navigation.index, direction);
  if (next !== null) void navigation.goTo(next);
}

/** @param {Reading} reading @param {Direction} direction */
function stepThroughPrompts(reading, direction) {
  // The timeline of a long session leaves some out.
  const isWhole = Number(find("#rail .timeline")?.dataset.turns) === findAll("#rail .mark.turn").length;
  if (isWhole) stepThroughMarks(reading, ".mark.turn", direction);
  else void reading.navigation.step(direction, (entry) => entry.dataset.kind === "prompt");
}

function toggleDetails(entry) {
  const details = entry && find("details", entry);
  if (details) details.open = !details.open;
  else if (entry) find("button[data-load]", entry)?.click();
}

function toggleBranches() {
  const menu = find("details.branches > summary");
  menu?.focus();
  menu?.click();
}

/** @param {Reading} reading */
function back(reading) {
  const menu = find("details.menu[open]");
  if (menu) menu.open = false;
  else if (document.activeElement?.matches(TYPING)) document.activeElement.blur();
  else if (reading?.findBar.close()) return;
  else if (reading && !reading.contextView.close()) reading.navigation.select(null);
}

/** @param {Reading} reading @returns {Record<string, () => void>} */
function commandsOf(reading) {
  const always = {
    "/": () => (find("#query") ?? find("#search")).select(),
    "g s": () => location.assign("/"),
    "?": () => find("#help").showModal(),
  };
  if (!reading) return { ...always, j: () => stepThroughLinks(1), k: () => stepThroughLinks(-1) };
  const step = (direction) => {
    if (document.activeElement?.closest("#sessions")) stepThroughLinks(direction);
    else void reading.navigation.step(direction);
  };
  return {
    ...always,
    j: () => step(1),
    k: () => step(-1),
    n: () => (reading.findBar.isOpen ? void reading.findBar.step(1) : stepThroughPrompts(reading, 1)),
    N: () => void reading.findBar.step(-1),
    p: () => stepThroughPrompts(reading, -1),
    "]": () => stepThroughMarks(reading, EVENTS, 1),
    "[": () => stepThroughMarks(reading, EVENTS, -1),
    // Pages get their real height only near the screen, so the browser does not know where the end is.
    End: () => void reading.navigation.goToEnd(),
    o: () => toggleDetails(reading.navigation.here),
    b: toggleBranches,
    c: () => reading.contextView.toggle(),
  };
}

/** @param {Reading} reading @param {() => void} openPalette */
export function startKeys(reading, openPalette) {
  const commands = commandsOf(reading);
  let before = "";
  document.addEventListener("keydown", (event) => {
    if ((event.ctrlKey || event.metaKey) && event.key === "k") {
      event.preventDefault();
      return openPalette();
    }
    if ((event.ctrlKey || event.metaKey) && event.key === "f" && reading && !find("dialog[open]")) {
      // Pressed again, it opens the search of the browser.
      if (reading.findBar.open()) event.preventDefault();
      return;
    }
    if (event.ctrlKey || event.metaKey || event.altKey || find("dialog[open]")) return;
    if (event.key === "Escape") return back(reading);
    if (inside(event, TYPING)) return;
    const command = commands[`${before} ${event.key}`] ?? commands[event.key];
    before = command ? "" : event.key;
    if (!command) return;
    event.preventDefault();
    command();
  });
  onClick("[data-open]", (button) => find(`#${button.dataset.open}`).showModal());
}

/** Relative times ("4 minutes ago"), updated every minute; the exact time is shown on hover. */

import { findAll, onContent } from "./dom.js";

/** @type {[Intl.RelativeTimeFormatUnit, number][]} */
const UNITS = [
  ["year", 31557600], ["month", 2629800], ["week", 604800], ["day", 86400], ["hour", 3600], ["minute", 60],
];
const words = new Intl.RelativeTimeFormat("en", { numeric: "auto" });

/** @param {number} seconds from now */
function relative(seconds) {
  const [unit, length] = UNITS.find(([, length]) => Math.abs(seconds) >= length) ?? [];
  return unit ? words.format(Math.trunc(seconds / length), unit) : "just now";
}

function update(element) {
  const text = relative((Date.parse(element.getAttribute("datetime") ?? "") - Date.now()) / 1000);
  // Any text other than the last relative time is the exact time, written by the server.
  if (element.dataset.relative !== element.textContent) element.title = element.textContent ?? "";
  if (element.textContent !== text) element.textContent = element.dataset.relative = text;
}

export function startTimes() {
  const all = (root) => findAll("time[datetime]", root).forEach(update);
  onContent(all);
  setInterval(all, 60_000, document);
}

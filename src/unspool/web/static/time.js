/**
 * Times as people say them ("4 minutes ago"), refreshed each minute; the exact one stays on hover.
 */

import { findAll, onContent } from "./dom.js";

/** @type {[Intl.RelativeTimeFormatUnit, number][]} */
const UNITS = [
  ["year", 31557600], ["month", 2629800], ["week", 604800], ["day", 86400], ["hour", 3600], ["minute", 60],
];
const words = new Intl.RelativeTimeFormat("en", { numeric: "auto" });

/** @param {Date} moment @param {number} now milliseconds */
export function relative(moment, now = Date.now()) {
  const seconds = (moment.getTime() - now) / 1000;
  for (const [unit, length] of UNITS) {
    if (Math.abs(seconds) >= length) return words.format(Math.trunc(seconds / length), unit);
  }
  return "just now";
}

/** */
function update(element) {
  const moment = new Date(element.getAttribute("datetime") ?? "");
  if (Number.isNaN(moment.getTime())) return;
  const text = relative(moment);
  if (element.textContent === text) return;
  // Only the server writes anything else than a relative time, and what it writes is the exact one.
  if (element.dataset.relative !== element.textContent) element.title = element.textContent?.trim() || "";
  element.textContent = element.dataset.relative = text;
}

export function startTimes() {
  const all = (root) => findAll("time[datetime]:not([data-exact])", root).forEach(update);
  onContent(all);
  setInterval(() => document.hidden || all(document), 60_000);
  document.addEventListener("visibilitychange", () => document.hidden || all(document));
}

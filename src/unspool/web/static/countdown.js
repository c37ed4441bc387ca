/** Counts down the seconds until a request is denied. */

import { findAll, onContent } from "./dom.js";

/** @param {number} seconds */
const clock = (seconds) => `${Math.floor(seconds / 60)}:${String(seconds % 60).padStart(2, "0")}`;

function update(element) {
  const left = Math.max(0, Math.round(Number(element.dataset.deadline) - Date.now() / 1000));
  element.textContent = `denied in ${clock(left)}`;
  element.classList.toggle("soon", left < 120);
}

export function startCountdown() {
  const all = (root) => findAll("[data-deadline]", root).forEach(update);
  onContent(all);
  setInterval(all, 1000, document);
}

/** The time line beside the transcript: marks in their places, a frame around what is on the screen, jumps. */

import { calmly, fetchFragment, find, findAll, inside } from "./dom.js";
import { morph } from "./morph.js";
import { onScroll } from "./sight.js";

export class Rail {
  /** @param {import("./place.js").Place} place */
  constructor(place) {
    this.place = place;
    this.pages = place.pages;
    this.refresh = calmly(() => this.fetch(), 2000);
    onScroll(() => this.draw());
    new ResizeObserver(() => this.draw()).observe(this.pages.box);
    document.addEventListener("pointerdown", (event) => this.press(event));
    this.arrange();
  }

  arrange() {
    for (const mark of findAll("#rail .mark[data-at]")) mark.style.top = `${mark.dataset.at * 100}%`;
    this.draw();
  }

  draw() {
    const frame = find("#rail .frame");
    if (!frame) return;
    const { top, bottom } = this.pages.sight.view;
    const from = this.shareAt(top);
    frame.style.top = `${from * 100}%`;
    frame.style.height = `${(this.shareAt(bottom) - from) * 100}%`;
  }

  /** How far along the session a height of the screen is, 0 to 1. */
  shareAt(edge) {
    const { sight, size, count } = this.pages;
    const { number, share } = sight.pageAt(edge);
    return (number * size + share * this.pages.lengthOf(number)) / (count || 1);
  }

  /** Pressing beside the marks goes there, and moving on goes along. */
  press(event) {
    const line = inside(event, "#rail .timeline");
    if (!line || event.button || inside(event, "a, button, summary")) return;
    const rect = line.getBoundingClientRect();
    const go = ({ clientY }) => this.place.goToShare((clientY - rect.top) / rect.height);
    const end = new AbortController();
    event.preventDefault();
    go(event);
    document.addEventListener("pointermove", go, { signal: end.signal });
    for (const name of ["pointerup", "pointercancel"]) document.addEventListener(name, () => end.abort(), { once: true });
  }

  /** The message of the next mark after (or before) one. @param {1 | -1} direction */
  next(selector, index, direction) {
    const places = findAll(`#rail ${selector}`).map((mark) => Number(mark.dataset.index));
    const beyond = places.filter((place) => (place - index) * direction > 0);
    beyond.sort((a, b) => (a - b) * direction);
    return beyond[0] ?? null;
  }

  async fetch() {
    const fragment = await fetchFragment(`${this.pages.base}/rail?branch=${this.pages.branch}`);
    const [old, fresh] = [find("#rail .timeline"), find(".timeline", fragment)];
    if (old && fresh) morph(old, fresh);
    this.arrange();
  }
}

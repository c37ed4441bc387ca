/** The timeline beside the transcript: marks, a frame around what is on the screen, and jumps. */

import { debounce, fetchFragment, find, findAll, inside } from "./dom.js";
import { morph } from "./morph.js";
import { onScroll } from "./viewport.js";

export class Rail {
  /** @param {import("./navigation.js").Navigation} navigation */
  constructor(navigation) {
    this.navigation = navigation;
    this.pages = navigation.pages;
    this.refresh = debounce(() => this.fetch(), 2000);
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
    const { top, bottom } = this.pages.viewport.view;
    const from = this.shareAt(top);
    frame.style.top = `${from * 100}%`;
    frame.style.height = `${(this.shareAt(bottom) - from) * 100}%`;
  }

  /** How far along the session a vertical position on the screen is, 0 to 1. */
  shareAt(edge) {
    const { viewport, size, count } = this.pages;
    const { number, share } = viewport.pageAt(edge);
    return (number * size + share * this.pages.lengthOf(number)) / (count || 1);
  }

  /** Pressing or dragging beside the marks scrolls the transcript. */
  press(event) {
    const line = inside(event, "#rail .timeline");
    if (!line || event.button || inside(event, "a, button, summary")) return;
    const rect = line.getBoundingClientRect();
    const go = ({ clientY }) => this.navigation.goToShare((clientY - rect.top) / rect.height);
    const end = new AbortController();
    event.preventDefault();
    go(event);
    document.addEventListener("pointermove", go, { signal: end.signal });
    for (const name of ["pointerup", "pointercancel"]) {
      document.addEventListener(name, () => end.abort(), { once: true });
    }
  }

  /** The message of the next mark after (or before) one. @param {1 | -1} direction */
  next(selector, index, direction) {
    const indices = findAll(`#rail ${selector}`).map((mark) => Number(mark.dataset.index));
    const beyond = indices.filter((each) => (each - index) * direction > 0);
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

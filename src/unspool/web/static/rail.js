/** The timeline next to the transcript: an outline, a scale with a frame around what is on the screen, and jumps. */

import { debounce, fetchFragment, find, findAll, inside, RequestOrder } from "./dom.js";
import { morph } from "./morph.js";
import { indexOf } from "./navigation.js";
import { onScroll } from "./viewport.js";

export class Rail {
  /** @param {import("./navigation.js").Navigation} navigation */
  constructor(navigation) {
    this.navigation = navigation;
    this.pages = navigation.pages;
    this.order = new RequestOrder();
    this.refresh = debounce(() => this.fetch(), 2000);
    onScroll(() => this.draw());
    new ResizeObserver(() => this.draw()).observe(this.pages.box);
    document.addEventListener("pointerdown", (event) => this.press(event));
    document.addEventListener("click", (event) => this.cycle(event), true);
    this.arrange();
  }

  arrange() {
    /** @type {any[]} the lines of the outline, and the message at which each begins */
    this.lines = findAll("#rail .outline > li[data-index]");
    this.starts = this.lines.map(({ dataset }) => Number(dataset.index));
    this.draw();
  }

  draw() {
    const frame = find("#rail .frame");
    if (!frame) return;
    const { top, bottom } = this.pages.viewport.view;
    const from = this.shareAt(top);
    frame.style.top = `${from * 100}%`;
    frame.style.height = `${(this.shareAt(bottom) - from) * 100}%`;
    this.markLine();
  }

  /** Mark the line of the turn that is being read, and keep it in view. */
  markLine() {
    const entry = this.pages.viewport.topEntry;
    if (!entry) return;
    const index = indexOf(entry);
    const line = this.lines[Math.max(this.starts.findLastIndex((start) => start <= index), 0)];
    if (!line || line === this.line) return;
    this.line?.removeAttribute("aria-current");
    this.line = line;
    line.setAttribute("aria-current", "true");
    const list = line.parentElement;
    const [above, below] = [line.offsetTop - list.scrollTop, line.offsetTop + line.offsetHeight - list.scrollTop];
    if (above < 0 || below > list.clientHeight) list.scrollTop += above - list.clientHeight / 3;
  }

  /** How far along the session a vertical position on the screen is, 0 to 1. */
  shareAt(edge) {
    const { viewport, size, count } = this.pages;
    const { number, share } = viewport.pageAt(edge);
    return (number * size + share * this.pages.lengthOf(number)) / (count || 1);
  }

  /** Pressing or dragging on the scale scrolls the transcript. */
  press(event) {
    const line = inside(event, "#rail .scale");
    if (!line || event.button) return;
    const rect = line.getBoundingClientRect();
    const go = ({ clientY }) => this.navigation.goToShare((clientY - rect.top) / rect.height);
    const end = new AbortController();
    event.preventDefault();
    go(event);
    document.addEventListener("pointermove", go, { signal: end.signal });
    for (const name of ["pointerup", "pointercancel"]) {
      document.addEventListener(name, () => end.abort(), { signal: end.signal });
    }
  }

  /** A mark for several events leads from one to the next. */
  cycle(event) {
    const mark = inside(event, "#rail .mark[data-indices]");
    if (!mark) return;
    const indices = mark.dataset.indices.split(" ").map(Number);
    const next = indices.find((index) => index > this.navigation.index) ?? indices[0];
    const url = new URL(mark.href);
    url.searchParams.set("at", next);
    url.hash = `#m${next}`;
    mark.href = url.href;
  }

  /** The message of the next mark after (or before) one. @param {1 | -1} direction */
  next(selector, index, direction) {
    const marks = findAll(`#rail ${selector}`);
    const indices = marks.flatMap(({ dataset }) => (dataset.indices ?? dataset.index).split(" ").map(Number));
    const beyond = indices.filter((each) => (each - index) * direction > 0);
    beyond.sort((a, b) => (a - b) * direction);
    return beyond[0] ?? null;
  }

  async fetch() {
    const isLatest = this.order.next();
    const fragment = await fetchFragment(`${this.pages.base}/rail?branch=${this.pages.branch}`);
    if (!isLatest()) return;
    const [old, fresh] = [find("#rail .timeline"), find(".timeline", fragment)];
    if (old && fresh) morph(old, fresh);
    this.arrange();
  }
}

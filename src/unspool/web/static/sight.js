/** What of the transcript is on the screen, and changing the page without moving what is read. */

import { busy, find } from "./dom.js";

const root = document.documentElement;
const FRAMES = 12;

/** @param {() => void} listener */
export const onScroll = (listener) => window.addEventListener("scroll", listener, { passive: true });

/** Which of elements in vertical order is the first that reaches below an edge. @param {Element[]} list */
function firstBelow(list, edge) {
  let [low, high] = [0, list.length];
  while (low < high) {
    const middle = (low + high) >> 1;
    if (list[middle].getBoundingClientRect().bottom > edge + 1) high = middle;
    else low = middle + 1;
  }
  return low;
}

/** The entries of the transcript itself, without those of opened branches. @param {Element} section @returns {any[]} */
export const entriesOf = (section) => [...section.children].filter((child) => child.matches(".entry"));

export class Sight {
  /** @type {HTMLElement[]} all pages, by number */
  sections = [];
  /** @type {(() => void)[]} */
  changes = [];
  /** @type {{element: Element, top: number} | null} what must not move in this frame */
  anchor = null;
  /** The end stays in sight, whatever changes and however late, until the reader does something. */
  follows = false;
  /** Where the page was scrolled to when its end was last brought into sight. */
  top = 0;
  wantsEnd = false;
  /** For so many frames more. */
  frames = 0;

  constructor(box) {
    this.box = box;
    // Called after layout and before paint: the moment to put right what the browser's own anchoring did not.
    new ResizeObserver(() => this.settle()).observe(box);
    for (const kind of ["wheel", "touchmove", "keydown", "pointerdown"]) {
      window.addEventListener(kind, () => this.leave(), { passive: true, capture: true });
    }
    // A scroll bar is dragged without any of these. Nothing else leads up and away from the end.
    onScroll(() => {
      if (this.follows && root.scrollTop < this.top && !this.isAtEnd) this.leave();
    });
  }

  /** Edges of what is visible. */
  get view() {
    const { scrollPaddingTop, scrollPaddingBottom } = getComputedStyle(root);
    return { top: parseFloat(scrollPaddingTop) || 0, bottom: innerHeight - (parseFloat(scrollPaddingBottom) || 0) };
  }

  isVisible(element) {
    const rect = element.getBoundingClientRect();
    const { top, bottom } = this.view;
    return rect.height > 0 && rect.bottom > top && rect.top < bottom;
  }

  get isAtEnd() {
    return this.box.getBoundingClientRect().bottom <= this.view.bottom + 80;
  }

  /** The first entry on the screen. */
  get topEntry() {
    const { top } = this.view;
    const at = firstBelow(this.sections, top);
    const entries = this.sections.slice(at, at + 2).flatMap(entriesOf);
    const first = entries[firstBelow(entries, top)];
    return first && this.isVisible(first) ? first : null;
  }

  /** Page at a height of the screen, and how much of it is above. */
  pageAt(edge) {
    const number = Math.min(firstBelow(this.sections, edge), this.sections.length - 1);
    const { top, height } = this.sections[number].getBoundingClientRect();
    return { number, share: Math.min(Math.max((edge - top) / (height || 1), 0), 1) };
  }

  /**
   * Scroll so that an element is `below` pixels under the upper edge. Entries get their real height only on the screen,
   * so it is held there for some frames.
   */
  bring(element, below) {
    this.follows = false;
    this.hold({ element, top: this.view.top + below }, FRAMES);
    this.settle();
  }

  bringEnd() {
    this.follows = true;
    this.hold(null, FRAMES);
    this.settle();
  }

  hold(anchor, frames) {
    const isHolding = this.frames > 0;
    this.anchor = anchor;
    this.frames = frames;
    busy("holding", true);
    const next = () => {
      if (--this.frames <= 0) return this.release();
      this.settle();
      requestAnimationFrame(next);
    };
    if (!isHolding) requestAnimationFrame(next);
  }

  release() {
    this.frames = 0;
    busy("holding", false);
    this.anchor = null;
  }

  /** The reader moves. */
  leave() {
    this.release();
    this.follows = false;
  }

  /**
   * Change the page in the next frame. What is read stays where it is; with `follow` the end does, if it is in sight.
   * @param {() => void} change
   */
  change(change, follow = false) {
    this.wantsEnd ||= follow;
    if (!this.changes.length) requestAnimationFrame(() => this.apply());
    busy("changing", true);
    // One that fails must not keep the others from being made.
    return new Promise((done) => this.changes.push(() => done(new Promise((made) => made(change())))));
  }

  apply() {
    if (!this.frames) {
      this.follows ||= this.wantsEnd && this.isAtEnd;
      const current = find(".entry.current", this.box);
      const element = current && this.isVisible(current) ? current : this.topEntry;
      this.hold(element && { element, top: element.getBoundingClientRect().top }, 1);
    }
    this.wantsEnd = false;
    for (const change of this.changes.splice(0)) change();
    busy("changing", this.changes.length > 0);
  }

  settle() {
    if (this.follows) {
      root.scrollTop = root.scrollHeight;
      this.top = root.scrollTop;
    } else if (this.anchor?.element.isConnected) {
      const moved = this.anchor.element.getBoundingClientRect().top - this.anchor.top;
      if (Math.abs(moved) >= 1) root.scrollTop += moved;
    }
  }
}

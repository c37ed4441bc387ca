/** Tracks the visible part of the transcript, and changes the page without moving what is being read. */

import { busy, find } from "./dom.js";

const root = document.documentElement;
const FRAMES = 12;

/** @param {() => void} listener */
export const onScroll = (listener) => window.addEventListener("scroll", listener, { passive: true });

/** Index of the first element, in vertical order, that reaches below an edge. @param {Element[]} list */
function firstBelow(list, edge) {
  let [low, high] = [0, list.length];
  while (low < high) {
    const middle = (low + high) >> 1;
    if (list[middle].getBoundingClientRect().bottom > edge + 1) high = middle;
    else low = middle + 1;
  }
  return low;
}

/** The entries of a page, without those of opened branches. @param {Element} section @returns {any[]} */
export const entriesOf = (section) => [...section.children].filter((child) => child.matches(".entry"));

/** The entries of a page that are not hidden. @param {Element} section @returns {any[]} */
export const visibleEntriesOf = (section) => entriesOf(section).filter((entry) => entry.checkVisibility());

const isLaidOut = (element) => element.getClientRects().length > 0;

/** The distance of an element from the upper edge of the document. @param {Element} element */
const offsetOf = (element) => element.getBoundingClientRect().top + root.scrollTop;

export class Viewport {
  /** @type {HTMLElement[]} all pages, by number */
  sections = [];
  /** @type {(() => void)[]} */
  changes = [];
  /** @type {{element: Element, top: number, stays?: boolean} | null} the element that must not move */
  anchor = null;
  /** Scroll position and layout when the anchor was last in position. */
  placed = { scroll: 0, offset: 0, height: 0 };
  /** Keep the end of the page visible until the reader moves. */
  follows = false;
  /** Scroll position when the end was last brought into view. */
  top = 0;
  wantsEnd = false;
  /** Number of frames in which the anchor is still repositioned, even if nothing changes its size. */
  frames = 0;

  constructor(box) {
    this.box = box;
    // Called after layout and before paint, in time to correct what the browser's own scroll anchoring did not.
    // The body grows with what is above the transcript.
    const sizes = new ResizeObserver(() => this.settle());
    for (const element of [box, document.body]) sizes.observe(element);
    for (const kind of ["wheel", "touchmove", "keydown", "pointerdown"]) {
      window.addEventListener(kind, () => this.stopFollowing(), { passive: true, capture: true });
    }
    // Dragging the scroll bar sends none of these events.
    onScroll(() => {
      if (this.follows ? root.scrollTop < this.top && !this.isAtEnd : this.wasScrolled) this.stopFollowing();
    });
  }

  /** Upper and lower edge of the visible area. */
  get view() {
    const { scrollPaddingTop, scrollPaddingBottom } = getComputedStyle(root);
    return { top: parseFloat(scrollPaddingTop) || 0, bottom: innerHeight - (parseFloat(scrollPaddingBottom) || 0) };
  }

  isVisible(element) {
    const rect = element.getBoundingClientRect();
    const { top, bottom } = this.view;
    return rect.height > 0 && rect.bottom > top && rect.top < bottom;
  }

  /** Whether an element is on the screen, or within one screen of it. */
  isNear(element) {
    const rect = element.getBoundingClientRect();
    const { top, bottom } = this.view;
    const room = bottom - top;
    return rect.height > 0 && rect.bottom > top - room && rect.top < bottom + room;
  }

  get isAtEnd() {
    return this.box.getBoundingClientRect().bottom <= this.view.bottom + 80;
  }

  /** The first entry on the screen. */
  get topEntry() {
    const { top } = this.view;
    const at = firstBelow(this.sections, top);
    const entries = this.sections.slice(at, at + 2).flatMap(visibleEntriesOf);
    const first = entries[firstBelow(entries, top)];
    return first && this.isVisible(first) ? first : null;
  }

  /** The entry that is being read, and its vertical position. */
  get readingPlace() {
    const current = find(".entry.current", this.box);
    const element = current && this.isVisible(current) ? current : this.topEntry;
    return element && { element, top: element.getBoundingClientRect().top };
  }

  /** The page at a vertical position, and how much of it is above. */
  pageAt(edge) {
    const number = Math.min(firstBelow(this.sections, edge), this.sections.length - 1);
    const { top, height } = this.sections[number].getBoundingClientRect();
    return { number, share: Math.min(Math.max((edge - top) / (height || 1), 0), 1) };
  }

  /** Whether the reader has scrolled, and not the layout: content above that changes its height, or a shorter page. */
  get wasScrolled() {
    if (!this.anchor || !isLaidOut(this.anchor.element)) return false;
    const { scroll, offset, height } = this.placed;
    const scrolled = root.scrollTop - scroll;
    const shifted = offsetOf(this.anchor.element) - offset;
    const isCutOff = root.scrollHeight < height && root.scrollTop + root.clientHeight >= root.scrollHeight - 1;
    return !isCutOff && (scrolled < Math.min(shifted, 0) - 1 || scrolled > Math.max(shifted, 0) + 1);
  }

  /**
   * Scroll so that an element is `below` pixels under the upper edge. Entries get their real height only when they are
   * on the screen, and what is above the transcript can change at any time, so the element stays there until the reader
   * moves.
   */
  scrollTo(element, below) {
    this.follows = false;
    this.hold({ element, top: this.view.top + below, stays: true }, FRAMES);
    this.settle();
  }

  scrollToEnd() {
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
      if (--this.frames <= 0) return this.anchor?.stays ? this.rest() : this.release();
      this.settle();
      requestAnimationFrame(next);
    };
    if (!isHolding) requestAnimationFrame(next);
  }

  rest() {
    this.frames = 0;
    busy("holding", false);
  }

  release() {
    this.rest();
    this.anchor = null;
  }

  /** The reader has moved. */
  stopFollowing() {
    this.release();
    this.follows = false;
  }

  /**
   * Change the page in the next frame, without moving what is being read; with `follow` the end stays visible if it is.
   * @param {() => void} change
   */
  change(change, follow = false) {
    this.wantsEnd ||= follow;
    if (!this.changes.length) requestAnimationFrame(() => this.apply());
    busy("changing", true);
    // A change that fails must not prevent the others.
    return new Promise((done) => this.changes.push(() => done(new Promise((made) => made(change())))));
  }

  apply() {
    if (!this.frames) {
      this.follows ||= this.wantsEnd && this.isAtEnd;
      this.hold(this.anchor && isLaidOut(this.anchor.element) ? this.anchor : this.readingPlace, 1);
    }
    this.wantsEnd = false;
    for (const change of this.changes.splice(0)) change();
    busy("changing", this.changes.length > 0);
  }

  settle() {
    if (this.follows) {
      root.scrollTop = root.scrollHeight;
      this.top = root.scrollTop;
    } else if (this.anchor && isLaidOut(this.anchor.element)) {
      const { element, top } = this.anchor;
      const moved = element.getBoundingClientRect().top - top;
      if (Math.abs(moved) >= 1) root.scrollTop += moved;
      this.placed = { scroll: root.scrollTop, offset: offsetOf(element), height: root.scrollHeight };
    }
  }
}

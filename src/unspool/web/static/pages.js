/**
 * The transcript as a window on pages: all pages have their place, only those near the screen have content. So a
 * session of a hundred thousand messages scrolls like a short one.
 */

import { announceContent, busy, fetchFragment, find, findAll, grouped, make } from "./dom.js";
import { failure, waiting } from "./lazy.js";
import { entriesOf, Sight } from "./sight.js";

/** Pages that keep their content beyond those near the screen, on each side. */
const SPARE = 3;
/** Emptied pages whose elements are kept: coming back is instant, and opened details stay open. */
const KEPT = 24;
const LOADS_AT_ONCE = 3;
/** Browsers draw nothing below some ten million pixels. */
const HIGHEST = 12_000_000;

export class Pages {
  /** @type {Set<number>} with content */
  loaded = new Set();
  /** @type {Set<number>} near the screen */
  near = new Set();
  /** @type {Map<number, DocumentFragment>} */
  kept = new Map();
  /** @type {Map<number, {abort: AbortController, done: Promise<void>, isAsked: boolean}>} on their way */
  loading = new Map();
  timer = 0;

  constructor(main) {
    this.main = main;
    this.box = find("#pages", main);
    this.sight = new Sight(this.box);
    this.sections = this.sight.sections;
    this.size = Number(main.dataset.pageSize);
    this.base = `/sessions/${encodeURIComponent(main.dataset.key)}`;
    this.branch = main.dataset.branch;
    this.observer = new IntersectionObserver((entries) => this.seen(entries), { rootMargin: "150% 0px" });
    this.lay();
  }

  get count() {
    return Number(this.main.dataset.count);
  }

  get last() {
    return this.sections.length - 1;
  }

  /** Messages on a page. */
  lengthOf(number) {
    return Math.max(Math.min(this.size, this.count - number * this.size), 0);
  }

  /** A place for every page. */
  lay() {
    const rendered = new Map([...this.box.children].map((section) => [Number(section.dataset.page), section]));
    const pages = Number(this.main.dataset.pages);
    this.guess = Math.min(this.box.offsetHeight / rendered.size, HIGHEST / pages);
    this.loaded = new Set(rendered.keys());
    for (let number = 0; number < pages; number++) this.place(number, rendered.get(number));
    this.box.replaceChildren(...this.sections);
    find(".paging", this.main)?.remove();
  }

  /** @param {number} number @param {any} section rendered by the server, or made here */
  place(number, section = make("section", { class: "page", "data-page": String(number) })) {
    if (!this.loaded.has(number)) section.style.height = `${this.guess}px`;
    this.sections[number] = section;
    this.observer.observe(section);
  }

  /** As many places as there are pages now. @param {number} count messages */
  resize(count) {
    const pages = Math.max(Math.ceil(count / this.size), 1);
    this.main.dataset.count = String(count);
    while (this.sections.length < pages) {
      this.place(this.sections.length);
      this.box.append(this.sections[this.last]);
    }
    for (const section of this.sections.splice(pages)) {
      for (const known of [this.loaded, this.near, this.kept]) known.delete(Number(section.dataset.page));
      this.observer.unobserve(section);
      section.remove();
    }
  }

  /** An entry of the transcript itself, if its page has content. */
  entry(key) {
    return find(`section.page > [data-key="${CSS.escape(key)}"]`, this.box);
  }

  seen(entries) {
    for (const { target, isIntersecting } of entries) {
      const number = Number(target.getAttribute("data-page"));
      this.near[isIntersecting ? "add" : "delete"](number);
    }
    this.wake();
  }

  wake() {
    this.timer ||= setTimeout(() => {
      this.timer = 0;
      if (this.near.size) this.work();
      busy("fetching", this.loading.size > 0);
    }, 40);
    busy("fetching", true);
  }

  /** The page in the middle of the screen. */
  get middle() {
    const { top, bottom } = this.sight.view;
    return this.sight.pageAt((top + bottom) / 2).number;
  }

  work() {
    const { middle } = this;
    for (const [number, load] of this.loading) if (!this.near.has(number) && !load.isAsked) load.abort.abort();
    const missing = [...this.near].filter((number) => !this.loaded.has(number) && !this.sections[number].dataset.state);
    missing.sort((a, b) => Math.abs(a - middle) - Math.abs(b - middle));
    for (const number of missing) if (this.loading.size < LOADS_AT_ONCE) this.load(number).catch(() => undefined);
    this.emptyFarPages(middle);
  }

  /** @param {number} number @param {boolean} [isAsked] for by the reader, not only near @returns {Promise<void>} */
  load(number, isAsked = false) {
    if (this.loaded.has(number)) return Promise.resolve();
    const under = this.loading.get(number);
    if (under && !under.abort.signal.aborted) {
      under.isAsked ||= isAsked;
      return under.done;
    }
    const abort = new AbortController();
    const done = this.fetchInto(number, abort.signal).finally(() => {
      if (this.loading.get(number)?.abort === abort) this.loading.delete(number);
      this.wake();
    });
    this.loading.set(number, { abort, done, isAsked });
    busy("fetching", true);
    return done;
  }

  async fetchInto(number, signal) {
    const section = this.sections[number];
    const kept = this.kept.get(number);
    if (kept) return this.sight.change(() => this.fill(number, kept));
    const first = number * this.size + 1;
    const done = waiting(section, `Fetching messages ${grouped(first)} to ${grouped(first + this.size - 1)}…`);
    try {
      const fresh = await this.fetchPage(number, signal);
      await this.sight.change(() => {
        done();
        this.describe(section, fresh);
        this.fill(number, fresh);
      });
    } catch (error) {
      done();
      if (!signal.aborted) this.fail(number, error);
      throw error;
    }
  }

  fail(number, error) {
    const section = this.sections[number];
    if (!section) return;
    section.dataset.state = "failed";
    section.replaceChildren(failure(error, () => {
      delete section.dataset.state;
      section.replaceChildren();
      this.load(number).catch(() => undefined);
    }));
  }

  /** Try again what could not be fetched while the server was away. */
  retryFailed() {
    for (const button of findAll("section[data-state=failed] > .failed > .retry", this.box)) button.click();
  }

  /** @param {number} number @param {AbortSignal} [signal] */
  async fetchPage(number, signal) {
    return find("section.page", await fetchFragment(`${this.base}/pages/${number}?branch=${this.branch}`, signal));
  }

  describe(section, fresh) {
    if (fresh.dataset.first) section.dataset.first = fresh.dataset.first;
  }

  fill(number, content) {
    const section = this.sections[number];
    this.kept.delete(number);
    // The line has become shorter meanwhile.
    if (!section) return;
    section.replaceChildren(...content.childNodes);
    section.style.height = "";
    this.loaded.add(number);
    announceContent(section);
  }

  /** @param {number} middle the page on the screen: after a jump it is known before those near it are */
  farPages(middle) {
    const low = Math.min(middle, ...this.near) - SPARE;
    const high = Math.max(middle, ...this.near) + SPARE;
    return [...this.loaded].filter((number) => (number < low || number > high) && !this.isInUse(number));
  }

  emptyFarPages(middle) {
    if (!this.farPages(middle).length) return;
    void this.sight.change(() => {
      // Frames may be long in coming: meanwhile the reader has come back, or the pages have been emptied before.
      const far = this.farPages(this.middle);
      const heights = far.map((number) => this.sections[number].getBoundingClientRect().height);
      far.forEach((number, at) => this.empty(number, heights[at]));
    });
  }

  isInUse(number) {
    const section = this.sections[number];
    const selection = getSelection();
    const isSelected = selection && !selection.isCollapsed && selection.containsNode(section, true);
    return isSelected || section.contains(document.activeElement);
  }

  empty(number, height) {
    const section = this.sections[number];
    const content = document.createDocumentFragment();
    content.append(...section.childNodes);
    section.style.height = `${height}px`;
    this.loaded.delete(number);
    this.kept.set(number, content);
    if (this.kept.size > KEPT) this.kept.delete([...this.kept.keys()][0]);
  }

  /**
   * The page of a message. Branches that were left make indices run ahead of places, so pages are looked into until
   * the right one is found.
   */
  async pageOf(index) {
    let [low, high] = [0, this.last];
    for (const [number, { dataset }] of this.sections.entries()) {
      if (Number(dataset.first) <= index) low = number;
      if (Number(dataset.first) > index) high = Math.min(high, number - 1);
    }
    for (let looks = 0; low < high; looks++) {
      // An index is never less than its place, so the first guess is the farthest the message can be.
      const farthest = low + Math.floor((index - (Number(this.sections[low].dataset.first) || 0)) / this.size);
      const guess = looks < 2 ? Math.min(Math.max(farthest, low + 1), high) : (low + high + 1) >> 1;
      const section = this.sections[guess];
      if (!section.dataset.first) this.describe(section, await this.fetchPage(guess));
      if (Number(section.dataset.first) <= index) low = guess;
      else high = guess - 1;
    }
    return low;
  }

  /** The entry that shows a message, if its page has content: a result is shown in its call. @param {number} index */
  showing(index) {
    return find(`section.page > #m${index}, section.page > [data-result="${index}"]`, this.box);
  }

  /** The entry of a message, or the last one before it. */
  async reach(index) {
    const number = await this.pageOf(index);
    await this.load(number, true);
    const entries = entriesOf(this.sections[number]);
    const own = entries.find((entry) => Number(entry.dataset.index) === index);
    return own ?? this.showing(index) ?? entries.findLast((entry) => Number(entry.dataset.index) <= index) ?? entries[0];
  }
}

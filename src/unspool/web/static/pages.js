/**
 * The pages of a transcript. Every page has an element, but only those near the screen have content, so that a session
 * of a hundred thousand messages scrolls like a short one.
 */

import { contentAdded, busy, fetchFragment, find, findAll, grouped, make } from "./dom.js";
import { failure, waiting } from "./lazy-load.js";
import { entriesOf, Viewport } from "./viewport.js";

/** Pages on each side of those near the screen that keep their content. */
const SPARE = 3;
/** Emptied pages whose elements are cached: coming back is instant, and opened details stay open. */
const CACHED = 24;
const LOADS_AT_ONCE = 3;
/** Browsers render nothing below some ten million pixels. */
const HIGHEST = 12_000_000;

export class Pages {
  /** @type {Set<number>} with content */
  loaded = new Set();
  /** @type {Set<number>} near the screen */
  near = new Set();
  /** @type {Map<number, DocumentFragment>} */
  cached = new Map();
  /** @type {Map<number, {abort: AbortController, done: Promise<void>, isRequested: boolean}>} being fetched */
  loading = new Map();
  timer = 0;

  constructor(main) {
    this.main = main;
    this.box = find("#pages", main);
    this.viewport = new Viewport(this.box);
    this.sections = this.viewport.sections;
    this.size = Number(main.dataset.pageSize);
    this.base = `/sessions/${encodeURIComponent(main.dataset.key)}`;
    this.branch = main.dataset.branch;
    this.observer = new IntersectionObserver((entries) => this.seen(entries), { rootMargin: "150% 0px" });
    this.createSections();
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

  /** Create an element for every page. */
  createSections() {
    const rendered = new Map([...this.box.children].map((section) => [Number(section.dataset.page), section]));
    const pages = Number(this.main.dataset.pages);
    this.guess = Math.min(this.box.offsetHeight / rendered.size, HIGHEST / pages);
    this.loaded = new Set(rendered.keys());
    for (let number = 0; number < pages; number++) this.addSection(number, rendered.get(number));
    // Pages that the server rendered stay where they are: moved elements would be styled and laid out again.
    const first = Math.min(...rendered.keys());
    this.box.prepend(...this.sections.slice(0, first));
    this.box.append(...this.sections.slice(first + rendered.size));
    find(".paging", this.main)?.remove();
  }

  /** @param {number} number @param {any} section rendered by the server, or made here */
  addSection(number, section = make("section", { class: "page", "data-page": String(number) })) {
    if (!this.loaded.has(number)) section.style.height = `${this.guess}px`;
    this.sections[number] = section;
    this.observer.observe(section);
  }

  /** Adjust the number of pages. @param {number} count messages */
  resize(count) {
    const pages = Math.max(Math.ceil(count / this.size), 1);
    this.main.dataset.count = String(count);
    while (this.sections.length < pages) {
      this.addSection(this.sections.length);
      this.box.append(this.sections[this.last]);
    }
    for (const section of this.sections.splice(pages)) {
      for (const known of [this.loaded, this.near, this.cached]) known.delete(Number(section.dataset.page));
      this.observer.unobserve(section);
      section.remove();
    }
  }

  /** An entry of the transcript, if its page has content. */
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
    const { top, bottom } = this.viewport.view;
    return this.viewport.pageAt((top + bottom) / 2).number;
  }

  work() {
    const { middle } = this;
    for (const [number, load] of this.loading) if (!this.near.has(number) && !load.isRequested) load.abort.abort();
    const missing = [...this.near].filter((number) => !this.loaded.has(number) && !this.sections[number].dataset.state);
    missing.sort((a, b) => Math.abs(a - middle) - Math.abs(b - middle));
    for (const number of missing) if (this.loading.size < LOADS_AT_ONCE) this.load(number).catch(() => undefined);
    this.emptyFarPages(middle);
  }

  /** @param {number} number @param {boolean} [isRequested] by the reader, not only near @returns {Promise<void>} */
  load(number, isRequested = false) {
    if (this.loaded.has(number)) return Promise.resolve();
    const running = this.loading.get(number);
    if (running && !running.abort.signal.aborted) {
      running.isRequested ||= isRequested;
      return running.done;
    }
    const abort = new AbortController();
    const done = this.fetchInto(number, abort.signal).finally(() => {
      if (this.loading.get(number)?.abort === abort) this.loading.delete(number);
      this.wake();
    });
    this.loading.set(number, { abort, done, isRequested });
    busy("fetching", true);
    return done;
  }

  async fetchInto(number, signal) {
    const section = this.sections[number];
    const cached = this.cached.get(number);
    // By the next frame, loading may have been aborted, or the page loaded again and changed.
    const fill = (content) => {
      signal.throwIfAborted();
      this.fill(number, content);
    };
    if (cached) return this.viewport.change(() => fill(cached));
    const first = number * this.size + 1;
    const done = waiting(section, `Loading messages ${grouped(first)} to ${grouped(first + this.size - 1)}…`);
    try {
      const fresh = await this.fetchPage(number, signal);
      await this.viewport.change(() => {
        done();
        fill(fresh);
        this.describe(section, fresh);
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

  /** Fetch pages again that failed while the server was not reachable. */
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
    this.cached.delete(number);
    // The branch has become shorter in the meantime.
    if (!section) return;
    section.replaceChildren(...content.childNodes);
    section.style.height = "";
    this.loaded.add(number);
    contentAdded(section);
  }

  /** @param {number} middle the page on the screen: after a jump, `near` is not up to date yet */
  farPages(middle) {
    const low = Math.min(middle, ...this.near) - SPARE;
    const high = Math.max(middle, ...this.near) + SPARE;
    return [...this.loaded].filter((number) => (number < low || number > high) && !this.isInUse(number));
  }

  emptyFarPages(middle) {
    if (!this.farPages(middle).length) return;
    void this.viewport.change(() => {
      // By the next frame the reader may have come back, or the pages may be empty already.
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
    this.cached.set(number, content);
    if (this.cached.size > CACHED) this.cached.delete([...this.cached.keys()][0]);
  }

  /**
   * The page of a message. Messages of other branches make indices run ahead of positions, so pages are fetched until
   * the right one is found.
   */
  async pageOf(index) {
    let [low, high] = [0, this.last];
    for (const [number, { dataset }] of this.sections.entries()) {
      if (Number(dataset.first) <= index) low = number;
      if (Number(dataset.first) > index) high = Math.min(high, number - 1);
    }
    for (let looks = 0; low < high; looks++) {
      // An index is never less than its position, so the first guess is the farthest possible page.
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
    const before = entries.findLast((entry) => Number(entry.dataset.index) <= index);
    return own ?? this.showing(index) ?? before ?? entries[0];
  }
}

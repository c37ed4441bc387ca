/** Updates of a transcript while it is read: new messages, results of calls, pages that have changed. */

import { contentAdded, busy, parse } from "./dom.js";
import { morph, morphChildren } from "./morph.js";
import { entriesOf, visibleEntriesOf } from "./viewport.js";

/** @typedef {{key: string, index: number, html: string, position: number}} Entry */
/** @typedef {{first: number, count: number, position: number, trail_length: number, entries?: Entry[]}} News */

/** Milliseconds before a page is fetched again that changed while it was fetched. */
const SHORTEST_PAUSE = 200;
const LONGEST_PAUSE = 10_000;

export class LiveUpdates {
  /** @type {Map<number, number>} number of changes of each page; a page fetched earlier must not undo later ones */
  versions = new Map();
  /** @type {Set<number>} pages that are being fetched again, until they show the result */
  refreshing = new Set();

  /** @param {import("./pages.js").Pages} pages */
  constructor(pages) {
    this.pages = pages;
  }

  /** Add the entries of an event. @param {News} news @returns {number} how many messages are new */
  add(news) {
    const { pages } = this;
    const before = pages.sections.length;
    const { end } = this;
    pages.resize(news.trail_length);
    if (!news.entries) {
      this.refreshFrom(this.pageAt(news.position));
      if (end) void this.toEnd(end);
      return end ? 0 : news.count;
    }
    // A page that did not exist before has nothing to fetch.
    for (let number = before; number <= pages.last; number++) pages.fill(number, document.createDocumentFragment());
    const added = new Set();
    for (const entry of news.entries) {
      if (entry.index >= news.first && !pages.entry(entry.key)) added.add(entry.index);
      void pages.viewport.change(() => this.put(entry, news), true);
    }
    return added.size;
  }

  /** The last entry and its page, if the reader is at the end. @returns {any[] | null} */
  get end() {
    const { viewport, sections, last } = this.pages;
    return viewport.isAtEnd ? [visibleEntriesOf(sections[last]).at(-1), sections[last]] : null;
  }

  /** Scroll to the new end, unless the reader has left the old one in the meantime. */
  async toEnd(end) {
    const { pages } = this;
    await pages.load(pages.last, true).catch(() => undefined);
    const { top, bottom } = end.find((element) => element?.isConnected)?.getBoundingClientRect() ?? {};
    const { view } = pages.viewport;
    if (top <= view.bottom && bottom >= view.top) pages.viewport.scrollToEnd();
  }

  pageAt(position) {
    return Math.min(Math.floor(position / this.pages.size), this.pages.last);
  }

  touch(number) {
    this.versions.set(number, (this.versions.get(number) ?? 0) + 1);
  }

  /** @param {Entry} entry @param {News} news */
  put({ key, index, html, position }, news) {
    const { pages } = this;
    const fresh = parse(html).firstElementChild;
    const old = pages.entry(key);
    if (old) {
      this.touch(Number(old.parentElement.dataset.page));
      morph(old, fresh);
      return contentAdded(old);
    }
    // A page that is cached or being fetched may contain an older version.
    if (index < news.first) this.invalidate(this.pageAt(position));
    else if (fresh.dataset.branch === pages.branch) this.append(fresh, this.pageAt(position), index);
  }

  append(fresh, number, index) {
    const { pages } = this;
    const section = pages.sections[number];
    section.dataset.first ??= index;
    if (!pages.loaded.has(number)) return this.invalidate(number);
    this.touch(number);
    const before = entriesOf(section).findLast((entry) => Number(entry.dataset.index) <= index);
    if (before) before.after(fresh);
    else section.prepend(fresh);
    contentAdded(fresh);
  }

  /** Discard the cached content of a page, and fetch it again if it is being fetched. */
  invalidate(number) {
    this.pages.cached.delete(number);
    this.pages.loading.get(number)?.done.then(() => this.refresh(number), () => undefined);
  }

  /** Fetch all pages from one on again. @param {number} from */
  refreshFrom(from) {
    for (let number = from; number <= this.pages.last; number++) {
      this.invalidate(number);
      if (this.pages.loaded.has(number)) this.refresh(number);
    }
  }

  /** Fetch a page again, until nothing changes while it is fetched. @param {number} number */
  refresh(number) {
    this.touch(number);
    // A refresh that is under way notices the change.
    if (this.refreshing.has(number)) return;
    this.refreshing.add(number);
    busy("refreshing", true);
    void this.keepRefreshing(number);
  }

  /** Called while the page is drawn, because after that the refresh no longer notices changes. */
  endRefresh(number) {
    this.refreshing.delete(number);
    busy("refreshing", this.refreshing.size > 0);
  }

  async keepRefreshing(number) {
    for (let pause = SHORTEST_PAUSE; this.pages.loaded.has(number); pause = Math.min(pause * 2, LONGEST_PAUSE)) {
      if (await this.redraw(number).catch(() => false)) return;
      await new Promise((done) => setTimeout(done, pause));
    }
    this.endRefresh(number);
    // It was cached with its old content.
    this.invalidate(number);
  }

  /** Update what differs. @returns {Promise<boolean>} false if the page changed in the meantime */
  async redraw(number) {
    const { pages } = this;
    const version = this.versions.get(number);
    const fresh = await pages.fetchPage(number);
    return pages.viewport.change(() => {
      if (version !== this.versions.get(number) || !pages.loaded.has(number)) return false;
      const section = pages.sections[number];
      pages.describe(section, fresh);
      morphChildren(section, fresh);
      contentAdded(section);
      this.endRefresh(number);
      return true;
    }, true);
  }

  /** Refresh everything, because even the branch may be a different one. */
  async refreshAll() {
    const { sections, viewport, size } = this.pages;
    const end = this.pages.count > sections.length * size ? this.end : null;
    // Messages may have been added by then.
    await viewport.change(() => this.pages.resize(this.pages.count));
    if (end) await this.toEnd(end);
    for (const { dataset } of sections) delete dataset.first;
    this.refreshFrom(0);
  }
}

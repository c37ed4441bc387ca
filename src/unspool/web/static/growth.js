/** What changes in a transcript while it is read: new messages, results of calls, pages that must be drawn again. */

import { announceContent, busy, parse } from "./dom.js";
import { morph, morphChildren } from "./morph.js";
import { entriesOf } from "./sight.js";

/** @typedef {{key: string, index: number, html: string, position: number}} Entry */
/** @typedef {{first: number, count: number, position: number, trail_length: number, entries?: Entry[]}} News */

/** Milliseconds before a page that changed while it was fetched is fetched again. */
const SHORTEST_PAUSE = 200;
const LONGEST_PAUSE = 10_000;

export class Growth {
  /** @type {Map<number, number>} how often each page was changed: one fetched before must not undo what came since */
  versions = new Map();
  /** @type {Map<number, Promise<void>>} pages that are being drawn anew */
  renewing = new Map();

  /** @param {import("./pages.js").Pages} pages */
  constructor(pages) {
    this.pages = pages;
  }

  /** Put what came with an event in its place. @param {News} news @returns {number} messages that are new */
  add(news) {
    const { pages } = this;
    const before = pages.sections.length;
    const { end } = this;
    pages.resize(news.trail_length);
    if (!news.entries) {
      this.renewFrom(this.pageAt(news.position));
      if (end) void this.toEnd(end);
      return end ? 0 : news.count;
    }
    // A page that did not exist before has nothing to be fetched.
    for (let number = before; number <= pages.last; number++) pages.fill(number, document.createDocumentFragment());
    const added = new Set();
    for (const entry of news.entries) {
      if (entry.index >= news.first && !pages.entry(entry.key)) added.add(entry.index);
      void pages.sight.change(() => this.put(entry, news), true);
    }
    return added.size;
  }

  /** The last that there is, if the reader is there: an entry, and the page it is on. @returns {any[] | null} */
  get end() {
    const { sight, sections, last } = this.pages;
    return sight.isAtEnd ? [entriesOf(sections[last]).at(-1), sections[last]] : null;
  }

  /** Who was at the end stays there, however much was added. Who has left it meanwhile is not called back. */
  async toEnd(end) {
    const { pages } = this;
    await pages.load(pages.last, true).catch(() => undefined);
    const { top, bottom } = end.find((element) => element?.isConnected)?.getBoundingClientRect() ?? {};
    const { view } = pages.sight;
    if (top <= view.bottom && bottom >= view.top) pages.sight.bringEnd();
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
      return announceContent(old);
    }
    // A page that is kept for later, or on its way, may hold it as it was.
    if (index < news.first) this.forget(this.pageAt(position));
    else if (fresh.dataset.branch === pages.branch) this.append(fresh, this.pageAt(position), index);
  }

  append(fresh, number, index) {
    const { pages } = this;
    const section = pages.sections[number];
    section.dataset.first ??= index;
    if (!pages.loaded.has(number)) return this.forget(number);
    this.touch(number);
    const before = entriesOf(section).findLast((entry) => Number(entry.dataset.index) <= index);
    if (before) before.after(fresh);
    else section.prepend(fresh);
    announceContent(fresh);
  }

  /** What is kept of a page, or on its way, is not as it should be. */
  forget(number) {
    this.pages.kept.delete(number);
    this.pages.loading.get(number)?.done.then(() => this.renew(number), () => undefined);
  }

  /** Draw anew all pages from one on. @param {number} from */
  renewFrom(from) {
    for (let number = from; number <= this.pages.last; number++) {
      this.forget(number);
      if (this.pages.loaded.has(number)) void this.renew(number);
    }
  }

  /** Draw a page anew, as often as it takes. @returns {Promise<void>} */
  renew(number) {
    this.touch(number);
    // Who is at it already notices that there is more to do.
    const under = this.renewing.get(number) ?? this.keepRenewing(number).finally(() => {
      this.renewing.delete(number);
      busy("renewing", this.renewing.size > 0);
    });
    this.renewing.set(number, under);
    busy("renewing", true);
    return under;
  }

  async keepRenewing(number) {
    for (let pause = SHORTEST_PAUSE; this.pages.loaded.has(number); pause = Math.min(pause * 2, LONGEST_PAUSE)) {
      if (await this.redraw(number).catch(() => false)) return;
      await new Promise((done) => setTimeout(done, pause));
    }
    // It was put away as it had been.
    this.forget(number);
  }

  /** Only what differs is touched. @returns {Promise<boolean>} false when the page changed meanwhile */
  async redraw(number) {
    const { pages } = this;
    const version = this.versions.get(number);
    const fresh = await pages.fetchPage(number);
    return pages.sight.change(() => {
      if (version !== this.versions.get(number) || !pages.loaded.has(number)) return false;
      const section = pages.sections[number];
      pages.describe(section, fresh);
      morphChildren(section, fresh);
      announceContent(section);
      return true;
    }, true);
  }

  /** Much may be different now, even the line of the conversation. @param {number} count its messages */
  async renewAll(count) {
    const { sections, sight, size } = this.pages;
    const end = count > sections.length * size ? this.end : null;
    await sight.change(() => this.pages.resize(count));
    if (end) await this.toEnd(end);
    for (const { dataset } of sections) delete dataset.first;
    this.renewFrom(0);
  }
}

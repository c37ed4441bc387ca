/** What changes in a transcript while it is read: new messages, results of calls, pages that must be drawn again. */

import { announceContent, parse } from "./dom.js";
import { morph, morphChildren } from "./morph.js";
import { entriesOf } from "./sight.js";

/** @typedef {{first: number, count: number, trail_length?: number, entries?: {key: string, index: number, html: string}[]}} News */

export class Growth {
  /** Counts what was added: a page fetched before must not replace what came since. */
  version = 0;

  /** @param {import("./pages.js").Pages} pages */
  constructor(pages) {
    this.pages = pages;
  }

  /** Put what came with an event in its place. @param {News} news @returns {number} messages that are new */
  add(news) {
    const { pages } = this;
    const before = pages.sections.length;
    this.version++;
    if (news.trail_length) pages.resize(news.trail_length);
    if (!news.entries) {
      for (const number of pages.loaded) if (number >= this.pageOf(news, news.first)) void this.renew(number);
      return news.count;
    }
    // A page that did not exist before has nothing to be fetched.
    for (let number = before; number <= pages.last; number++) pages.fill(number, document.createDocumentFragment());
    const added = new Set();
    for (const { key, index, html } of news.entries) {
      if (index >= news.first && !pages.entry(key)) added.add(index);
      void pages.sight.change(() => this.put(parse(html).firstElementChild, news), true);
    }
    return added.size;
  }

  /** @param {News} news */
  pageOf({ first, count }, index) {
    const position = this.pages.count - (first + count - index);
    return Math.min(Math.max(Math.floor(position / this.pages.size), 0), this.pages.last);
  }

  put(fresh, news) {
    const { pages } = this;
    const { key, branch } = fresh.dataset;
    const index = Number(fresh.dataset.index);
    const old = pages.entry(key);
    if (old) {
      morph(old, fresh);
      return announceContent(old);
    }
    // A page that is kept for later may hold it as it was.
    if (index < news.first) pages.kept.clear();
    else if (branch === pages.branch) this.append(fresh, this.pageOf(news, index), index);
  }

  append(fresh, number, index) {
    const { pages } = this;
    const section = pages.sections[number];
    section.dataset.first ??= index;
    pages.kept.delete(number);
    if (!pages.loaded.has(number)) {
      // It may be on its way, but without this entry.
      pages.loading.get(number)?.done.then(() => this.renew(number), () => undefined);
      return;
    }
    const before = entriesOf(section).findLast((entry) => Number(entry.dataset.index) <= index);
    if (before) before.after(fresh);
    else section.prepend(fresh);
    announceContent(fresh);
  }

  /** Draw a page anew; only what differs is touched. */
  async renew(number) {
    const { pages } = this;
    for (let attempt = 0; attempt < 3 && pages.loaded.has(number); attempt++) {
      const { version } = this;
      const fresh = await pages.fetchPage(number);
      if (version !== this.version || !pages.loaded.has(number)) continue;
      return pages.sight.change(() => {
        const section = pages.sections[number];
        pages.describe(section, fresh);
        morphChildren(section, fresh);
        announceContent(section);
      }, true);
    }
  }

  /** Much may be different now, even the line of the conversation. @param {number} count its messages */
  async renewAll(count) {
    const { loaded, kept, sections, sight } = this.pages;
    this.version++;
    kept.clear();
    await sight.change(() => this.pages.resize(count));
    for (const [number, { dataset }] of sections.entries()) {
      if (loaded.has(number)) await this.renew(number);
      else delete dataset.first;
    }
  }
}

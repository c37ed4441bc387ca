/** Find in session: searches on the server, steps through the matches, and expands what they are in. */

import { busy, fetchFragment, find, findAll, make, onClick, onContent } from "./dom.js";
import { bestOf, highlight, patternOf, phrasePattern, rangesIn, unfoldAround } from "./highlight.js";
import { loadDetails, loadRest } from "./lazy-load.js";
import { asTyped } from "./search.js";

const MARGIN = 120;

export class FindBar {
  bar = find("#find");
  input = find("#find-input");
  /** @type {{key: string, index: number, at: number, link: any}[]} */
  hits = [];
  at = -1;
  asked = "";
  isComplete = true;
  /** @type {() => Range[]} the words of the search result that led here */
  marked = () => [];
  ticks = make("div", { class: "found-ticks", "aria-hidden": "true" });

  /** @param {import("./navigation.js").Navigation} navigation */
  constructor(navigation) {
    this.navigation = navigation;
    this.pages = navigation.pages;
    find("#rail").prepend(this.ticks);
    this.input.addEventListener("input", asTyped((signal) => this.ask(signal)));
    this.bar.addEventListener("submit", (event) => event.preventDefault());
    this.bar.addEventListener("keydown", (event) => this.press(event));
    onClick("[data-find]", ({ dataset }) => (dataset.find === "close" ? this.close() : this.step(Number(dataset.find))));
    onClick("[data-find-open]", () => this.open());
    onContent(() => this.draw());
    this.restore();
  }

  get isOpen() {
    return this.bar.classList.contains("open");
  }

  /** A pattern that finds the last searched text in the transcript. */
  get pattern() {
    return patternOf(this.asked);
  }

  /** Show what the URL specifies: a search in this session, or the words of a search result. */
  restore() {
    const asked = new URLSearchParams(location.search);
    const words = asked.get("find");
    if (!words) return this.markWords(asked.getAll("mark"), Number(asked.get("at")));
    this.input.value = words;
    this.bar.classList.add("open");
    void this.ask(new AbortController().signal, Number(asked.get("at") ?? -1));
  }

  /** Open the bar; false if it was open and in use, so that the browser can open its own. */
  open() {
    if (this.isOpen && document.activeElement === this.input) return false;
    this.bar.classList.add("open");
    const chosen = String(getSelection()).trim();
    if (chosen && !chosen.includes("\n")) this.input.value = chosen;
    this.input.select();
    if (this.input.value.trim() !== this.asked) void this.ask(new AbortController().signal);
    return true;
  }

  close() {
    if (!this.isOpen) return false;
    this.bar.classList.remove("open");
    this.marked = () => [];
    this.show("", [], true);
    this.navigation.remember({ find: null });
    this.navigation.current?.focus({ preventScroll: true });
    return true;
  }

  press(event) {
    if (event.key === "Enter" && event.target === this.input) void this.step(event.shiftKey ? -1 : 1);
    else if (event.key === "Escape") this.close();
    else return;
    event.preventDefault();
    event.stopPropagation();
  }

  /** @param {AbortSignal} signal @param {number} [index] the message to begin at; default: the first on the screen */
  async ask(signal, index = this.navigation.index) {
    const words = this.input.value.trim();
    if (!words) return this.show("", [], true);
    busy("finding", true);
    try {
      const query = new URLSearchParams({ q: words, branch: this.pages.branch });
      const list = find(".found", await fetchFragment(`${this.pages.base}/found?${query}`, signal));
      const hits = findAll("a", list).map((link) => {
        const { key, index, at } = link.dataset;
        return { key, index: Number(index), at: Number(at), link };
      });
      this.show(words, hits, list.dataset.complete === "true");
      this.navigation.remember({ find: words });
      const next = hits.findIndex((hit) => hit.index >= index);
      if (hits.length) await this.go(Math.max(next, 0));
    } catch (error) {
      if (!signal.aborted) find(".find-count").textContent = error.message;
    } finally {
      busy("finding", false);
    }
  }

  show(words, hits, isComplete) {
    Object.assign(this, { asked: words, hits, isComplete, at: -1 });
    // Matches at the same position share a tick.
    const distinct = hits.filter(({ at }, number) => at !== hits[number - 1]?.at);
    const marks = distinct.map(({ link, at }) => {
      const tick = make("a", { href: link.href, tabindex: "-1", class: "tick", title: link.textContent.trim() });
      tick.style.top = `${at * 100}%`;
      return tick;
    });
    this.ticks.replaceChildren(...marks);
    this.count();
    this.draw();
  }

  count() {
    const total = `${this.hits.length}${this.isComplete ? "" : "+"}`;
    const position = this.at < 0 ? total : `${this.at + 1}/${total}`;
    find(".find-count").textContent = this.asked && (this.hits.length ? position : "No matches");
  }

  /** @param {number} direction */
  async step(direction) {
    const { length } = this.hits;
    if (length) await this.go((this.at + direction + length) % length);
  }

  async go(at) {
    this.at = at;
    this.count();
    const { index, key } = this.hits[at];
    // Moving gives the focus to the entry.
    const isTyping = document.activeElement === this.input;
    const going = this.navigation.goTo(index).catch(() => undefined);
    const { move } = this.navigation;
    // The reader may go elsewhere while pages and outputs are loaded.
    const isOver = () => this.at !== at || this.navigation.move !== move;
    await going;
    const entry = this.pages.entry(key) ?? this.navigation.current;
    if (!entry || isOver()) return;
    this.navigation.select(entry);
    if (isTyping) this.input.focus({ preventScroll: true });
    const [range] = await this.unfold(entry);
    if (isOver()) return;
    this.draw();
    highlight("found-here", range ? [range] : []);
    this.reveal(entry, range);
  }

  /** The best match in an entry, if any, after loading and expanding what it is in. @returns {Promise<Range[]>} */
  async unfold(entry) {
    let ranges = rangesIn(entry, this.pattern);
    for (const cut of ranges.length ? [] : findAll("button[data-load]", entry)) {
      await loadRest(cut);
      ranges = rangesIn(entry, this.pattern);
      if (ranges.length) break;
    }
    for (const details of ranges.length ? [] : findAll("details[data-load]", entry)) {
      details.open = true;
      await loadDetails(details);
      ranges = rangesIn(entry, this.pattern);
    }
    const range = bestOf(ranges);
    if (range) unfoldAround(range, entry);
    return range ? [range] : [];
  }

  reveal(entry, range) {
    const { top } = entry.getBoundingClientRect();
    const below = range ? range.getBoundingClientRect().top - top : 0;
    this.navigation.viewport.scrollTo(entry, below > innerHeight / 2 ? MARGIN - below : MARGIN);
  }

  /** Mark all matches that are on the page. */
  draw() {
    if (!this.asked) {
      highlight("found-here", []);
      return highlight("found", this.marked());
    }
    const shown = this.hits.map(({ key }) => this.pages.entry(key)).filter(Boolean);
    highlight("found", shown.flatMap((entry) => rangesIn(entry, this.pattern)));
  }

  /** Mark the words of a search result in the message it links to. @param {string[]} phrases @param {number} index */
  async markWords(phrases, index) {
    if (!phrases.length) return;
    const entry = await this.pages.reach(index).catch(() => null);
    if (!entry) return;
    const own = `section.page > [data-index="${index}"], section.page > [data-result="${index}"]`;
    const entries = () => [...new Set([...findAll(own, this.pages.box), ...(entry.isConnected ? [entry] : [])])];
    const patterns = phrases.map(phrasePattern);
    this.marked = () => entries().flatMap((one) => patterns.flatMap((pattern) => rangesIn(one, pattern)));
    for (const cut of this.marked().length ? [] : entries().flatMap((one) => findAll("button[data-load]", one))) {
      await loadRest(cut);
    }
    const best = bestOf(this.marked());
    if (best) for (const one of entries()) unfoldAround(best, one);
    this.draw();
  }
}

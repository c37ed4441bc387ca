/** Marks what is new in a session since it was last open in this browser. */

import { find, findAll, grouped, make, onContent } from "./dom.js";
import { visibleEntriesOf } from "./viewport.js";

const NAME = "unspool-seen";
/** Maximum number of sessions to remember. */
const MOST = 500;

/** @returns {Record<string, {tip: number, at: string}>} by session, the oldest first */
function remembered() {
  try {
    return JSON.parse(localStorage.getItem(NAME) ?? "{}");
  } catch {
    return {};
  }
}

export class LastSeen {
  /** The first message that is new. */
  first = Infinity;

  /** @param {import("./navigation.js").Navigation} navigation */
  constructor(navigation) {
    this.main = navigation.pages.main;
    if (this.main.dataset.branch !== "0" || !this.main.dataset.tip) return;
    const before = remembered()[this.main.dataset.key];
    if (before && before.tip < this.tip) this.show(before);
    onContent(() => this.mark());
    window.addEventListener("pagehide", () => this.save());
    document.addEventListener("visibilitychange", () => document.hidden && this.save());
  }

  get tip() {
    return Number(this.main.dataset.tip);
  }

  /** @param {{tip: number, at: string}} before */
  show({ tip, at }) {
    this.first = tip + 1;
    const box = find(".session-head .since");
    const count = this.tip - tip;
    const href = `?at=${this.first}#m${this.first}`;
    const words = `${grouped(count)} new ${count === 1 ? "message" : "messages"}`;
    box.replaceChildren(make("a", { href }, words), " since you last looked, ", make("time", { datetime: at }, at));
    box.hidden = false;
  }

  /** Mark the first new entry, if the one before it is in the page, too. */
  mark() {
    if (this.first === Infinity) return;
    const entries = findAll("section.page", this.main).flatMap(visibleEntriesOf);
    const at = entries.findIndex(({ dataset }) => Number(dataset.index) >= this.first);
    for (const entry of findAll(".first-new", this.main)) entry.classList.remove("first-new");
    if (at > 0) entries[at].classList.add("first-new");
  }

  save() {
    const all = remembered();
    const { key = "" } = this.main.dataset;
    delete all[key];
    all[key] = { tip: this.tip, at: new Date().toISOString() };
    const kept = Object.entries(all).slice(-MOST);
    try {
      localStorage.setItem(NAME, JSON.stringify(Object.fromEntries(kept)));
    } catch {
      // A browser that stores nothing has nothing to compare with next time.
    }
  }
}

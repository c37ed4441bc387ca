/** The context torch: lights what the model had before it at the current message, dims the rest and says why. */

import { announceContent, fetchFragment, fetchJson, find, findAll, onContent, toast } from "./dom.js";
import { waiting } from "./lazy.js";
import { indexOf, onMove, onOpen } from "./place.js";

export class Torch {
  /** @type {number | null} the message whose context is shown */
  point = null;
  /** @type {{first: number, last: number, state: string}[]} */
  stretches = [];
  timer = 0;
  abort = new AbortController();
  hint = find("#inspector")?.firstElementChild;

  /** @param {import("./place.js").Place} place */
  constructor(place) {
    this.place = place;
    this.main = place.pages.main;
    onMove((entry) => this.point !== null && entry && this.aim(indexOf(entry)));
    onContent((root) => this.paint(root));
    onOpen(() => this.read());
    this.read();
  }

  /** Do what the address says. */
  read() {
    const asked = new URLSearchParams(location.search).get("context") ?? "";
    if (/^\d+$/.test(asked)) this.aim(Number(asked));
    else this.end();
  }

  toggle() {
    const entry = this.place.here;
    if (this.end() || !entry) return;
    this.place.select(entry);
    this.aim(indexOf(entry));
  }

  aim(index) {
    if (index === this.point) return;
    this.point = index;
    this.place.remember({ context: index });
    clearTimeout(this.timer);
    this.timer = setTimeout(() => this.light(index), 90);
  }

  async light(index) {
    this.abort.abort();
    this.abort = new AbortController();
    const { signal } = this.abort;
    const address = `${this.place.pages.base}/context/${index}`;
    const box = find("#inspector");
    const done = waiting(box, "Finding out what the model had before it…");
    try {
      const [view, inspector] = await Promise.all([fetchJson(`/api${address}`, signal), fetchFragment(address, signal)]);
      this.stretches = view.stretches;
      this.main.classList.add("torch");
      this.paint(document);
      box.replaceChildren(inspector);
      announceContent(box);
    } catch (error) {
      if (signal.aborted) return;
      toast(error instanceof Error ? error.message : "");
      this.end();
    } finally {
      done();
    }
  }

  stateOf(index) {
    return this.stretches.find(({ first, last }) => first <= index && index <= last)?.state ?? "after";
  }

  paint(root) {
    if (!this.stretches.length) return;
    const entries = findAll(".entry[data-index]", root);
    if (root.matches?.(".entry[data-index]")) entries.push(root);
    for (const entry of entries) entry.dataset.torch = this.stateOf(Number(entry.dataset.index));
  }

  /** @returns {boolean} whether there was a light to put out */
  end() {
    if (this.point === null) return false;
    clearTimeout(this.timer);
    this.abort.abort();
    this.point = null;
    this.stretches = [];
    this.main.classList.remove("torch");
    for (const entry of findAll("[data-torch]")) entry.removeAttribute("data-torch");
    find("#inspector").replaceChildren(this.hint ?? "");
    this.place.remember({ context: null });
    return true;
  }
}

/** The context view: highlights what was in context at the current message, and dims the rest. */

import { contentAdded, fetchFragment, fetchJson, find, findAll, onClick, onContent, toast } from "./dom.js";
import { waiting } from "./lazy-load.js";
import { indexOf, onMove, onOpen } from "./navigation.js";

export class ContextView {
  /** @type {number | null} the message whose context is shown */
  index = null;
  /** @type {{first: number, last: number, state: string}[]} */
  spans = [];
  timer = 0;
  abort = new AbortController();
  /** @type {number | null} the message whose context the next one is compared with */
  since = null;
  /** @type {number | null} the message whose context the shown one is compared with */
  compared = null;
  hint = find("#inspector")?.firstElementChild;

  /** @param {import("./navigation.js").Navigation} navigation */
  constructor(navigation) {
    this.navigation = navigation;
    this.main = navigation.pages.main;
    onMove((entry) => this.index !== null && entry && this.show(indexOf(entry)));
    onContent((root) => this.paint(root));
    onOpen(() => this.read());
    onClick("[data-compare-context]", ({ dataset }) => this.compare(Number(dataset.compareContext)));
    this.read();
  }

  /** Show the context that the URL specifies, if any. */
  read() {
    const given = new URLSearchParams(location.search);
    const [asked, since] = [given.get("context") ?? "", given.get("since") ?? ""];
    this.since = /^\d+$/.test(since) ? Number(since) : null;
    if (/^\d+$/.test(asked)) this.show(Number(asked));
    else this.close();
  }

  toggle() {
    const entry = this.navigation.here;
    if (this.close() || !entry) return;
    this.navigation.select(entry);
    this.show(indexOf(entry));
  }

  /** Compare the next context that is shown with this one. */
  compare(index) {
    this.since = index;
    this.navigation.remember({ since: index });
    toast("Choose another message to see what changed in the context.");
  }

  show(index) {
    const since = this.since === index ? null : this.since;
    if (index === this.index && since === this.compared) return;
    this.index = index;
    this.compared = since;
    this.navigation.remember({ context: index });
    clearTimeout(this.timer);
    this.timer = setTimeout(() => this.load(index, since), 90);
  }

  async load(index, since) {
    this.abort.abort();
    this.abort = new AbortController();
    const { signal } = this.abort;
    const address = `${this.navigation.pages.base}/context/${index}`;
    const box = find("#inspector");
    const done = waiting(box, "Loading the context…");
    try {
      const query = since === null ? "" : `?since=${since}`;
      const requests = [fetchJson(`/api${address}`, signal), fetchFragment(address + query, signal)];
      const [view, inspector] = await Promise.all(requests);
      this.spans = view.stretches;
      this.main.classList.add("context-view");
      this.paint(document);
      box.replaceChildren(inspector);
      contentAdded(box);
    } catch (error) {
      if (signal.aborted) return;
      toast(error instanceof Error ? error.message : "");
      this.close();
    } finally {
      done();
    }
  }

  stateOf(index) {
    return this.spans.find(({ first, last }) => first <= index && index <= last)?.state ?? "after";
  }

  paint(root) {
    if (!this.spans.length) return;
    const entries = findAll(".entry[data-index]", root);
    if (root.matches?.(".entry[data-index]")) entries.push(root);
    for (const entry of entries) entry.dataset.contextState = this.stateOf(Number(entry.dataset.index));
  }

  /** @returns {boolean} whether a context was shown */
  close() {
    if (this.index === null) return false;
    clearTimeout(this.timer);
    this.abort.abort();
    this.index = null;
    this.spans = [];
    this.main.classList.remove("context-view");
    for (const entry of findAll("[data-context-state]")) entry.removeAttribute("data-context-state");
    find("#inspector").replaceChildren(this.hint ?? "");
    this.since = null;
    this.navigation.remember({ context: null, since: null });
    return true;
  }
}

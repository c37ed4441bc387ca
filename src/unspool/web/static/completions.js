/** Completes commands (`/`) and files (`@`) in the composer, from what the agent and the project offer. */

import { debounce, fetchJson, find, findAll, make } from "./dom.js";

/** A command at the start of the message, or a file anywhere. */
const WORD = /^\/\S*$|(?<=^|\s)@\S*$/;

export class Completions {
  /** Number of the latest request: responses to earlier ones are ignored. */
  requests = 0;
  fetch = debounce(() => this.update(), 80);

  /** @param {any} box the composer, which is redrawn */
  constructor(box) {
    this.box = box;
    box.addEventListener("input", ({ target }) => target.matches("#message") && this.fetch());
    // Capture the keys before the composer handles them.
    document.addEventListener("keydown", (event) => this.onKey(event), true);
    box.addEventListener("mousedown", (event) => {
      const item = event.target.closest(".completions li");
      if (!item) return;
      event.preventDefault();
      this.accept(item);
    });
    box.addEventListener("focusout", ({ target }) => target.matches("#message") && this.show([]));
  }

  get area() {
    return find("#message", this.box);
  }

  get list() {
    return find(".completions", this.box);
  }

  /** The word before the cursor, if it can be completed. */
  get word() {
    const { value, selectionStart } = this.area;
    return WORD.exec(value.slice(0, selectionStart))?.[0];
  }

  async update() {
    const { word } = this;
    const { run } = this.box.dataset;
    if (!word || !run) return this.show([]);
    const request = ++this.requests;
    const found = await fetchJson(`/api/runs/${run}/completions?word=${encodeURIComponent(word)}`).catch(() => []);
    if (request === this.requests && this.word === word) this.show(found);
  }

  show(found) {
    const { list } = this;
    const items = found.map(({ text, detail }, index) => {
      const attributes = { role: "option", "data-text": text, "aria-selected": String(!index) };
      return make("li", attributes, text, ...(detail ? [" ", make("small", {}, detail)] : []));
    });
    list.replaceChildren(...items);
    list.hidden = !items.length;
  }

  accept({ dataset: { text } }) {
    const { area, word } = this;
    const end = area.selectionStart;
    if (word) area.setRangeText(`${text} `, end - word.length, end, "end");
    this.show([]);
    area.focus();
    area.dispatchEvent(new Event("input", { bubbles: true }));
  }

  onKey(event) {
    if (event.target !== this.area || this.list.hidden) return;
    const items = findAll("li", this.list);
    const here = items.findIndex((item) => item.ariaSelected === "true");
    const step = { ArrowDown: 1, ArrowUp: -1 }[event.key];
    if (step) {
      const next = (here + step + items.length) % items.length;
      items.forEach((item, index) => item.setAttribute("aria-selected", String(index === next)));
      items[next].scrollIntoView({ block: "nearest" });
    } else if (event.key === "Tab" || (event.key === "Enter" && !event.ctrlKey && !event.metaKey)) this.accept(items[here]);
    else if (event.key === "Escape") this.show([]);
    else return;
    event.preventDefault();
    event.stopImmediatePropagation();
  }
}

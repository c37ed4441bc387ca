/**
 * Go to anything: views, sessions by title, and places in sessions by what was said there.
 */

import { fetchFragment, fetchJson, find, findAll, make } from "./dom.js";
import { asTyped } from "./search.js";

const VIEWS = [
  ["Sessions", "/"], ["Rejections", "/events/rejections"], ["Interruptions", "/events/interruptions"],
  ["Compactions", "/events/compactions"], ["Context clears", "/events/clears"], ["Errors", "/events/errors"],
  ["Never finished", "/events/orphans"], ["Stats", "/stats"],
];

/** @param {string} kind @param {string} label @param {string} href */
function option(kind, label, href) {
  const link = make("a", { href, tabindex: "-1" }, make("span", { class: "kind" }, kind), ` ${label}`);
  return make("li", { role: "option" }, link);
}

export class Palette {
  constructor() {
    this.dialog = find("dialog#palette");
    this.input = find("#palette-input");
    this.list = find("#palette-list");
    if (!this.dialog) return;
    const type = asTyped((signal) => this.ask(signal));
    this.input.addEventListener("input", type);
    this.dialog.addEventListener("keydown", (event) => this.press(event));
    this.dialog.addEventListener("click", (event) => event.target === this.dialog && this.dialog.close());
  }

  open() {
    if (!this.dialog || this.dialog.open) return;
    this.dialog.showModal();
    this.input.select();
    void this.ask(new AbortController().signal);
  }

  async ask(signal) {
    const words = this.input.value.trim();
    const views = VIEWS.filter(([name]) => name.toLowerCase().includes(words.toLowerCase()));
    const found = views.map(([name, href]) => option("view", name, href));
    if (words) found.push(option("search", words, `/search?${new URLSearchParams({ q: words })}`));
    this.show(found);
    const query = new URLSearchParams({ q: words, limit: "8" });
    const [sessions, hits] = await Promise.allSettled([
      fetchJson(`/api/sessions?${query}`, signal),
      words ? fetchFragment(`/results?${query}`, signal) : Promise.reject(),
    ]);
    if (signal.aborted) return;
    if (sessions.status === "fulfilled") found.unshift(...this.sessionsOf(sessions.value));
    if (hits.status === "fulfilled") {
      for (const link of findAll("li > a", hits.value).slice(0, 12)) {
        link.tabIndex = -1;
        found.push(make("li", { role: "option" }, link));
      }
    }
    this.show(found);
  }

  /** @param {{sessions: any[]}} answer */
  sessionsOf({ sessions }) {
    return sessions.map(({ row }) => option(row.agent, row.title || row.name, `/sessions/${encodeURIComponent(row.name)}`));
  }

  /** @param {HTMLElement[]} options */
  show(options) {
    options.forEach((each, at) => (each.id = `palette-${at}`));
    this.list.replaceChildren(...options);
    this.choose(0);
  }

  choose(at) {
    const options = findAll("[role=option]", this.list);
    this.at = options.length ? (at + options.length) % options.length : 0;
    options.forEach((each, place) => each.setAttribute("aria-selected", String(place === this.at)));
    options[this.at]?.scrollIntoView({ block: "nearest" });
    this.input.setAttribute("aria-activedescendant", options[this.at]?.id ?? "");
  }

  /** @param {KeyboardEvent} event */
  press(event) {
    const step = { ArrowDown: 1, ArrowUp: -1 }[event.key];
    if (step) this.choose((this.at ?? 0) + step);
    else if (event.key === "Enter") find("[aria-selected=true] > a", this.list)?.click();
    else return;
    event.preventDefault();
  }
}

/** The command palette: views, sessions by title, and messages by their text. */

import { fetchFragment, fetchJson, find, findAll, make } from "./dom.js";
import { asTyped } from "./search.js";

const MOST_HITS = 12;

const link = (kind, label, href) => make("a", { href }, make("span", { class: "kind" }, kind), ` ${label}`);

export class Palette {
  dialog = find("#palette");
  input = find("#palette-input");
  list = find("#palette-list");
  at = 0;

  constructor() {
    this.input.addEventListener("input", asTyped((signal) => this.ask(signal)));
    this.dialog.addEventListener("keydown", (event) => this.press(event));
    this.dialog.addEventListener("click", ({ target }) => target === this.dialog && this.dialog.close());
  }

  open() {
    if (this.dialog.open) return;
    this.dialog.showModal();
    this.input.select();
    void this.ask(new AbortController().signal);
  }

  async ask(signal) {
    const words = this.input.value.trim();
    const query = new URLSearchParams({ q: words });
    const views = [["Sessions", "/"], ...findAll(".views a").map(({ textContent, href }) => [textContent, href])];
    const meant = views.filter(([name]) => name.toLowerCase().includes(words.toLowerCase()));
    const known = meant.map(([name, href]) => link("view", name, href));
    if (words) known.push(link("search", words, `/search?${query}`));
    this.show(known);
    const [sessions, hits] = await Promise.all([
      fetchJson(`/api/sessions?${query}&limit=8`, signal).then((answer) => answer.sessions, () => []),
      words ? fetchFragment(`/results?${query}`, signal).then((found) => findAll("li > a", found), () => []) : [],
    ]);
    if (signal.aborted) return;
    const href = ({ name }) => `/sessions/${encodeURIComponent(name)}`;
    const named = sessions.map(({ row }) => link(row.agent, row.title || row.name, href(row)));
    this.show([...named, ...known, ...hits.slice(0, MOST_HITS)]);
  }

  show(links) {
    for (const [at, each] of links.entries()) {
      Object.assign(each, { tabIndex: -1, role: "option", id: `palette-${at}` });
    }
    this.list.replaceChildren(...links.map((each) => make("li", { role: "none" }, each)));
    this.choose(0);
  }

  choose(at) {
    const options = findAll("[role=option]", this.list);
    this.at = options.length ? (at + options.length) % options.length : 0;
    for (const option of options) option.ariaSelected = String(option === options[this.at]);
    options[this.at]?.scrollIntoView({ block: "nearest" });
    this.input.setAttribute("aria-activedescendant", `palette-${this.at}`);
  }

  press(event) {
    const step = { ArrowDown: 1, ArrowUp: -1 }[event.key];
    if (step) this.choose(this.at + step);
    else if (event.key === "Enter") find("[aria-selected=true]", this.list)?.click();
    else return;
    event.preventDefault();
  }
}

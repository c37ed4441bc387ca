/** The command palette: views, sessions by title, and messages by their text. */

import { contentAdded, fetchFragment, fetchJson, find, findAll, make } from "./dom.js";
import { asTyped } from "./search.js";

const MOST_HITS = 12;
/** Characters of a title that affect the text around them. */
const CONTROLS = /[\p{Cc}\u061c\u200e\u200f\u202a-\u202e\u2066-\u2069]/gu;

/** @param {string} text from a transcript, which the API does not change */
const harmless = (text) => text.replace(CONTROLS, "\ufffd");

const link = (kind, label, href, ...more) =>
  make("a", { href }, make("span", { class: "kind" }, kind), make("span", { class: "label" }, label), ...more);

/** A session, with its project and when it was last active. */
function sessionLink({ row, shown_title }) {
  const project = make("span", {}, harmless((row.project ?? "").split(/[\\/]/).at(-1)));
  const when = row.ended_at ? [make("time", { datetime: row.ended_at }, row.ended_at.slice(0, 10))] : [];
  const href = `/sessions/${encodeURIComponent(/\/|^\d+$/.test(row.name) ? row.id : row.name)}`;
  return link(row.agent, harmless(shown_title), href, make("span", { class: "where-from" }, project, " ", ...when));
}

export class Palette {
  dialog = find("#palette");
  input = find("#palette-input");
  list = find("#palette-list");
  at = 0;
  /** The reader has chosen something since the last keystroke. */
  isMoved = false;
  /** The words whose titles are listed. @type {string | undefined} */
  answered;
  /** Enter was pressed before the titles for the typed text had arrived. */
  isEntered = false;

  constructor() {
    this.input.addEventListener("input", () => (this.isEntered = false));
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
    this.isMoved = false;
    const words = this.input.value.trim();
    const query = new URLSearchParams({ q: words });
    // On a narrow screen, the menu also holds the links that are outside of it on a wide one.
    const linked = new Map(findAll(".views a").map(({ href, textContent }) => [href, textContent]));
    const views = [["Sessions", "/"], ...[...linked].map(([href, name]) => [name, href])];
    const meant = views.filter(([name]) => name.toLowerCase().includes(words.toLowerCase()));
    const known = meant.map(([name, href]) => link("view", name, href));
    if (words) known.push(link("search", words, `/search?${query}`));
    let [named, hits] = [[], []];
    // Titles arrive long before the results of the full-text search.
    const show = () => signal.aborted || this.show([...named, ...known, ...hits]);
    show();
    await Promise.all([
      fetchJson(`/api/sessions?${query}&limit=8`, signal).then((answer) => {
        named = answer.sessions.map(sessionLink);
        show();
      }, () => undefined).then(() => signal.aborted || this.settled(words)),
      words && fetchFragment(`/results?${query}&brief=1`, signal).then((found) => {
        hits = findAll("section.result li > a", found).slice(0, MOST_HITS);
        show();
      }, () => undefined),
    ]);
  }

  /** The titles for some words are listed. */
  settled(words) {
    this.answered = words;
    if (this.isEntered) this.enter();
  }

  /** Follow the selected link, as soon as the list is for the typed text. */
  enter() {
    this.isEntered = !this.isMoved && this.answered !== this.input.value.trim();
    if (!this.isEntered) find("[aria-selected=true]", this.list)?.click();
  }

  show(links) {
    for (const [at, each] of links.entries()) {
      Object.assign(each, { tabIndex: -1, role: "option", id: `palette-${at}` });
    }
    const chosen = find("[aria-selected=true]", this.list)?.href;
    this.list.replaceChildren(...links.map((each) => make("li", { role: "none" }, each)));
    contentAdded(this.list);
    // Results that arrive later do not change the selection.
    this.choose(this.isMoved ? Math.max(links.findIndex(({ href }) => href === chosen), 0) : 0);
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
    this.isMoved ||= Boolean(step);
    if (step) this.choose(this.at + step);
    else if (event.key === "Enter") this.enter();
    else return;
    event.preventDefault();
  }
}

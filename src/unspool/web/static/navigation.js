/** The current entry, moving to another one, and a URL that leads back to this view. */

import { busy, find, inside, onContent } from "./dom.js";
import { onScroll, visibleEntriesOf } from "./viewport.js";

const MOVED = "unspool:current";
const OPENED = "unspool:address";
const MARGIN = 12;
/** The hash of a problem, which is between messages. */
const PROBLEM = /^#problem\d+$/;

/** Call a listener when another entry becomes the current one. @param {(entry: HTMLElement | null) => void} listener */
export const onMove = (listener) =>
  document.addEventListener(MOVED, ({ detail }) => listener(detail));

/** Call a listener when the URL changes to another view. @param {() => void} listener */
export const onOpen = (listener) => document.addEventListener(OPENED, listener);

/** The message an entry belongs to, or the one before it. @param {Element | null} entry */
export function indexOf(entry) {
  const index = entry?.getAttribute("data-index");
  return entry && index === null ? indexOf(entry.previousElementSibling) : Number(index ?? 0);
}

/** The message that an address points to. @param {URL | Location} url */
function messageIn(url) {
  const asked = /^#m(\d+)$/.exec(url.hash)?.[1] ?? new URLSearchParams(url.search).get("at") ?? "";
  return /^\d+$/.test(asked) ? Number(asked) : null;
}

export class Navigation {
  /** @type {string | null} `data-key` of the current entry: its element can be removed and added again */
  key = null;
  /** Number of the last move: a later move cancels an earlier one. */
  move = 0;
  timer = 0;
  search = location.search;
  /** @type {{key: string, index: number} | null} the message last moved to, and the entry that shows it */
  reached = null;

  /** @param {import("./pages.js").Pages} pages */
  constructor(pages) {
    this.pages = pages;
    this.viewport = pages.viewport;
    history.scrollRestoration = "manual";
    onScroll(() => this.writeSoon());
    window.addEventListener("popstate", () => location.search !== this.search && this.open());
    // Only if something is not written yet: finding the position takes as long as a layout of the whole page.
    window.addEventListener("pagehide", () => this.timer && this.write());
    document.addEventListener("click", (event) => this.clicked(event));
    onContent(() => this.mark(this.current));
  }

  get current() {
    return this.key === null ? null : this.pages.entry(this.key);
  }

  /** The current entry while it is on the screen, otherwise the first there. */
  get here() {
    const { current } = this;
    return current && this.viewport.isVisible(current) ? current : this.viewport.topEntry;
  }

  /** The current message: the one moved to, even if its entry begins with an earlier one. */
  get index() {
    const { here, reached } = this;
    return here && here.dataset.key === reached?.key ? reached.index : indexOf(here);
  }

  mark(entry) {
    entry?.classList.add("current");
    entry?.setAttribute("aria-current", "true");
  }

  select(entry, isFocused = false) {
    this.current?.classList.remove("current");
    this.current?.removeAttribute("aria-current");
    this.key = entry?.dataset.key ?? null;
    this.mark(entry);
    if (isFocused) entry?.focus({ preventScroll: true });
    this.writeSoon();
    document.dispatchEvent(new CustomEvent(MOVED, { detail: entry }));
  }

  clicked(event) {
    if (event.defaultPrevented || event.ctrlKey || event.metaKey || event.shiftKey || event.altKey) return;
    const link = inside(event, "a[href]");
    if (link?.dataset.toggleNotes) return this.toggleNotes(link, event);
    if (link) return this.followed(new URL(link.href), event);
    const entry = inside(event, "section.page > .entry");
    if (entry && getSelection()?.isCollapsed) this.select(entry);
  }

  /** Show or hide the notes of the agent program, without moving what is being read. */
  toggleNotes(link, event) {
    event.preventDefault();
    const mode = link.dataset.toggleNotes;
    const isShown = mode === "show";
    this.remember({ notes: isShown ? mode : null });
    link.dataset.toggleNotes = isShown ? "hide" : "show";
    link.textContent = isShown ? "Hide notes" : "Show notes";
    void this.viewport.change(() => (this.pages.main.dataset.notes = mode));
  }

  /** Follow a link to a message on this branch without loading the page again. */
  async followed(url, event) {
    // A link to another pane repeats the address of this page, including its message.
    const index = /^(#m\d+)?$/.test(url.hash) ? messageIn(url) : null;
    const asked = url.searchParams;
    const isHere = url.origin + url.pathname === location.origin + location.pathname;
    if (index === null || !isHere || (asked.get("branch") ?? this.pages.branch) !== this.pages.branch) return;
    event.preventDefault();
    this.write();
    // On a small screen, switch back from the pane with the link to the transcript.
    if (/^#[^m]/.test(location.hash)) location.hash = "#reading";
    history.pushState(null, "", this.address({ at: index, y: null, context: asked.get("context") }));
    await this.open();
    const isShown = find(`#m${index}`, this.pages.box) || this.pages.showing(index);
    if (!isShown && !inside(event, ".mark")) location.replace(url);
  }

  /** @param {number} index @param {number} [below] pixels under the upper edge */
  async goTo(index, below = MARGIN) {
    const move = ++this.move;
    const entry = await this.pages.reach(index);
    if (!entry || move !== this.move) return;
    this.reached = { key: entry.dataset.key, index };
    this.select(entry, true);
    this.viewport.scrollTo(entry, below);
  }

  async goToEnd() {
    const move = ++this.move;
    this.viewport.scrollToEnd();
    await this.pages.load(this.pages.last, true);
    if (move === this.move) this.viewport.scrollToEnd();
  }

  /** @param {number} share of the session, 0 to 1 */
  goToShare(share) {
    const { count, size, last, sections } = this.pages;
    const position = Math.min(Math.max(share, 0), 1) * count;
    const number = Math.min(Math.floor(position / size), last);
    const above = (position - number * size) / (this.pages.lengthOf(number) || 1);
    this.move++;
    this.viewport.scrollTo(sections[number], -above * sections[number].getBoundingClientRect().height);
  }

  /** Move to the next entry that matches. @param {1 | -1} direction @param {(entry: any) => boolean} fits */
  async step(direction, fits = () => true) {
    const move = ++this.move;
    const entry = await this.next(direction, fits);
    if (!entry || move !== this.move) return;
    this.select(entry, true);
    this.reveal(entry);
  }

  async next(direction, fits) {
    const { current, pages } = this;
    // Entries get their height late: one that was pushed just off the screen is still where the reader is.
    const start = current && this.viewport.isNear(current) ? current : this.here;
    if (!start || (start !== this.current && direction > 0 && fits(start))) return start;
    let number = Number(start.parentElement.dataset.page);
    let entries = visibleEntriesOf(pages.sections[number]);
    let at = entries.indexOf(start) + direction;
    for (;;) {
      for (; entries[at]; at += direction) if (fits(entries[at])) return entries[at];
      number += direction;
      if (!pages.sections[number]) return null;
      await pages.load(number, true);
      entries = visibleEntriesOf(pages.sections[number]);
      at = direction > 0 ? 0 : entries.length - 1;
    }
  }

  /** Scroll as little as needed to show all of an entry. */
  reveal(entry) {
    const { top, height, bottom } = entry.getBoundingClientRect();
    const view = this.viewport.view;
    const available = view.bottom - view.top - MARGIN;
    if (top < view.top + MARGIN || height > available - MARGIN) this.viewport.scrollTo(entry, MARGIN);
    else if (bottom > view.bottom - MARGIN) this.viewport.scrollTo(entry, available - height);
  }

  /** Show what the URL points to. */
  async open() {
    const asked = new URLSearchParams(location.search);
    const index = messageIn(location);
    this.search = location.search;
    document.dispatchEvent(new Event(OPENED));
    // A page that cannot be fetched shows the error itself.
    if (index !== null) await this.goTo(index, -Number(asked.get("y") ?? -MARGIN)).catch(() => undefined);
    if (PROBLEM.test(location.hash)) this.goToProblem(find(location.hash, this.pages.box));
    else if (index === null && !location.hash && !asked.has("page")) scrollTo(0, 0);
  }

  goToProblem(entry) {
    if (!entry) return;
    this.select(entry, true);
    this.viewport.scrollTo(entry, MARGIN);
  }

  /** The address with some parameters changed; null removes one. @param {Record<string, any>} changes */
  address(changes) {
    const url = new URL(location.href);
    if (url.hash.startsWith("#m") || PROBLEM.test(url.hash)) url.hash = "";
    const branch = this.pages.branch === "0" ? null : this.pages.branch;
    for (const [name, value] of Object.entries({ ...changes, branch, page: null })) {
      if (value === null) url.searchParams.delete(name);
      else url.searchParams.set(name, value);
    }
    return url.href;
  }

  /** Store a part of the view in the URL. @param {Record<string, any>} changes */
  remember(changes) {
    const address = this.address(changes);
    if (address !== location.href) history.replaceState(null, "", address);
    this.search = location.search;
  }

  writeSoon() {
    // Some browsers limit changes to a hundred in half a minute.
    this.timer ||= setTimeout(() => this.write(), 350);
    busy("writing", true);
  }

  write() {
    clearTimeout(this.timer);
    this.timer = 0;
    busy("writing", false);
    const entry = this.here;
    if (!entry) return;
    const isTop = this.key === null && scrollY <= 0;
    const above = Math.round(this.viewport.view.top - entry.getBoundingClientRect().top);
    this.remember(isTop ? { at: null, y: null } : { at: indexOf(entry), y: above || null });
  }
}

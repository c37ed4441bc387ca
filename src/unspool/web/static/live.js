/** Keeps what is shown in step with what happens: new messages, the list of sessions, the time line, the head. */

import { announceContent, calmly, fetchFragment, find, findAll, grouped, toast, whisper } from "./dom.js";
import { morph } from "./morph.js";
import { onScroll } from "./sight.js";
import { listen } from "./stream.js";

export class Live {
  main = find("main");
  session = this.main.dataset.session ?? "";
  seq = Number(document.body.dataset.seq) || 0;
  pill = find("#new-messages");
  unread = 0;
  offlineTimer = 0;
  refreshList = calmly(() => this.fetchList(), 1000);
  refreshHead = calmly(() => this.fetchHead(), 1500);
  refreshMain = calmly(async () => {
    morph(this.main, find("main", await fetchFragment(location.href)));
    announceContent(this.main);
  }, 3000);
  renewAll = calmly(async () => {
    await this.fetchHead();
    await this.reading?.growth.renewAll(this.reading.place.pages.count);
  }, 700);

  /** @param {import("./app.js").Reading} reading */
  constructor(reading) {
    this.reading = reading;
    this.sight = reading?.place.sight;
    onScroll(() => this.readUp());
    this.pill.addEventListener("click", () => reading?.place.goToEnd());
    const where = () => ({ seq: this.seq, session: this.session });
    listen("/api/events", where, (event) => this.hear(event), (isOnline) => this.show(isOnline));
  }

  show(isOnline) {
    const banner = find("#offline");
    document.documentElement.dataset.stream = isOnline ? "open" : "broken";
    // A stream that is only renewed is no reason to alarm anybody.
    if (!isOnline) return void (this.offlineTimer ||= setTimeout(() => (banner.hidden = false), 1500));
    clearTimeout(this.offlineTimer);
    this.offlineTimer = 0;
    banner.hidden = true;
    this.reading?.place.pages.retryFailed();
  }

  hear(event) {
    if (event.kind === "progress") return this.showProgress(event);
    this.seq = event.seq;
    this.refreshList();
    const kind = document.body.dataset.pageKind;
    if (kind === "events" && /^(events|session|resync)/.test(event.kind)) this.refreshMain();
    const isOurs = event.kind === "resync" || String(event.session?.id) === this.session;
    if (isOurs && this.reading) this.apply(event, this.reading);
  }

  apply(event, { growth, rail, place }) {
    rail.refresh();
    if (event.kind === "messages.appended" && place.pages.branch === "0") this.tell(growth.add(event));
    if (event.kind === "session.forgotten") toast("This session has been forgotten.");
    if (/superseded|^(branches|subagents|events|resync)/.test(event.kind)) this.renewAll();
    else this.refreshHead();
  }

  /** @param {number} added messages */
  tell(added) {
    if (!added) return;
    whisper(added === 1 ? "A new message" : `${grouped(added)} new messages`);
    if (this.sight?.isAtEnd) return;
    this.unread += added;
    this.pill.textContent = `${grouped(this.unread)} new ↓`;
    this.pill.hidden = false;
  }

  readUp() {
    if (!this.unread || !this.sight?.isAtEnd) return;
    this.unread = 0;
    this.pill.hidden = true;
  }

  /** @param {{done: number, total: number}} event */
  showProgress({ done, total }) {
    const box = find("[data-progress]");
    if (!box) return;
    box.hidden = done >= total;
    box.textContent = `Reading sessions: ${grouped(done)} of ${grouped(total)}`;
  }

  async fetchHead() {
    if (!this.reading) return;
    const { place } = this.reading;
    const { base, branch: before } = place.pages;
    // A line that was left may have got another number; its last message tells which.
    const line = before === "0" ? "" : `&at=${this.main.dataset.tip}`;
    const page = await fetchFragment(`${base}?branch=${before}${line}`);
    const [old, { count, live, branch }] = [find(".session-head"), find("main", page).dataset];
    morph(old, find(".session-head", page));
    announceContent(old);
    Object.assign(this.main.dataset, { count, live, branch });
    place.pages.branch = branch;
    if (branch !== before) place.remember({});
  }

  async fetchList() {
    const old = find("#sessions");
    if (!old) return;
    const isPage = document.body.dataset.pageKind === "sessions";
    const query = new URLSearchParams(isPage ? location.search : { q: find("#filter")?.value ?? "" });
    morph(old, find("#sessions", await fetchFragment(`/list?${query}`)));
    const here = `[data-session="${this.session}"]`;
    for (const link of findAll(`li${here} > a, a${here}`, old)) link.ariaCurrent = "page";
    announceContent(old);
    // A filtered list does not tell how many there are.
    if ([...query.values()].some(Boolean)) return;
    const live = findAll("li[data-live=true]", old).length;
    find(".bar .live").hidden = !live;
    find(".bar .live [data-count]").textContent = live;
  }
}

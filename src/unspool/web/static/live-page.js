/** Keeps the page up to date: new messages, the list of sessions, the timeline, the header. */

import { contentAdded, debounce, fetchFragment, find, findAll, grouped, RequestOrder, toast, announce } from "./dom.js";
import { morph } from "./morph.js";
import { onScroll } from "./viewport.js";
import { listen } from "./event-stream.js";
import { onRun } from "./runs.js";
import { fetchList } from "./search.js";

/** Events that a hidden page keeps; when there are more, it fetches everything again. */
const MOST_POSTPONED = 100;

export class LivePage {
  main = find("main");
  session = this.main.dataset.session ?? "";
  seq = Number(document.body.dataset.seq) || 0;
  pill = find("#new-messages");
  unread = 0;
  offlineTimer = 0;
  /** Number of events of the session that were applied. */
  applied = 0;
  /** @type {any[]} events of the session that arrived while the page was hidden */
  postponed = [];
  heads = new RequestOrder();
  mains = new RequestOrder();
  refreshList = debounce(() => this.fetchList(), 1000);
  refreshHead = debounce(() => this.fetchHead(), 1500);
  /** Sooner than anything else, so that the parts of the page do not contradict each other. */
  refreshStates = debounce(() => Promise.all([this.fetchList(), this.fetchHead()]), 60);
  refreshMain = debounce(async () => {
    const isLatest = this.mains.next();
    const fresh = find("main", await fetchFragment(location.href));
    if (!isLatest()) return;
    morph(this.main, fresh);
    contentAdded(this.main);
  }, 3000);
  refreshAll = debounce(async () => {
    if (await this.fetchHead()) await this.reading?.updates.refreshAll();
    else this.refreshAll();
  }, 700);

  /** @param {import("./app.js").Reading} reading */
  constructor(reading) {
    this.reading = reading;
    this.viewport = reading?.navigation.viewport;
    onScroll(() => this.clearUnread());
    this.pill.addEventListener("click", () => reading?.navigation.goToEnd());
    onRun((event) => this.handleRun(event));
    const position = () => ({ seq: this.seq, session: this.session });
    const onEvent = (event) => this.handle(event);
    listen({ path: "/api/events", position, onEvent, onState: (isOnline) => this.show(isOnline) });
  }

  show(isOnline) {
    const banner = find("#offline");
    document.documentElement.dataset.stream = isOnline ? "open" : "broken";
    // A stream that only reconnects is no reason to show a warning.
    if (!isOnline) return void (this.offlineTimer ||= setTimeout(() => (banner.hidden = false), 1500));
    clearTimeout(this.offlineTimer);
    this.offlineTimer = 0;
    banner.hidden = true;
    this.reading?.navigation.pages.retryFailed();
  }

  handle(event) {
    if (event.kind === "progress") return this.showProgress(event);
    if (event.kind === "updates.slow") return this.showDelay(event);
    this.seq = event.seq;
    this.refreshList();
    const kind = document.body.dataset.pageKind;
    if (kind === "events" && /^(events|session|resync)/.test(event.kind)) this.refreshMain();
    const isOurs = event.kind === "resync" || String(event.session?.id) === this.session;
    if (!isOurs || !this.reading) return;
    if (document.hidden) this.postpone(event);
    else this.apply(event, this.reading);
  }

  /** Hidden pages wait, so that the visible one is updated first. */
  postpone(event) {
    if (!this.postponed.length) {
      document.addEventListener("visibilitychange", () => this.applyPostponed(), { once: true });
    }
    if (this.postponed.length < MOST_POSTPONED) this.postponed.push(event);
    else this.postponed = [{ ...event, kind: "resync" }];
  }

  applyPostponed() {
    for (const event of this.postponed.splice(0)) this.apply(event, this.reading);
  }

  /** What the supervisor reports outranks the log, so it is shown at once. */
  handleRun({ kind, run, state }) {
    if (kind === "words") return;
    this.refreshList();
    const { run: ours, lastRun } = find("#composer")?.dataset ?? {};
    // After a resync any run may have ended.
    if (!this.reading || (kind !== "resync" && run !== ours && run !== lastRun)) return;
    this.refreshStates();
    if (/^(resync|asked|answered|withdrawn|turn_ended)$/.test(kind) || state === "ended") this.refreshAll();
  }

  apply(event, { updates, rail, navigation }) {
    this.applied += 1;
    rail.refresh();
    if (event.kind === "messages.appended" && navigation.pages.branch === "0") this.announceNew(updates.add(event));
    if (event.kind === "session.forgotten") toast("This session has been deleted from the store.");
    if (/superseded|^(branches|subagents|events|resync)/.test(event.kind)) this.refreshAll();
    else this.refreshHead();
  }

  /** @param {number} added messages */
  announceNew(added) {
    if (!added) return;
    announce(added === 1 ? "1 new message" : `${grouped(added)} new messages`);
    if (this.viewport?.isAtEnd) return;
    this.unread += added;
    this.pill.textContent = `${grouped(this.unread)} new ↓`;
    this.pill.hidden = false;
  }

  clearUnread() {
    if (!this.unread || !this.viewport?.isAtEnd) return;
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

  /** @param {{reason: string}} event */
  showDelay({ reason }) {
    const box = find("[data-delay]");
    if (!box) return;
    find("[data-reason]", box).textContent = reason;
    box.hidden = false;
  }

  /** @returns {Promise<boolean>} false if events arrived in the meantime: then it is fetched again */
  async fetchHead() {
    if (!this.reading) return true;
    const { applied, reading: { navigation, rail } } = this;
    const { base, branch: before } = navigation.pages;
    // The number of an abandoned branch can change; its last message identifies it.
    const tip = before === "0" ? "" : `&at=${this.main.dataset.tip}`;
    const asked = new URLSearchParams(location.search);
    const choices = ["notes", "orphans"].map((name) => (asked.has(name) ? `&${name}=${asked.get(name)}` : ""));
    const isLatest = this.heads.next();
    const page = await fetchFragment(`${base}/head?branch=${before}${tip}${choices.join("")}`);
    const [old, { count, live, branch, tip: last }] = [find(".session-head"), find("main", page).dataset];
    const isShown = await navigation.viewport.change(() => {
      if (!isLatest()) return false;
      morph(old, find(".session-head", page));
      contentAdded(old);
      return true;
    });
    if (applied !== this.applied) {
      this.refreshHead();
      return false;
    }
    if (!isShown) return true;
    Object.assign(this.main.dataset, { count, live, branch });
    if (branch === "0" && last) this.main.dataset.tip = last;
    navigation.pages.branch = branch;
    if (branch !== before) {
      navigation.remember({});
      // The timeline may have been fetched under the old number.
      rail.refresh();
    }
    return true;
  }

  async fetchList() {
    const old = find("#sessions");
    if (!old) return;
    const isPage = document.body.dataset.pageKind === "sessions";
    const query = new URLSearchParams(isPage ? location.search : { q: find("#filter")?.value ?? "" });
    if (!(await fetchList([...query]))) return;
    contentAdded(old);
    // A filtered list does not contain all live sessions.
    if ([...query.values()].some(Boolean)) return;
    const live = findAll("li[data-live=true]", old).length;
    find(".bar .live").hidden = !live;
    find(".bar .live [data-count]").textContent = live;
  }
}

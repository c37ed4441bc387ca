/** The composer: sends messages to an agent, shows the text it is writing, and forks sessions. */

import { Attachments } from "./attachments.js";
import { Completions } from "./completions.js";
import { debounce, find, findAll, inside, make, onClick, onContent } from "./dom.js";
import { indexOf } from "./navigation.js";
import { redraw, startApproval, TYPING } from "./approval.js";
import { LiveText } from "./live-text.js";
import { fail, newName, note, onRun, post, who } from "./runs.js";

/** Two presses of Escape within this time (ms) interrupt the turn. */
const DOUBLE_PRESS = 700;
/** How long (ms) streamed text stays after a turn: the log has it soon. */
const STREAM_TIMEOUT = 4000;

/** Characters of a sub-agent's text that are shown. */
const SUBAGENT_TEXT = 600;

const onlyLetters = (text) => text.replace(/[^\p{L}\p{N}]+/gu, "");

/** The end of what a sub-agent has written. @param {string} key @param {string} text */
const subagentText = (key, text) =>
  make(
    "article",
    { class: "entry streaming subagent" },
    make("b", {}, `Sub-agent ${key.split("/")[1].slice(0, 8)}`),
    make("p", {}, text.slice(-SUBAGENT_TEXT).trimStart()),
  );

export class Composer {
  box = find("#composer");
  source = this.box.dataset.src;
  /** @type {Map<string, LiveText>} what each run and its sub-agents are writing; kept for all, as any can be resumed */
  texts = new Map();
  /** The index of the last answer that the log is known to have. */
  lastAnswer = Math.max(-1, ...findAll("#pages .entry.answer").map(indexOf));
  timer = 0;
  escaped = -Infinity;
  completions = new Completions(this.box);
  attachments = new Attachments(this.box, (text) => fail(this.form, text));
  isBusy = false;
  /** Another message waits until the last one has arrived. */
  hasMore = false;
  stream = make("article", { class: "entry streaming prose", hidden: "" });
  others = make("div", { class: "subagent-texts" });
  refresh = debounce(() => this.draw(), 60);

  /** @param {import("./app.js").Reading} reading */
  constructor(reading) {
    this.navigation = reading?.navigation;
    startApproval();
    onRun((event) => this.handle(event));
    onContent((content) => this.onLogged(content));
    onClick("[data-action=take-over]", () => this.send(true));
    onClick("[data-fork-here]", () => this.fork());
    onClick("[data-ask-again]", ({ dataset: { askAgain } }) => {
      this.area.value = askAgain;
      void this.send();
    });
    document.addEventListener("keydown", (event) => this.onKey(event));
    this.box.addEventListener("submit", (event) => {
      event.preventDefault();
      void this.send();
    });
    this.box.addEventListener("change", ({ target }) => this.change(target));
    this.box.addEventListener("input", () => (sessionStorage[this.source] = this.area.value));
    void this.draw().catch(this.refresh);
    // Only the store knows when the log of a new session exists.
    if (!reading) setInterval(this.refresh, 1000);
  }

  get form() {
    return find("form", this.box);
  }

  /** The run whose text is shown: the current one, or the last one. */
  get run() {
    return this.box.dataset.run || this.box.dataset.lastRun;
  }

  /** The element around the form, which is collapsed while no agent runs the session. */
  get fold() {
    return find(".compose", this.box);
  }

  expand(isWanted = true) {
    if (isWanted) this.fold.open = true;
  }

  get area() {
    return find("#message", this.box);
  }

  /** Whether something has been typed or chosen. */
  get isInUse() {
    const isTouched = (field) => field.value !== field.defaultValue || field.checked !== field.defaultChecked;
    return this.isBusy || findAll("textarea, input", this.box).some(isTouched);
  }

  async draw() {
    const isAtEnd = this.navigation?.viewport.isAtEnd;
    await redraw(this.box, this.source);
    const { home, texts } = this.box.dataset;
    for (const piece of JSON.parse(texts)) {
      const known = this.textOf(this.run, piece.subagent);
      known.add(piece, true);
      if (piece.turn === known.turn) known.logged = Math.max(known.logged, piece.offset);
    }
    this.showStream();
    this.expand(this.fold.dataset.expanded !== undefined || Boolean(sessionStorage[this.source]));
    if (!this.navigation && home && !this.isInUse) return location.replace(home);
    this.area.value ||= sessionStorage[this.source] ?? "";
    if (isAtEnd) this.navigation?.viewport.scrollToEnd();
  }

  // --- events ---

  handle(event) {
    const { kind, run, text } = event;
    if (kind === "words") return this.addText(event);
    this.refresh();
    const isOurs = run === this.box.dataset.run;
    if (/^(turn_ended|cut_off)$/.test(kind) || event.state === "ended") this.endTexts(event, isOurs);
    if (!isOurs) return;
    if (kind === "remarked") note(text);
    // The agent has started another session, as /clear does: follow it.
    if (kind === "session" && event.left && this.navigation) location.assign(`/runs/${run}`);
  }

  /** What a run, or a sub-agent of it, is writing. */
  textOf(run, subagent) {
    const key = `${run}/${subagent ?? ""}`;
    if (!this.texts.has(key)) this.texts.set(key, new LiveText());
    return /** @type {LiveText} */ (this.texts.get(key));
  }

  addText(event) {
    if (event.thinking) return;
    const isComplete = this.textOf(event.run, event.subagent).add(event);
    if (event.run !== this.box.dataset.run) return;
    if (isComplete) this.showStream();
    // The page was too slow for some of the pieces.
    else this.refresh();
  }

  /** The turn is over: the log will have its text soon, or never if it was cut off. */
  endTexts({ kind, run }, isOurs) {
    const main = this.textOf(run, null);
    for (const key of this.texts.keys()) if (key.startsWith(`${run}/`) && key !== `${run}/`) this.texts.delete(key);
    if (kind === "cut_off") main.isCutOff = true;
    if (!isOurs) return;
    this.showStream();
    const { turn } = main;
    const hide = () => {
      if (main.isCutOff || main.turn !== turn) return;
      main.rest = "";
      this.showStream();
    };
    if (kind === "turn_ended") this.timer = setTimeout(hide, STREAM_TIMEOUT);
  }

  /** Show what is being written. */
  showStream() {
    clearTimeout(this.timer);
    const { run } = this;
    const { rest, isCutOff } = this.textOf(run, null);
    const below = [...this.texts].filter(([key]) => key.startsWith(`${run}/`) && key !== `${run}/`);
    // There is nothing to show or hide: leave the page alone.
    if (!rest.trim() && this.stream.hidden && !below.length && !this.others.childElementCount) return;
    const show = () => {
      this.stream.textContent = rest.trimStart();
      this.stream.hidden = !rest.trim();
      this.stream.classList.toggle("cut-off", isCutOff);
      this.others.replaceChildren(...below.map(([key, { text }]) => subagentText(key, text)));
      find("#pages").append(this.stream, this.others);
    };
    if (this.navigation) void this.navigation.viewport.change(show, true);
    else show();
  }

  /** Remove from the streamed text what the log has, if it is an entry that was not there before. */
  onLogged(content) {
    if (!content.matches?.("#pages .entry.answer")) return;
    const isNew = indexOf(content) > this.lastAnswer;
    this.lastAnswer = Math.max(this.lastAnswer, indexOf(content));
    const main = this.textOf(this.run, null);
    const words = main.rest.match(/\S+\s*/g) ?? [];
    if (!words.length) return;
    let said = isNew ? onlyLetters(find(".prose", content).textContent) : "";
    while (said && words.length && said.startsWith(onlyLetters(words[0]))) {
      said = said.slice(onlyLetters(words.shift()).length);
    }
    // Links in Markdown are streamed but not shown, and an entry can be drawn again: the server knows what is logged.
    if (!isNew || (said && words.length)) return this.refresh();
    main.rest = onlyLetters(words.join("")) ? words.join("") : "";
    this.showStream();
  }

  // --- actions ---

  async send(take_over = false) {
    const { run, name, fork } = this.box.dataset;
    const text = this.area.value;
    if (this.isBusy) this.hasMore = true;
    if (this.isBusy || (run && !text.trim())) return;
    this.isBusy = true;
    this.hasMore = false;
    fail(this.form);
    const showProgress = this.startProgress(fork !== undefined);
    // A message sent twice with the same id counts once.
    const id = (sessionStorage.message ||= newName());
    try {
      const attachments = await this.attachments.encoded();
      if (run) await post(`/${run}/messages`, { id, text, attachments, who });
      else {
        const at = fork && Number(fork);
        await this.start({ session: name, at, prompt: text || null, attachments, message_id: id, take_over });
      }
      sessionStorage.message = "";
      this.attachments.clear();
      // Keep what was typed in the meantime.
      if (this.area.value === text) this.area.value = "";
      sessionStorage[this.source] = this.area.value;
      // The next message goes to the agent that was just started.
      if (!run) await this.draw().catch(() => 0);
    } catch ({ message, cause }) {
      fail(this.form, message);
      find(".take-over", this.box).hidden = cause !== "session_in_use";
      this.hasMore = false;
    }
    this.isBusy = false;
    showProgress(false);
    if (this.hasMore && this.area.value.trim()) return this.send();
    this.refresh();
  }

  /** Show progress on the button: starting an agent takes seconds. @param {boolean} isFork */
  startProgress(isFork) {
    const button = find("[data-send]", this.box);
    const label = button.textContent;
    if (this.box.dataset.run && !isFork) return () => undefined;
    const show = (isUnderWay) => {
      button.ariaBusy = String(isUnderWay);
      button.textContent = isUnderWay ? (isFork ? "Forking…" : "Starting…") : label;
    };
    show(true);
    return show;
  }

  async start(given) {
    const { mode, model } = this.form.elements;
    const { run, remark } = await post("", { ...given, mode: mode?.value || null, model: model.value || null, who });
    if (remark) note(remark);
    if (given.at !== undefined) location.assign(`/runs/${run.id}`);
  }

  change({ name, value, dataset: { pick } }) {
    const { run } = this.box.dataset;
    const fails = ({ message }) => fail(this.form, message);
    if (run && value && pick !== undefined) post(`/${run}/change`, { [name]: value }).catch(fails);
  }

  onKey(event) {
    if (event.key === "Escape") {
      const isSecond = event.timeStamp - this.escaped < DOUBLE_PRESS;
      if (isSecond) find("[data-action=interrupt]", this.box)?.click();
      this.escaped = isSecond ? -Infinity : event.timeStamp;
    }
    if (event.key !== "f" || event.ctrlKey || event.metaKey || event.altKey || inside(event, TYPING)) return;
    if (!this.navigation?.here) return;
    event.preventDefault();
    this.fork();
  }

  /** Fork from the message that is being read. */
  fork() {
    const entry = this.navigation?.here;
    if (!entry) return;
    this.navigation?.select(entry);
    this.source = this.source.replace(/(&at=.*)?$/, `&at=${indexOf(entry)}`);
    void this.draw().then(() => {
      this.expand();
      this.area.focus();
    });
  }
}

/** The composer: sends messages to an agent, shows the text it is writing, and forks sessions. */

import { debounce, find, findAll, inside, make, onClick, onContent } from "./dom.js";
import { indexOf } from "./navigation.js";
import { redraw, startApproval, TYPING } from "./approval.js";
import { fail, newName, note, onRun, post, who } from "./runs.js";

/** Two presses of Escape within this time (ms) interrupt the turn. */
const DOUBLE_PRESS = 700;
/** How long (ms) streamed text stays after a turn: the log has it soon. */
const STREAM_TIMEOUT = 4000;

const onlyLetters = (text) => text.replace(/[^\p{L}\p{N}]+/gu, "");

export class Composer {
  box = find("#composer");
  source = this.box.dataset.src;
  words = "";
  timer = 0;
  escaped = -Infinity;
  isBusy = false;
  /** Another message waits until the last one has arrived. */
  hasMore = false;
  /** The streamed text belongs to a turn that has ended. */
  isOver = false;
  stream = make("article", { class: "entry streaming prose", hidden: "" });
  refresh = debounce(() => this.draw(), 60);

  /** @param {import("./app.js").Reading} reading */
  constructor(reading) {
    this.navigation = reading?.navigation;
    startApproval();
    onRun((event) => this.handle(event));
    onContent((content) => this.onLogged(content));
    onClick("[data-action=take-over]", () => this.send(true));
    document.addEventListener("keydown", (event) => this.onKey(event));
    this.box.addEventListener("submit", (event) => {
      event.preventDefault();
      void this.send();
    });
    this.box.addEventListener("change", ({ target }) => this.change(target));
    this.box.addEventListener("input", () => (sessionStorage[this.source] = this.area.value));
    // Only the store knows when the log of a new session exists.
    if (!reading) setInterval(this.refresh, 1000);
  }

  get form() {
    return find("form", this.box);
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
    const { home } = this.box.dataset;
    if (!this.navigation && home && !this.isInUse) return location.replace(home);
    this.area.value ||= sessionStorage[this.source] ?? "";
    if (isAtEnd) this.navigation?.viewport.scrollToEnd();
  }

  // --- events ---

  handle({ kind, run, state, text, thinking, subagent }) {
    if (kind === "resync") {
      return void this.draw().then(() => this.showStream(find("[data-streamed]").textContent), () => 0);
    }
    if (kind !== "words") this.refresh();
    if (run !== this.box.dataset.run) return;
    if (kind === "words" && !thinking && !subagent) this.showStream((this.isOver ? "" : this.words) + text);
    if (kind === "remarked") note(text);
    if (kind !== "turn_ended" && state !== "ended") return;
    this.isOver = true;
    this.timer = setTimeout(() => this.showStream(""), STREAM_TIMEOUT);
  }

  /** Show text that is being written. */
  showStream(words) {
    clearTimeout(this.timer);
    this.isOver = false;
    this.words = words;
    const show = () => {
      this.stream.textContent = words.trimStart();
      this.stream.hidden = !words.trim();
      find("#pages").append(this.stream);
    };
    if (this.navigation) void this.navigation.viewport.change(show, true);
    else show();
  }

  /** Remove from the streamed text what the log has. */
  onLogged(content) {
    if (!content.matches?.("#pages .entry.answer")) return;
    const words = this.words.match(/\S+\s*/g) ?? [];
    const said = onlyLetters(find(".prose", content).textContent);
    for (let count = said.length; words.length && count > 0; ) count -= onlyLetters(words.shift()).length;
    // Links in Markdown are streamed but not shown, so the end of the text can be left over.
    this.showStream(said.endsWith(onlyLetters(words.join(""))) ? "" : words.join(""));
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
    // A message sent twice with the same id counts once.
    const id = (sessionStorage.message ||= newName());
    try {
      if (run) await post(`/${run}/messages`, { id, text, who });
      else {
        const at = fork && Number(fork);
        await this.start({ session: name, at, prompt: text || null, message_id: id, take_over });
      }
      sessionStorage.message = "";
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
    if (this.hasMore && this.area.value.trim()) return this.send();
    this.refresh();
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
    const entry = this.navigation?.here;
    if (event.key !== "f" || event.ctrlKey || event.metaKey || event.altKey || inside(event, TYPING) || !entry) return;
    event.preventDefault();
    this.navigation?.select(entry);
    this.source = this.source.replace(/(&at=.*)?$/, `&at=${indexOf(entry)}`);
    void this.draw().then(() => this.area.focus());
  }
}

/** Where a conversation goes on: messages to the agent, what it says just now, forks. */

import { calmly, find, findAll, inside, make, onClick, onContent } from "./dom.js";
import { indexOf } from "./place.js";
import { redraw, startApproval, TYPING } from "./approval.js";
import { fail, newName, note, onRun, post, who } from "./runs.js";

/** Two presses of Escape within so many ms stop the turn. */
const TWICE = 700;
/** After a turn the log has everything soon. */
const LINGER = 4000;

const onlyLetters = (text) => text.replace(/[^\p{L}\p{N}]+/gu, "");

export class Composer {
  box = find("#composer");
  source = this.box.dataset.src;
  words = "";
  timer = 0;
  escaped = -Infinity;
  isBusy = false;
  /** Something else is to be sent as soon as the last message has arrived. */
  hasMore = false;
  /** The words are of a turn that has ended. */
  isOver = false;
  stream = make("article", { class: "entry streaming prose", hidden: "" });
  refresh = calmly(() => this.draw(), 60);

  /** @param {import("./app.js").Reading} reading */
  constructor(reading) {
    this.place = reading?.place;
    startApproval();
    onRun((event) => this.hear(event));
    onContent((content) => this.log(content));
    onClick("[data-act=take-over]", () => this.send(true));
    document.addEventListener("keydown", (event) => this.press(event));
    this.box.addEventListener("submit", (event) => {
      event.preventDefault();
      void this.send();
    });
    this.box.addEventListener("change", ({ target }) => this.change(target));
    this.box.addEventListener("input", () => (sessionStorage[this.source] = this.area.value));
    // Of the log of a new session only the store knows.
    if (!reading) setInterval(this.refresh, 1000);
  }

  get form() {
    return find("form", this.box);
  }

  get area() {
    return find("#message", this.box);
  }

  /** Whether somebody has begun to write or to choose something. */
  get isInUse() {
    const isTouched = (field) => field.value !== field.defaultValue || field.checked !== field.defaultChecked;
    return this.isBusy || findAll("textarea, input", this.box).some(isTouched);
  }

  async draw() {
    const isAtEnd = this.place?.sight.isAtEnd;
    await redraw(this.box, this.source);
    const { home } = this.box.dataset;
    if (!this.place && home && !this.isInUse) return location.replace(home);
    this.area.value ||= sessionStorage[this.source] ?? "";
    if (isAtEnd) this.place?.sight.bringEnd();
  }

  // --- what is heard ---

  hear({ kind, run, state, text, thinking, subagent }) {
    if (kind === "resync") return void this.draw().then(() => this.say(find("[data-said]").textContent), () => 0);
    if (kind !== "words") this.refresh();
    if (run !== this.box.dataset.run) return;
    if (kind === "words" && !thinking && !subagent) this.say((this.isOver ? "" : this.words) + text);
    if (kind === "remarked") note(text);
    if (kind !== "turn_ended" && state !== "ended") return;
    this.isOver = true;
    this.timer = setTimeout(() => this.say(""), LINGER);
  }

  say(words) {
    clearTimeout(this.timer);
    this.isOver = false;
    this.words = words;
    const show = () => {
      this.stream.textContent = words.trimStart();
      this.stream.hidden = !words.trim();
      find("#pages").append(this.stream);
    };
    if (this.place) void this.place.sight.change(show, true);
    else show();
  }

  /** What the log has is not being said any more. */
  log(content) {
    if (!content.matches?.("#pages .entry.answer")) return;
    const words = this.words.match(/\S+\s*/g) ?? [];
    const said = onlyLetters(find(".prose", content).textContent);
    for (let count = said.length; words.length && count > 0; ) count -= onlyLetters(words.shift()).length;
    // Addresses in Markdown are said, but not shown: then the end of it is left over.
    this.say(said.endsWith(onlyLetters(words.join(""))) ? "" : words.join(""));
  }

  // --- what is done ---

  async send(take_over = false) {
    const { run, name, fork } = this.box.dataset;
    const text = this.area.value;
    if (this.isBusy) this.hasMore = true;
    if (this.isBusy || (run && !text.trim())) return;
    this.isBusy = true;
    this.hasMore = false;
    fail(this.form);
    // Sent twice, it counts once.
    const id = (sessionStorage.message ||= newName());
    try {
      if (run) await post(`/${run}/messages`, { id, text, who });
      else await this.start({ session: name, at: fork && Number(fork), prompt: text || null, message_id: id, take_over });
      sessionStorage.message = "";
      // What was written meanwhile is another message.
      if (this.area.value === text) this.area.value = "";
      sessionStorage[this.source] = this.area.value;
      // The next message goes to the agent that has just been started.
      if (!run) await this.draw().catch(() => 0);
    } catch ({ message }) {
      fail(this.form, message);
      find(".take-over", this.box).hidden = !/take it over/.test(message);
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

  press(event) {
    if (event.key === "Escape") {
      const isSecond = event.timeStamp - this.escaped < TWICE;
      if (isSecond) find("[data-act=interrupt]", this.box)?.click();
      this.escaped = isSecond ? -Infinity : event.timeStamp;
    }
    const entry = this.place?.here;
    if (event.key !== "f" || event.ctrlKey || event.metaKey || event.altKey || inside(event, TYPING) || !entry) return;
    event.preventDefault();
    this.place?.select(entry);
    this.source = this.source.replace(/(&at=.*)?$/, `&at=${indexOf(entry)}`);
    void this.draw().then(() => this.area.focus());
  }
}

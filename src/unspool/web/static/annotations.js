/** Pins, notes and tags of the reader: adding and removing them, and marking pinned messages. */

import { contentAdded, fetchFragment, find, findAll, onClick, onContent, postJson, toast } from "./dom.js";

export class Annotations {
  kind = "note";
  /** @type {number | null} the message that the next note is about */
  index = null;
  /** Number of times the form was opened, and of changes that were sent. */
  asked = 0;
  sent = 0;

  /** @param {import("./navigation.js").Navigation} navigation */
  constructor(navigation) {
    this.pages = navigation.pages;
    this.address = `/api/annotations/${encodeURIComponent(this.pages.main.dataset.key.replaceAll("/", "~"))}`;
    onClick("[data-add-own]", ({ dataset }) => this.ask(dataset.addOwn, null));
    onClick("[data-remove-own]", ({ dataset }) => this.send("/remove", { id: Number(dataset.removeOwn) }));
    onClick("[data-pin]", ({ dataset }) => this.pin(Number(dataset.pin)));
    onClick("[data-note]", ({ dataset }) => this.ask("note", Number(dataset.note)));
    document.addEventListener("submit", (event) => this.submitted(event));
    onContent(() => this.mark());
  }

  get form() {
    return find(".own-form");
  }

  ask(kind, index) {
    [this.kind, this.index] = [kind, index];
    this.asked += 1;
    const { form } = this;
    const about = index === null ? "" : ` about #${index}`;
    find("[data-label]", form).textContent = kind === "tag" ? "Tag" : `Note${about}`;
    form.hidden = false;
    form.elements.text.focus();
  }

  submitted(event) {
    if (!event.target.matches(".own-form")) return;
    event.preventDefault();
    const text = event.target.elements.text.value;
    void this.send("", { kind: this.kind, text, message_index: this.index });
  }

  pin(index) {
    const pinned = find(`.own [data-pinned="${index}"]`);
    if (pinned) return this.send("/remove", { id: Number(pinned.dataset.id) });
    return this.send("", { kind: "pin", message_index: index });
  }

  async send(path, body) {
    const { asked } = this;
    try {
      await postJson(this.address + path, body);
      const number = ++this.sent;
      const fresh = find(".own", await fetchFragment(`${this.pages.base}/own`));
      if (number === this.sent) this.show(fresh, this.asked !== asked);
    } catch (error) {
      toast(error instanceof Error ? error.message : "");
    }
  }

  /** @param {boolean} isWriting whether the form was opened again in the meantime: what is being written stays */
  show(fresh, isWriting) {
    const { form } = this;
    const hasFocus = form.contains(document.activeElement);
    if (isWriting) find(".own-form", fresh).replaceWith(form);
    find(".own").replaceWith(fresh);
    if (isWriting && hasFocus) form.elements.text.focus();
    contentAdded(fresh);
    this.mark();
  }

  /** Mark pinned messages. */
  mark() {
    const pinned = new Set(findAll(".own [data-pinned]").map(({ dataset }) => dataset.pinned));
    for (const button of findAll("[data-pin]")) {
      const isPinned = pinned.has(button.dataset.pin);
      button.ariaPressed = String(isPinned);
      button.textContent = isPinned ? "unpin" : "pin";
    }
  }
}

/** The dialog in which a session is shared: it shows what is replaced before the file is downloaded. */

import { fetchFragment, find, onClick } from "./dom.js";
import { failure, waiting } from "./lazy-load.js";

export class ShareDialog {
  /** @type {AbortController | null} the request for the report */
  request = null;

  constructor() {
    this.dialog = find("#share");
    this.form = find(".share-form", this.dialog);
    this.report = find(".share-report", this.dialog);
    onClick("[data-share]", () => this.open());
    this.form.addEventListener("change", () => this.changed());
    this.dialog.addEventListener("click", (event) => {
      // A link leads to a message behind the dialog.
      if (event.target.closest("a")) this.dialog.close();
    });
    this.dialog.addEventListener("close", () => this.request?.abort());
  }

  open() {
    // The last report may be outdated, and its links would lose the focus when it is replaced.
    this.report.replaceChildren();
    this.dialog.showModal();
    void this.load();
  }

  changed() {
    const { redact, redact_personal: personal } = this.form.elements;
    // The second option has no effect without the first.
    personal.disabled = !redact.checked;
    if (!redact.checked) personal.checked = false;
    void this.load();
  }

  async load() {
    this.request?.abort();
    const request = (this.request = new AbortController());
    const { redact, redact_personal: personal } = this.form.elements;
    const query = new URLSearchParams({ redact: String(redact.checked), redact_personal: String(personal.checked) });
    const done = waiting(this.report, "Looking for secrets…");
    try {
      const found = await fetchFragment(`${this.dialog.dataset.report}?${query}`, request.signal);
      this.report.replaceChildren(found);
    } catch (error) {
      if (request.signal.aborted) return;
      this.report.replaceChildren(failure(error, () => this.load()));
    } finally {
      done();
      if (this.request !== request) this.report.ariaBusy = "true";
    }
  }
}

/** Files that are attached to the next message: picked, pasted or dropped. */

import { find, make } from "./dom.js";

/** The server checks this, too. */
const MAX_BYTES = 6 << 20;

const size = (bytes) => (bytes < 10_000 ? `${bytes} bytes` : `${Math.round(bytes / 1000).toLocaleString("en")} kB`);

/** @param {File} file @returns {Promise<string>} */
function base64(file) {
  return new Promise((resolve, reject) => {
    const reader = new FileReader();
    reader.onload = () => resolve(String(reader.result).split(",")[1] ?? "");
    reader.onerror = () => reject(new Error(`${file.name} cannot be read.`));
    reader.readAsDataURL(file);
  });
}

export class Attachments {
  /** @type {File[]} */
  files = [];

  /** @param {any} box the composer, which is redrawn @param {(text: string) => void} complain */
  constructor(box, complain) {
    this.box = box;
    this.complain = complain;
    box.addEventListener("change", ({ target }) => {
      if (!target.matches("[data-attach]")) return;
      this.add([...target.files]);
      target.value = "";
    });
    box.addEventListener("paste", (event) => this.take(event, event.clipboardData));
    box.addEventListener("dragover", (event) => event.preventDefault());
    box.addEventListener("drop", (event) => this.take(event, event.dataTransfer));
    box.addEventListener("click", ({ target }) => {
      const { remove } = target.closest("[data-remove]")?.dataset ?? {};
      if (remove !== undefined) this.show(this.files.toSpliced(Number(remove), 1));
    });
  }

  take(event, transfer) {
    if (!transfer?.files.length) return;
    event.preventDefault();
    this.add([...transfer.files]);
  }

  add(files) {
    const all = [...this.files, ...files];
    const total = all.reduce((sum, file) => sum + file.size, 0);
    if (total <= MAX_BYTES) this.show(all);
    else this.complain(`The attached files are too large: at most ${MAX_BYTES >> 20} MB together.`);
  }

  clear() {
    this.show([]);
  }

  show(files) {
    this.files = files;
    const list = find(".attachments", this.box);
    list.hidden = !files.length;
    list.replaceChildren(
      ...files.map((file, index) => {
        const label = { "aria-label": `Remove ${file.name}` };
        const button = { type: "button", class: "plain-button", "data-remove": String(index), ...label };
        const text = `${file.name} (${file.type || "unknown type"}, ${size(file.size)}) `;
        return make("li", {}, text, make("button", button, "✕"));
      }),
    );
  }

  /** The files in the form that the server accepts. */
  encoded() {
    return Promise.all(this.files.map(async (file) => ({ name: file.name, data: await base64(file) })));
  }
}

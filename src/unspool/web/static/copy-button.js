/** Copy buttons: `<button data-copy="text">`, or `data-copy-json` for text that HTML would change. */

import { make, onClick, toast } from "./dom.js";

async function copy(text) {
  try {
    await navigator.clipboard.writeText(text);
  } catch {
    // There is no clipboard without a secure context, but a selection can still be copied.
    const area = make("textarea", {}, text);
    document.body.append(area);
    area.select();
    const isDone = document.execCommand("copy");
    area.remove();
    if (!isDone) return toast("Copying is not allowed by the browser.");
  }
  toast("Copied");
}

export function startCopying() {
  onClick("button[data-copy]", (button) => copy(button.dataset.copy));
  onClick("button[data-copy-json]", (button) => copy(JSON.parse(button.dataset.copyJson)));
}

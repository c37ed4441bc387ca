/** Copy buttons: `<button data-copy="text">`. */

import { make, onClick, toast } from "./dom.js";

async function copy(text) {
  try {
    await navigator.clipboard.writeText(text);
  } catch {
    // Without a secure context there is no clipboard, but a selection can still be copied.
    const area = make("textarea", {}, text);
    document.body.append(area);
    area.select();
    const isDone = document.execCommand("copy");
    area.remove();
    if (!isDone) return toast("The browser does not allow copying.");
  }
  toast("Copied");
}

export const startCopying = () => onClick("button[data-copy]", (button) => copy(button.dataset.copy));

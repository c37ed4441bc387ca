/** Messages waiting for the agent: they can be changed, moved and removed, and held after an interrupt. */

import { find, findAll, onClick } from "./dom.js";
import { note, post, who } from "./runs.js";

const report = ({ message }) => note(message);

function editMessage(button) {
  const item = button.closest("[data-message]");
  const { message, run } = item.dataset;
  // Messages that are being sent are also listed, but can no longer be moved.
  const position = findAll("[data-message]:has([data-edit])", item.parentElement).indexOf(item);
  const changes = {
    up: () => ({ position: position - 1 }),
    down: () => ({ position: position + 1 }),
    remove: () => ({ remove: true }),
    save: () => ({ text: find("textarea", item).value }),
  };
  const change = changes[button.dataset.edit]();
  const close = () => change.text !== undefined && find("details", item)?.removeAttribute("open");
  post(`/${run}/messages/${encodeURIComponent(message)}`, { ...change, who }).then(close, report);
}

/** Put the text of a message that was never sent into the composer. */
function reuse(button) {
  const area = find("#message");
  const text = find(".text", button.closest("[data-message]")).title;
  area.value = area.value ? `${area.value}\n\n${text}` : text;
  area.dispatchEvent(new Event("input", { bubbles: true }));
  area.focus();
}

export function startQueue() {
  onClick("[data-edit]", editMessage);
  onClick("[data-reuse]", reuse);
  onClick("[data-queue]", ({ dataset: { queue, run } }) => {
    post(`/${run}/queue`, { action: queue, who }).catch(report);
  });
}

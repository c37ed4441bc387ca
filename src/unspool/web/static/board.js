/** The board of all runs, which is updated when something happens, and the form that starts a run. */

import { debounce, find, make, onClick, postJson } from "./dom.js";
import { redraw, startApproval } from "./approval.js";
import { fail, newName, onRun, post, who } from "./runs.js";

const refresh = debounce(() => redraw(find("#board"), "/agents/board"), 60);

async function start(form) {
  const { agent, folder, model, prompt, ...modes } = Object.fromEntries(new FormData(form));
  const given = { agent, folder, model: model || null, mode: modes[`mode-${agent}`] || null, prompt: prompt || null };
  fail(form);
  try {
    await post("", { ...given, message_id: newName(), who });
    // Keep what was typed in the meantime.
    if (form.elements.prompt.value === prompt) form.elements.prompt.value = "";
  } catch ({ message }) {
    fail(form, message);
  }
}

async function showPhoneLink() {
  const box = find("[data-phone-link]");
  try {
    const { link, image, reason } = await postJson("/api/phone", { who });
    const code = image ? make("img", { src: image, alt: "QR code of the link" }) : (reason ?? "");
    box.replaceChildren(code, make("a", { href: link }, link));
  } catch ({ message }) {
    box.textContent = message;
  }
}

export function startBoard() {
  onClick("[data-phone]", showPhoneLink);
  const form = find("[data-start]");
  const button = find("button", form);
  startApproval();
  onRun(({ kind }) => kind !== "words" && refresh());
  // Text is streamed in pieces, and only the store knows when a new session has a title.
  setInterval(() => find('[data-run-state=in-turn], #board a[href^="/runs/"]') && refresh(), 1000);
  form.addEventListener("submit", async (event) => {
    event.preventDefault();
    button.disabled = true;
    await start(form);
    button.disabled = false;
  });
  button.disabled = false;
}

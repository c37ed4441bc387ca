/** The board of all runs, which is updated when something happens, and the form that starts a run. */

import { debounce, fetchJson, find, make, onClick, postJson } from "./dom.js";
import { redraw, startApproval } from "./approval.js";
import { fail, newName, onRun, post, who } from "./runs.js";

const refresh = debounce(() => redraw(find("#board"), "/agents/board"), 60);

/** Whether no other agent works in the folder, or the reader has confirmed to start anyway. If not, the form asks. */
async function isClear(form, folder) {
  const box = find("[data-shared]", form);
  if (!box.hidden && box.dataset.folder === folder) return true;
  const { busy, can_have_worktree } = await fetchJson(`/api/folder?path=${encodeURIComponent(folder)}`);
  box.hidden = !busy.length;
  box.dataset.folder = folder;
  find("[data-worktree]", box).hidden = !can_have_worktree;
  return !busy.length;
}

async function start(form, worktree = false) {
  const { agent, folder, model, prompt, sandbox, ...modes } = Object.fromEntries(new FormData(form));
  const mode = modes[`mode-${agent}`] || null;
  const given = { agent, folder, model: model || null, mode, prompt: prompt || null, sandbox: Boolean(sandbox) };
  fail(form);
  try {
    if (!worktree && !(await isClear(form, folder))) return;
    await post("", { ...given, worktree, message_id: newName(), who });
    find("[data-shared]", form).hidden = true;
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
  const button = find("[data-start-button]", form);
  startApproval();
  onRun(({ kind }) => kind !== "words" && refresh());
  // Text is streamed in pieces, and only the store knows when a new session has a title.
  setInterval(() => find('[data-run-state=in-turn], #board a[href^="/runs/"]') && refresh(), 1000);
  onClick("[data-worktree]", () => start(form, true));
  form.addEventListener("submit", async (event) => {
    event.preventDefault();
    button.disabled = true;
    await start(form);
    button.disabled = false;
  });
  // Without an agent that is installed, there is nothing to start.
  button.disabled = !find("[name=agent]:enabled", form);
}

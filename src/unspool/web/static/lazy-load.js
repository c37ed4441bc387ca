/**
 * Content that is loaded on demand: abandoned branches, sub-agents, long outputs. A failure is shown where the content
 * would be, with a button to try again.
 */

import { contentAdded, fetchFragment, find, make, onClick } from "./dom.js";

/** @param {any} error @param {() => void} again */
export function failure(error, again) {
  const button = make("button", { type: "button", class: "retry" }, "Try again");
  button.addEventListener("click", again);
  return make("p", { class: "failed", role: "alert" }, `${error.message} `, button);
}

/** Show after a moment what is being loaded. @param {any} box @param {string} what @returns {() => void} ends it */
export function waiting(box, what) {
  const note = make("p", { class: "waiting" }, what);
  const timer = setTimeout(() => box.append(note), 300);
  box.ariaBusy = "true";
  return () => {
    clearTimeout(timer);
    note.remove();
    box.ariaBusy = null;
  };
}

/** Fill details with their content, once. @param {any} details */
export async function loadDetails(details) {
  if (details.dataset.state) return;
  const box = find(":scope > .loaded", details);
  details.dataset.state = "loading";
  box.replaceChildren();
  const done = waiting(box, "Loading…");
  try {
    box.replaceChildren(await fetchFragment(details.dataset.load));
    details.dataset.state = box.dataset.state = "loaded";
    contentAdded(box);
  } catch (error) {
    details.dataset.state = "";
    box.replaceChildren(failure(error, () => loadDetails(details)));
  } finally {
    done();
  }
}

/** Replace a truncated text with all of it. @param {any} button */
export async function loadRest(button) {
  const cut = button.closest("[data-cut]") ?? button;
  const hadFocus = document.activeElement === button;
  button.disabled = true;
  find(".failed", cut)?.remove();
  try {
    const content = await fetchFragment(button.dataset.load);
    const fresh = content.firstElementChild;
    cut.replaceWith(content);
    contentAdded(fresh);
    if (!hadFocus) return;
    fresh.tabIndex = -1;
    fresh.focus({ preventScroll: true });
  } catch (error) {
    button.disabled = false;
    button.after(failure(error, () => loadRest(button)));
  }
}

export function startLazy() {
  // `toggle` does not bubble, but it can be captured.
  document.addEventListener("toggle", ({ target }) => target.open && target.dataset.load && loadDetails(target), true);
  onClick("button[data-load]", loadRest);
}

/**
 * What is fetched only when asked for: dead branches, sub-agents, long outputs. A failure is told where the content
 * would be, with a way to try again.
 */

import { announceContent, fetchFragment, find, make } from "./dom.js";

/** @param {unknown} error @param {() => void} again */
export function failure(error, again) {
  const text = error instanceof Error ? error.message : String(error);
  const button = make("button", { type: "button", class: "retry" }, "Try again");
  button.addEventListener("click", (event) => {
    event.stopPropagation();
    again();
  });
  return make("p", { class: "failed", role: "alert" }, `${text} `, button);
}

/**
 * Says after a moment what the reader is waiting for.
 * @param {HTMLElement} box
 * @param {string} what
 * @returns {() => void} to be called when the wait is over
 */
export function waiting(box, what) {
  box.setAttribute("aria-busy", "true");
  const note = make("p", { class: "waiting" }, what);
  const timer = setTimeout(() => box.append(note), 300);
  return () => {
    clearTimeout(timer);
    note.remove();
    box.removeAttribute("aria-busy");
  };
}

/** @param {HTMLDetailsElement} details */
async function fill(details) {
  const url = details.dataset.load;
  if (!url || details.dataset.state) return;
  let box = find(":scope > .loaded", details);
  if (!box) details.append((box = make("div", { class: "loaded" })));
  details.dataset.state = "loading";
  box.replaceChildren();
  const done = waiting(box, "Fetching…");
  try {
    const content = await fetchFragment(url);
    done();
    box.replaceChildren(content);
    details.dataset.state = box.dataset.state = "loaded";
    announceContent(box);
  } catch (error) {
    done();
    details.dataset.state = "";
    box.replaceChildren(failure(error, () => void fill(details)));
  }
}

/** @param {HTMLButtonElement} button */
async function unfold(button) {
  const cut = button.closest("[data-cut]") ?? button;
  if (cut.getAttribute("aria-busy")) return;
  const hadFocus = document.activeElement === button;
  cut.setAttribute("aria-busy", "true");
  button.disabled = true;
  find(":scope > .failed", cut)?.remove();
  try {
    const content = await fetchFragment(button.dataset.load ?? "");
    const fresh = [...content.children];
    cut.replaceWith(content);
    for (const element of fresh) announceContent(element);
    if (hadFocus && fresh[0] instanceof HTMLElement) {
      fresh[0].tabIndex = -1;
      fresh[0].focus({ preventScroll: true });
    }
  } catch (error) {
    cut.removeAttribute("aria-busy");
    button.disabled = false;
    const note = failure(error, () => void unfold(button));
    if (cut === button) button.after(note);
    else cut.append(note);
  }
}

export function startLazy() {
  // `toggle` does not bubble, but it can be caught on its way down.
  document.addEventListener("toggle", (event) => {
    const details = event.target;
    if (details instanceof HTMLDetailsElement && details.open && details.dataset.load) void fill(details);
  }, true);
  document.addEventListener("click", (event) => {
    const button = event.target instanceof Element && event.target.closest("button[data-load]");
    if (button instanceof HTMLButtonElement) void unfold(button);
  });
}

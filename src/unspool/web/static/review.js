/** The preview of a revert: the button that writes the file. */

import { find } from "./dom.js";
import { fail, who } from "./runs.js";

async function revert(form) {
  const { session, path, copy, seen, back } = form.dataset;
  const request = { method: "POST", headers: { "content-type": "application/json" } };
  const response = await fetch("/api/reverts", { ...request, body: JSON.stringify({ session, path, copy, seen, who }) });
  const answer = await response.json();
  if (!response.ok) throw new Error(answer.error.message);
  location.assign(back);
}

export function startReview() {
  const form = find("[data-revert]");
  if (!form) return;
  form.addEventListener("submit", (event) => {
    event.preventDefault();
    fail(form);
    revert(form).catch(({ message }) => fail(form, message));
  });
  find("button", form).disabled = false;
}

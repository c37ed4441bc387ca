/** The preview of a revert: the button that writes the file. */

import { find, postJson } from "./dom.js";
import { fail, who } from "./runs.js";

async function revert(form) {
  const { session, path, copy, seen, back } = form.dataset;
  await postJson("/api/reverts", { session, path, copy, seen, who });
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

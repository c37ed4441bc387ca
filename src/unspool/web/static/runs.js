/** Running agents on any page: who this tab is, how it acts, what it hears, and how many answers are waited for. */

import { fetchJson, find, make, onClick, toast } from "./dom.js";
import { listen } from "./stream.js";

const HEARD = "unspool:run";
const { title } = document;
/** How often was counted, and which of these times is shown. */
let [counts, shown] = [0, 0];

export const newName = () => Math.random().toString(16).slice(2);

/** The name of this tab, for the others. */
export const who = (sessionStorage.who ??= `tab ${newName().slice(0, 4)}`);

/** @param {string} path below /api/runs @throws {Error} a sentence, caused by the status */
export async function post(path, body) {
  const request = { method: "POST", headers: { "content-type": "application/json" }, body: JSON.stringify(body) };
  const response = await fetch(`/api/runs${path}`, request).catch(() => {
    throw new Error("The server is not reachable; nothing was done.");
  });
  const answer = await response.json();
  if (!response.ok) throw new Error(answer.error.message, { cause: response.status });
  return answer;
}

/** @param {(event: any) => void} listener of everything that happens to any agent */
export const onRun = (listener) => document.addEventListener(HEARD, ({ detail }) => listener(detail));

/** Keep something in sight for a while. @param {string} text */
export function note(text) {
  const line = make("li", {}, text);
  find("[data-notes]").append(line);
  const fade = () => {
    // While nobody looks it is not read either.
    if (document.hidden) document.addEventListener("visibilitychange", fade, { once: true });
    else setTimeout(() => line.remove(), 9000);
  };
  fade();
}

/** Say in a form or card what went wrong; nothing puts it away. */
export function fail(box, text = "") {
  const place = find("[role=alert]", box);
  place.hidden = !text;
  place.textContent = text;
}

function act({ dataset: { act, run } }) {
  if (run) post(`/${run}/${act}`, { who }).catch(({ message }) => note(message));
}

const canRing = () => window.Notification?.permission === "granted";

async function allowRinging() {
  await window.Notification?.requestPermission();
  toast(canRing() ? "You are told when an agent needs you." : "The browser does not allow that here.");
}

/** Call somebody who looks elsewhere; all tabs do, but one tag makes it one. */
function ring({ run, question: { asked } }) {
  if (!document.hidden || !canRing()) return;
  // Phones allow it only to service workers.
  try {
    new Notification("An agent needs you", { body: asked.title, tag: run + asked.id }).onclick = () => window.focus();
  } catch {}
}

async function count() {
  const number = ++counts;
  const { needs, seq } = await fetchJson("/agents/needs");
  // An answer that was overtaken by a later one is old.
  if (number < shown) return seq;
  shown = number;
  find(".needs").hidden = !needs;
  find(".needs > [data-count]").textContent = needs;
  document.title = needs ? `(${needs}) ${title}` : title;
  return seq;
}

/** @param {() => void} begin what the page has for agents, where the server runs any */
export async function startRuns(begin) {
  let seq = await count().catch(({ cause }) => (cause === 404 ? null : 0));
  // A server that runs no agents does not know the address.
  if (seq === null) return;
  onRun((event) => {
    if (/asked|answered|withdrawn|resync/.test(event.kind)) count().catch(() => 0);
    if (event.kind === "asked") ring(event);
  });
  onClick("[data-act]", act);
  onClick("[data-bell]", allowRinging);
  begin();
  const hear = (event) => {
    seq = event.seq ?? seq;
    document.dispatchEvent(new CustomEvent(HEARD, { detail: event }));
  };
  // While nobody listened words were lost, or the server has ended and its agents with it.
  const show = (isOnline) => isOnline && hear({ kind: "resync" });
  listen("/api/runs/events", () => ({ seq, session: "" }), hear, show);
}

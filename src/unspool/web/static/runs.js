/** Running agents on any page: actions, events, and the number of pending approvals. */

import { debounce, fetchJson, find, make, onClick, postJson, RequestOrder } from "./dom.js";
import { deviceName, startDevice } from "./device.js";
import { listen } from "./event-stream.js";
import { notify, startNotifications } from "./notifications.js";

const RUN_EVENT = "unspool:run";
const { title } = document;
const counts = new RequestOrder();

export const newName = () => Math.random().toString(16).slice(2);

/** The name under which this device acts, shown to everyone else. */
export const who = deviceName();

/** @param {string} path below /api/runs */
export const post = (path, body) => postJson(`/api/runs${path}`, body);

/** @param {(event: any) => void} listener called with all events of all runs */
export const onRun = (listener) => document.addEventListener(RUN_EVENT, ({ detail }) => listener(detail));

/** Show a notice for a while. @param {string} text */
export function note(text) {
  const line = make("li", {}, text);
  find("[data-notices]").append(line);
  const fade = () => {
    // Nobody reads it while the page is hidden.
    if (document.hidden) document.addEventListener("visibilitychange", fade, { once: true });
    else setTimeout(() => line.remove(), 9000);
  };
  fade();
}

/** Show an error in a form or card until it is cleared. */
export function fail(box, text = "") {
  const alert = find("[role=alert]", box);
  alert.hidden = !text;
  alert.textContent = text;
}

function runAction({ dataset: { action, run } }) {
  if (run) post(`/${run}/${action}`, { who }).catch(({ message }) => note(message));
}

async function updateCount() {
  const isLatest = counts.next();
  const { needs, seq } = await fetchJson("/agents/needs");
  if (!isLatest()) return seq;
  find(".needs").hidden = !needs;
  find(".needs > [data-count]").textContent = needs;
  document.title = needs ? `(${needs}) ${title}` : title;
  return seq;
}

const retryCount = debounce(updateCount, 0);

/** @param {() => void} begin starts the parts of the page for running agents */
export async function startRuns(begin) {
  let seq = await updateCount().catch(({ cause }) => (cause === 404 ? null : 0));
  // This server runs no agents.
  if (seq === null) return;
  onRun((event) => {
    if (/asked|answered|withdrawn|resync/.test(event.kind)) updateCount().catch(retryCount);
    void notify(event);
  });
  startDevice();
  onClick("[data-action]", runAction);
  startNotifications();
  begin();
  const handle = (event) => {
    seq = event.seq ?? seq;
    document.dispatchEvent(new CustomEvent(RUN_EVENT, { detail: event }));
  };
  // After an interruption, the server and its agents may have ended. At first everything has just been fetched.
  let wasOffline = false;
  const onState = (isOnline) => {
    if (isOnline && wasOffline) handle({ kind: "resync" });
    wasOffline = !isOnline;
  };
  const position = () => ({ seq, session: "" });
  listen({ path: "/api/runs/events", position, onEvent: handle, onState, receivesWhileHidden: true });
}

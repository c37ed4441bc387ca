/**
 * One stream of live events for all tabs: a browser allows only six connections to a server. It lives as long as any
 * tab does. A tab says what it knows and which session it shows, and gets what is newer.
 */

import { Stream } from "./stream.js";

/** @type {Map<MessagePort, {seq: number, session: string}>} */
const tabs = new Map();
let isOnline = true;

const stream = new Stream(pass, (state) => {
  isOnline = state;
  for (const port of tabs.keys()) port.postMessage({ isOnline });
});

/** @param {any} event */
function pass(event) {
  const isNumbered = event.kind !== "progress";
  for (const [port, tab] of tabs) {
    if (isNumbered && event.kind !== "resync" && event.seq <= tab.seq) continue;
    if (isNumbered) tab.seq = event.seq;
    const isShown = event.session && [String(event.session.id), event.session.name].includes(tab.session);
    port.postMessage({ event: { ...event, messages: undefined, entries: isShown ? event.entries : undefined } });
  }
}

/** Ask for the oldest that any tab is missing; those who know it already do not get it again. */
function reopen() {
  if (!tabs.size) return stream.close();
  const since = Math.min(...[...tabs.values()].map((tab) => tab.seq));
  stream.open(since, [...new Set([...tabs.values()].map((tab) => tab.session).filter(Boolean))]);
}

/** @param {MessageEvent} connected */
globalThis.onconnect = (connected) => {
  const port = connected.ports[0];
  port.onmessage = ({ data }) => {
    if (data.bye) tabs.delete(port);
    else tabs.set(port, { seq: data.seq, session: data.session });
    // Leaving needs no new stream: one session too many does no harm.
    if (!data.bye || !tabs.size) reopen();
    if (!data.bye) port.postMessage({ isOnline });
  };
};

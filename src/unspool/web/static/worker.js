/**
 * One stream of live events for all tabs: a browser allows only six connections to a server. It lives as long as any
 * tab does. A tab says what it knows and which session it shows, and gets what is newer.
 */

import { Stream } from "./stream.js";

/** @type {Map<MessagePort, {seq: number, session: string}>} */
const tabs = new Map();
/** @type {boolean | undefined} not known before the first answer */
let isOnline;

const stream = new Stream(location.search.slice(1), pass, (state) => {
  isOnline = state;
  for (const port of tabs.keys()) port.postMessage({ isOnline });
});

function pass(event) {
  for (const [port, tab] of tabs) {
    const isPassing = /progress|words/.test(event.kind);
    if (event.seq <= tab.seq && !isPassing && event.kind !== "resync") continue;
    if (!isPassing) tab.seq = event.seq;
    const entries = String(event.session?.id) === tab.session ? event.entries : undefined;
    port.postMessage({ event: { ...event, messages: undefined, entries } });
  }
}

globalThis.onconnect = ({ ports: [port] }) => {
  port.onmessage = ({ data }) => {
    if (data.bye) tabs.delete(port);
    else tabs.set(port, data);
    const all = [...tabs.values()];
    if (!all.length) return stream.close();
    // Leaving needs no new stream: one session too many does no harm.
    if (data.bye) return;
    if (isOnline !== undefined) port.postMessage({ isOnline });
    // From the oldest that any tab is missing; those who know it do not get it again.
    stream.open(Math.min(...all.map(({ seq }) => seq)), [...new Set(all.map(({ session }) => session).filter(Boolean))]);
  };
};

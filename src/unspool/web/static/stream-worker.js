/**
 * One event stream for all tabs, because browsers allow only six connections to a server. It lives as long as any tab.
 * A tab sends the last event it knows and the session it shows, and receives what is newer.
 */

import { EventStream } from "./event-stream.js";

/** @type {Map<MessagePort, {seq: number, session: string}>} */
const tabs = new Map();
/** @type {boolean | undefined} unknown before the first response */
let isOnline;

const stream = new EventStream(location.search.slice(1), distribute, (state) => {
  isOnline = state;
  for (const port of tabs.keys()) port.postMessage({ isOnline });
});

function distribute(event) {
  for (const [port, tab] of tabs) {
    const isTransient = /progress|updates|words/.test(event.kind);
    if (event.seq <= tab.seq && !isTransient && event.kind !== "resync") continue;
    if (!isTransient) tab.seq = event.seq;
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
    // A tab that leaves needs no new stream: one session too many does no harm.
    if (data.bye) return;
    if (isOnline !== undefined) port.postMessage({ isOnline });
    // From the oldest event that any tab is missing; tabs that know an event do not get it again.
    const sessions = new Set(all.map(({ session }) => session).filter(Boolean));
    stream.open(Math.min(...all.map(({ seq }) => seq)), [...sessions]);
  };
};

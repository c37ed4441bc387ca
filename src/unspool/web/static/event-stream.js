/** Streams of server-sent events that reconnect when the server was away or the machine slept. */

const KINDS = (
  "session.created messages.appended messages.superseded branches.changed events.found subagents.changed " +
  "session.changed session.ended session.gone session.forgotten resync progress updates.slow run.started session " +
  "state sent queue taken_up asked answered withdrawn turn_ended changed remarked interrupting processes cut_off words"
).split(" ");
const LONGEST_PAUSE = 15_000;

export class EventStream {
  /** @type {EventSource | undefined} */
  source;
  timer = 0;
  pause = 1000;
  beat = Date.now();

  /** @param {string} path @param {(event: any) => void} onEvent @param {(isOnline: boolean) => void} onState */
  constructor(path, onEvent, onState) {
    Object.assign(this, { path, onEvent, onState });
    setInterval(() => this.checkSleep(), 10_000);
  }

  /** @param {number} since the last known event @param {string[]} sessions whose messages are sent as HTML */
  open(since, sessions) {
    this.close();
    [this.since, this.sessions] = [since, sessions];
    const query = new URLSearchParams([["since", since], ...sessions.map((session) => ["session", session])]);
    const source = (this.source = new EventSource(`${this.path}?${query}`));
    source.onopen = () => {
      this.pause = 1000;
      this.onState(true);
    };
    source.onerror = () => {
      this.onState(false);
      // The browser reconnects after a broken connection, but gives up after an error response.
      if (source.readyState !== EventSource.CLOSED) return;
      this.timer = setTimeout(() => this.open(this.since, sessions), this.pause);
      this.pause = Math.min(this.pause * 2, LONGEST_PAUSE);
    };
    for (const kind of KINDS) source.addEventListener(kind, (event) => this.handle(event));
  }

  handle({ data, lastEventId }) {
    const event = JSON.parse(data);
    if (lastEventId) this.since = event.seq ?? this.since;
    this.onEvent(event);
  }

  /** After sleep, a connection can look open although it is not. */
  checkSleep() {
    const hasSlept = Date.now() - this.beat > 60_000;
    this.beat = Date.now();
    if (hasSlept && this.source) this.open(this.since, this.sessions);
  }

  close() {
    clearTimeout(this.timer);
    this.source?.close();
    this.source = undefined;
  }
}

const onLeave = (leave) => window.addEventListener("pagehide", leave, { once: true });

/**
 * Listen with a separate connection. Browsers allow six per server, for all tabs together, so a hidden page closes its
 * connection and catches up when it is shown. If hidden pages need the events, one of them stays connected.
 */
function listenAlone({ path, position, onEvent, onState, receivesWhileHidden }) {
  const stream = new EventStream(path, onEvent, onState);
  const open = () => {
    const { seq, session } = position();
    stream.open(seq, session ? [session] : []);
  };
  let end = new AbortController();
  const update = () => {
    end.abort();
    end = new AbortController();
    if (!document.hidden) return open();
    stream.close();
    if (receivesWhileHidden) inOnePage(`unspool ${path}`, end.signal, open);
  };
  document.addEventListener("visibilitychange", update);
  update();
  onLeave(() => {
    document.removeEventListener("visibilitychange", update);
    end.abort();
    stream.close();
  });
}

/** Begin as soon as no other page does, and end with the signal. Locks, like notifications, need a secure context. */
function inOnePage(name, signal, begin) {
  const work = () => {
    begin();
    return new Promise((done) => signal.addEventListener("abort", done));
  };
  navigator.locks?.request(name, { signal }, work).catch(() => undefined);
}

/**
 * @typedef {object} Listener
 * @property {string} path
 * @property {() => {seq: number, session: string}} position the last known event and the session shown
 * @property {(event: any) => void} onEvent
 * @property {(isOnline: boolean) => void} onState
 * @property {boolean} [receivesWhileHidden] whether hidden pages need the events
 */

/** Listen to a stream, shared with all other tabs if the browser supports it. @param {Listener} listener */
export function listen(listener) {
  const { path, position, onEvent, onState } = listener;
  const connect = () => {
    if (typeof SharedWorker === "undefined") return listenAlone(listener);
    const url = new URL(`stream-worker.js?${path}`, import.meta.url);
    const worker = new SharedWorker(url, { type: "module", name: path });
    worker.onerror = () => listenAlone(listener);
    worker.port.onmessage = ({ data }) => (data.event ? onEvent(data.event) : onState(data.isOnline));
    worker.port.postMessage(position());
    onLeave(() => worker.port.postMessage({ bye: true }));
  };
  window.addEventListener("pageshow", (event) => event.persisted && connect());
  connect();
}

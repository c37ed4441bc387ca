/** Streams of live events, with patience: they come back by themselves when the server was away or the machine slept. */

const KINDS = (
  "session.created messages.appended messages.superseded branches.changed events.found subagents.changed " +
  "session.changed session.ended session.gone session.forgotten resync progress run.started session state sent " +
  "taken_up asked answered withdrawn turn_ended changed remarked interrupting words"
).split(" ");
const LONGEST_PAUSE = 15_000;

export class Stream {
  /** @type {EventSource | undefined} */
  source;
  timer = 0;
  pause = 1000;
  beat = Date.now();

  /** @param {string} path @param {(event: any) => void} onEvent @param {(isOnline: boolean) => void} onState */
  constructor(path, onEvent, onState) {
    Object.assign(this, { path, onEvent, onState });
    setInterval(() => this.notice(), 10_000);
  }

  /** @param {number} since the last event that is known @param {string[]} sessions whose messages are wanted as HTML */
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
      // The browser itself tries again after a broken connection, but gives up after a refusal.
      if (source.readyState !== EventSource.CLOSED) return;
      this.timer = setTimeout(() => this.open(this.since, sessions), this.pause);
      this.pause = Math.min(this.pause * 2, LONGEST_PAUSE);
    };
    for (const kind of KINDS) source.addEventListener(kind, (event) => this.hear(event));
  }

  hear({ data, lastEventId }) {
    const event = JSON.parse(data);
    if (lastEventId) this.since = event.seq ?? this.since;
    this.onEvent(event);
  }

  /** A machine that slept has a connection that only looks alive. */
  notice() {
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
 * Listen together with all other tabs where the browser can do that, else alone.
 * @param {string} path @param {() => {seq: number, session: string}} where what is known, and which session is shown
 */
export function listen(path, where, onEvent, onState) {
  const listenAlone = () => {
    const stream = new Stream(path, onEvent, onState);
    const { seq, session } = where();
    stream.open(seq, session ? [session] : []);
    onLeave(() => stream.close());
  };
  const connect = () => {
    if (typeof SharedWorker === "undefined") return listenAlone();
    const worker = new SharedWorker(new URL(`worker.js?${path}`, import.meta.url), { type: "module", name: path });
    worker.onerror = listenAlone;
    worker.port.onmessage = ({ data }) => (data.event ? onEvent(data.event) : onState(data.isOnline));
    worker.port.postMessage(where());
    onLeave(() => worker.port.postMessage({ bye: true }));
  };
  window.addEventListener("pageshow", (event) => event.persisted && connect());
  connect();
}

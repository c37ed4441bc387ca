/** Notifications of approval requests, ended turns and failures. The bell shows whether they are on, or why not. */

import { fetchJson, findAll, onClick, onContent, postJson, toast } from "./dom.js";

const WORKER = "/sw.js";
const TITLES = { completed: "An agent is done", failed: "An agent has failed" };

const OFF = "Notify me when an agent needs me, is done or has failed";
const REASONS = {
  insecure: "Notifications need https, or a browser on the computer that unspool runs on.",
  unsupported: "This browser has no notifications. On an iPhone, add unspool to the home screen and open it there.",
  denied: "Notifications are blocked for this address. Allow them in the settings of the browser.",
};

/** Whether this browser can show notifications. @returns {"insecure" | "unsupported" | "denied" | "off" | "on"} */
function state() {
  if (!window.isSecureContext) return "insecure";
  if (!("serviceWorker" in navigator) || !("Notification" in window)) return "unsupported";
  if (Notification.permission === "denied") return "denied";
  return Notification.permission === "granted" && localStorage.notifications === "on" ? "on" : "off";
}

function draw() {
  const now = state();
  const text = now === "on" ? "Notifications are on. Turn them off" : (REASONS[now] ?? OFF);
  for (const bell of findAll("[data-bell]")) {
    bell.dataset.bell = now;
    bell.title = text;
    bell.setAttribute("aria-label", text);
    bell.setAttribute("aria-pressed", String(now === "on"));
    const words = bell.querySelector("span");
    if (words) words.textContent = now === "on" ? "Notifications are on" : "Notifications are off";
  }
}

/** Let the server notify this browser even while no page is open. @returns {Promise<string>} a text for the reader */
async function subscribe(registration) {
  const { key, reason } = await fetchJson("/api/push");
  if (!key) return `Notifications are on while a page is open. ${reason}`;
  if (!registration.pushManager) return "Notifications are on while a page is open: this browser has no Web Push.";
  try {
    const subscription = await registration.pushManager.subscribe({ userVisibleOnly: true, applicationServerKey: key });
    const { endpoint, keys } = subscription.toJSON();
    await postJson("/api/push", { endpoint, ...keys });
    return "Notifications are on, even while no page is open.";
  } catch (error) {
    return `Notifications are on while a page is open. Web Push failed: ${error.message}`;
  }
}

async function turnOn() {
  if (state() === "off" && Notification.permission !== "granted") await Notification.requestPermission();
  if (Notification.permission !== "granted") return toast(REASONS[state()] ?? "Notifications were not allowed.");
  const registration = await navigator.serviceWorker.register(WORKER);
  await navigator.serviceWorker.ready;
  localStorage.notifications = "on";
  toast(await subscribe(registration));
}

async function turnOff() {
  localStorage.notifications = "off";
  const registration = await navigator.serviceWorker.getRegistration(WORKER);
  const subscription = await registration?.pushManager?.getSubscription();
  if (subscription) {
    await postJson("/api/push/remove", { endpoint: subscription.endpoint });
    await subscription.unsubscribe();
  }
  toast("Notifications are off.");
}

async function toggle() {
  const now = state();
  try {
    if (REASONS[now]) toast(REASONS[now]);
    else if (now === "on") await turnOff();
    else await turnOn();
  } catch (error) {
    toast(`Notifications could not be changed: ${error.message}`);
  }
  draw();
}

/** The title of the notification for an event; undefined if there is none. */
function titleOf({ kind, outcome, state: now, error }) {
  if (kind === "asked") return "An agent needs you";
  if (kind === "turn_ended") return TITLES[outcome];
  return kind === "state" && now === "ended" && error ? TITLES.failed : undefined;
}

/** Notify the reader if the page is hidden. All tabs do; the tag merges their notifications and those of Web Push. */
export async function notify(event) {
  const title = titleOf(event);
  if (!title || !document.hidden || state() !== "on") return;
  const { run, question } = event;
  const { name } = await fetchJson(`/runs/${run}/name`).catch(() => ({ name: "" }));
  const tag = `${run}-${question ? `asked-${question.asked.id}` : "turn"}`;
  const registration = await navigator.serviceWorker.getRegistration(WORKER);
  // Not `new Notification`, which phones do not allow.
  const data = { url: `/runs/${run}` };
  await registration?.showNotification(title, { body: name, tag, data });
}

export function startNotifications() {
  onClick("[data-bell]", toggle);
  onContent(draw);
  // A worker that was registered by an older version of unspool is replaced.
  if (state() === "on") navigator.serviceWorker.register(WORKER).catch(() => 0);
}

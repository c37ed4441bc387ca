/** Approval requests, answered by click or key. The first answer counts; other tabs show who gave it. */

import { contentAdded, fetchFragment, find, findAll, inside, onClick, RequestOrder } from "./dom.js";
import { startCountdown } from "./countdown.js";
import { nameFor } from "./device.js";
import { morph } from "./morph.js";
import { fail, note, onRun, post, who } from "./runs.js";

export const TYPING = "textarea, select, input:not([type=radio], [type=checkbox])";
const DONE = {
  allow: "Allowed",
  allow_session: "Allowed for the session",
  deny: "Denied",
  deny_stop: "Denied and stopped",
};
/** Milliseconds after a card appears in which keys are ignored: they were meant for something else. */
const KEY_DELAY = 500;

/** @type {Map<string, number>} when each card appeared */
const appeared = new Map();
/** Requests that were answered in this tab. */
const answered = new Set();
/** @type {WeakMap<Element, RequestOrder>} for each element that is redrawn */
const orders = new WeakMap();

/** Texts that HTML would change are in attributes as JSON. */
const valueOf = (input) => (input.dataset.value ? JSON.parse(input.dataset.value) : input.value);

function answersIn(card) {
  const answers = {};
  const notes = {};
  for (const set of findAll("fieldset", card)) {
    const question = JSON.parse(set.dataset.question);
    const given = findAll("input:not([data-note])", set).filter((input) =>
      input.type === "text" ? input.value : input.checked,
    );
    if (!given.length) throw new Error("Answer every question first.");
    answers[question] = given.map(valueOf);
    const note = find("[data-note]", set)?.value;
    if (note) notes[question] = note;
  }
  return { answers, notes };
}

async function answer({ dataset: { verdict, with: name } }, card) {
  const { run, request, digest } = card.dataset;
  const given = { digest, verdict, who };
  try {
    if (name) given[name] = find(`[name=${name}]`, card).value;
    if (given.input) given.input = JSON.parse(given.input);
    if (verdict === "allow") Object.assign(given, answersIn(card));
    answered.add(card.dataset.key);
    await post(`/${run}/answers/${request}`, given);
  } catch ({ message, cause }) {
    answered.delete(card.dataset.key);
    // Already answered elsewhere: the card disappears.
    if (cause === "conflict") note(message);
    else fail(card, message);
  }
}

function onKey(event) {
  const isSending = event.key === "Enter" && (event.ctrlKey || event.metaKey);
  if (isSending) inside(event, ".field, [data-compose]")?.querySelector("[data-with], [data-send]").click();
  const card = inside(event, ".approval");
  if (!card || event.ctrlKey || event.metaKey || event.altKey || event.repeat || inside(event, TYPING)) return;
  const button = find(`[aria-keyshortcuts="${CSS.escape(event.key)}"]`, card);
  if (!button) return;
  event.preventDefault();
  event.stopPropagation();
  // The time of the key press counts: on a busy machine its event can come much later.
  if (event.timeStamp - appeared.get(card.dataset.key) < KEY_DELAY) return;
  button.click();
  if (button.matches("summary")) button.nextElementSibling.focus();
}

/** Ignore keys for a moment; `data-keys` says when they are accepted. */
function delayKeys(card) {
  const { key } = card.dataset;
  appeared.set(key, performance.now());
  delete card.dataset.keys;
  const enable = () => {
    const left = appeared.get(key) + KEY_DELAY - performance.now();
    if (left > 0) setTimeout(enable, left);
    else card.dataset.keys = "";
  };
  enable();
}

/** Whether an element is being used. An empty text box with focus is not. */
function isInUse(element) {
  return element?.closest(".approval, dialog") || (element?.matches(TYPING) && element.value);
}

/** Focus a new card, or the next one after a card has gone, unless the reader is doing something else. */
function focusCards(wasInCard = false) {
  const cards = findAll(".approval");
  const fresh = cards.filter(({ dataset: { key } }) => !appeared.has(key));
  fresh.forEach(delayKeys);
  const card = wasInCard ? cards[0] : fresh[0];
  if (!card || isInUse(document.activeElement)) return;
  delayKeys(card);
  card.focus({ preventScroll: true });
}

function reportAnswer({ run, request, kind, verdict, reason, ...by }) {
  const card = find(`.approval[data-key="${CSS.escape(`${run}/${request}`)}"]`);
  if (!card || answered.has(card.dataset.key)) return;
  const why = reason ? ` (“${reason}”)` : "";
  const outcome = kind === "withdrawn" ? "Request cancelled" : `${DONE[verdict]} by ${nameFor(by.who)}${why}`;
  note(`${outcome}: ${find(".approval-title", card).textContent}`);
}

/** Update a part of the page to what the server has now. @param {any} box @param {string} url */
export async function redraw(box, url) {
  const order = orders.get(box) ?? new RequestOrder();
  orders.set(box, order);
  const isLatest = order.next();
  const fresh = find(`#${box.id}`, await fetchFragment(url));
  if (!isLatest()) return;
  const active = document.activeElement;
  const wasInCard = Boolean(active?.closest(".approval"));
  morph(box, fresh);
  contentAdded(box);
  // Elements lose the focus when they are moved.
  if (active?.isConnected) active.focus({ preventScroll: true });
  focusCards(wasInCard);
}

export function startApproval() {
  startCountdown();
  onClick("[data-verdict]", (button) => answer(button, button.closest(".approval")));
  document.addEventListener("keydown", onKey, true);
  onRun((event) => /answered|withdrawn/.test(event.kind) && reportAnswer(event));
  focusCards();
}

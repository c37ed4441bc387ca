/** What agents ask: answered by click or key. The first answer counts, and everybody is told whose it was. */

import { announceContent, fetchFragment, find, findAll, inside, onClick } from "./dom.js";
import { morph } from "./morph.js";
import { fail, note, onRun, post, who } from "./runs.js";

export const TYPING = "textarea, select, input:not([type=radio], [type=checkbox])";
const DONE = { allow: "allowed", allow_session: "allowed for the session", deny: "denied", deny_stop: "denied and stopped" };
/** Keys pressed so soon after a card came were meant for something else. */
const GRACE = 500;

/** @type {Map<string, number>} when each card came */
const known = new Map();
/** @type {WeakMap<Element, number>} which of the drawings each piece of the page shows */
const drawn = new WeakMap();
let drawings = 0;

function answersIn(card) {
  const answers = {};
  for (const set of findAll("fieldset", card)) {
    const given = findAll("input", set).filter((input) => (input.type === "text" ? input.value : input.checked));
    if (!given.length) throw new Error("Choose an answer to each question, or write one.");
    answers[set.dataset.question] = given.map((input) => input.value);
  }
  return answers;
}

async function answer({ dataset: { verdict, with: name } }, card) {
  const { run, request, digest } = card.dataset;
  const given = { digest, verdict, who };
  try {
    if (name) given[name] = find(`[name=${name}]`, card).value;
    if (given.input) given.input = JSON.parse(given.input);
    if (verdict === "allow") given.answers = answersIn(card);
    await post(`/${run}/answers/${request}`, given);
  } catch ({ message, cause }) {
    // The card of somebody who was too late goes away.
    if (cause === 409) note(message);
    else fail(card, message);
  }
}

function press(event) {
  const isSending = event.key === "Enter" && (event.ctrlKey || event.metaKey);
  if (isSending) inside(event, ".field, [data-compose]")?.querySelector("[data-with], [data-send]").click();
  const card = inside(event, ".asked");
  if (!card || event.ctrlKey || event.metaKey || event.altKey || event.repeat || inside(event, TYPING)) return;
  const button = find(`[aria-keyshortcuts="${CSS.escape(event.key)}"]`, card);
  if (!button) return;
  event.preventDefault();
  event.stopPropagation();
  // When it was pressed counts: on a busy machine it can be heard much later.
  if (event.timeStamp - known.get(card.dataset.key) < GRACE) return;
  button.click();
  if (button.matches("summary")) button.nextElementSibling.focus();
}

/** From now on keys do not count for a while; `data-keys` says that they do. */
function meet(card) {
  const { key } = card.dataset;
  known.set(key, performance.now());
  delete card.dataset.keys;
  const wake = () => {
    const left = known.get(key) + GRACE - performance.now();
    if (left > 0) setTimeout(wake, left);
    else card.dataset.keys = "";
  };
  wake();
}

/** Whether keys are meant for something: an empty box is only where somebody wrote before. */
function isInUse(element) {
  return element?.closest(".asked, dialog") || (element?.matches(TYPING) && element.value);
}

/** New cards get the focus unless somebody is typing, and so does the next one after one that is gone. */
function meetCards(wasInCard = false) {
  const cards = findAll(".asked");
  const fresh = cards.filter(({ dataset: { key } }) => !known.has(key));
  fresh.forEach(meet);
  const card = wasInCard ? cards[0] : fresh[0];
  if (!card || isInUse(document.activeElement)) return;
  meet(card);
  card.focus({ preventScroll: true });
}

function close({ run, request, kind, verdict, reason, ...by }) {
  const card = find(`.asked[data-key="${CSS.escape(`${run}/${request}`)}"]`);
  if (!card || by.who === who) return;
  const told = kind === "withdrawn" ? "no longer asked" : `${DONE[verdict]} by ${by.who}${reason ? ` (“${reason}”)` : ""}`;
  note(`${told}: ${find(".what", card).textContent}`);
}

/** Draw a piece of the page as the server has it now. @param {any} box @param {string} url */
export async function redraw(box, url) {
  const drawing = ++drawings;
  const fresh = find(`#${box.id}`, await fetchFragment(url));
  // An answer that was overtaken by a later one is old.
  if (drawing < (drawn.get(box) ?? 0)) return;
  drawn.set(box, drawing);
  const active = document.activeElement;
  const wasInCard = Boolean(active?.closest(".asked"));
  morph(box, fresh);
  announceContent(box);
  // What is moved loses the focus.
  if (active?.isConnected) active.focus({ preventScroll: true });
  meetCards(wasInCard);
}

export function startApproval() {
  onClick("[data-verdict]", (button) => answer(button, button.closest(".asked")));
  document.addEventListener("keydown", press, true);
  onRun((event) => /answered|withdrawn/.test(event.kind) && close(event));
  meetCards();
}

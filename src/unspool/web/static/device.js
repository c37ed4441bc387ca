/** The name of this device, under which its decisions and messages are recorded. People can change it. */

import { find, findAll, onContent } from "./dom.js";

const { userAgent } = navigator;
const first = (names) => names.find(([pattern]) => pattern.test(userAgent))?.[1];

const browser = first([
  [/Edg\//, "Edge"], [/Firefox\//, "Firefox"], [/OPR\//, "Opera"], [/Chrome\//, "Chrome"], [/Safari\//, "Safari"],
]) ?? "Browser";
const system = first([
  [/iPhone/, "iPhone"], [/iPad/, "iPad"], [/Android/, "Android"], [/Windows/, "Windows"], [/Mac OS/, "Mac"],
  [/Linux/, "Linux"],
]) ?? "this device";
/** The kind of device, as shown to people. */
const kind = /iPhone|Android.*Mobile/.test(userAgent) ? "phone" : /iPad|Android/.test(userAgent) ? "tablet" : "computer";

export const deviceName = () => localStorage.device || `${browser} on ${system}`;

/** The name to show for a person or device, such as `this phone` for the reader's own. @param {string} name */
export const nameFor = (name) => (name === deviceName() ? `this ${kind}` : name);

export function startDevice() {
  const field = find("[data-device]");
  if (field) {
    field.value = deviceName();
    field.addEventListener("change", () => {
      localStorage.device = field.value.trim().slice(0, 40);
      // All scripts on the page must use the new name.
      location.reload();
    });
  }
  onContent((root) => {
    for (const element of findAll("[data-who]", root)) element.textContent = nameFor(element.dataset.who);
  });
}

/**
 * Logs this browser in with the token in the URL, and then leaves that URL. The server includes this script in its
 * page, because a browser that is not logged in cannot load anything.
 */

/** Whether this browser can resolve the server's own host name: some do not support names ending in `.localhost`. */
async function reaches(address) {
  try {
    await fetch(`${address}/open/probe`, { mode: "no-cors", cache: "no-store" });
    return true;
  } catch {
    return false;
  }
}

async function logIn({ own, next }) {
  if (own && own !== location.origin && (await reaches(own))) return location.replace(`${own}/open${location.search}`);
  const token = new URLSearchParams(location.search).get("token");
  const headers = { "content-type": "application/json" };
  const response = await fetch("/open", { method: "POST", headers, body: JSON.stringify({ token }) }).catch(() => {
    throw new Error("The server cannot be reached.");
  });
  // A proxy may respond instead of this server.
  const answer = await response.json().catch(() => null);
  if (!response.ok) throw new Error(answer?.error?.message ?? `The request failed (${response.status}).`);
  if (!answer?.key) throw new Error("The response could not be read.");
  // Without storage, this browser can read but not act.
  try {
    localStorage.setItem("unspool-key", answer.key);
  } catch {}
  location.replace(next);
}

logIn(document.body.dataset).catch(({ message }) => {
  document.querySelector("[role=status]").textContent = message;
});

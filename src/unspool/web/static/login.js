/**
 * Logs this browser in with the token of the address, and leaves the address. The server includes this script in its
 * page, because a browser that is not logged in cannot load anything.
 */

/** Whether this browser finds the server under its own name: some do not know names that end in `.localhost`. */
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
  const response = await fetch("/open", { method: "POST", headers, body: JSON.stringify({ token }) });
  const answer = await response.json();
  if (!response.ok) throw new Error(answer.error.message);
  // Without storage this browser can read, and not act.
  try {
    localStorage.setItem("unspool-key", answer.key);
  } catch {}
  location.replace(next);
}

logIn(document.body.dataset).catch(({ message }) => {
  document.querySelector("[role=status]").textContent = message;
});

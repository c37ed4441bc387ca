/** Service worker: shows notifications, even while no page is open, and opens the page that one is about. */

self.addEventListener("install", () => self.skipWaiting());
self.addEventListener("activate", (event) => event.waitUntil(self.clients.claim()));

const windows = () => self.clients.matchAll({ type: "window", includeUncontrolled: true });

async function show({ title, body, tag, url }) {
  // A person who is looking at unspool sees it there.
  if ((await windows()).some(({ visibilityState }) => visibilityState === "visible")) return;
  await self.registration.showNotification(title, { body, tag, data: { url } });
}

async function open(url) {
  const [page] = await windows();
  if (!page) return self.clients.openWindow(url);
  await page.focus();
  return page.navigate(url);
}

self.addEventListener("push", (event) => event.waitUntil(show(event.data.json())));
self.addEventListener("notificationclick", (event) => {
  event.notification.close();
  event.waitUntil(open(event.notification.data.url));
});

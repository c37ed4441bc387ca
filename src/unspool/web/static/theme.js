/**
 * Light, dark, or the theme of the system. It has no imports, so that it can be loaded first and nothing flashes in the
 * wrong colours.
 */

(() => {
  const root = document.documentElement;
  const ORDER = ["system", "light", "dark"];
  let theme = "system";
  root.classList.add("js");

  const apply = () => {
    root.toggleAttribute("data-theme", theme !== "system");
    if (theme !== "system") root.dataset.theme = theme;
    for (const button of document.querySelectorAll("button[data-theme]")) {
      button.ariaLabel = button.title = `Theme: ${theme}`;
      button.dataset.theme = theme;
    }
  };

  const read = () => {
    // Storage may be blocked; then a choice lasts as long as the page.
    try {
      theme = localStorage.getItem("theme") ?? "system";
    } catch {}
    apply();
  };

  read();
  document.addEventListener("DOMContentLoaded", apply);
  window.addEventListener("storage", read);
  document.addEventListener("click", (event) => {
    if (!event.target.closest("button[data-theme]")) return;
    theme = ORDER[(ORDER.indexOf(theme) + 1) % ORDER.length];
    try {
      localStorage.setItem("theme", theme);
    } catch {}
    apply();
  });
})();

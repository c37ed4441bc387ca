/**
 * Light, dark, or as the system has it. Stands alone, so that a page can load it first: then nothing flashes in the
 * wrong colours.
 */

(() => {
  const root = document.documentElement;
  const ORDER = ["system", "light", "dark"];
  let theme = "system";
  root.classList.add("js");

  const wear = () => {
    root.toggleAttribute("data-theme", theme !== "system");
    if (theme !== "system") root.dataset.theme = theme;
    for (const button of document.querySelectorAll("button[data-theme]")) {
      button.ariaLabel = button.title = `Colours: ${theme}`;
      button.dataset.theme = theme;
    }
  };

  const read = () => {
    // Storage may be forbidden; then a choice lasts as long as the page.
    try {
      theme = localStorage.getItem("theme") ?? "system";
    } catch {}
    wear();
  };

  read();
  document.addEventListener("DOMContentLoaded", wear);
  window.addEventListener("storage", read);
  document.addEventListener("click", (event) => {
    if (!event.target.closest("button[data-theme]")) return;
    theme = ORDER[(ORDER.indexOf(theme) + 1) % ORDER.length];
    try {
      localStorage.setItem("theme", theme);
    } catch {}
    wear();
  });
})();

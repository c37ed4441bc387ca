/**
 * Light, dark, or as the system has it. Has no imports, so that a page can also load it first and without delay:
 * then nothing flashes in the wrong colours.
 */

(() => {
  const root = document.documentElement;
  if (root.dataset.themed) return;
  root.dataset.themed = "yes";
  root.classList.add("js");
  const ORDER = ["system", "light", "dark"];

  const chosen = () => {
    try {
      return localStorage.getItem("theme") ?? "system";
    } catch {
      return "system"; // Storage may be forbidden; the system's colours are fine then.
    }
  };

  const wear = (theme) => {
    if (theme === "system") root.removeAttribute("data-theme");
    else root.setAttribute("data-theme", theme);
    for (const button of document.querySelectorAll("button[data-theme]")) {
      button.setAttribute("aria-label", `Colours: ${theme}`);
      button.setAttribute("title", `Colours: ${theme}`);
      button.setAttribute("data-theme", theme);
    }
  };

  const choose = (theme) => {
    try {
      localStorage.setItem("theme", theme);
    } catch {
      // Kept for this page only.
    }
    wear(theme);
  };

  wear(chosen());
  document.addEventListener("DOMContentLoaded", () => wear(chosen()));
  window.addEventListener("storage", (event) => event.key === "theme" && wear(chosen()));
  document.addEventListener("click", (event) => {
    if (!(event.target instanceof Element) || !event.target.closest("button[data-theme]")) return;
    const worn = root.getAttribute("data-theme") ?? "system";
    choose(ORDER[(ORDER.indexOf(worn) + 1) % ORDER.length]);
  });
})();

// The shell's small manners: menus close, the theme changes at once, rows open, the phone's decide bar unfolds.
"use strict";

(function () {
  const root = document.documentElement;

  function closeMenus(except) {
    for (const menu of document.querySelectorAll("details.menu[open]")) {
      if (menu !== except) menu.open = false;
    }
  }

  document.addEventListener("click", (event) => {
    const inside = event.target.closest("details.menu");
    closeMenus(inside);

    const opener = event.target.closest("[data-opens]");
    if (opener) document.getElementById(opener.dataset.opens).showModal();

    const handle = event.target.closest("[data-unfolds]");
    if (handle) {
      const aside = handle.closest(handle.dataset.unfolds);
      aside.toggleAttribute("data-open");
      handle.setAttribute("aria-expanded", String(aside.hasAttribute("data-open")));
    }

    const row = event.target.closest("[data-href]");
    if (row && !event.target.closest("a, button, summary, input, textarea, select, label, form") && !String(getSelection())) {
      location.assign(row.dataset.href);
    }

    const cancel = event.target.closest("[data-closes]");
    if (cancel) {
      const panel = cancel.closest("details");
      panel.open = false;
      panel.querySelector("summary").focus();
    }
  });

  // One form of a case at a time: opening one closes the others.
  document.addEventListener("toggle", (event) => {
    const panel = event.target;
    if (!panel.matches || !panel.matches("details.action[open]")) return;
    const row = panel.closest(".queue > li");
    const others = row ? row.querySelectorAll("details.action[open]") : panel.parentElement.querySelectorAll(":scope > details.action[open]");
    for (const other of others) {
      if (other !== panel) other.open = false;
    }
  }, true);

  document.addEventListener("keydown", (event) => {
    if (event.key !== "Escape") return;
    // In a box it only leaves the box (keys.js): what was typed there is not put out of sight by one key.
    if (event.target.matches("input, textarea, select")) return;
    const open = "details.menu[open], details.action[open]";
    const panel = event.target.closest(open) || document.querySelector(open);
    if (panel) { panel.open = false; panel.querySelector("summary").focus(); }
  });

  // "Until 8:00" is the reader's own 8:00.
  document.addEventListener("click", (event) => {
    const form = event.target.closest("form");
    const zone = form && form.querySelector("[data-zone]");
    if (zone) zone.value = Intl.DateTimeFormat().resolvedOptions().timeZone;
  }, true);

  // A filter applies at once; without JavaScript its button does it.
  document.addEventListener("change", (event) => {
    if (event.target.matches("select[data-submits]")) event.target.form.requestSubmit();
  });

  // When the decide box is replaced because the case changed, what was typed moves into the new form of that name.
  let typed = {};
  document.addEventListener("htmx:beforeSwap", (event) => {
    if (event.detail.target.id !== "decide") return;
    typed = {};
    for (const box of event.detail.target.querySelectorAll("textarea")) if (box.value) typed[box.id] = box.value;
  });
  document.addEventListener("htmx:afterSwap", (event) => {
    if (event.detail.target.id !== "decide" || event.detail.requestConfig.verb === "post") return;
    for (const box of event.detail.target.querySelectorAll("textarea")) if (!box.value && typed[box.id]) box.value = typed[box.id];
  });

  // The theme without a reload: nothing that was typed is lost. Without JavaScript the form does it.
  document.addEventListener("submit", (event) => {
    const form = event.target;
    const choice = event.submitter;
    if (!form.matches(".theme-form") || !choice || choice.name !== "theme") return;
    event.preventDefault();
    root.dataset.theme = choice.value;
    form.querySelectorAll("button").forEach((b) => b.toggleAttribute("aria-current", b === choice));
    const secure = location.protocol === "https:" ? "; Secure" : "";
    document.cookie = "theme=" + choice.value + "; Path=/; Max-Age=31536000; SameSite=Lax" + secure;
    document.dispatchEvent(new Event("desk:theme"));
  });
  matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => document.dispatchEvent(new Event("desk:theme")));

  document.addEventListener("htmx:oobAfterSwap", (event) => {
    const answer = event.target.querySelector && event.target.querySelector("[data-answer]");
    if (answer) answer.focus();
  });

  // A form that answers in place: the answer takes the focus, so that it is read out and not looked for.
  document.addEventListener("htmx:afterSwap", (event) => {
    const answer = event.target.querySelector && event.target.querySelector("[data-answer]");
    const config = event.detail.requestConfig;
    if (answer && config && config.verb === "post") answer.focus();
  });
})();

// The keyboard: / search, g then a letter goes, j k move, Enter opens, a and x open a form. No single key acts.
"use strict";

(function () {
  const GO = { o: "/", i: "/incidents/", r: "/runs/", n: "/nodes/", p: "/policies/", t: "/reports/" };
  let going = 0;

  const rows = () => Array.from(document.querySelectorAll("main [data-href]")).filter((row) => row.offsetParent !== null);

  function move(step) {
    const all = rows();
    if (!all.length) return;
    const now = all.findIndex((row) => row.classList.contains("selected"));
    const next = now < 0 ? (step > 0 ? 0 : all.length - 1) : Math.min(all.length - 1, Math.max(0, now + step));
    all.forEach((row, index) => row.classList.toggle("selected", index === next));
    const link = all[next].querySelector("a");
    if (link) link.focus({ preventScroll: true });
    all[next].scrollIntoView({ block: "nearest" });
  }

  function openSelected() {
    const row = document.querySelector("main [data-href].selected");
    if (row) location.assign(row.dataset.href);
    return Boolean(row);
  }

  function openForm(name) {
    const panel = document.querySelector('details[data-key-name="' + name + '"]');
    if (!panel) return;
    const aside = panel.closest(".aside");
    if (aside) aside.setAttribute("data-open", "");
    panel.open = true;
    panel.scrollIntoView({ block: "nearest" });
    const first = panel.querySelector("textarea, input:not([type=hidden])");
    if (first) first.focus();
  }

  const KEYS = {
    "/": () => { const box = document.getElementById("search"); if (box) { box.focus(); box.select(); } },
    "?": () => { const help = document.getElementById("help"); if (!help.open) help.showModal(); },
    g: () => { going = Date.now(); },
    j: () => move(1),
    k: () => move(-1),
    a: () => openForm("approve"),
    c: () => openForm("approve"), // a comment goes with the approval
    x: () => openForm("reject"),
  };

  document.addEventListener("keydown", (event) => {
    if (event.ctrlKey || event.metaKey || event.altKey || event.isComposing) return;
    const target = event.target;
    if (target.matches("input, textarea, select") || target.isContentEditable) {
      if (event.key === "Escape") target.blur();
      return;
    }
    if (Date.now() - going < 1200 && GO[event.key]) {
      location.assign(GO[event.key]);
      return;
    }
    if (event.key === "Enter" && !target.matches("a, button, summary") && openSelected()) return;
    const does = KEYS[event.key];
    if (!does || document.querySelector("dialog[open]")) return;
    event.preventDefault();
    does();
  });
})();

// The keyboard: / search, g then a letter goes, j k move, Enter opens, a, x, s and u open a form. No single key acts.
"use strict";

(function () {
  const GO = { o: "/", i: "/incidents/", r: "/runs/", n: "/nodes/", p: "/policies/", t: "/reports/" };
  let going = 0;

  const rows = () => Array.from(document.querySelectorAll("main [data-href]")).filter((row) => row.offsetParent !== null);

  // The row that was moved to; after a refresh of the list it is known by the focus, which stays.
  function current() {
    const focus = document.activeElement.closest("main [data-href]");
    return focus || document.querySelector("main [data-href].selected");
  }

  function move(step) {
    const all = rows();
    if (!all.length) return;
    const now = all.indexOf(current());
    const next = now < 0 ? (step > 0 ? 0 : all.length - 1) : Math.min(all.length - 1, Math.max(0, now + step));
    all.forEach((row, index) => row.classList.toggle("selected", index === next));
    const link = all[next].querySelector("a");
    if (link) link.focus({ preventScroll: true });
    all[next].scrollIntoView({ block: "nearest" });
  }

  function openSelected() {
    const row = current();
    if (row) location.assign(row.dataset.href);
    return Boolean(row);
  }

  // In a list with forms in its rows it is the selected row's, and only where one is selected.
  function openForm(name) {
    const wanted = 'details[data-key-name="' + name + '"]';
    const list = document.querySelector(".queue");
    const row = current();
    const panel = list ? row && row.querySelector(wanted) : document.querySelector(wanted);
    if (!panel) return;
    const fold = panel.parentElement.closest("details");
    if (fold) fold.open = true;
    const aside = panel.closest(".aside");
    if (aside) aside.setAttribute("data-open", "");
    panel.open = true;
    panel.scrollIntoView({ block: "nearest" });
    const first = panel.querySelector("select, textarea, input:not([type=hidden]), button");
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
    s: () => openForm("snooze"),
    u: () => openForm("undo"),
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

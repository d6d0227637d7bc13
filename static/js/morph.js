// A swap style for htmx that changes only what differs: focus, scroll, selections, typed text and open panels stay.
"use strict";

(function () {
  const KEEP_OPEN = new Set(["DETAILS", "DIALOG"]); // the reader opened or closed it: not the server's business
  const TYPED = new Set(["INPUT", "TEXTAREA", "SELECT"]);

  function key(node) {
    if (node.nodeType !== Node.ELEMENT_NODE) return "";
    return node.id || node.getAttribute("data-key") || "";
  }

  function alike(a, b) {
    return a.nodeType === b.nodeType && a.nodeName === b.nodeName && key(a) === key(b);
  }

  function syncAttributes(old, fresh) {
    const own = (name) => name === "open" && KEEP_OPEN.has(old.nodeName);
    const chosen = old.classList.contains("selected"); // by the reader's keys (keys.js)
    for (const { name } of Array.from(old.attributes)) {
      if (!fresh.hasAttribute(name) && !own(name) && name !== "data-open") old.removeAttribute(name);
    }
    for (const { name, value } of Array.from(fresh.attributes)) {
      if (!own(name) && old.getAttribute(name) !== value) old.setAttribute(name, value);
    }
    if (chosen) old.classList.add("selected");
  }

  function morphNode(old, fresh) {
    if (old.nodeType !== Node.ELEMENT_NODE) {
      if (old.nodeValue !== fresh.nodeValue) old.nodeValue = fresh.nodeValue;
      return;
    }
    if (old.isEqualNode(fresh) || old.hasAttribute("data-keep")) return;
    // ages.js has put the reader's own time into it: only another moment is a change
    if (old.nodeName === "TIME" && ["datetime", "data-as"].every((a) => old.getAttribute(a) === fresh.getAttribute(a))) return;
    syncAttributes(old, fresh);
    if (TYPED.has(old.nodeName)) return;
    morphChildren(old, fresh);
  }

  function morphChildren(old, fresh) {
    let at = old.firstChild;
    for (const next of Array.from(fresh.childNodes)) {
      const match = find(at, next);
      if (match === null) {
        old.insertBefore(next, at);
        continue;
      }
      if (match !== at) old.insertBefore(match, at);
      morphNode(match, next);
      at = match.nextSibling;
    }
    while (at !== null) {
      const gone = at;
      at = at.nextSibling;
      gone.remove();
    }
  }

  // The node that `next` continues: one of the same key further on, or the present one if neither has a key.
  function find(at, next) {
    const wanted = key(next);
    if (!wanted) return at !== null && alike(at, next) ? at : null;
    for (let node = at; node !== null; node = node.nextSibling) {
      if (alike(node, next)) return node;
    }
    return null;
  }

  htmx.defineExtension("morph", {
    isInlineSwap: () => false,
    handleSwap: function (style, target, fragment) {
      if (style !== "morph") return false;
      const before = new Set(target.querySelectorAll("[hx-get], [hx-post]"));
      const focus = document.activeElement;
      morphChildren(target, fragment);
      // Browsers take the focus from an element that is moved: the reader's next key would go elsewhere.
      if (focus !== document.activeElement && focus.isConnected) focus.focus({ preventScroll: true });
      const added = Array.from(target.querySelectorAll("[hx-get], [hx-post]")).filter((e) => !before.has(e));
      added.forEach((element) => htmx.process(element));
      return true;
    },
  });
})();

// Live pages. One stream of changes (server-sent events) says *what* changed; the regions that show it are fetched
// again by htmx and morphed in place. Where the stream can't be had, the regions are asked for at a pace that adapts.
"use strict";

(function () {
  const url = document.body.dataset.liveUrl;
  if (!url) return;

  const COALESCE_MS = 150; // a transition writes several events at once
  const POLL_MS = { least: 3000, most: 30000 };
  const timers = new Map();
  const held = new Set(); // regions that wait until the reader's pointer or pen is out of them

  const regions = () => Array.from(document.querySelectorAll("[data-live]"));

  // Whether the reader's own form in it was sent, and is not answered yet: the answer needs the place it was sent from.
  const answering = (region) => region.querySelector("form[hx-post].htmx-request") !== null;

  // Nothing moves under the pointer, and nothing is replaced while somebody writes in it.
  function busy(region) {
    if (answering(region)) return true;
    const active = document.activeElement;
    if (region.hasAttribute("data-always")) return false; // keeps what is typed by itself
    if (region.contains(active) && active.matches("input, textarea, select")) return true;
    return region.hasAttribute("data-hold") && region.matches(":hover");
  }

  function refresh(region) {
    if (document.hidden || busy(region)) {
      held.add(region);
      return;
    }
    held.delete(region);
    htmx.trigger(region, "desk:refresh");
  }

  function soon(region) {
    if (timers.has(region)) return;
    timers.set(region, setTimeout(() => { timers.delete(region); refresh(region); }, COALESCE_MS));
  }

  function release() {
    for (const region of Array.from(held)) {
      if (!region.isConnected) held.delete(region);
      else if (!document.hidden && !busy(region)) refresh(region);
    }
  }

  function changed(kinds) {
    document.dispatchEvent(new CustomEvent("desk:changed", { detail: kinds }));
    for (const region of regions()) {
      const wanted = region.dataset.live.split(" ");
      if (kinds.some((kind) => wanted.includes(kind))) soon(region);
    }
  }

  const all = () => regions().forEach(soon);

  // --- the stream, and polling where it fails

  let stream = null;
  let poll = null;
  let pace = POLL_MS.least;
  let lost = null;

  function open() {
    stream = new EventSource(url);
    stream.addEventListener("change", (event) => {
      const told = JSON.parse(event.data);
      changed([told.kind, told.kind + "-" + told.subject].concat(told.incident ? ["incident", "incident-" + told.incident] : []));
    });
    stream.addEventListener("reset", all); // too much has happened to be told one by one
    stream.onopen = () => {
      document.documentElement.dataset.stream = "open";
      if (poll !== null) all(); // what happened in between
      stopPolling();
      say("");
    };
    stream.onerror = () => {
      document.documentElement.dataset.stream = "lost";
      startPolling();
      if (stream.readyState === EventSource.CLOSED) setTimeout(open, 15000); // refused: the browser gives up by itself
    };
  }

  function startPolling() {
    if (poll !== null) return;
    lost = lost || new Date();
    pace = POLL_MS.least;
    const again = () => {
      all();
      pace = Math.min(POLL_MS.most, pace * 1.5);
      poll = setTimeout(again, pace);
    };
    poll = setTimeout(again, pace);
  }

  function stopPolling() {
    clearTimeout(poll);
    poll = null;
    lost = null;
  }

  // A change was seen: look more often for a while.
  document.addEventListener("htmx:afterSwap", () => { pace = POLL_MS.least; });

  // What was asked for before the answer to the reader's own form came would undo that answer: it is asked for again.
  let answer = { at: 0, target: null };
  document.addEventListener("htmx:beforeRequest", (event) => { event.detail.xhr.askedAt = performance.now(); });
  document.addEventListener("htmx:beforeSwap", (event) => {
    const { requestConfig, target, xhr } = event.detail;
    if (requestConfig.verb === "post") answer = { at: performance.now(), target };
    else if (answering(target)) {
      event.detail.shouldSwap = false;
      held.add(target.closest("[data-live]") || target);
    } else if (xhr.askedAt < answer.at && (target.contains(answer.target) || answer.target.contains(target))) {
      event.detail.shouldSwap = false;
      soon(target.closest("[data-live]") || target);
    }
  });

  // --- the server itself is gone: what is shown stays, and says from when it is

  function say(text) {
    const bar = document.getElementById("offline");
    if (!bar) return;
    bar.textContent = text;
    bar.hidden = text === "";
  }

  document.addEventListener("htmx:sendError", () => {
    const since = lost || new Date();
    lost = since;
    say("No connection to Recovery Desk since " + since.toTimeString().slice(0, 8) + ". What you see is from then; it is tried again.");
  });
  document.addEventListener("htmx:afterRequest", (event) => {
    if (event.detail.successful) say("");
    setTimeout(release, 50);
  });

  // --- what changes without an event: ages of pictures, progress

  setInterval(() => {
    if (document.hidden) return;
    const now = Date.now();
    for (const region of regions()) {
      const every = Number(region.dataset.every) * 1000;
      if (!every) continue;
      const last = Number(region.dataset.asked || 0) || now;
      if (now - last >= every) soon(region);
      if (!region.dataset.asked || now - last >= every) region.dataset.asked = String(now);
    }
  }, 1000);

  document.addEventListener("visibilitychange", () => { if (!document.hidden) all(); });
  document.addEventListener("pointerout", () => setTimeout(release, 50));
  document.addEventListener("focusout", () => setTimeout(release, 50));
  // After htmx, which begins at the same event: what is told earlier would find nobody who fetches.
  document.addEventListener("DOMContentLoaded", open);
  window.desk = Object.assign(window.desk || {}, { refreshAll: all });
})();

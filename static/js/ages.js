// Times in the reader's own zone, with UTC and the age on hover; ages and deadlines that go on counting.
// Durations read as dashboard/wording.py says them.
"use strict";

(function () {
  const UNITS = [[86400, "d"], [3600, "h"], [60, "m"], [1, "s"]];
  const JOIN = "\u00a0";

  function duration(seconds) {
    const left = Math.max(0, Math.round(seconds));
    if (left === 0) return "0" + JOIN + "s";
    const first = UNITS.findIndex(([size]) => left >= size);
    const [size, unit] = UNITS[first];
    let text = Math.floor(left / size) + JOIN + unit;
    if (first + 1 < UNITS.length) {
      const [smaller, name] = UNITS[first + 1];
      const rest = Math.floor((left % size) / smaller);
      if (rest > 0) text += JOIN + rest + JOIN + name;
    }
    return text;
  }

  const two = (n) => String(n).padStart(2, "0");

  function clock(at, now) {
    const time = two(at.getHours()) + ":" + two(at.getMinutes());
    if (at.toDateString() === now.toDateString()) return time + ":" + two(at.getSeconds());
    return at.getFullYear() + "-" + two(at.getMonth() + 1) + "-" + two(at.getDate()) + " " + time;
  }

  const SAY = {
    clock: clock,
    age: (at, now) => duration((now - at) / 1000) + " ago",
    since: (at, now) => duration((now - at) / 1000),
    until: (at, now) => (at >= now ? "in " + duration((at - now) / 1000) : duration((now - at) / 1000) + " ago (overdue)"),
  };

  function utc(at) {
    return at.toISOString().slice(0, 19).replace("T", " ") + " UTC";
  }

  function tick() {
    const now = new Date();
    for (const element of document.querySelectorAll("time[data-as]")) {
      const at = new Date(element.dateTime);
      const text = SAY[element.dataset.as](at, now);
      if (element.textContent !== text) element.textContent = text;
      const away = at <= now ? duration((now - at) / 1000) + " ago" : "in " + duration((at - now) / 1000);
      const title = utc(at) + ", " + away;
      if (element.title !== title) element.title = title;
    }
    stale(now);
  }

  // A picture grows old by itself, also when no server says so any more.
  function stale(now) {
    for (const element of document.querySelectorAll("[data-stale-after]")) {
      const time = element.querySelector("time");
      const chip = element.querySelector(".chip");
      if (!time || !chip) continue;
      const old = (now - new Date(time.dateTime)) / 1000 > Number(element.dataset.staleAfter);
      if (!old || element.dataset.picture !== "live") continue;
      element.dataset.picture = "stale";
      chip.className = "chip tone-warning";
      chip.querySelector(".glyph").textContent = "◐";
      chip.lastChild.textContent = "Stale";
    }
  }

  window.desk = Object.assign(window.desk || {}, { duration: duration });
  document.addEventListener("htmx:afterSwap", tick);
  document.addEventListener("htmx:oobAfterSwap", tick);
  document.addEventListener("visibilitychange", tick);
  setInterval(() => document.hidden || tick(), 1000);
  tick();
})();

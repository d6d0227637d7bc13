// Draws the figures that dashboard/charts.py builds: for the size and theme at hand, in the reader's time zone.
"use strict";

(function () {
  const ISO = /^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d+)?Z$/;
  const two = (n) => String(n).padStart(2, "0");

  // plotly draws a date as it is written: a moment in UTC is written in the reader's zone first.
  function local(text) {
    const at = new Date(text);
    return at.getFullYear() + "-" + two(at.getMonth() + 1) + "-" + two(at.getDate()) + " " +
      two(at.getHours()) + ":" + two(at.getMinutes()) + ":" + two(at.getSeconds()) + "." + String(at.getMilliseconds()).padStart(3, "0");
  }

  function inZone(value) {
    if (typeof value === "string") return ISO.test(value) ? local(value) : value;
    if (Array.isArray(value)) return value.map(inZone);
    if (value && typeof value === "object") {
      return Object.fromEntries(Object.entries(value).map(([name, item]) => [name, inZone(item)]));
    }
    return value;
  }

  function theme() {
    const chosen = document.documentElement.dataset.theme;
    if (chosen === "light" || chosen === "dark") return chosen;
    return matchMedia("(prefers-color-scheme: dark)").matches ? "dark" : "light";
  }

  function say(box, text) {
    let wait = box.querySelector(".wait");
    if (!wait) {
      wait = document.createElement("p");
      wait.className = "wait";
      box.append(wait);
    }
    wait.textContent = text;
    box.setAttribute("role", "group"); // what is in an img is not read out
  }

  async function draw(box) {
    const width = Math.round(box.clientWidth);
    if (!width) return;
    if (box.dataset.busy) { // what is being drawn may be of the old theme or size: once more afterwards
      box.dataset.busy = "again";
      return;
    }
    box.dataset.busy = "yes";
    box.dataset.width = String(width);
    try {
      const url = new URL(box.dataset.chart, location.href);
      url.searchParams.set("width", String(width));
      url.searchParams.set("theme", theme());
      const answer = await fetch(url, { headers: { Accept: "application/json" }, credentials: "same-origin" });
      if (!answer.ok) throw new Error("the server answered " + answer.status);
      const told = await answer.json();
      if (told.empty) {
        if (box.dataset.state === "drawn") Plotly.purge(box);
        box.dataset.state = "empty";
        say(box, told.empty);
        return;
      }
      const figure = inZone(told);
      const zone = Intl.DateTimeFormat().resolvedOptions().timeZone;
      figure.layout.xaxis.title = { text: "time (" + zone + ")", font: { size: 11 }, standoff: 2 };
      figure.layout.uirevision = "kept"; // a zoom stays when fresh data comes
      const entries = figure.data.filter((trace) => trace.showlegend !== false).length;
      const rows = Math.ceil((entries * 150) / (width - 80)); // so many lines the legend takes
      figure.layout.margin.b = 56 + 20 * rows;
      if (width < 560) figure.layout.xaxis.title.text = ""; // the dates below the hours take its place
      if (box.dataset.state !== "drawn") box.dataset.state = "loading"; // the height is that of a chart again
      figure.layout.width = width;
      figure.layout.height = box.clientHeight;
      const old = box.querySelector(":scope > .wait");
      if (old) old.remove();
      await Plotly.react(box, figure.data, figure.layout, { displayModeBar: false, displaylogo: false, scrollZoom: false, doubleClick: "reset" });
      box.dataset.state = "drawn";
      box.setAttribute("role", "img");
    } catch (error) {
      box.dataset.state = box.dataset.state === "drawn" ? "drawn" : "failed";
      if (box.dataset.state === "failed") say(box, "The chart could not be drawn: " + error.message + ". The figures are in the table.");
    } finally {
      const again = box.dataset.busy === "again";
      delete box.dataset.busy;
      if (again) draw(box);
    }
  }

  const boxes = () => Array.from(document.querySelectorAll("[data-chart]"));
  const drawAll = () => boxes().forEach(draw);

  let later = null;
  const soon = () => { clearTimeout(later); later = setTimeout(drawAll, 200); };

  // a list beside it that grows changes nothing for a chart
  const isOther = (box) => Math.round(box.clientWidth) !== Number(box.dataset.width || 0);
  new ResizeObserver(() => { if (boxes().some(isOther)) soon(); }).observe(document.querySelector("main"));
  document.addEventListener("desk:theme", drawAll);
  document.addEventListener("desk:changed", (event) => {
    for (const box of boxes()) if (event.detail.includes(box.dataset.chartOn)) soon();
  });
  setInterval(() => {
    if (document.hidden) return;
    for (const box of boxes()) {
      const every = Number(box.dataset.chartEvery) * 1000;
      const now = Date.now();
      if (every && now - Number(box.dataset.drawnAt || now) >= every) draw(box);
      if (!box.dataset.drawnAt || now - Number(box.dataset.drawnAt) >= every) box.dataset.drawnAt = String(now);
    }
  }, 2000);
  drawAll();
})();

"use strict";
// Filters what is on the page, and opens what a link points at. Without it the page shows everything.
(() => {
  const form = document.querySelector("form.filter");

  const spans = (text) =>
    (text.match(/\d+(\s*-\s*\d+)?/g) || []).map((part) => {
      const [low, high] = part.split("-").map(Number);
      return [low, high === undefined ? low : high];
    });

  const meet = (a, b) => a.some(([low, high]) => b.some(([from, to]) => from <= high && low <= to));

  function apply() {
    const wanted = spans(form.ranks.value);
    const kind = form.what.value;
    const standings = new Set([...form.querySelectorAll("[name=standing]:checked")].map((box) => box.value));
    const byRank = (el) => !wanted.length || meet(spans(el.dataset.ranks || ""), wanted);
    const byKind = (el) => standings.has(el.dataset.kind) && (!kind || el.dataset.what === kind);
    let shown = 0;
    const cards = document.querySelectorAll("details.failure");
    for (const card of cards) {
      card.hidden = !(byRank(card) && byKind(card));
      shown += !card.hidden;
    }
    for (const el of document.querySelectorAll("g.lane, tr[data-ranks], figure[data-ranks]"))
      el.classList.toggle("off", !byRank(el));
    for (const mark of document.querySelectorAll("a.mark")) mark.classList.toggle("off", !byKind(mark));
    const words = form.shown.dataset.words.replace("{shown}", shown).replace("{all}", cards.length);
    form.shown.value = shown === cards.length ? "" : words;
  }

  function reveal() {
    const target = location.hash.length > 1 && document.getElementById(location.hash.slice(1));
    if (!target) return;
    for (let el = target; el; el = el.parentElement) if (el.tagName === "DETAILS") el.open = true;
    target.hidden = false;
    target.scrollIntoView({ block: "nearest" });
  }

  if (form) {
    form.hidden = false;
    form.addEventListener("input", apply);
    form.addEventListener("submit", (event) => event.preventDefault());
  }
  addEventListener("hashchange", reveal);
  reveal();

  // On paper everything stands open but what is only context.
  let closed = [];
  addEventListener("beforeprint", () => {
    closed = [...document.querySelectorAll("details:not([open], .aside)")];
    for (const el of closed) el.open = true;
  });
  addEventListener("afterprint", () => {
    for (const el of closed) el.open = false;
  });
})();

"use strict";
// Beginning: decode, build, draw. `viewer` is what tests and a console look at.

async function begin() {
  const facts = document.getElementById("facts");
  if (typeof DecompressionStream === "undefined") {
    facts.textContent = "This browser is too old to show the run: it has no DecompressionStream. Chromium 85, Firefox 113 or Safari 16.4 have it.";
    return;
  }
  const begun = performance.now();
  const model = new Model(await unpack(document.getElementById("data").textContent)), words = new Words(model), { head } = model;
  facts.textContent = `${head.device}, makespan ${number(head.makespan)} cycles = ${words.us(head.makespan)}`
    + (model.isWhole ? "" : `, ${number(model.count)} of ${number(head.rows)} rows are here`);
  document.getElementById("name").textContent = head.name;
  const cautions = document.getElementById("cautions");
  cautions.textContent = head.cautions.join(". ");
  cautions.hidden = !head.cautions.length;
  const view = new View(model, words, new Theme());
  view.finder = new Finder(model, view);
  view.panels = new Panels(model, words, view);
  view.drawNow();
  view.drawNow(); // the first draws before the layout is known
  window.viewer = { model, words, view, panels: view.panels, milliseconds: performance.now() - begun };
}

begin().catch((error) => {
  document.getElementById("facts").textContent = `The page's data cannot be read: ${error.message}`;
  throw error;
});

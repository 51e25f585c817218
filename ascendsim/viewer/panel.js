"use strict";
// The panels at the side: overview, what is selected, findings, source, critical path.

const PANELS = ["overview", "selected", "findings", "source", "critical"];
const MOST_USERS = 40, MOST_STEPS = 60, VALUES_IN_LINE = 4;

/** A text that may be broken behind each _ and : if its column is narrow. */
function breakable(text) {
  const parts = text.split(/(?<=[_:])(?=\w)/);
  return parts.flatMap((part, i) => (i ? [element("wbr"), part] : [part]));
}

class Panels {
  constructor(model, words, view) {
    Object.assign(this, { model, words, view, head: model.head, finding: -1 });
    this.tabs = PANELS.map((name) => document.getElementById(`tab-${name}`));
    this.tabs.forEach((tab, i) => tab.addEventListener("click", () => this.show(PANELS[i])));
    document.getElementById("tabs").addEventListener("keydown", (event) => this.turn(event));
    this.overview();
    this.findings();
    this.source();
    this.critical();
    this.row(-1);
    this.show("overview");
  }

  panel(name) { return document.getElementById(`panel-${name}`); }

  show(name) {
    PANELS.forEach((other, i) => {
      this.panel(other).hidden = other !== name;
      this.tabs[i].setAttribute("aria-selected", String(other === name));
      this.tabs[i].tabIndex = other === name ? 0 : -1;
    });
    this.shown = name;
    if (name === "source" && !(this.chosenLine >= 0)) this.rowsOfLine.get(this.hottest)?.scrollIntoView({ block: "center" });
  }

  /** Left and right turn to the next panel, as tabs do. */
  turn(event) {
    const step = { ArrowRight: 1, ArrowLeft: -1 }[event.key];
    if (!step) return;
    event.preventDefault();
    event.stopPropagation();
    const there = PANELS.filter((_, i) => !this.tabs[i].hidden);
    const name = there[(there.indexOf(this.shown) + step + there.length) % there.length];
    this.show(name);
    this.tabs[PANELS.indexOf(name)].focus();
  }

  // ---- overview

  overview() {
    const { head } = this, parts = [element("h2", {}, "Run"), listOf(head.headline)];
    parts.push(element("h2", {}, "Use of the pipes"), ...this.use(head.tables.find(([title]) => title === "Pipes")));
    if (head.waits.length) {
      parts.push(element("h2", {}, "What was waited for most"), element("ul", { class: "list" }, ...head.waits.map((wait) =>
        element("li", {}, element("button", { type: "button", onclick: () => this.view.goToWait(wait) }, wait[0])))));
    }
    for (const [title, heads, rows] of head.tables) {
      if (title !== "Pipes" && !title.startsWith("Critical path")) parts.push(...this.titled([title, heads, rows]));
    }
    parts.push(element("h2", {}, "Files of the run"), element("dl", {}, ...head.files.flatMap(([name, what]) =>
      [element("dt", {}, element("a", { href: name }, name)), element("dd", {}, what)])));
    parts.push(element("p", { class: "soft" }, `${head.tool}, digest ${head.digest}`));
    this.panel("overview").replaceChildren(...parts);
  }

  /** A bar for each pipe: at work, and held. */
  use(table) {
    if (!table) return [element("p", {}, "no pipe has work")];
    const colours = new Map(Object.values(this.head.pipes));
    return [element("div", { class: "use" }, ...table[2].flatMap(([lane, busy, stalled, idle]) => [
      element("span", {}, lane),
      element("span", { class: "track", title: `busy ${busy}, stalled ${stalled}, idle ${idle}` },
        element("i", { style: `width:${busy};background:${colours.get(lane.split(" ").pop())}` }),
        element("i", { class: "stalled", style: `width:${stalled}` })),
      element("span", {}, busy),
    ])), element("p", { class: "soft" }, "coloured: busy; hatched: held by a flag, a buffer or a barrier; blank: idle")];
  }

  titled([title, heads, rows]) {
    return [element("h2", {}, title), element("div", { class: "scroll" }, this.table(heads, rows))];
  }

  table(heads, rows) {
    const isNumber = heads.map((_, i) => rows.every((row) => /^[\d.,%+-]+$/.test(row[i]) || row[i] === ""));
    const cell = (name) => (text, i) => element(name, { class: isNumber[i] ? "number" : null }, ...breakable(text));
    return element("table", {}, element("thead", {}, element("tr", {}, ...heads.map(cell("th")))),
      element("tbody", {}, ...rows.map((row) => element("tr", {}, ...row.map(cell("td"))))));
  }

  // ---- the selection

  button(text, act, isThere = true) {
    return element("button", { type: "button", onclick: act, disabled: !isThere }, text);
  }

  /** Show a row; -1 shows how to select one. */
  row(row) {
    const panel = this.panel("selected"), { model, words, view } = this;
    if (row < 0) {
      panel.replaceChildren(element("p", { class: "soft" }, "Click an instruction in a lane, or a buffer in the memory."));
      return;
    }
    const partners = model.partners(row), releaser = model.releaser(row), lives = model.operands(row)
      .map((operand) => [operand, model.lifeOf(row, operand)]).filter(([, life]) => life);
    const parts = [element("h2", {}, words.title(row)), listOf(words.facts(row)), element("div", { class: "row" },
      this.button("Previous ([)", () => view.neighbour(-1)), this.button("Next (])", () => view.neighbour(1)),
      this.button("Flag's partner (j)", () => view.jump(), partners.length > 0),
      this.button("What released it (w)", () => view.goTo(releaser), releaser >= 0),
      this.button("Source line (s)", () => view.showLine(model.line(row))))];
    for (const partner of partners) parts.push(element("p", {}, `${model.kind[row] === WAIT ? "takes the flag set by" : "its flag is taken by"} `, this.link(partner)));
    if (releaser >= 0) parts.push(element("p", {}, "released by ", this.link(releaser)));
    if (lives.length) parts.push(element("h2", {}, "Its operands on chip"), element("div", { class: "row" }, ...lives.map(([operand, life]) =>
      this.button(`${operand.role} ${operand.name}`, () => view.selectLife(life.place, life.at, true)))));
    parts.push(...this.values(row));
    panel.replaceChildren(...parts);
  }

  /** What a row found and left, where the page has it, and how to get it or more of it. */
  values(row) {
    const known = this.head.values[this.model.number[row]], { why, how, more } = this.head.hints, { words } = this;
    if (!known && !this.model.operands(row).length) return [];
    const parts = [element("h2", {}, "Values before and after")];
    if (known) parts.push(...(known[0].length ? [listOf(known[0])] : []), ...known[1].flatMap((operand) => this.operandValues(operand)));
    else parts.push(element("p", { class: "soft" }, `Of this row there are none: ${why}.`));
    const isMore = !known || known[1].some(([, , count, , kept]) => kept.length < count);
    if (how && isMore) parts.push(element("p", { class: "soft" }, known ? "More of them: " : "To get them: ", element("code", {}, words.command(known ? more : how, row))));
    return parts;
  }

  /** An operand's elements: both columns where something changed, else several in a line. */
  operandValues([role, place, count, changed, elements, before, after]) {
    const shown = elements.length < count ? `, the first ${number(elements.length)} of ` : ", ";
    const title = element("p", { class: "operand" }, element("b", {}, role), ` ${place}${shown}${number(count)} element${count === 1 ? "" : "s"}`
      + (changed < 0 ? "" : `; ${number(changed)} changed`));
    if (after.length) {
      return [title, this.table(["element", "before", "after"], elements.map((at, i) => [String(at), before[i], after[i]]))];
    }
    const lines = [];
    for (let i = 0; i < elements.length; i += VALUES_IN_LINE) lines.push([String(elements[i]), ...before.slice(i, i + VALUES_IN_LINE)]);
    for (const line of lines) while (line.length <= VALUES_IN_LINE && lines.length > 1) line.push("");
    return [title, element("div", { class: "scroll" }, this.table(["element", "value", ...lines[0]?.slice(2).map(() => "") ?? []], lines))];
  }

  link(row) {
    return element("button", { type: "button", onclick: () => this.view.goTo(row) }, this.words.short(row));
  }

  life(place, at) {
    const { model, words } = this, facts = words.lifeFacts(place, at), strip = place.strip;
    const users = model.users(place, strip.start[at], strip.stop[at], MOST_USERS);
    this.panel("selected").replaceChildren(element("h2", {}, `${place.name} in ${place.memory}`), listOf(facts),
      element("h2", {}, `Instructions that use it meanwhile${users.length === MOST_USERS ? `, the first ${MOST_USERS}` : ""}`),
      element("ul", { class: "list" }, ...users.map((row) => element("li", {}, element("button", { type: "button", onclick: () => this.view.goTo(row) },
        `${words.pipe(row)} at ${number(model.start[row])}: ${words.title(row)}`)))));
  }

  // ---- findings

  findings() {
    const { head } = this, found = head.findings;
    document.getElementById("tab-findings").textContent = `Findings (${found.length})`;
    const items = found.map((finding, i) => element("li", {}, element("button", { type: "button", onclick: () => this.goToFinding(i) },
      element("b", { class: finding.severity }, finding.code), ` ${finding.where ? `${finding.where}: ` : ""}${finding.message}`,
      ...(finding.count > 1 ? [element("span", { class: "more" }, ` (${number(finding.count)} times)`)] : []),
      ...(finding.hint ? [element("div", { class: "more" }, `To mend it: ${finding.hint}`)] : []),
      ...(finding.suppressed ? [element("div", { class: "more" }, `Accepted: ${finding.suppressed}`)] : []))));
    this.panel("findings").replaceChildren(items.length
      ? element("ul", { class: "list" }, ...items) : element("p", { class: "soft" }, "No rule is violated."));
    this.items = items;
  }

  /** The next finding, or the one before. */
  nextFinding(step) {
    const count = this.head.findings.length;
    if (!count) return this.view.say("there are no findings");
    this.goToFinding(this.finding < 0 ? (step > 0 ? 0 : count - 1) : (this.finding + step + count) % count);
  }

  goToFinding(index) {
    this.finding = index;
    this.show("findings");
    this.items.forEach((item, i) => item.firstChild.setAttribute("aria-current", String(i === index)));
    this.items[index].scrollIntoView({ block: "nearest" });
    this.view.goToFinding(this.head.findings[index]);
  }

  // ---- source

  source() {
    const { head } = this, files = new Map();
    this.cost = new Map(head.line_cycles.map(([line, ...rest]) => [line, rest]));
    head.lines.forEach((text, line) => {
      const cut = text.lastIndexOf(":"), file = cut < 0 ? text : text.slice(0, cut);
      if (!files.has(file)) files.set(file, new Map());
      files.get(file).set(cut < 0 ? 0 : Number(text.slice(cut + 1)), line);
    });
    this.files = [...files].sort((a, b) => this.total(b[1]) - this.total(a[1]));
    this.chooser = element("select", { "aria-label": "File" }, ...this.files.map(([file, lines]) =>
      element("option", { value: file }, `${file} (${cycles(this.total(lines))})`)));
    this.chooser.addEventListener("change", () => { this.file(this.chooser.value); this.show("source"); });
    this.listing = element("div", { class: "listing", tabindex: 0, "aria-label": "Source with cycles" });
    this.lineInfo = element("div", { class: "chosen" });
    this.panel("source").replaceChildren(element("p", {}, this.chooser), this.listing, this.lineInfo);
    if (this.files.length) this.file(this.files[0][0]);
  }

  total(lines) {
    return [...lines.values()].reduce((sum, line) => sum + (this.cost.get(line)?.[0] ?? 0), 0);
  }

  file(file) {
    const lines = new Map(this.files.find(([name]) => name === file)[1]), text = this.head.sources[file];
    const most = Math.max(1, ...this.head.line_cycles.map(([, work]) => work));
    const shown = text === undefined ? [...lines.keys()].sort((a, b) => a - b).map((at) => [at, ""]) : text.split("\n").map((code, i) => [i + 1, code]);
    this.rowsOfLine = new Map();
    this.hottest = [...lines.values()].reduce((a, b) => ((this.cost.get(b)?.[0] ?? 0) > (this.cost.get(a)?.[0] ?? 0) ? b : a));
    this.listing.replaceChildren(
      ...(text === undefined ? [element("p", { class: "soft" }, "The text of this file is not part of the run.")] : []),
      element("table", { class: "source code" }, element("thead", {}, element("tr", {}, ...["line", "cycles", "waited", "times", ""].map((head, i) => element("th", { class: i < 4 ? "number" : null }, head)))),
        element("tbody", {}, ...shown.map(([at, code]) => {
          const line = lines.get(at), [work, wait, times] = this.cost.get(line) ?? [];
          const first = line === undefined ? element("td", { class: "number plain" }, String(at))
            : element("td", { class: "number" }, element("button", { type: "button", title: "Show this line's instructions", onclick: () => this.view.showLine(line) }, at ? String(at) : "·"));
          const cells = [work, wait, times].map((value, i) => element("td", {
            class: `number${i === 0 && value ? " heat" : ""}`, style: i === 0 && value ? `--heat:${Math.round(70 * work / most)}%` : null,
          }, value === undefined ? "" : number(value)));
          const row = element("tr", {}, first, ...cells, element("td", { class: line === undefined ? "plain" : null }, code));
          if (line !== undefined) this.rowsOfLine.set(line, row);
          return row;
        }))));
    this.markLine();
  }

  /** Show a kernel line's source and instructions; -1 for none. */
  line(line) {
    this.chosenLine = line;
    if (line >= 0) {
      const file = this.files.find(([, lines]) => [...lines.values()].includes(line))[0];
      if (this.chooser.value !== file || !this.rowsOfLine.has(line)) { this.chooser.value = file; this.file(file); }
      this.show("source");
    }
    this.markLine();
    this.rowsOfLine.get(line)?.scrollIntoView({ block: "center" });
  }

  markLine() {
    for (const [line, row] of this.rowsOfLine ?? []) row.setAttribute("aria-selected", String(line === this.chosenLine));
    if (this.chosenLine === undefined || this.chosenLine < 0) return this.lineInfo.replaceChildren();
    const { head, view } = this, kinds = new Map();
    head.instructions.forEach(([op, pipe, line, , size, dtype]) => {
      if (line === this.chosenLine) {
        const key = [head.pipes[pipe][0], head.ops[op][0], size, dtype].filter(Boolean).join(" ");
        kinds.set(key, (kinds.get(key) ?? 0) + 1);
      }
    });
    this.lineInfo.replaceChildren(element("h2", {}, `Instructions of ${head.lines[this.chosenLine]}`),
      element("div", { class: "row" }, this.button("First", () => view.goToLine(false)), this.button("Next (l)", () => view.goToLine(true)),
        this.button("Show all lines again (Esc)", () => view.showLine(-1))),
      element("ul", {}, ...[...kinds].slice(0, MOST_USERS).map(([text, count]) => element("li", {}, count > 1 ? `${text} (${count} in the program)` : text))));
  }

  // ---- critical path

  critical() {
    const { model, head, words, view } = this, steps = model.critical;
    document.getElementById("critical-label").hidden = document.getElementById("tab-critical").hidden = !steps.length;
    if (!steps.length) return;
    const longest = steps.filter((step) => step.row >= 0).sort((a, b) => b.end - b.begin - (a.end - a.begin)).slice(0, MOST_STEPS);
    this.panel("critical").replaceChildren(
      element("p", {}, "What the makespan hangs on: from its begin to its end, one stretch at each moment. A row stands on it twice where its dispatch does, too."),
      ...head.tables.filter(([title]) => title.startsWith("Critical path")).flatMap((table) => this.titled(table)),
      element("h2", {}, "Longest steps"),
      element("ul", { class: "list" }, ...longest.map((step) => element("li", {}, element("button", { type: "button", onclick: () => view.goTo(step.row) },
        `${cycles(step.end - step.begin)} from ${number(step.begin)}: ${words.title(step.row)} on ${words.place(step.row)}, waited for: ${step.edge}`)))));
  }
}

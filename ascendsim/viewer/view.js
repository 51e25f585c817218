"use strict";
// What is seen of the run, and how keys and pointer change it.

const LEAST_CYCLES = 8, NEAR = 4, CLICK = 3;
const LEAST_STEP = 12; // pixels of a usual step; steps are not shown if they were narrower
const SAME_SCALE = 1e-6; // by which scales of one zoom may differ: panning rounds both ends of the view

const NO_STEPS = "not known here; the cycles of each over the whole run are in the overview";

const KEYS = [
  ["← →", "pan"], ["↑ ↓, PageUp PageDown", "scroll through the cores"], ["+ −", "zoom in, out"], ["0", "the whole run"],
  ["Home End", "begin, end of the run"], ["[ ]", "instruction before, behind, in the lane"], ["j or Enter", "from a flag to its partner, and back"],
  ["w", "to what released the selected instruction"], ["n p", "next finding, the one before"], ["s", "source line of the selected instruction"],
  ["l", "next instruction of the chosen source line"], ["/", "search: then Enter, Shift+Enter to the next match, the one before; Esc ends it"], ["m", "memory of the next core"], ["a", "arrows of flags"], ["c", "critical path"], ["t", "marked steps"],
  ["f", "fold or unfold all cores"], ["Esc", "select nothing"], ["?", "this help"],
];
const POINTER = [
  ["wheel", "zoom where the pointer is; over the names, or with Alt: scroll through the cores; with Shift: pan"],
  ["drag", "pan; on the ruler, or with Shift, zoom to the range"], ["click", "select; a selected flag: go to its partner; a core's name: fold it; a step: its first instruction"],
  ["double click", "zoom in on it"],
];

class View {
  constructor(model, words, theme) {
    Object.assign(this, { model, words, theme, head: model.head });
    Object.assign(this, { from: 0, to: model.makespan, scroll: 0, right: GUTTER + 800, height: 400, ratio: 1 });
    Object.assign(this, { selected: -1, life: null, pointer: null, range: null, line: -1, meant: null });
    Object.assign(this, { showArrows: true, showCritical: true, showSteps: true, stepsShown: false, pointerY: null });
    this.folded = new Set();
    this.core = model.cores[0] ?? 0;
    this.painter = new Painter(model, words, this, theme);
    this.sheets = Object.fromEntries(["lanes", "memory", "map"].map((name) => [name, new Sheet(document.getElementById(name))]));
    this.tip = document.getElementById("tip");
    this.waiting = false;
    this.drawn = 0;
    theme.changed = () => this.draw();
    this.listen();
    document.getElementById("map").style.height = `${this.painter.mapHeight()}px`;
    this.setCore(this.core);
  }

  // ---- geometry

  /** How far it is zoomed in, and from which cycle its columns are counted: a new level begins where the view does. */
  get level() {
    const scale = (this.right - GUTTER) / (this.to - this.from), { ratio } = this, known = this._level;
    if (known && known.ratio === ratio && Math.abs(scale / known.scale - 1) < SAME_SCALE) return known;
    return (this._level = { scale, ratio, grain: Math.max(1, Math.round(ratio)) / ratio, from: this.from });
  }

  get scale() { return this.level.scale; }

  /** Pixels from where the level's columns begin to the view's left edge; whole columns, so that to pan moves columns and changes none. */
  get shift() {
    const { scale, grain, from } = this.level;
    return Math.round((this.from - from) * scale / grain) * grain;
  }

  /** What is in view. */
  get stretch() {
    const { level, shift } = this, first = Math.round(shift / level.grain);
    return new Stretch(level, first, first + Math.ceil((this.right - GUTTER) / level.grain), GUTTER);
  }

  x(cycle) { return GUTTER + (cycle - this.level.from) * this.scale - this.shift; }
  cycle(x) { return this.level.from + (x - GUTTER + this.shift) / this.scale; }

  /** Headers and lanes from top to bottom, y from the first. */
  *lines() {
    let y = 0;
    for (const core of this.model.cores) {
      const folded = this.folded.has(core);
      yield { core, folded, lane: null, y, height: HEADER };
      y += HEADER;
      if (folded) continue;
      for (const lane of this.model.lanesOf.get(core)) {
        if (this.stepsShown && this.model.steps.isOn(lane)) { yield { core, lane, steps: true, y, height: STEPS }; y += STEPS; }
        yield { core, lane, y, height: LANE };
        y += LANE;
      }
      y += 2;
    }
  }

  get contentHeight() {
    let end = 0;
    for (const { y, height } of this.lines()) end = y + height;
    return end + 6;
  }

  visibleLines() {
    const found = [];
    for (const line of this.lines()) {
      const y = line.y - this.scroll + RULER;
      if (y + line.height > RULER && y < this.height) found.push({ ...line, y });
    }
    return found;
  }

  get hasRoomForSteps() { return this.model.steps.usual * this.scale >= LEAST_STEP; }

  /** Steps come and go with the zoom; what is under the pointer stays there, or the selected row, or what is on top. */
  arrange() {
    const shown = this.showSteps && this.hasRoomForSteps;
    if (shown === this.stepsShown) return;
    const lane = this.model.lanes[this.model.laneOf[this.selected]], lines = this.visibleLines().filter((line) => !line.steps);
    const at = this.pointerY ?? lines.find((line) => lane && line.lane === lane)?.y ?? RULER;
    const kept = lines.find((line) => at < line.y + line.height);
    const y = () => [...this.lines()].find((line) => !line.steps && line.core === kept.core && line.lane === kept.lane).y;
    const before = kept ? y() : 0;
    this.stepsShown = shown;
    if (kept) this.scroll += y() - before;
    this.scroll = this.within(this.scroll);
  }

  /** Share of what is in view that a lane was at work. */
  busyShare(lane, strip) {
    return strip.busyBetween(this.from, this.to) / (this.to - this.from);
  }

  // ---- changing what is seen

  draw() {
    if (this.waiting) return;
    this.waiting = true;
    requestAnimationFrame(() => { this.waiting = false; this.drawNow(); });
  }

  drawNow() {
    this.painter.drawLanes(this.sheets.lanes);
    this.painter.drawMemory(this.sheets.memory);
    this.painter.drawMap(this.sheets.map);
    document.getElementById("range").textContent = `cycles ${this.words.span(Math.round(this.from), Math.round(this.to))}`;
    this.drawn++;
  }

  /** Show a stretch of time, kept within the run. */
  look(from, to) {
    const end = this.model.makespan, length = Math.min(end, Math.max(LEAST_CYCLES, to - from));
    const first = Math.min(Math.max(0, to - from < LEAST_CYCLES ? (from + to - length) / 2 : from), end - length);
    this.from = first;
    this.to = first + length;
    this.draw();
  }

  pan(share) { const by = share * (this.to - this.from); this.look(this.from + by, this.to + by); }

  zoom(factor, at = (this.from + this.to) / 2) {
    this.look(at - (at - this.from) * factor, at + (this.to - at) * factor);
  }

  scrollBy(pixels) {
    this.scroll = this.within(this.scroll + pixels);
    this.draw();
  }

  /** The nearest place to scroll to. */
  within(scroll) {
    return Math.round(Math.min(Math.max(0, scroll), Math.max(0, this.contentHeight - (this.height - RULER))));
  }

  foldAll() {
    if (this.folded.size) this.folded.clear(); else this.model.cores.forEach((core) => this.folded.add(core));
    this.scrollBy(0);
  }

  fold(core) {
    if (!this.folded.delete(core)) this.folded.add(core);
    this.scrollBy(0);
  }

  /** Choose whose memory is shown; what lies in several memories gets more room. */
  setCore(core) {
    this.core = core;
    const memories = this.model.memoryOf.get(core)?.size ?? 0;
    document.getElementById("memory").style.height = `${Math.min(280, 120 + 40 * memories)}px`;
    document.getElementById("core").value = String(core);
    this.draw();
  }

  setSteps(isOn) {
    this.showSteps = isOn;
    this.draw();
    if (isOn && !this.hasRoomForSteps) this.say("marked steps are shown when you zoom in");
  }

  say(text) {
    const status = document.getElementById("status");
    status.textContent = status.title = text;
  }

  // ---- selecting

  select(row, { open = true } = {}) {
    this.selected = row;
    this.life = null;
    this.panels.row(row);
    this.finder.tell();
    if (row >= 0) {
      this.setCore(this.model.core(row));
      const operand = this.model.operands(row).find((one) => one.memory !== "GM");
      this.life = operand ? this.model.lifeOf(row, operand) : null;
      this.say(`${this.words.short(row)}: cycles ${this.words.span(this.model.start[row], this.model.end[row])}`
        + (this.words.waited(row) ? `, waited ${this.words.waited(row)}` : ""));
      if (open) this.panels.show("selected");
    } else this.say("");
    this.draw();
  }

  selectLife(place, at, shows = false) {
    this.life = { place, at };
    this.setCore(place.core);
    this.panels.life(place, at);
    this.panels.show("selected");
    if (shows) this.reveal(place.strip.start[at], place.strip.stop[at]);
    this.say(`${place.name} in ${place.memory}, cycles ${this.words.span(place.strip.start[at], place.strip.stop[at])}`);
    this.draw();
  }

  /** Bring a stretch of time into view, wide enough to be seen. */
  reveal(start, end) {
    const length = Math.max(4, end - start), isIn = start >= this.from && end <= this.to;
    const pixels = length * this.scale;
    if (isIn && pixels >= 4) return this.draw();
    if (pixels >= 4 && length < (this.to - this.from) * 0.8) {
      const half = (this.to - this.from) / 2, middle = (start + end) / 2;
      return this.look(middle - half, middle + half);
    }
    this.look(start - 6 * length, end + 6 * length);
  }

  /** Select a row and bring it into view. */
  goTo(row, options) {
    if (row < 0) return;
    const lane = this.model.lanes[this.model.laneOf[row]];
    this.folded.delete(lane.core);
    for (const line of this.lines()) {
      if (line.lane === lane && !line.steps && (line.y < this.scroll || line.y + LANE > this.scroll + this.height - RULER)) {
        this.scrollBy(line.y - this.scroll - (this.height - RULER) / 2);
      }
    }
    this.select(row, options);
    this.reveal(this.model.start[row], this.model.occupied[row]);
  }

  /** From a flag to its partner; a set that released several waits goes to one after the other. */
  jump() {
    const partners = this.selected < 0 ? [] : this.model.partners(this.selected);
    if (!partners.length) return this.say(this.selected < 0 ? "select a flag first" : "no flag, or its partner is not here");
    this.turn = ((this.turn ?? -1) + 1) % partners.length;
    this.goTo(partners[this.turn]);
  }

  neighbour(step) {
    if (this.selected < 0) {
      const lane = this.model.lanesOf.get(this.core)?.find((one) => !this.model.isScalar(one)) ?? this.model.lanes[0];
      return lane && this.goTo(lane.first);
    }
    const lane = this.model.lanes[this.model.laneOf[this.selected]], next = this.selected + step;
    if (next >= lane.first && next < lane.last) this.goTo(next);
  }

  // ---- places

  /** The first row of a finding's kernel line, or the allocation that it names. */
  goToFinding(finding) {
    const api = finding.where.split(" (")[0], lines = new Set(finding.lines);
    const isThere = (needsApi) => ([op, , line]) => lines.has(line) && (!needsApi || this.head.ops[op][0] === api);
    let row = lines.size ? this.model.nextRow(isThere(true)) : -1;
    if (row < 0 && lines.size) row = this.model.nextRow(isThere(false));
    const place = this.namedPlace(finding);
    if (row >= 0) {
      this.goTo(row, { open: false });
      const operand = this.model.operands(row).find(({ role, name }) => finding.operand && (role === finding.operand || name === finding.operand));
      const life = operand && this.model.lifeOf(row, operand);
      if (life) { this.life = life; this.draw(); }
    } else if (place && place.strip.count) {
      this.selectLife(place, 0, true);
      this.panels.show("findings");
    } else this.say(`${finding.code} is about ${finding.where || "the whole run"}: it has no place in time`);
  }

  /** The first allocation whose name stands in a finding's place or operand; of a memory the one that reaches furthest. */
  namedPlace(finding) {
    const words = `${finding.operand} ${finding.where}`.split(/[^\w[\]]+/).filter(Boolean);
    const isNamed = (name) => words.some((word) => word === name || `${word}[0]` === name);
    for (const memories of this.model.memoryOf.values()) for (const [memory, places] of memories) {
      const named = places.find((place) => isNamed(place.name));
      if (named) return named;
      if (isNamed(memory)) return places.reduce((a, b) => (b.address + b.bytes > a.address + a.bytes ? b : a));
    }
    return null;
  }

  /** The row that waited longest for a cause at a line. */
  goToWait([, line, pipe, wait]) {
    const { columns: c } = this.model;
    let best = -1;
    for (let i = 0; i < this.model.count; i++) {
      const instruction = this.head.instructions[c.instruction[i]];
      if (c.waited_for[i] === wait && this.head.lines[instruction[2]] === line && instruction[1] === pipe && (best < 0 || c.wait[i] > c.wait[best])) best = i;
    }
    if (best >= 0) this.goTo(best); else this.say(`${line}: no row that waited is here`);
  }

  // ---- a source line

  /** Sums of a lane's rows that are meant, null if all are. */
  match(lane, strip) {
    if (!this.meant) return null;
    if (lane.matched !== this.meant) { lane.matched = this.meant; lane.matchSums = strip.sumsOf(this.meant); }
    return lane.matchSums;
  }

  /** Choose a kernel line, -1 for none. */
  showLine(line) {
    const { instructions } = this.head, { instruction } = this.model.columns;
    this.line = line;
    this.mean(line < 0 ? null : (row) => instructions[instruction[row]][2] === line);
    this.panels.line(line);
  }

  /** Pale all rows but some; null for none. */
  mean(isMeant) {
    this.meant = isMeant;
    this.draw();
  }

  goToLine(isNext) {
    if (this.line < 0) return this.say("choose a source line first");
    const after = isNext && this.selected >= 0 ? this.selected : -1;
    let row = this.model.nextRow(([, , line]) => line === this.line, after);
    if (row < 0) row = this.model.nextRow(([, , line]) => line === this.line);
    if (row >= 0) this.goTo(row, { open: false }); else this.say("no row of this line is here");
  }

  // ---- what is under the pointer

  /** The row, core header or nothing at a point of the lanes. */
  hit(x, y) {
    if (y < RULER) return null;
    const line = this.visibleLines().find((one) => y >= one.y && y < one.y + one.height);
    if (!line) return null;
    if (!line.lane) return { core: line.core };
    if (x < GUTTER || x > this.right) return { lane: line.lane };
    const cycle = this.cycle(x);
    if (line.steps) return { lane: line.lane, cycle, step: this.hitStep(this.model.steps.strip(line.lane), cycle) };
    const strip = this.model.strip(line.lane), at = strip.find(cycle);
    let best = -1, nearest = NEAR;
    for (let i = Math.max(0, at - 3); i < Math.min(strip.count, at + 4); i++) {
      const left = this.x(strip.start[i]), right = this.x(strip.stop[i]);
      const isFlag = strip.kind[i] !== WORK && strip.kind[i] !== DISPATCH;
      const away = Math.max(0, left - x, x - right) + (isFlag && right - left < NEAR ? -0.5 : 0);
      if (away < nearest || (away === nearest && best < 0)) { nearest = away; best = i; }
    }
    return { lane: line.lane, row: best < 0 ? -1 : strip.what[best], dispatch: best >= 0 && strip.kind[best] === DISPATCH, strip, at, cycle };
  }

  /** The first row of the step at a cycle, and when it is, null if there is none. */
  hitStep(strip, cycle) {
    const near = NEAR / this.scale, at = [strip.find(cycle), strip.find(cycle - near)].find((i) => i < strip.count && strip.start[i] <= cycle + near);
    return at === undefined ? null : { row: strip.what[at], start: strip.start[at], stop: strip.stop[at] };
  }

  hitMemory(x, y) {
    const band = this.painter.shownBands?.find((one) => y >= one.top && y <= one.top + one.height);
    if (!band || x < GUTTER || x > this.right) return null;
    const cycle = this.cycle(x), address = band.bytes * (1 - (y - band.top) / band.height);
    for (const place of band.places) {
      const at = place.strip.find(cycle);
      const bytes = at < place.strip.count ? this.model.columns.life_bytes[place.strip.what[at]] : 0;
      if (at < place.strip.count && place.strip.start[at] <= cycle && address >= place.address && address < place.address + bytes) return { place, at };
    }
    return null;
  }

  tipFor(hit) {
    if (!hit) return null;
    if (hit.place) return [`${hit.place.name} in ${hit.place.memory}`, this.words.lifeFacts(hit.place, hit.at)];
    if (!hit.lane) return null;
    if (hit.step) return [`step ${this.model.steps.name(hit.step.row)}`, this.words.stepFacts(hit.lane, hit.step)];
    if (hit.step === null) return this.model.isMissing(hit.lane.core, hit.cycle) ? ["no rows kept here", [["lane", this.words.lane(hit.lane)], ["steps", NO_STEPS]]] : null;
    if (hit.row >= 0 && hit.row !== undefined) {
      const title = this.words.title(hit.row);
      return [hit.dispatch ? `dispatch of ${title}` : title, this.words.facts(hit.row)];
    }
    if (hit.row === undefined) return null;
    if (this.model.isMissing(hit.lane.core, hit.cycle)) return ["no rows kept here", [["lane", this.words.lane(hit.lane)]]];
    const next = hit.at < hit.strip.count ? hit.strip.what[hit.at] : -1;
    const facts = [["lane", this.words.lane(hit.lane)]];
    if (next >= 0) {
      facts.push(["until", `${number(hit.strip.start[hit.at])}: ${this.words.title(next)}`]);
      if (this.words.waited(next)) facts.push(["which waited", this.words.waited(next)]);
    } else facts.push(["until", "the end of the run"]);
    return ["idle", facts];
  }

  showTip(event, hit) {
    const text = this.tipFor(hit);
    this.tip.hidden = !text;
    if (!text) return;
    this.tip.replaceChildren(element("b", {}, text[0]), listOf(text[1]));
    const { width, height } = this.tip.getBoundingClientRect();
    const left = event.clientX + 14 + width > innerWidth ? Math.max(0, event.clientX - width - 10) : event.clientX + 14;
    const top = event.clientY + 14 + height > innerHeight ? Math.max(0, event.clientY - height - 10) : event.clientY + 14;
    this.tip.style.left = `${left}px`;
    this.tip.style.top = `${top}px`;
  }

  // ---- events

  listen() {
    for (const name of ["lanes", "memory"]) this.listenTo(name, this.sheets[name].canvas);
    this.listenToMap(this.sheets.map.canvas);
    addEventListener("resize", () => { this.draw(); });
    document.addEventListener("keydown", (event) => this.key(event));
    const on = (id, act, kind = "click") => document.getElementById(id).addEventListener(kind, act);
    on("zoom-in", () => this.zoom(0.5));
    on("zoom-out", () => this.zoom(2));
    on("fit", () => this.look(0, this.model.makespan));
    on("fold", () => this.foldAll());
    on("help-button", () => this.help());
    on("arrows", (event) => { this.showArrows = event.target.checked; this.draw(); }, "change");
    on("critical", (event) => { this.showCritical = event.target.checked; this.draw(); }, "change");
    on("steps", (event) => this.setSteps(event.target.checked), "change");
    document.getElementById("steps-label").hidden = !this.model.steps.areThere;
    const chooser = document.getElementById("core");
    chooser.replaceChildren(...this.model.cores.map((core) => element("option", { value: core }, this.head.cores[core])));
    chooser.addEventListener("change", () => this.setCore(Number(chooser.value)));
  }

  listenTo(name, canvas) {
    const point = (event) => { const box = canvas.getBoundingClientRect(); return [event.clientX - box.left, event.clientY - box.top]; };
    const hit = (event) => (name === "lanes" ? this.hit(...point(event)) : this.hitMemory(...point(event)));
    let held = null;
    canvas.addEventListener("wheel", (event) => {
      event.preventDefault();
      const [x] = point(event), lines = event.deltaMode ? 16 : 1;
      if (event.shiftKey || Math.abs(event.deltaX) > Math.abs(event.deltaY)) return this.pan((event.deltaX || event.deltaY) * lines / 800);
      if (name === "lanes" && (event.altKey || x < GUTTER)) return this.scrollBy(event.deltaY * lines);
      this.zoom(Math.exp(Math.max(-200, Math.min(200, event.deltaY * lines)) / 300), this.cycle(Math.max(GUTTER, x)));
    }, { passive: false });
    canvas.addEventListener("pointerdown", (event) => {
      if (event.button) return;
      const [x, y] = point(event);
      canvas.setPointerCapture(event.pointerId);
      held = { x, y, from: this.from, to: this.to, scroll: this.scroll, moved: false, ranges: event.shiftKey || (name === "lanes" && y < RULER) };
      this.tip.hidden = true;
    });
    canvas.addEventListener("pointermove", (event) => {
      const [x, y] = point(event);
      this.pointer = this.cycle(x);
      this.pointerY = name === "lanes" ? y : null;
      if (!held) { this.showTip(event, hit(event)); return this.draw(); }
      held.moved ||= Math.abs(x - held.x) > CLICK || Math.abs(y - held.y) > CLICK;
      if (!held.moved) return;
      if (held.ranges) { this.range = [this.cycle(held.x), this.cycle(x)]; return this.draw(); }
      const by = (held.x - x) / this.scale;
      if (name === "lanes") { this.scroll = held.scroll; this.scrollBy(held.y - y); }
      this.look(held.from + by, held.to + by);
    });
    canvas.addEventListener("pointerup", (event) => {
      const was = held;
      held = null;
      if (!was) return;
      if (this.range) {
        const [a, b] = this.range;
        this.range = null;
        return this.look(Math.min(a, b), Math.max(a, b));
      }
      if (!was.moved) this.click(hit(event));
    });
    canvas.addEventListener("pointerleave", () => { this.pointer = this.pointerY = null; this.tip.hidden = true; this.draw(); });
    canvas.addEventListener("dblclick", (event) => this.zoom(0.25, this.cycle(point(event)[0])));
  }

  click(hit) {
    if (!hit) return this.select(-1, { open: false });
    if (hit.place) return this.selectLife(hit.place, hit.at);
    if (!hit.lane) return this.fold(hit.core);
    if (hit.step) return this.select(hit.step.row);
    if (hit.row === undefined || hit.row < 0) return this.setCore(hit.lane.core);
    if (hit.row === this.selected && this.model.partners(hit.row).length) return this.jump();
    this.turn = -1;
    this.select(hit.row);
  }

  listenToMap(canvas) {
    const cycle = (event) => {
      const box = canvas.getBoundingClientRect();
      return (event.clientX - box.left - GUTTER) / (this.right - GUTTER) * this.model.makespan;
    };
    let held = null;
    canvas.addEventListener("pointerdown", (event) => { canvas.setPointerCapture(event.pointerId); held = [cycle(event), event.clientX]; });
    canvas.addEventListener("pointermove", (event) => {
      if (held && Math.abs(event.clientX - held[1]) > CLICK) this.look(Math.min(held[0], cycle(event)), Math.max(held[0], cycle(event)));
    });
    canvas.addEventListener("pointerup", (event) => {
      if (held && Math.abs(event.clientX - held[1]) <= CLICK) {
        const half = (this.to - this.from) / 2, at = cycle(event);
        this.look(at - half, at + half);
      }
      held = null;
    });
    canvas.addEventListener("wheel", (event) => { event.preventDefault(); this.zoom(Math.exp(event.deltaY / 300)); }, { passive: false });
  }

  key(event) {
    if (event.ctrlKey || event.metaKey || event.altKey || document.getElementById("help").open) return;
    const isOfCharts = ["lanes", "memory"].includes(document.activeElement?.id) || document.activeElement === document.body;
    if (["SELECT", "INPUT"].includes(document.activeElement?.tagName) && event.key !== "Escape") return;
    const page = (this.height - RULER) * 0.8;
    const ofCharts = {
      ArrowLeft: () => this.pan(-0.15), ArrowRight: () => this.pan(0.15), ArrowUp: () => this.scrollBy(-LANE * 2), ArrowDown: () => this.scrollBy(LANE * 2),
      PageUp: () => this.scrollBy(-page), PageDown: () => this.scrollBy(page),
      Home: () => this.look(0, this.to - this.from), End: () => this.look(this.model.makespan - (this.to - this.from), this.model.makespan),
      Enter: () => this.jump(),
    };
    const anywhere = {
      "+": () => this.zoom(0.5), "=": () => this.zoom(0.5), "-": () => this.zoom(2), 0: () => this.look(0, this.model.makespan),
      "[": () => this.neighbour(-1), "]": () => this.neighbour(1), j: () => this.jump(),
      w: () => { const by = this.selected < 0 ? -1 : this.model.releaser(this.selected); if (by < 0) this.say("nothing that is here released it"); else this.goTo(by); },
      n: () => this.panels.nextFinding(1), p: () => this.panels.nextFinding(-1),
      s: () => { if (this.selected >= 0) this.showLine(this.model.line(this.selected)); }, l: () => this.goToLine(true),
      m: () => { const { cores } = this.model; this.setCore(cores[(cores.indexOf(this.core) + 1) % cores.length]); },
      a: () => document.getElementById("arrows").click(), c: () => { if (this.model.critical.length) document.getElementById("critical").click(); },
      t: () => { if (this.model.steps.areThere) document.getElementById("steps").click(); }, "/": () => this.finder.focus(),
      f: () => this.foldAll(), Escape: () => { this.tip.hidden = true; this.finder.clear(); this.showLine(-1); this.select(-1, { open: false }); }, "?": () => this.help(),
    };
    const act = anywhere[event.key] ?? (isOfCharts ? ofCharts[event.key] : undefined);
    if (!act) return;
    event.preventDefault();
    act();
  }

  help() {
    const dialog = document.getElementById("help"), { theme, head } = this;
    const keys = (list) => listOf(list.map(([key, what]) => [element("kbd", {}, key), what]));
    const swatch = (style) => element("span", { class: "swatch", style });
    const pipes = [...new Set(this.model.lanes.map((lane) => lane.pipe))].map((pipe) => head.pipes[pipe]);
    const marks = [
      ...pipes.map(([name, colour]) => [swatch(`background:${colour}`), `${name} at work`]),
      [swatch(`background:repeating-linear-gradient(135deg, ${theme.wait} 0 2px, transparent 2px 5px)`), "held by a flag, a buffer or a barrier"],
      [swatch(`background:${theme.flag};width:3px`), "a flag is set"],
      [swatch(`background:linear-gradient(transparent 70%, ${theme.soft} 0)`), "behind a box: still draining, the pipe is free; on S: dispatching"],
      ...(this.model.steps.areThere ? [[swatch(`background:${theme.pale}`), "above a lane, when you zoom in: a marked step; with … some of its rows are not here"]] : []),
      ["columns", "where boxes are too narrow: height is the share of time at work, grey on top held"],
      ...(this.model.critical.length ? [[swatch(`background:${theme.critical}`), "critical path"]] : []),
    ];
    dialog.replaceChildren(element("h2", {}, "Keys"), keys(KEYS), element("h2", {}, "Pointer"), keys(POINTER),
      element("h2", {}, "Marks"), listOf(marks), element("form", { method: "dialog" }, element("p", {}, element("button", {}, "Close (Esc)"))));
    dialog.showModal();
  }
}

"use strict";
// Marked steps (TRACE_START): when each lane is in which. A run of a step is what follows each other in the program of a
// core in the same step and tile; the page has the whole program of each call, so this is known where rows were not kept, too.

class Steps {
  constructor(model) {
    this.model = model;
    this.strips = new Map();
    this.shown = new Map(model.cores.map((core) => [core, new Map()]));
    this._makeShown();
    this._makeRuns();
    this.areThere = [...this.shown.values()].some((pipes) => pipes.size > 0);
  }

  /** The instructions of a template. */
  _rows(template) {
    const { instructions, templates } = this.model.head;
    return instructions.slice(templates[template][1], templates[template + 1]?.[1] ?? instructions.length);
  }

  /** For each core the pipes that work in steps, and in which. */
  _makeShown() {
    const { model } = this, { columns: c, head, scalar } = model, called = new Map(model.cores.map((core) => [core, new Set()]));
    const works = head.templates.map((_, i) => this._rows(i).filter(([op, , , step]) => head.steps[step] && KINDS[head.ops[op][2]] === WORK));
    c.call_template.forEach((template, call) => called.get(c.call_core[call]).add(template));
    for (const [core, pipes] of this.shown) {
      for (const template of called.get(core)) for (const [, pipe, , step] of works[template]) {
        if (!pipes.has(pipe)) pipes.set(pipe, new Set());
        pipes.get(pipe).add(step);
      }
      // The scalar unit runs ahead and prepares what others do: it shows only steps in which no other pipe works.
      const inside = (step) => `${head.steps[step]}/`, others = [...pipes].flatMap(([pipe, steps]) => (pipe === scalar ? [] : [...steps].map(inside)));
      const own = [...pipes.get(scalar) ?? []].filter((step) => !others.some((name) => name.startsWith(inside(step))));
      if (own.length) pipes.set(scalar, new Set(own)); else pipes.delete(scalar);
    }
  }

  /** Number the runs: of each instruction in its template, of each call the first, and how many rows each run has. */
  _makeRuns() {
    const { head, columns: c, isWhole } = this.model, sizes = [], runsOf = [];
    this.inTemplate = new Int32Array(head.instructions.length);
    head.templates.forEach(([, first], template) => {
      const runs = runsOf[template] = [];
      this._rows(template).forEach(([, , , step], i) => {
        if (step !== runs.at(-1)?.step) runs.push({ step, rows: 0 });
        runs.at(-1).rows++;
        this.inTemplate[first + i] = runs.length - 1;
      });
    });
    this.first = Int32Array.from(c.call_template, (template, call) => {
      const runs = runsOf[template], last = call && runsOf[c.call_template[call - 1]].at(-1), isSame = (column) => column[call] === column[call - 1];
      const isNext = call && (isWhole || c.call_number[call] === c.call_number[call - 1] + 1) && isSame(c.call_core) && isSame(c.call_tile);
      const goesOn = Boolean(isNext && last && last.step === runs[0]?.step), first = sizes.length - goesOn;
      runs.forEach(({ rows }, i) => { sizes[first + i] = (sizes[first + i] ?? 0) + rows; });
      return first;
    });
    this.sizes = sizes;
  }

  isOn({ core, pipe }) { return this.shown.get(core).has(pipe); }
  step(row) { return this.model.instruction(row)[3]; }
  name(row) { return this.model.head.steps[this.step(row)]; }
  run(row) { return this.first[this.model.columns.call[row]] + this.inTemplate[this.model.columns.instruction[row]]; }

  /** How many rows the run of a row has, and how many of them are here. */
  rows(row) {
    const { model } = this, run = this.run(row), all = this.sizes[run];
    if (model.isWhole) return { here: all, all };
    this._here ??= this._counted();
    return { here: this._here[run], all };
  }

  _counted() {
    const here = new Int32Array(this.sizes.length);
    for (let row = 0; row < this.model.count; row++) here[this.run(row)]++;
    return here;
  }

  /** Cycles of a step: half of those of the first core that has any take as long, or longer; 0 if there are none. */
  get usual() {
    if (this._usual === undefined) {
      const lengths = this.model.cores.map((core) => this._lengths(core)).find((found) => found.length) ?? [0];
      this._usual = lengths.sort((a, b) => a - b)[lengths.length >> 1];
    }
    return this._usual;
  }

  _lengths(core) {
    const strips = this.model.lanesOf.get(core).filter((lane) => this.isOn(lane)).map((lane) => this.strip(lane));
    return strips.flatMap(({ start, stop }) => Array.from(start, (begin, i) => stop[i] - begin));
  }

  /** A lane's work in steps: intervals like those of the lane, one for each run; what: the first row. */
  strip(lane) {
    if (!this.strips.has(lane)) this.strips.set(lane, this._strip(lane));
    return this.strips.get(lane);
  }

  _strip(lane) {
    const strip = this.model.strip(lane), shown = this.shown.get(lane.core).get(lane.pipe), start = [], stop = [], what = [];
    for (let i = 0, last = -1; i < strip.count; i++) {
      const row = strip.what[i];
      if (strip.kind[i] !== WORK || !shown.has(this.step(row))) continue;
      const run = this.run(row);
      if (run === last) { stop[stop.length - 1] = strip.stop[i]; continue; }
      last = run;
      start.push(strip.start[i]);
      stop.push(strip.stop[i]);
      what.push(row);
    }
    return new Strip(Float64Array.from(start), Float64Array.from(stop), what, new Uint8Array(what.length));
  }
}

"use strict";
// Drawing: lanes, memory and the map of the whole run. A box that is too narrow to be seen is part of a column, whose
// height is the share of its time that the pipe was at work (grey on top: held by a wait).

const GUTTER = 118, RULER = 34, HEADER = 20, LANE = 20, BAR = 15, STEPS = 13, NARROW = 2, LABELLED = 24, MAP_BAND = 9, SCROLLBAR = 8;
const MOST_ARROWS = 300, HATCH = 6;
const LEAST_SHARE = 1e-6; // of a column; less is what rounding leaves of nothing

class Theme {
  constructor() {
    this.read();
    matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => { this.read(); this.changed?.(); });
  }

  read() {
    const style = getComputedStyle(document.documentElement);
    for (const name of ["ground", "pale", "line", "ink", "soft", "alarm", "accent", "wait", "box-ink", "flag", "gap", "critical"]) {
      this[name.replace("-i", "I")] = style.getPropertyValue(`--${name}`).trim();
    }
    this.patterns = new Map();
  }

  /** Slanted lines of a colour, HATCH pixels apart, moved to the right by some. */
  hatch(context, colour, by = 0) {
    if (!this.patterns.has(colour)) {
      const tile = document.createElement("canvas");
      tile.width = tile.height = HATCH;
      const pen = tile.getContext("2d");
      pen.strokeStyle = colour;
      pen.lineWidth = 1.4;
      for (const at of [-HATCH, 0, HATCH]) { pen.moveTo(at, HATCH); pen.lineTo(at + HATCH, 0); }
      pen.stroke();
      this.patterns.set(colour, context.createPattern(tile, "repeat"));
    }
    const pattern = this.patterns.get(colour);
    pattern.setTransform(new DOMMatrix().translate(by, 0));
    return pattern;
  }
}

/** A canvas as sharp as the screen; sizes in CSS pixels. */
class Sheet {
  constructor(canvas) {
    this.canvas = canvas;
    this.context = canvas.getContext("2d", { alpha: false });
  }

  /** Fit to the layout. */
  fit() {
    const { canvas } = this, ratio = devicePixelRatio || 1, width = canvas.clientWidth, height = canvas.clientHeight;
    if (canvas.width !== Math.round(width * ratio) || canvas.height !== Math.round(height * ratio)) {
      canvas.width = Math.round(width * ratio);
      canvas.height = Math.round(height * ratio);
    }
    Object.assign(this, { width, height, ratio });
  }

  /** Clear. */
  begin(ground) {
    return prepared(this.context, this.ratio, ground, this.width, this.height);
  }
}

/** A context in CSS pixels, cleared. */
function prepared(context, ratio, ground, width, height) {
  context.setTransform(ratio, 0, 0, ratio, 0, 0);
  context.fillStyle = ground;
  context.fillRect(0, 0, width, height);
  context.textBaseline = "middle";
  context.textAlign = "left";
  context.font = FONT;
  return context;
}

const FONT = '11px system-ui, "Liberation Sans", "DejaVu Sans", sans-serif';
const MOST_WIDTHS = 20_000;
const widths = new Map();

/** How wide a label is in FONT; measured once. */
function widthOf(context, label) {
  let width = widths.get(label);
  if (width === undefined) {
    if (widths.size >= MOST_WIDTHS) widths.clear();
    widths.set(label, (width = context.measureText(label).width));
  }
  return width;
}

/** The first label that fits a width. */
function fitting(context, labels, width) {
  return labels.find((label) => widthOf(context, label) + 6 <= width) ?? "";
}

/** The smallest of 1, 2, 5 times a power of ten that is not less. */
function niceStep(least) {
  const power = 10 ** Math.floor(Math.log10(least));
  return [1, 2, 5, 10].map((factor) => factor * power).find((step) => step >= least * (1 - 1e-9));
}

class Painter {
  constructor(model, words, view, theme) {
    Object.assign(this, { model, words, view, theme });
    this.head = model.head;
    this.pieces = new Pieces();
  }

  // ---- strips of intervals

  /** Draw what of a strip is in the stretch; calls box(i, left, right) for each that can be seen, then columns. */
  strip(strip, y, height, box, colour, match) {
    const { stretch } = this, { level, first, last } = stretch, perColumn = level.scale / level.grain, columns = [];
    // What lies before the left edge of a column is what lay before the right edge of the one beside it.
    let known = null, busyBefore = 0, heldBefore = 0, matchBefore = 0, at = strip.find(stretch.cycle(first)), busyAt = 0;
    const measure = (cycle) => {
      at = strip.find(cycle, at);
      busyAt = strip.busy.find(cycle, busyAt);
      const busy = strip.busy.before(strip.worked, cycle, busyAt), held = strip.before(strip.held, cycle, at);
      const matched = match ? strip.before(match, cycle, at) : 0;
      columns.push(Math.min(1, (busy - busyBefore) * perColumn), (held - heldBefore) * perColumn, (matched - matchBefore) * perColumn);
      [busyBefore, heldBefore, matchBefore] = [busy, held, matched];
    };
    busyAt = strip.busy.find(stretch.cycle(first));
    for (let i = at, next = first; i < strip.count; ) {
      const a = (strip.start[i] - level.from) * perColumn, b = (strip.stop[i] - level.from) * perColumn;
      if (a >= last) break;
      if ((b - a) * level.grain >= NARROW) {
        box(i, Math.max(stretch.columnAt(a), stretch.left - BEYOND), Math.min(stretch.columnAt(b), stretch.right + BEYOND));
        i++;
        continue;
      }
      const column = Math.max(next, Math.floor(a));
      if (column >= last) break;
      if (known !== column) { measure(stretch.cycle(column)); columns.length -= 3; }
      columns.push(column);
      measure(stretch.cycle(column + 1));
      known = next = column + 1;
      i = Math.max(at, i); // what ends beyond the column begins the next one
    }
    this.columns(columns, y, height, colour, Boolean(match));
  }

  /** Columns of one pixel, as one shape. */
  columns(columns, y, height, colour, dimmed) {
    const { context, stretch } = this, { grain } = stretch.level;
    const shape = (from, share, fill, alpha) => {
      context.fillStyle = fill;
      context.globalAlpha = alpha;
      context.beginPath();
      for (let k = 0; k < columns.length; ) {
        const low = Math.round(y + height * (1 - from(k))), size = (n) => (share(n) > LEAST_SHARE ? Math.max(1, Math.round(height * share(n))) : 0);
        const high = size(k);
        let next = k + 4, width = 1;
        while (next < columns.length && columns[next] === columns[k] + width && size(next) === high && Math.round(y + height * (1 - from(next))) === low) { width++; next += 4; }
        if (high) context.rect(stretch.columnAt(columns[k]), low - high, width * grain, high);
        k = next;
      }
      context.fill();
      context.globalAlpha = 1;
    };
    if (!columns.length) return;
    shape(() => 0, (k) => columns[k + 1], colour, dimmed ? 0.3 : 1);
    if (dimmed) shape(() => 0, (k) => columns[k + 3], colour, 1);
    shape((k) => columns[k + 1], (k) => Math.min(columns[k + 2], 1 - columns[k + 1]), this.theme.wait, dimmed ? 0.4 : 0.8);
  }

  // ---- lanes

  drawLanes(sheet) {
    const { view, theme } = this;
    sheet.fit();
    view.right = sheet.width - SCROLLBAR - 2;
    view.height = sheet.height;
    view.ratio = sheet.ratio;
    view.arrange();
    const context = sheet.begin(theme.ground), lines = view.visibleLines();
    this.laneY = new Map();
    for (const { lane, steps, y } of lines) if (lane && !steps) this.laneY.set(lane.index, y + LANE / 2);
    this.bodies(sheet);
    this.context = context;
    for (const line of lines) this.front(line);
    if (view.showArrows) this.flagArrows(lines);
    if (view.showCritical) this.critical();
    this.selection();
    this.cursor(context, RULER, sheet.height);
    this.ruler(context, sheet.width);
    this.scrollbar(context, sheet);
  }

  // What does not hang on where the view is in time or from top to bottom is drawn in pieces, once for each zoom.

  /** Put the pieces in view where they belong; draw at once a view that has nothing in common with the last one. */
  bodies({ context, width, height, ratio }) {
    const { view, pieces } = this, { level, shift, scroll } = view, { grain } = level, wide = Math.round(SIDE * grain * ratio), tall = Math.round(SIDE * ratio);
    const first = Math.round(shift / grain), last = first + Math.ceil((width - GUTTER) / grain), bottom = scroll + height - RULER;
    const seen = { left: Math.floor(first / SIDE), right: Math.ceil(last / SIDE), top: Math.floor(scroll / SIDE), bottom: Math.ceil(bottom / SIDE) };
    const left = Math.round(GUTTER * ratio) - Math.round(shift * ratio), top = Math.round((RULER - scroll) * ratio);
    if (pieces.follows(seen, [level, view.meant, view.stepsShown, [...view.folded].join(), this.theme.patterns])) {
      context.setTransform(1, 0, 0, 1, 0, 0);
      for (let down = seen.top; down < seen.bottom; down++) for (let across = seen.left; across < seen.right; across++) {
        const picture = pieces.get(across, down, wide, tall, (its) => this.piece(prepared(its, ratio, this.theme.ground, wide, tall), level, across, down));
        context.drawImage(picture, left + across * wide, top + down * tall);
      }
      pieces.keep(2 * (seen.right - seen.left) * (seen.bottom - seen.top));
    } else {
      context.setTransform(ratio, 0, 0, ratio, left + seen.left * wide, top + seen.top * tall);
      this.body(context, new Stretch(level, first, last, (first - seen.left * SIDE) * grain), scroll, bottom, seen.top * SIDE);
    }
    context.setTransform(ratio, 0, 0, ratio, 0, 0);
  }

  /** Draw what lies in a square: its number in time, and from top to bottom. */
  piece(context, level, across, down) {
    this.body(context, new Stretch(level, across * SIDE, (across + 1) * SIDE, 0), down * SIDE, (down + 1) * SIDE, down * SIDE);
  }

  /** Draw a stretch of the lanes between two of their heights, one of which is at the top of the context. */
  body(context, stretch, top, bottom, zero) {
    Object.assign(this, { context, stretch });
    for (const line of this.view.lines()) {
      if (line.y + line.height <= top || line.y >= bottom) continue;
      const y = line.y - zero;
      if (line.steps) this.stepsBody(line.lane, y); else if (line.lane) this.laneBody(line.lane, y); else this.coreBody(line, y);
    }
  }

  coreBody({ core, folded }, y) {
    this.context.fillStyle = this.theme.pale;
    this.context.fillRect(0, y, this.stretch.right, HEADER);
    if (folded) this.stripes(core, y);
  }

  /** The lanes of a folded core, one thin stripe each. */
  stripes(core, y) {
    const { context, head, model } = this, lanes = model.lanesOf.get(core), height = (HEADER - 4) / lanes.length;
    lanes.forEach((lane, i) => {
      const colour = head.pipes[lane.pipe][1], top = y + 2 + i * height, strip = model.strip(lane), held = [];
      this.strip(strip, top, height - 1, (at, left, right) => {
        if (strip.kind[at] === WAIT || strip.kind[at] === BARRIER) return held.push(left, right);
        context.fillStyle = colour;
        context.fillRect(left, top, right - left, height - 1);
      }, colour, null);
      context.fillStyle = this.theme.wait;
      for (let k = 0; k < held.length; k += 2) context.fillRect(held[k], top + height / 2 - 1, held[k + 1] - held[k], 1);
    });
  }

  laneBody(lane, y) {
    const { context, theme, view, model } = this, top = y + 2, { meant } = view;
    this.gaps(lane.core, top, BAR);
    const [, colour] = this.head.pipes[lane.pipe], strip = model.strip(lane), match = view.match(lane, strip);
    const boxes = { work: [], wait: [], dispatch: [], flags: [] };
    this.strip(strip, top, BAR, (i, left, right) => {
      const kind = strip.kind[i];
      if (kind === WAIT || kind === BARRIER) boxes.wait.push(i, left, right);
      else if (kind === DISPATCH) boxes.dispatch.push(i, left, right);
      else if (kind === SET) boxes.flags.push(i, left, right);
      else boxes.work.push(i, left, right);
    }, colour, match);
    const each = (list, draw) => { for (let k = 0; k < list.length; k += 3) draw(strip.what[list[k]], list[k + 1], list[k + 2]); };
    context.fillStyle = colour;
    context.globalAlpha = 0.45;
    each(boxes.dispatch, (row, left, right) => context.fillRect(left, top + BAR - 6, right - left, 6));
    this.drains(strip, top);
    each(boxes.work, (row, left, right) => {
      context.globalAlpha = meant && !meant(row) ? 0.3 : 1;
      context.fillRect(left, top, right - left - (right - left > 4 ? 0.6 : 0), BAR);
    });
    context.globalAlpha = 1;
    context.fillStyle = theme.hatch(context, theme.wait, this.stretch.hatchedFrom);
    each(boxes.wait, (row, left, right) => context.fillRect(left, top + 2, right - left, BAR - 4));
    context.strokeStyle = theme.wait;
    each(boxes.wait, (row, left, right) => { if (right - left > 6) context.strokeRect(left + 0.5, top + 2.5, right - left - 1, BAR - 5); });
    context.fillStyle = theme.flag;
    each(boxes.flags, (row, left, right) => context.fillRect(left, top + 1, Math.max(1, right - left), BAR - 2));
  }

  /** Completion behind the end of occupancy: a thin line, because the next row is on its way. */
  drains(strip, top) {
    const { context, model, stretch } = this, { scale } = stretch.level, to = stretch.cycle(stretch.last);
    for (let i = strip.busy.find(stretch.cycle(stretch.first)); i < strip.count && strip.start[i] < to; i++) {
      if (strip.kind[i] !== WORK || (strip.stop[i] - strip.start[i]) * scale < NARROW) continue;
      const right = stretch.x(strip.stop[i]), end = stretch.x(model.end[strip.what[i]]);
      if (end > right + 1) context.fillRect(right, top + BAR - 3, Math.min(end, stretch.right) - right, 3);
    }
  }

  /** Marked steps of a lane. */
  stepsBody(lane, y) {
    const { context, theme, model } = this, top = y + 1, height = STEPS - 1, strip = model.steps.strip(lane);
    this.gaps(lane.core, top, height);
    const boxes = [];
    this.strip(strip, top, height, (i, left, right) => boxes.push(left, right), theme.line, null);
    context.fillStyle = theme.pale;
    for (let k = 0; k < boxes.length; k += 2) context.fillRect(boxes[k], top, boxes[k + 1] - boxes[k], height);
    context.strokeStyle = theme.wait;
    context.lineWidth = 1;
    for (let k = 0; k < boxes.length; k += 2) context.strokeRect(boxes[k] + 0.5, top + 0.5, Math.max(0.5, boxes[k + 1] - boxes[k] - 1), height - 1);
  }

  // ---- what is drawn on the pieces: texts, and what hangs on the view

  front(line) {
    if (line.steps) this.stepsFront(line); else if (line.lane) this.laneFront(line); else this.coreFront(line);
  }

  coreFront({ core, y, folded }) {
    const { context, theme } = this;
    context.fillStyle = theme.pale;
    context.fillRect(0, y, GUTTER, HEADER);
    context.fillStyle = theme.ink;
    context.font = `bold ${FONT}`;
    context.fillText(`${folded ? "▸" : "▾"} ${this.head.cores[core]}`, 4, y + HEADER / 2 + 1);
    context.font = FONT;
  }

  laneFront({ lane, y }) {
    const { context, theme, view, words } = this, middle = y + 2 + BAR / 2 + 0.5, { meant } = view, strip = this.model.strip(lane);
    context.fillStyle = theme.boxInk;
    this.labels(strip, middle, (row) => (!meant || meant(row) ? words.labels(row) : []));
    const [name, colour] = this.head.pipes[lane.pipe];
    context.fillStyle = theme.ground;
    context.fillRect(0, y, GUTTER, LANE);
    context.fillStyle = colour;
    context.fillRect(14, y + 4, 8, BAR - 4);
    context.fillStyle = theme.ink;
    context.fillText(name, 27, middle);
    context.fillStyle = theme.soft;
    context.textAlign = "right";
    context.fillText(percent(view.busyShare(lane, strip)), GUTTER - 6, middle);
    context.textAlign = "left";
  }

  stepsFront({ lane, y }) {
    const { context, theme, model, words } = this, middle = y + STEPS / 2 + 1;
    context.fillStyle = theme.ink;
    this.labels(model.steps.strip(lane), middle, (row) => words.stepLabels(row));
    context.fillStyle = theme.ground;
    context.fillRect(0, y, GUTTER, STEPS);
    context.fillStyle = theme.soft;
    context.fillText("steps", 27, middle);
  }

  /** The texts of boxes at work that have room for one, where they can be seen. */
  labels(strip, middle, labelsOf) {
    const { context, view } = this;
    for (const i of strip.longBetween(WORK, LABELLED / view.scale, view.from, view.to)) {
      const left = Math.max(GUTTER, view.x(strip.start[i])), width = Math.min(view.right, view.x(strip.stop[i])) - left;
      const label = width > LABELLED ? fitting(context, labelsOf(strip.what[i]), width) : "";
      if (label) context.fillText(label, left + 3, middle);
    }
  }

  /** Time of which there are no rows. */
  gaps(core, top, height) {
    const { context, theme, stretch } = this;
    for (const [first, last] of this.head.gaps[core] ?? []) {
      const a = Math.max(stretch.left, stretch.x(first)), b = Math.min(stretch.right, stretch.x(last));
      if (b <= a) continue;
      context.fillStyle = theme.hatch(context, theme.gap, stretch.hatchedFrom);
      context.fillRect(a, top, b - a, height);
    }
  }

  /** Of waits that can be seen, unless these are too many. */
  flagArrows(lines) {
    const { view, model } = this, waits = [];
    for (const { lane, steps } of lines) {
      if (!lane || steps) continue;
      const strip = model.strip(lane);
      for (const i of strip.longBetween(WAIT, NARROW / view.scale, view.from, view.to)) {
        waits.push(strip.what[i]);
        if (waits.length === MOST_ARROWS) return;
      }
    }
    for (const wait of waits) for (const set of model.partners(wait)) this.arrow(set, wait, this.theme.soft, 0.8);
  }

  /** From where a flag is set to where its wait ends. */
  arrow(set, wait, colour, width) {
    const { context, model, view } = this;
    const from = this.laneY.get(model.laneOf[set]), to = this.laneY.get(model.laneOf[wait]);
    if (from === undefined || to === undefined) return;
    const x0 = view.x(model.start[set]), x1 = view.x(model.occupied[wait]);
    if (Math.max(x0, x1) < GUTTER || Math.min(x0, x1) > view.right) return;
    context.save();
    this.clip(RULER);
    context.strokeStyle = context.fillStyle = colour;
    context.lineWidth = width;
    context.beginPath();
    context.moveTo(x0, from);
    context.bezierCurveTo(x0 + 10, (from + to) / 2, x1 - 10, (from + to) / 2, x1, to);
    context.stroke();
    const down = to >= from ? -1 : 1;
    context.beginPath();
    context.moveTo(x1, to);
    context.lineTo(x1 - 4, to + 6 * down);
    context.lineTo(x1 + 2, to + 6 * down);
    context.fill();
    context.restore();
  }

  clip(top) {
    this.context.beginPath();
    this.context.rect(GUTTER, top, this.view.right - GUTTER, 1e5);
    this.context.clip();
  }

  /** Which rows the makespan hangs on: a bar above each, and a line where it goes on in another lane. */
  critical() {
    const { context, model, view, theme } = this, steps = model.critical;
    let low = 0, high = steps.length;
    while (low < high) {
      const middle = (low + high) >> 1;
      if (steps[middle].end > view.from) high = middle; else low = middle + 1;
    }
    context.save();
    this.clip(RULER);
    context.fillStyle = context.strokeStyle = theme.critical;
    context.lineWidth = 1.2;
    const painted = new Map();
    for (let i = low; i < steps.length && steps[i].begin < view.to; i++) {
      const { lane, begin, end } = steps[i], y = this.laneY.get(lane), x = view.x(end);
      if (y !== undefined && Math.floor(x) > (painted.get(lane) ?? -1)) {
        const left = Math.max(view.x(begin), painted.get(lane) ?? -1);
        context.fillRect(left, y - LANE / 2, Math.max(1, x - left), 4);
        painted.set(lane, Math.floor(x));
        const before = i > 0 ? this.laneY.get(steps[i - 1].lane) : undefined;
        if (before !== undefined && before !== y && (end - begin) * view.scale > 1) {
          context.beginPath();
          context.moveTo(view.x(begin), before);
          context.lineTo(view.x(begin), y);
          context.stroke();
        }
      }
    }
    context.restore();
  }

  /** The selected row, its partners and what released it. */
  selection() {
    const { context, model, view, theme } = this, row = view.selected;
    if (row < 0) return;
    const mark = (which, colour, width) => {
      const y = this.laneY.get(model.laneOf[which]);
      if (y === undefined) return;
      const a = view.x(model.start[which]), b = Math.max(a + 2, view.x(model.occupied[which]));
      if (b < GUTTER || a > view.right) return;
      context.save();
      this.clip(RULER);
      context.strokeStyle = colour;
      context.lineWidth = width;
      context.strokeRect(a - 1, y - LANE / 2 + 0.5, b - a + 2, BAR + 3);
      context.restore();
    };
    for (const partner of model.partners(row)) {
      mark(partner, theme.accent, 1.5);
      if (model.kind[row] === WAIT) this.arrow(partner, row, theme.accent, 2); else this.arrow(row, partner, theme.accent, 2);
    }
    const releaser = model.releaser(row);
    if (releaser >= 0 && !model.partners(row).includes(releaser)) mark(releaser, theme.soft, 1.5);
    mark(row, theme.accent, 2.5);
  }

  ruler(context, width) {
    const { view, theme, head } = this;
    context.fillStyle = theme.ground;
    context.fillRect(0, 0, width, RULER);
    context.fillStyle = theme.soft;
    context.fillText("µs", 6, 9);
    context.fillText("cycles", 6, 24);
    context.strokeStyle = theme.line;
    context.fillStyle = theme.ink;
    this.ticks(context, 1 / head.clock_mhz, 9, 0, false);
    this.ticks(context, 1, 24, RULER - 5, true);
    context.beginPath();
    context.moveTo(0, RULER - 0.5);
    context.lineTo(width, RULER - 0.5);
    context.stroke();
    if (view.range) {
      context.fillStyle = theme.accent;
      context.globalAlpha = 0.3;
      const [a, b] = view.range.map((cycle) => view.x(cycle));
      context.fillRect(Math.min(a, b), 0, Math.abs(b - a), view.height);
      context.globalAlpha = 1;
    }
  }

  ticks(context, unit, y, top, isWhole) {
    const { view } = this, extent = (view.to - view.from) * unit;
    let step = niceStep(Math.max(extent / Math.max(2, (view.right - GUTTER) / 110), isWhole ? 1 : 0));
    const places = Math.max(0, -Math.floor(Math.log10(step)));
    for (let k = Math.ceil(view.from * unit / step); k * step <= view.to * unit; k++) {
      const x = view.x(k * step / unit);
      const text = decimals(isWhole ? 0 : places).format(k * step);
      const wide = widthOf(context, text);
      context.fillText(text, Math.min(x + 3, view.right - wide), y);
      context.fillRect(x, top, 1, isWhole ? 5 : 4);
    }
  }

  cursor(context, top, bottom) {
    const { view, theme } = this;
    if (view.pointer === null) return;
    const x = view.x(view.pointer);
    if (x < GUTTER || x > view.right) return;
    context.fillStyle = theme.soft;
    context.fillRect(Math.round(x), top, 1, bottom - top);
  }

  scrollbar(context, sheet) {
    const { view, theme } = this, room = sheet.height - RULER, all = view.contentHeight;
    context.fillStyle = theme.ground;
    context.fillRect(view.right, RULER, sheet.width - view.right, room);
    if (all <= room) return;
    context.fillStyle = theme.pale;
    context.fillRect(sheet.width - SCROLLBAR, RULER, SCROLLBAR, room);
    context.fillStyle = theme.wait;
    context.fillRect(sheet.width - SCROLLBAR, RULER + room * view.scroll / all, SCROLLBAR, Math.max(12, room * room / all));
  }

  // ---- memory

  /** Bands from top to bottom, one for each memory that something lies in on the core. */
  bands(height) {
    const { view, model } = this, known = model.memoryOf.get(view.core);
    const used = this.head.memories.filter(([name]) => known?.has(name));
    const room = (height - 6) / Math.max(1, used.length);
    return used.map(([name, bytes, limits], i) => {
      const most = known.get(name).reduce((end, place) => Math.max(end, place.address + place.bytes), 0);
      return { name, bytes: Math.max(bytes, most), limits, places: known.get(name), top: i * room + 8, height: room - 12 };
    });
  }

  drawMemory(sheet) {
    const { view, theme } = this;
    sheet.fit();
    const context = (this.context = sheet.begin(theme.ground)), bands = (this.shownBands = this.bands(sheet.height));
    this.stretch = view.stretch;
    if (!bands.length) {
      context.fillStyle = theme.soft;
      context.fillText(`nothing lies in on-chip memory of ${this.head.cores[view.core] ?? "this run"}`, GUTTER, sheet.height / 2);
    }
    for (const band of bands) this.band(band, sheet);
    this.cursor(context, 0, sheet.height);
    if (view.range) {
      context.fillStyle = theme.accent;
      context.globalAlpha = 0.3;
      const [a, b] = view.range.map((cycle) => view.x(cycle));
      context.fillRect(Math.min(a, b), 0, Math.abs(b - a), sheet.height);
      context.globalAlpha = 1;
    }
  }

  band(band, sheet) {
    const { context, theme, view } = this, { top, height, bytes } = band, y = (address) => top + height * (1 - address / bytes);
    context.fillStyle = theme.pale;
    context.fillRect(GUTTER, top, view.right - GUTTER, height);
    this.gaps(view.core, top, height);
    context.save();
    context.beginPath();
    context.rect(GUTTER, top - 1, view.right - GUTTER, height + 2);
    context.clip();
    for (const place of band.places) this.allocation(place, y);
    this.touched(band, y);
    context.restore();
    this.limits(band, y, sheet);
    context.fillStyle = theme.ink;
    context.font = `bold ${FONT}`;
    context.fillText(band.name, 6, top + 6);
    context.font = FONT;
    context.fillStyle = theme.soft;
    if (height > 30) context.fillText(this.head.cores[view.core], 6, top + 20);
  }

  allocation(place, y) {
    const { context, theme, view, model } = this, colour = this.head.positions[place.position] ?? "#999999";
    const top = y(place.address + place.bytes), height = Math.max(1.5, y(place.address) - top), labels = [];
    this.strip(place.strip, top, height, (i, left, right) => {
      const life = place.strip.what[i], bytes = model.columns.life_bytes[life];
      const from = y(place.address + bytes), tall = Math.max(1.5, y(place.address) - from);
      const isChosen = view.life?.place === place && view.life.at === i;
      context.fillStyle = colour;
      context.fillRect(left, from, right - left, tall);
      context.strokeStyle = isChosen ? theme.accent : theme.boxInk;
      context.lineWidth = isChosen ? 3 : 0.6;
      if (right - left > 3 && tall > 3 || isChosen) context.strokeRect(left + 0.5, from + 0.5, right - left - 1, Math.max(1, tall - 1));
      context.lineWidth = 1;
      const first = Math.max(left, GUTTER), room = Math.min(right, view.right) - first;
      if (room > LABELLED && tall >= 11) labels.push([place.name, model.columns.life_tile[life], first, room, from + tall / 2]);
    }, colour, null);
    context.fillStyle = theme.boxInk;
    for (const [name, tile, left, room, middle] of labels) {
      const label = fitting(context, [...(tile >= 0 ? [`${name} tile ${number(tile)}`] : []), name], room);
      if (label) context.fillText(label, left + 4, middle);
    }
  }

  /** What the selected row touches of a memory, while it is at work. */
  touched(band, y) {
    const { context, theme, view, model } = this, row = view.selected;
    if (row < 0 || model.core(row) !== view.core) return;
    const left = view.x(model.start[row]), right = Math.max(left + 3, view.x(model.end[row]));
    for (const { memory, role, first, end } of model.operands(row)) {
      if (memory !== band.name || end === null) continue;
      const top = y(end), tall = Math.max(2, y(first) - top);
      context.fillStyle = role.startsWith("dst") ? theme.boxInk : theme.hatch(context, theme.boxInk);
      context.globalAlpha = 0.55;
      context.fillRect(left, top, right - left, tall);
      context.globalAlpha = 1;
      context.strokeStyle = theme.boxInk;
      context.strokeRect(left, top, right - left, tall);
    }
  }

  /** Dashed lines at the limits of a memory; names in the gutter, from the top down, as far as they do not meet. */
  limits(band, y) {
    const { context, theme, view } = this;
    let free = band.top + (band.height > 30 ? 28 : 14);
    for (const [name, bytes] of [...band.limits].reverse()) {
      const at = y(bytes);
      context.strokeStyle = theme.alarm;
      context.setLineDash(name === "safe" ? [2, 3] : name === "visible" ? [6, 3] : []);
      context.beginPath();
      context.moveTo(GUTTER, at);
      context.lineTo(view.right, at);
      context.stroke();
      context.setLineDash([]);
      if (free + 12 > band.top + band.height) continue;
      context.fillStyle = theme.alarm;
      context.fillText(`${name === "capacity" ? "" : `${name} `}${number(bytes)}`, 6, free + 6);
      free += 13;
    }
  }

  // ---- the whole run

  mapHeight() {
    return Math.max(1, Object.keys(this.head.use.shares).length) * (MAP_BAND + 2) + 8;
  }

  drawMap(sheet) {
    const { view, theme, head, model } = this;
    sheet.fit();
    const context = (this.context = sheet.begin(theme.ground));
    const width = view.right - GUTTER, x = (cycle) => GUTTER + cycle / model.makespan * width, { cuts, shares } = head.use;
    Object.entries(shares).forEach(([pipe, parts], band) => {
      const y = 4 + band * (MAP_BAND + 2), [name, colour] = head.pipes[pipe];
      context.fillStyle = theme.soft;
      context.fillText(name, 27, y + MAP_BAND / 2 + 0.5);
      context.fillStyle = theme.pale;
      context.fillRect(GUTTER, y, width, MAP_BAND);
      context.fillStyle = colour;
      context.beginPath();
      context.moveTo(x(cuts[0]), y + MAP_BAND);
      parts.forEach((share, i) => {
        const level = y + MAP_BAND * (1 - share / 1000);
        context.lineTo(x(cuts[i]), level);
        context.lineTo(x(cuts[i + 1]), level);
      });
      context.lineTo(x(cuts[parts.length]), y + MAP_BAND);
      context.fill();
    });
    context.fillStyle = theme.accent;
    context.globalAlpha = 0.16;
    const a = x(view.from), b = Math.max(a + 2, x(view.to));
    context.fillRect(a, 0, b - a, sheet.height);
    context.globalAlpha = 1;
    context.strokeStyle = theme.accent;
    context.strokeRect(a + 0.5, 1.5, b - a - 1, sheet.height - 3);
  }
}

"use strict";
// Pictures of the lanes, cut in squares that stay as long as the zoom does: to pan is to put them elsewhere.

const SIDE = 240; // of a square: columns, and pixels from top to bottom; a multiple of HATCH
const BEYOND = 16; // pixels that a box may reach over an edge; boxes of a whole run would be too wide to be drawn sharply

/** Columns of a zoom level, from one up to another, and where the first of them is drawn. */
class Stretch {
  constructor(level, first, last, left) {
    Object.assign(this, { level, first, last, left });
  }

  get right() { return this.columnAt(this.last); }
  /** Hatchings begin where the level's columns do, so that they go on from one piece to the next. */
  get hatchedFrom() { return (this.left - this.first * this.level.grain) % HATCH; }
  columnAt(column) { return this.left + (column - this.first) * this.level.grain; }
  x(cycle) { return this.left + (cycle - this.level.from) * this.level.scale - this.first * this.level.grain; }
  /** The cycle at which a column begins. */
  cycle(column) { return this.level.from + column * this.level.grain / this.level.scale; }
}

class Pieces {
  constructor() {
    Object.assign(this, { known: new Map(), free: [], key: [], seen: null });
  }

  /** Forget all that shows something else than what is seen now. */
  forget() {
    this.free.push(...this.known.values());
    this.known.clear();
    this.seen = null;
  }

  /** Whether half of the squares that are seen were seen last and show the same (`key`): then it is worth while to keep them. */
  follows(seen, key) {
    if (key.some((part, i) => part !== this.key[i])) this.forget();
    const before = this.seen;
    Object.assign(this, { seen, key });
    if (!before) return false;
    const shared = (from, to) => Math.max(0, Math.min(seen[to], before[to]) - Math.max(seen[from], before[from]));
    return shared("left", "right") * shared("top", "bottom") * 2 >= (seen.right - seen.left) * (seen.bottom - seen.top);
  }

  /** The picture at a place of the grid, (number of the square in time, from top to bottom); made by `draw` if it is new. */
  get(across, down, width, height, draw) {
    const name = `${across} ${down}`, known = this.known.get(name);
    if (known) this.known.delete(name); // the one that was asked for last comes last
    this.known.set(name, known ?? this._made(width, height, draw));
    return this.known.get(name);
  }

  _made(width, height, draw) {
    const canvas = this.free.pop() ?? document.createElement("canvas");
    if (canvas.width !== width || canvas.height !== height) Object.assign(canvas, { width, height });
    const context = canvas.getContext("2d", { alpha: false });
    draw(context);
    return canvas;
  }

  /** Keep so many of those that were asked for last. */
  keep(count) {
    for (const [name, canvas] of this.known) {
      if (this.known.size <= count) return;
      this.known.delete(name);
      this.free.push(canvas);
    }
  }
}

"use strict";
// The run as lanes of intervals that can be searched: rows by core and pipe, lives by allocation.

const WORK = 0, SET = 1, WAIT = 2, BARRIER = 3, DISPATCH = 4;
const KINDS = { work: WORK, set: SET, wait: WAIT, barrier: BARRIER };

/** Intervals in order of time that do not overlap, with running sums: the total of any stretch is two look-ups. */
class Spans {
  constructor(start, stop) {
    Object.assign(this, { start, stop, count: start.length });
  }

  /** Running sums of the lengths of some intervals. */
  sums(isMeant) {
    const sums = new Float64Array(this.count + 1);
    for (let i = 0; i < this.count; i++) sums[i + 1] = sums[i] + (isMeant(i) ? this.stop[i] - this.start[i] : 0);
    return sums;
  }

  /** The first interval that ends after a cycle, searched from `low` on. */
  find(cycle, low = 0) {
    let step = 1, high = low;
    while (high < this.count && this.stop[high] <= cycle) { low = high + 1; high += step; step *= 2; }
    high = Math.min(high, this.count);
    while (low < high) {
      const middle = (low + high) >> 1;
      if (this.stop[middle] > cycle) high = middle; else low = middle + 1;
    }
    return low;
  }

  /** Of running sums: how much lies before a cycle, where `at` is what `find` gives for it. */
  before(sums, cycle, at) {
    if (at >= this.count || cycle <= this.start[at] || sums[at + 1] === sums[at]) return sums[at];
    return sums[at] + cycle - this.start[at];
  }
}

/** What a lane shows: intervals of occupancy, and when it is busy, which is up to completion. */
class Strip extends Spans {
  /** start, stop: cycles. what: a row's index for each interval. kind: WORK... for each. end: completions, if later. */
  constructor(start, stop, what, kind, end = stop) {
    super(start, stop);
    Object.assign(this, { what, kind });
    this.held = this.sums((i) => kind[i] === WAIT || kind[i] === BARRIER);
    const begun = start.slice(), done = start.slice();
    for (let i = 0, last = 0; i < this.count; i++) {
      const works = kind[i] === WORK || kind[i] === DISPATCH;
      begun[i] = Math.max(last, start[i]);
      done[i] = last = works ? Math.max(begun[i], end[i]) : begun[i];
    }
    this.busy = new Spans(begun, done);
    this.worked = this.busy.sums(() => true);
    this.long = [];
  }

  /** Intervals of a kind that take so many cycles at least, by time; found once for each zoom. */
  longer(kind, cycles) {
    if (this.long[kind]?.cycles !== cycles) {
      const found = [];
      for (let i = 0; i < this.count; i++) if (this.kind[i] === kind && this.stop[i] - this.start[i] >= cycles) found.push(i);
      this.long[kind] = { cycles, found };
    }
    return this.long[kind].found;
  }

  /** Those of them that lie between two cycles, in part or as a whole. */
  *longBetween(kind, cycles, from, to) {
    const found = this.longer(kind, cycles);
    let low = 0, high = found.length;
    while (low < high) {
      const middle = (low + high) >> 1;
      if (this.stop[found[middle]] > from) high = middle; else low = middle + 1;
    }
    for (; low < found.length && this.start[found[low]] < to; low++) yield found[low];
  }

  /** Cycles in which it is busy between two. */
  busyBetween(from, to, low = 0) {
    const first = this.busy.find(from, low), last = this.busy.find(to, first);
    return this.busy.before(this.worked, to, last) - this.busy.before(this.worked, from, first);
  }

  /** Running sums of the intervals of some rows. */
  sumsOf(isMeant) {
    return this.sums((i) => this.kind[i] !== DISPATCH && isMeant(this.what[i]));
  }
}

class Model {
  constructor({ head, columns }) {
    this.head = head;
    this.columns = columns;
    this.makespan = Math.max(1, head.makespan);
    this.count = columns.gap.length;
    this._makeRows();
    this._makeLanes();
    this._makeLives();
    this._makeCritical();
    this.steps = new Steps(this);
  }

  _makeRows() {
    const { head, columns: c, count } = this;
    const Times = this.makespan < 2 ** 31 ? Int32Array : Float64Array;
    this.start = new Times(count); this.occupied = new Times(count); this.end = new Times(count);
    this.number = new Float64Array(count);
    this.kind = new Uint8Array(count);
    this.laneOf = new Uint16Array(count);
    const kindOfOp = head.ops.map((op) => KINDS[op[2]]);
    const kindOf = Uint8Array.from(head.instructions, (instruction) => kindOfOp[instruction[0]]);
    let row = 0;
    head.lanes.forEach(([, , rows], lane) => {
      for (let before = 0, last = row + rows; row < last; row++) {
        this.start[row] = before + c.gap[row];
        before = this.occupied[row] = this.start[row] + c.hold[row];
        this.end[row] = before + c.drain[row];
        this.kind[row] = kindOf[c.instruction[row]];
        this.laneOf[row] = lane;
        const call = c.call[row];
        this.number[row] = c.call_first[call] + c.instruction[row] - head.templates[c.call_template[call]][1];
      }
    });
    this._makeIndex();
    this._makeSlots();
    this.waitNames = new Map(head.wait_names.map(([at, cause, name]) => [`${at} ${cause}`, name]));
    this.takenBy = new Map();
    for (let i = 0; i < count; i++) {
      if (c.partner[i]) {
        const set = this.row(this.number[i] - c.partner[i]);
        if (set >= 0) this.takenBy.set(set, [...(this.takenBy.get(set) ?? []), i]);
      }
    }
  }

  /** Rows by number: a table if all are here, else sorted. */
  _makeIndex() {
    this.isWhole = this.count === this.head.rows;
    if (this.isWhole) {
      this.byNumber = new Int32Array(this.count);
      for (let i = 0; i < this.count; i++) this.byNumber[this.number[i]] = i;
    } else {
      this.byNumber = Int32Array.from(this.number.keys()).sort((a, b) => this.number[a] - this.number[b]);
    }
  }

  /** Where the slots of each call start. */
  _makeSlots() {
    const { head, columns: c } = this;
    this.slotStart = new Int32Array(c.call_first.length);
    for (let i = 0, at = 0; i < this.slotStart.length; i++) {
      this.slotStart[i] = at;
      at += head.templates[c.call_template[i]][2];
    }
  }

  /** The index of the row of a number, -1 if it is not here. */
  row(number) {
    if (number < 0) return -1;
    if (this.isWhole) return number < this.count ? this.byNumber[number] : -1;
    let low = 0, high = this.count;
    while (low < high) {
      const middle = (low + high) >> 1;
      if (this.number[this.byNumber[middle]] < number) low = middle + 1; else high = middle;
    }
    const found = low < this.count ? this.byNumber[low] : -1;
    return found >= 0 && this.number[found] === number ? found : -1;
  }

  _makeLanes() {
    let first = 0;
    this.lanes = this.head.lanes.map(([core, pipe, rows], index) => {
      const lane = { index, core, pipe, first, last: first + rows, strip: null };
      first += rows;
      return lane;
    });
    this.cores = [...new Set(this.lanes.map((lane) => lane.core))];
    this.lanesOf = new Map(this.cores.map((core) => [core, []]));
    for (const lane of this.lanes) this.lanesOf.get(lane.core).push(lane);
    // A scalar unit without rows of its own still dispatches those of the others.
    const scalar = this.scalar = Number(Object.keys(this.head.pipes).find((pipe) => this.head.pipes[pipe][0] === "S"));
    for (const [core, lanes] of this.lanesOf) {
      if (lanes.some((lane) => lane.pipe === scalar)) continue;
      lanes.unshift({ index: this.lanes.length, core, pipe: scalar, first: 0, last: 0, strip: null });
      this.lanes.push(lanes[0]);
    }
  }

  /** A lane's intervals; that of the scalar unit has its dispatches, too. */
  strip(lane) {
    lane.strip ??= this.isScalar(lane) ? this._scalarStrip(lane) : this._pipeStrip(lane);
    return lane.strip;
  }

  isScalar(lane) {
    return lane.pipe === this.scalar;
  }

  _pipeStrip({ first, last }) {
    const what = new Int32Array(last - first).map((_, i) => first + i);
    return new Strip(this.start.subarray(first, last), this.occupied.subarray(first, last), what,
      this.kind.subarray(first, last), this.end.subarray(first, last));
  }

  /** The scalar unit takes the rows of its core in order: it works on its own and dispatches the others. */
  _scalarStrip({ core }) {
    const rows = this.order(core);
    const Times = this.start.constructor;
    const start = new Times(rows.length), stop = new Times(rows.length), kind = new Uint8Array(rows.length);
    rows.forEach((row, i) => {
      const own = this.isScalar(this.lanes[this.laneOf[row]]);
      stop[i] = own ? this.occupied[row] : this.dispatched(row);
      start[i] = own ? this.start[row] : stop[i] - this.head.dispatch_cycles;
      kind[i] = own ? this.kind[row] : DISPATCH;
    });
    return new Strip(start, stop, rows, kind);
  }

  /** The rows of a core in the order of the program. */
  order(core) {
    this._orders ??= this._makeOrders();
    return this._orders.get(core);
  }

  _makeOrders() {
    const counts = new Map(this.cores.map((core) => [core, 0]));
    for (const { core, first, last } of this.lanes) counts.set(core, counts.get(core) + last - first);
    const orders = new Map(this.cores.map((core) => [core, new Int32Array(counts.get(core))])), filled = new Map();
    for (const row of this.byNumber) {
      const core = this.core(row), at = filled.get(core) ?? 0;
      orders.get(core)[at] = row;
      filled.set(core, at + 1);
    }
    return orders;
  }

  dispatched(row) {
    return this.start[row] - this.columns.queued[row];
  }

  _makeLives() {
    const { head, columns: c } = this;
    const of = head.allocations.map(() => []);
    for (let i = 0; i < c.life_of.length; i++) of[c.life_of[i]].push(i);
    this.memoryOf = new Map(this.cores.map((core) => [core, new Map()]));
    head.allocations.forEach(([core, memory, name, position, address], index) => {
      const lives = Int32Array.from(of[index]).sort((a, b) => c.life_start[a] - c.life_start[b]);
      const bytes = lives.reduce((most, life) => Math.max(most, c.life_bytes[life]), 0);
      const strip = new Strip(
        Float64Array.from(lives, (life) => c.life_start[life]), Float64Array.from(lives, (life) => c.life_end[life]),
        lives, new Uint8Array(lives.length),
      );
      const memories = this.memoryOf.get(core);
      if (!memories.has(memory)) memories.set(memory, []);
      memories.get(memory).push({ index, core, memory, name, position, address, bytes, strip });
    });
  }

  /** The steps of the critical path, by time; lane and row are -1 where rows were not kept. */
  _makeCritical() {
    const { columns: c, head } = this, lanes = new Map(this.lanes.map((lane) => [`${lane.core} ${lane.pipe}`, lane.index]));
    this.critical = Array.from(c.path_begin, (begin, i) => ({
      begin, end: c.path_end[i], row: this.row(c.path_row[i]), edge: head.edges[c.path_edge[i]],
      lane: lanes.get(`${c.path_core[i]} ${c.path_pipe[i]}`) ?? -1,
    }));
  }

  // ---- what belongs to what

  core(row) { return this.lanes[this.laneOf[row]].core; }
  instruction(row) { return this.head.instructions[this.columns.instruction[row]]; }
  op(row) { return this.head.ops[this.instruction(row)[0]]; }
  line(row) { return this.instruction(row)[2]; }
  tile(row) { return this.columns.call_tile[this.columns.call[row]]; }

  /** The rows at the other end of a flag: of a wait the set it took, of a set the waits that took it. */
  partners(row) {
    if (this.columns.partner[row]) {
      const set = this.row(this.number[row] - this.columns.partner[row]);
      return set < 0 ? [] : [set];
    }
    return this.takenBy.get(row) ?? [];
  }

  /** The row that released this one, -1 if there is none. */
  releaser(row) {
    return this.columns.released[row] ? this.row(this.number[row] - this.columns.released[row]) : -1;
  }

  waitName(row) {
    return this.waitNames.get(`${this.columns.instruction[row]} ${this.columns.waited_for[row]}`) ?? "";
  }

  /** Operands of a row: role, tensor, memory, address of the first byte, and the bytes that are touched. */
  operands(row) {
    const call = this.columns.call[row];
    return this.instruction(row)[7].map(([role, tensor, offset, first, end]) => {
      let [name, memory, position, base, , slot] = this.head.tensors[tensor];
      let within = 0;
      if (slot >= 0) {
        const at = this.slotStart[call] + slot;
        const [gmName, gmBase] = this.head.gm[this.columns.slot_tensor[at]];
        base = this.columns.slot_base[at];
        name = gmName;
        within = base - gmBase;
      }
      return {
        role, name, memory, position, address: base + offset, offset: within + offset,
        first: first === undefined ? null : base + first, end: first === undefined ? null : base + end,
      };
    });
  }

  /** The life on chip that an operand of a row belongs to, as {place, at}, or null. */
  lifeOf(row, operand) {
    const places = this.memoryOf.get(this.core(row))?.get(operand.memory) ?? [];
    for (const place of places) {
      if (place.name !== operand.name) continue;
      const at = place.strip.find(this.start[row]);
      if (at < place.strip.count && place.strip.start[at] <= this.end[row]) return { place, at };
    }
    return null;
  }

  /** Up to `most` rows of a core that name an allocation between two cycles, in the order of time. */
  users(place, from, to, most) {
    const found = [];
    for (const lane of this.lanesOf.get(place.core)) {
      for (let row = this._firstIn(lane, from); row < lane.last && this.start[row] <= to; row++) {
        const names = this.instruction(row)[7].some(([, tensor]) => {
          const [name, memory] = this.head.tensors[tensor];
          return name === place.name && memory === place.memory;
        });
        if (names) found.push(row);
        if (found.length > 4 * most) break;
      }
    }
    return found.sort((a, b) => this.start[a] - this.start[b]).slice(0, most);
  }

  /** The first row of a lane that starts at a cycle or later. */
  _firstIn(lane, cycle) {
    let low = lane.first, high = lane.last;
    while (low < high) {
      const middle = (low + high) >> 1;
      if (this.start[middle] < cycle) low = middle + 1; else high = middle;
    }
    return low;
  }

  /** The first row whose instruction is meant, starting after another row in the order of numbers; -1 if none is. */
  nextRow(isMeant, after = -1) {
    const meant = this.head.instructions.map(isMeant);
    const from = after < 0 ? -1 : this.number[after];
    let best = -1;
    for (let i = 0; i < this.count; i++) {
      if (meant[this.columns.instruction[i]] && this.number[i] > from && (best < 0 || this.number[i] < this.number[best])) best = i;
    }
    return best;
  }

  isMissing(core, cycle) {
    return (this.head.gaps[core] ?? []).some(([first, last]) => first <= cycle && cycle < last);
  }
}

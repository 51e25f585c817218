"use strict";
// What rows, lives and times are called. Text goes into the page as text nodes only.

const whole = new Intl.NumberFormat("en-US", { maximumFractionDigits: 0 });
const number = (value) => whole.format(value);
const thousandths = new Intl.NumberFormat("en-US", { maximumFractionDigits: 3 }), formats = new Map();

/** How numbers with so many decimals are written. */
function decimals(places) {
  if (!formats.has(places)) formats.set(places, new Intl.NumberFormat("en-US", { minimumFractionDigits: places, maximumFractionDigits: places }));
  return formats.get(places);
}

const cycles = (value) => `${number(value)} ${value === 1 ? "cycle" : "cycles"}`;
const hex = (value) => `0x${value.toString(16)}`;
const percent = (share) => `${(100 * share).toFixed(1)}%`;

/** An element with attributes and children; strings become text. */
function element(name, attributes = {}, ...children) {
  const made = document.createElement(name);
  for (const [key, value] of Object.entries(attributes)) {
    if (key === "onclick") made.addEventListener("click", value);
    else if (value === true) made.setAttribute(key, "");
    else if (value !== false && value != null) made.setAttribute(key, value);
  }
  made.append(...children);
  return made;
}

class Words {
  constructor(model) {
    this.model = model;
    this.head = model.head;
  }

  us(cycle) {
    return `${thousandths.format(cycle / this.head.clock_mhz)} µs`;
  }

  span(from, to) {
    return `${number(from)} to ${number(to)} (${cycles(to - from)}, ${this.us(to - from)})`;
  }

  pipe(row) { return this.head.pipes[this.model.lanes[this.model.laneOf[row]].pipe][0]; }
  lane(lane) { return `${this.head.cores[lane.core]}, ${this.head.pipes[lane.pipe][0]}`; }
  place(row) { return this.lane(this.model.lanes[this.model.laneOf[row]]); }

  /** What stands in a box, best first. */
  labels(row) {
    const [name, mnemonic] = this.model.op(row), size = this.model.instruction(row)[4];
    return [...(size ? [`${name} ${size}`] : []), name, mnemonic];
  }

  /** What stands in a step, best first: the step, then without what it lies in; with dots where rows of it are missing. */
  stepLabels(row) {
    const { here, all } = this.model.steps.rows(row), parts = this.model.steps.name(row).split("/");
    return parts.map((_, i) => parts.slice(i).join("/") + (here < all ? " …" : ""));
  }

  /** What there is to say of a step of a lane. */
  stepFacts(lane, { row, start, stop }) {
    const tile = this.model.tile(row), { here, all } = this.model.steps.rows(row);
    return [
      ["lane", this.lane(lane)], ["cycles", this.span(start, stop)], ...(tile >= 0 ? [["tile", number(tile)]] : []),
      ["first", this.title(row)], ["line", this.head.lines[this.model.line(row)]],
      ...(here < all ? [["rows", `${number(here)} of ${number(all)} are here`]] : []),
    ];
  }

  title(row) {
    const [name, mnemonic] = this.model.op(row), [, , , , size, dtype, note, , , bytes] = this.model.instruction(row);
    const parts = [name + (mnemonic === name ? "" : ` (${mnemonic})`), size, dtype, note, bytes ? `${number(bytes)} B` : ""];
    return parts.filter(Boolean).join(", ");
  }

  short(row) {
    return `${this.model.op(row)[0]}, row ${number(this.model.number[row])} on ${this.place(row)}`;
  }

  operand(operand) {
    const { role, name, memory, address, offset, first, end } = operand;
    const at = `${name}${offset ? ` + ${number(offset)}` : ""}, ${memory} ${hex(address)}`;
    return [role, end === null ? at : `${at}; touches ${hex(first)} to ${hex(end)} (${number(end - first)} B)`];
  }

  /** What a row waited for, "" for nothing. */
  waited(row) {
    const { columns: c } = this.model, cause = this.head.causes[c.waited_for[row]];
    if (!c.wait[row] || cause === "nothing") return "";
    const name = this.model.waitName(row);
    return `${cycles(c.wait[row])} for ${cause}${name ? ` (${name})` : ""}`;
  }

  /** All there is to say of a row, as [name, value]. */
  facts(row) {
    const { columns: c, start, occupied, end } = this.model;
    const [, , line, step, , , , , params] = this.model.instruction(row), names = this.model.op(row)[3];
    const facts = [["lane", this.place(row)], ["cycles", this.span(start[row], end[row])]];
    if (end[row] > occupied[row]) facts.push(["pipe free", `at ${number(occupied[row])}, ${cycles(end[row] - occupied[row])} of drain`]);
    if (c.queued[row]) facts.push(["dispatched", `at ${number(this.model.dispatched(row))}, ${cycles(c.queued[row])} in the queue`]);
    if (this.waited(row)) facts.push(["waited", this.waited(row)]);
    if (c.stuck[row]) facts.push(["scalar unit", `stuck ${cycles(c.stuck[row])} before the full queue`]);
    if (c.stretch[row]) facts.push(["shared link", `${cycles(c.stretch[row])} longer`]);
    if (this.model.instruction(row)[9]) facts.push(["L2", c.hit[row] ? "hit" : "miss"]);
    for (const operand of this.model.operands(row)) facts.push(this.operand(operand));
    if (params.length) facts.push(["parameters", params.map((value, i) => `${names[i]} ${value}`).join(", ")]);
    facts.push(["line", this.head.lines[line]]);
    if (this.head.steps[step]) facts.push(["step", this.head.steps[step]]);
    if (this.model.tile(row) >= 0) facts.push(["tile", number(this.model.tile(row))]);
    facts.push(["row", `${number(this.model.number[row])}, call ${number(c.call_number[c.call[row]])}`]);
    return facts;
  }

  /** The command that prints a row's values; of a page that was opened from disk, with the folder it lies in. */
  command(how, row) {
    return how.replace("{row}", String(this.model.number[row])).replace("{run}", () => this.folder());
  }

  folder() {
    if (location.protocol !== "file:") return "RUN";
    const place = decodeURIComponent(location.pathname).replace(/^\/(?=[A-Za-z]:)/, "").replace(/\/[^/]*$/, "") || "/";
    return /^[\w./:@%+=,-]+$/.test(place) ? place : `'${place.replaceAll("'", "'\\''")}'`;
  }

  lifeFacts(place, at) {
    const { columns: c } = this.model, life = place.strip.what[at], bytes = c.life_bytes[life];
    return [
      ["memory", `${place.memory} of ${this.head.cores[place.core]}`],
      ["position", place.position],
      ["addresses", `${hex(place.address)} to ${hex(place.address + bytes)} (${number(bytes)} B)`],
      ["cycles", this.span(c.life_start[life], c.life_end[life])],
      ...(c.life_tile[life] >= 0 ? [["tile", number(c.life_tile[life])]] : []),
    ];
  }
}

function listOf(facts) {
  return element("dl", {}, ...facts.flatMap(([name, value]) => [element("dt", {}, name), element("dd", {}, value)]));
}

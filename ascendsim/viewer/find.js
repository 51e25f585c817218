"use strict";
// Searching for a text: in instructions, tensors, steps and kernel lines.

/** What counts as a whole name: it, a buffer without its number in the queue, and each of steps in steps. */
const wholeNames = (name) => [name, name.replace(/\[\d+\]$/, ""), ...name.split("/")];

// What lies in a slot of GM is another tensor from call to call, called as `gm` says.
const isInSlot = ([, , , , , slot]) => slot >= 0;

/** A test of names for a text, capital or not: whether they are it, if anything is; else whether it is in them, a line's number as a whole. */
function namesWith(text, { ops, tensors, gm, steps, lines }) {
  const named = [...tensors.filter((tensor) => !isInSlot(tensor)), ...gm].map(([name]) => name);
  const wanted = text.trim().toLowerCase(), names = [...ops.flatMap(([name, mnemonic]) => [name, mnemonic]), ...named, ...steps, ...lines];
  if (!wanted) return () => false;
  const isIt = (name) => wholeNames(name.toLowerCase()).includes(wanted);
  if (names.some(isIt)) return isIt;
  return /:\d+$/.test(wanted) ? (name) => name.toLowerCase().endsWith(wanted) : (name) => name.toLowerCase().includes(wanted);
}

/** Rows that have such a name, in the order of the program. */
function rowsNamed(model, has) {
  const { head, columns: c } = model, isIn = (names) => names.map(has);
  const lines = isIn(head.lines), steps = isIn(head.steps), gm = isIn(head.gm.map(([name]) => name));
  const ops = head.ops.map(([name, mnemonic]) => has(name) || has(mnemonic));
  const tensors = head.tensors.map((tensor) => !isInSlot(tensor) && has(tensor[0])), slotOf = ([, tensor]) => head.tensors[tensor][5];
  const named = head.instructions.map(([op, , line, step, , , , operands]) => ops[op] || lines[line] || steps[step] || operands.some(([, tensor]) => tensors[tensor]));
  const slots = head.instructions.map((instruction) => instruction[7].map(slotOf).filter((slot) => slot >= 0));
  return model.byNumber.filter((row) => {
    const at = c.instruction[row], first = model.slotStart[c.call[row]];
    return named[at] || slots[at].some((slot) => gm[c.slot_tensor[first + slot]]);
  });
}

/** Which name of a row it was. */
function nameFound(model, row, has) {
  const { head } = model, tensors = model.operands(row).map(({ name }) => ["tensor", name]);
  const names = [...model.op(row).slice(0, 2).map((name) => ["instruction", name]), ...tensors, ["line", head.lines[model.line(row)]], ["step", model.steps.name(row)]];
  return names.find(([, name]) => has(name));
}

class Finder {
  constructor(model, view) {
    Object.assign(this, { model, view, rows: new Int32Array(), has: () => false });
    this.field = document.getElementById("find");
    this.result = document.getElementById("found");
    const form = document.getElementById("search");
    form.classList.toggle("partial", !model.isWhole);
    form.addEventListener("submit", (event) => event.preventDefault());
    this.field.addEventListener("input", () => this.search(this.field.value));
    this.field.addEventListener("keydown", (event) => this.key(event));
    document.getElementById("find-next").addEventListener("click", () => this.step(1));
    document.getElementById("find-before").addEventListener("click", () => this.step(-1));
  }

  focus() {
    this.field.focus();
    this.field.select();
  }

  key(event) {
    if (event.key === "Enter") this.step(event.shiftKey ? -1 : 1);
    else if (event.key === "Escape") { this.clear(); document.getElementById("lanes").focus(); }
    else return;
    event.preventDefault();
    event.stopPropagation();
  }

  /** Look for a text; what it names stays bright. */
  search(text) {
    const isMeant = new Uint8Array(this.model.count);
    this.has = namesWith(text, this.model.head);
    this.rows = rowsNamed(this.model, this.has);
    for (const row of this.rows) isMeant[row] = 1;
    this.view.showLine(-1);
    this.view.mean(this.rows.length ? (row) => isMeant[row] === 1 : null);
    this.tell();
  }

  clear() {
    if (!this.field.value) return;
    this.field.value = "";
    this.search("");
  }

  /** The first place among the found rows whose number is not less than one. */
  place(number) {
    let low = 0, high = this.rows.length;
    while (low < high) {
      const middle = (low + high) >> 1;
      if (this.model.number[this.rows[middle]] < number) low = middle + 1; else high = middle;
    }
    return low;
  }

  /** To the next one behind the selected row in the program, or to the one before; behind the last one comes the first. */
  step(step) {
    const { rows, model, view } = this, count = rows.length;
    if (!count) return this.tell();
    const from = view.selected < 0 ? -1 : model.number[view.selected];
    const at = step > 0 ? this.place(from + 1) : (from < 0 ? count : this.place(from)) - 1;
    const row = rows[(at + count) % count];
    view.goTo(row);
    view.say(`${nameFound(model, row, this.has).join(" ")}: ${view.words.short(row)}`);
  }

  /** Say how many there are, and which of them is selected. */
  tell() {
    const { rows, model, view } = this, where = model.isWhole ? "" : " in the rows that the page holds";
    const at = view.selected < 0 ? -1 : this.place(model.number[view.selected]), isOne = at >= 0 && rows[at] === view.selected;
    const count = rows.length ? `${isOne ? `${number(at + 1)} of ` : ""}${number(rows.length)} found` : "nothing found";
    this.result.textContent = this.field.value.trim() ? count + where : "";
  }
}

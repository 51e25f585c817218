"use strict";
// What the page carries: base64 of zlib of (length of the head, head as JSON, columns). See viewer/columns.py.

const ALIGN = 8;

/** Decode the page's data into {head, columns}. */
async function unpack(text) {
  const packed = Uint8Array.from(atob(text), (letter) => letter.charCodeAt(0));
  const stream = new Blob([packed]).stream().pipeThrough(new DecompressionStream("deflate"));
  const bytes = new Uint8Array(await new Response(stream).arrayBuffer());
  const length = new DataView(bytes.buffer).getUint32(0, true);
  const head = JSON.parse(new TextDecoder().decode(bytes.subarray(ALIGN, ALIGN + length)));
  const columns = {};
  let at = ALIGN + length;
  for (const [name, count, width, asSteps] of head.columns) {
    columns[name] = numbersOf(bytes.subarray(at, at + count * width), count, width, asSteps);
    at += count * width;
  }
  return { head, columns };
}

/** Put numbers together from their bytes, lowest first, unfold their signs, and add steps up. */
function numbersOf(bytes, count, width, asSteps) {
  if (width < 4) return smallNumbers(bytes, count, width, asSteps);
  const found = new Float64Array(count);
  for (let i = 0, sum = 0; i < count; i++) {
    let folded = 0;
    for (let plane = width - 1; plane >= 0; plane--) folded = folded * 256 + bytes[plane * count + i];
    const value = folded % 2 ? -(folded + 1) / 2 : folded / 2;
    found[i] = asSteps ? (sum += value) : value;
  }
  return found;
}

function smallNumbers(bytes, count, width, asSteps) {
  const found = new Int32Array(count);
  for (let plane = 0; plane < width; plane++) {
    const from = plane * count;
    for (let i = 0; i < count; i++) found[i] |= bytes[from + i] << (8 * plane);
  }
  for (let i = 0; i < count; i++) found[i] = (found[i] >>> 1) ^ -(found[i] & 1);
  if (!asSteps) return found;
  const sums = new Float64Array(count);
  for (let i = 0, sum = 0; i < count; i++) sums[i] = sum += found[i];
  return sums;
}

// Arithmetic of chunks, each (T, A) in one flat array, and how numbers are written.

/** Mean squared error, raw units. */
export function meanSquare(a: Float32Array, b: Float32Array): number {
  let sum = 0;
  for (let i = 0; i < a.length; i++) sum += (a[i]! - b[i]!) ** 2;
  return sum / a.length;
}

/** One dimension over time. */
export function column(chunk: Float32Array, dim: number, dims: number): number[] {
  const values = [];
  for (let i = dim; i < chunk.length; i += dims) values.push(chunk[i]!);
  return values;
}

/** Running sums of every dimension: the positions that steps lead to. */
export function summed(chunk: Float32Array, dims: number): Float32Array {
  const sums = Float32Array.from(chunk);
  for (let i = dims; i < sums.length; i++) sums[i]! += sums[i - dims]!;
  return sums;
}

export function rows(chunk: Float32Array, dims: number): number[][] {
  const found = [];
  for (let i = 0; i < chunk.length; i += dims) found.push([...chunk.subarray(i, i + dims)]);
  return found;
}

export function clamp(x: number, low: number, high: number): number {
  return Math.min(Math.max(x, low), high);
}

/** A number with about three digits: 0.0123, 1.2e−5. */
export function short(x: number): string {
  if (x === 0) return "0";
  const size = Math.abs(x);
  if (size < 1e-3 || size >= 1e5) return x.toExponential(1).replace("e-", "e−").replace("e+", "e");
  return size >= 100 ? x.toFixed(0) : x.toPrecision(3);
}

/** A count with its noun: "1 token", "2 tokens". */
export function count(n: number, word: string): string {
  return `${n} ${word}${n === 1 ? "" : "s"}`;
}

/** Number of stages of generation until there are so many tokens. */
export function calls(endpoints: number[], tokens: number): number {
  const stage = endpoints.findIndex((end) => end >= tokens);
  return stage < 0 ? endpoints.length : stage + 1;
}

// The state of the page that a link restores.

import type { Facts } from "./facts";

export interface Place {
  episode: number;
  frame: number;
}

export interface View extends Place {
  budget: number;
  /** Name of the tokenizer whose tokens are edited. */
  focus: string;
  /** The selected slot of its tokens, from 0. */
  token: number;
  /** The edits of each tokenizer: slot to the id that was put there. */
  edits: Map<string, Map<number, number>>;
  /** Number of tokens of a tokenizer that are kept, whatever the budget. */
  masks: Map<string, number>;
  /** The chunk whose tokens are swapped in. */
  other: Place;
  /** Dimensions of the path; the third is -1 for a plane. */
  axes: [number, number, number];
  /** Whether actions are steps, which add up to the path. */
  isSum: boolean;
  /** Angles of the path in degrees: around the vertical axis, and towards the viewer. */
  turn: [number, number];
  camera: string;
  rate: "tokens" | "bits";
}

export function firstView(facts: Facts): View {
  const dims = facts.dimensions.length;
  const focus = facts.tokenizers.find((t) => t.has_prefixes) ?? facts.tokenizers[0]!;
  return {
    episode: 0,
    frame: 0,
    budget: Math.max(1, Math.round(focus.max_tokens / 4)),
    focus: focus.name,
    token: 0,
    edits: new Map(),
    masks: new Map(),
    other: { episode: 0, frame: 0 },
    axes: [0, Math.min(1, dims - 1), dims > 2 ? 2 : -1],
    isSum: false,
    turn: [-35, 25],
    camera: facts.cameras[0]?.name ?? "",
    rate: "tokens",
  };
}

export function toHash(view: View): string {
  const q = new URLSearchParams({
    episode: String(view.episode),
    frame: String(view.frame),
    budget: String(view.budget),
    focus: view.focus,
    token: String(view.token + 1),
    other: `${view.other.episode},${view.other.frame}`,
    axes: String(view.axes),
    turn: String(view.turn.map(Math.round)),
    rate: view.rate,
  });
  if (view.isSum) q.set("sum", "1");
  if (view.camera) q.set("camera", view.camera);
  for (const [name, slots] of view.edits)
    if (slots.size) q.set(`edit.${name}`, [...slots].map(([s, id]) => `${s + 1}:${id}`).join());
  for (const [name, kept] of view.masks) q.set(`mask.${name}`, String(kept));
  return `#${q.toString().replaceAll("%2C", ",").replaceAll("%3A", ":").replaceAll("%2F", "/")}`;
}

/** The view of a link; what is missing or invalid is as in `firstView`. */
export function fromHash(hash: string, facts: Facts): View {
  const q = new URLSearchParams(hash.replace(/^#/, ""));
  const view = firstView(facts);
  const number = (name: string, low: number, high: number, otherwise: number) => {
    const value = Number(q.get(name) ?? NaN);
    return Number.isInteger(value) && value >= low && value <= high ? value : otherwise;
  };
  const numbers = (name: string) => q.get(name)?.split(",").map(Number);
  const place = (episode: number, frame: number): Place | null => {
    const length = facts.episode_lengths[episode];
    if (length === undefined || !Number.isInteger(frame)) return null;
    return { episode, frame: Math.min(Math.max(frame, 0), length - 1) };
  };
  Object.assign(view, place(number("episode", 0, Infinity, 0), number("frame", 0, Infinity, 0)));
  const focus = facts.tokenizers.find((t) => t.name === q.get("focus"));
  if (focus) view.focus = focus.name;
  view.budget = number("budget", 1, maxBudget(facts), view.budget);
  view.token = number("token", 1, Infinity, view.token + 1) - 1;
  view.other = place(...((numbers("other") ?? [0, 0]) as [number, number])) ?? view.other;
  const axes = numbers("axes");
  const isAxis = (a: number, low: number) =>
    Number.isInteger(a) && a >= low && a < facts.dimensions.length;
  if (axes?.length === 3 && axes.every((a, i) => isAxis(a, i < 2 ? 0 : -1)))
    view.axes = axes as [number, number, number];
  const turn = numbers("turn");
  if (turn?.length === 2 && turn.every(Number.isFinite)) view.turn = turn as [number, number];
  view.isSum = q.get("sum") === "1";
  view.rate = q.get("rate") === "bits" ? "bits" : "tokens";
  if (facts.cameras.some((c) => c.name === q.get("camera"))) view.camera = q.get("camera")!;
  for (const t of facts.tokenizers) {
    const edits = q.get(`edit.${t.name}`)?.split(",") ?? [];
    const slots = new Map<number, number>();
    for (const [slot, id] of edits.map((edit) => edit.split(":").map(Number)))
      if (Number.isInteger(slot) && Number.isInteger(id)) slots.set(slot! - 1, id!);
    if (slots.size) view.edits.set(t.name, slots);
    const kept = number(`mask.${t.name}`, 1, t.max_tokens, 0);
    if (kept && t.has_prefixes) view.masks.set(t.name, kept);
  }
  return view;
}

/** The largest budget that changes anything. */
export function maxBudget(facts: Facts): number {
  return Math.max(1, ...facts.tokenizers.filter((t) => t.has_prefixes).map((t) => t.max_tokens));
}

// The rate-distortion curve of the shown chunk, with the current point of every tokenizer on it.

import { byId, element, escape, line, setAttribute } from "./dom";
import type { Model } from "./model";
import { meanSquare, short } from "./numbers";

const WIDTH = 330;
const HEIGHT = 230;
const LEFT = 44;
const BOTTOM = 24;
const FLOOR = 1e-12;

type Point = [number, number];

export class RatePanel {
  private readonly plot = byId("rate-plot");
  private readonly by = byId<HTMLSelectElement>("rate-by");

  constructor(private readonly model: Model, onChange: () => void) {
    this.by.addEventListener("change", () => {
      model.view.rate = this.by.value === "bits" ? "bits" : "tokens";
      onChange();
    });
    this.plot.append(element(`<svg viewBox="0 0 ${WIDTH} ${HEIGHT}" aria-hidden="true"></svg>`));
  }

  draw(): void {
    const { model } = this;
    const { rate, focus } = model.view;
    this.by.value = rate;
    if (!model.chunk) return;
    const curves = model.facts.tokenizers.map((facts) => {
      const answer = model.answer(facts.name);
      const perToken = rate === "bits" ? Math.log2(facts.vocab_size) : 1;
      const error = (actions: Float32Array) => Math.max(meanSquare(actions, model.chunk!.actions), FLOOR);
      const own = answer.decoded.chunks.map(
        (actions, i): Point => [answer.decoded.budgets[i]! * perToken, error(actions)],
      );
      const mean = facts.curve.map((p): Point => [p[rate], Math.max(p.mse, FLOOR)]);
      const now: Point | null = answer.mse === null ? null : [answer.tokens * perToken, Math.max(answer.mse, FLOOR)];
      return { facts, own, mean, now };
    });
    const place = axes(curves.flatMap((c) => [...c.own, ...c.mean, ...(c.now ? [c.now] : [])]));
    let drawn = place.grid;
    for (const { facts, own, mean, now } of curves) {
      const style = facts.name === focus ? "" : " faint";
      const dots = mean.map(place.at).map(([x, y]) => `<circle class="mean" cx="${x}" cy="${y}" r="2"/>`);
      drawn += `<g class="curve${style}" style="--kind:${facts.color}"><title>${escape(facts.name)}</title>`;
      drawn += `<path class="decoded" d="${line(own.map(place.at))}"/>`;
      drawn += `<path class="held" d="${line(mean.map(place.at))}"/>${dots.join("")}`;
      if (now) {
        const [x, y] = place.at(now);
        drawn += `<circle class="now" cx="${x}" cy="${y}" r="5"/>`;
      }
      drawn += "</g>";
    }
    this.plot.firstElementChild!.innerHTML = drawn;
    const { mse, tokens } = model.answer(focus);
    const now = mse === null ? "does not decode" : `mean squared error ${short(mse)} with ${tokens} tokens`;
    setAttribute(this.plot, "aria-label", `error against ${rate}; ${focus}: ${now}`);
  }
}

/** Log axes around points: where a point is, and lines with numbers. */
function axes(points: Point[]): { at: (p: Point) => Point; grid: string } {
  const range = (i: 0 | 1) => {
    const logs = points.map((p) => Math.log(p[i]));
    const [low, high] = [Math.min(...logs), Math.max(...logs)];
    const room = Math.max((high - low) * 0.05, 0.1);
    return [low - room, high + room] as const;
  };
  const [left, right] = range(0);
  const [low, high] = range(1);
  const x = (value: number) => LEFT + ((WIDTH - LEFT - 8) * (Math.log(value) - left)) / (right - left);
  const y = (value: number) => 8 + ((HEIGHT - BOTTOM - 8) * (high - Math.log(value))) / (high - low);
  let grid = "";
  const decades = Math.ceil((high - low) / Math.log(10) / 6);
  for (let e = Math.ceil(low / Math.log(10)); e <= high / Math.log(10); e += decades) {
    const at = y(10 ** e);
    grid += `<path class="grid" d="M${LEFT} ${at}H${WIDTH}"/><text class="number" x="${LEFT - 6}" y="${at + 4}" text-anchor="end">10<tspan dy="-4" font-size="8">${e}</tspan></text>`;
  }
  const step = (right - left) / Math.log(2) > 8 ? 4 : 2;
  for (let value = 1; value <= Math.exp(right); value *= step) {
    if (Math.log(value) < left) continue;
    const at = x(value);
    grid += `<path class="grid" d="M${at} 8V${HEIGHT - BOTTOM}"/><text class="number" x="${at}" y="${HEIGHT - 8}" text-anchor="middle">${value}</text>`;
  }
  return { at: ([a, b]) => [x(a), y(b)], grid };
}

// The path that a chunk takes through two or three chosen dimensions.

import { byId, element, escape, line, setAttribute } from "./dom";
import type { Model } from "./model";
import { summed } from "./numbers";

type Point = [number, number];

const WIDTH = 330;
const HEIGHT = 230;
const MARGIN = 22;
/** Where the arrows of the axes begin. */
const CORNER: Point = [26, HEIGHT - 22];

export class PathPanel {
  private readonly plot = byId("path-plot");

  constructor(private readonly model: Model, onChange: () => void) {
    const names = model.facts.dimensions.map((d, i) => `<option value="${i}">${escape(d.name)}</option>`);
    [0, 1, 2].forEach((place) => {
      const select = byId<HTMLSelectElement>(`axis-${place}`);
      select.innerHTML = (place === 2 ? '<option value="-1">plane</option>' : "") + names.join("");
      select.addEventListener("change", () => {
        model.view.axes[place] = Number(select.value);
        onChange();
      });
    });
    const sum = byId<HTMLInputElement>("sum");
    sum.addEventListener("change", () => {
      model.view.isSum = sum.checked;
      onChange();
    });
    this.addTurning(onChange);
    this.plot.append(element(`<svg viewBox="0 0 ${WIDTH} ${HEIGHT}" aria-hidden="true"></svg>`));
  }

  draw(): void {
    const { model } = this;
    const { axes, isSum } = model.view;
    axes.forEach((axis, i) => (byId<HTMLSelectElement>(`axis-${i}`).value = String(axis)));
    byId<HTMLInputElement>("sum").checked = isSum;
    if (!model.chunk) return;
    this.plot.classList.toggle("space", axes[2] >= 0);
    const truth = this.project(model.chunk.actions);
    const paths = model.facts.tokenizers.map((t) => {
      const { actions } = model.answer(t.name);
      return { facts: t, points: actions ? this.project(actions) : [] };
    });
    const place = fit([truth, ...paths.map((p) => p.points)]);
    let drawn = this.frame();
    drawn += `<path class="truth" d="${line(truth.map(place))}"/>`;
    const isFocus = (name: string) => name === model.view.focus;
    paths.sort((a, b) => Number(isFocus(a.facts.name)) - Number(isFocus(b.facts.name)));
    for (const { facts, points } of paths) {
      const style = isFocus(facts.name) ? "decoded" : "decoded faint";
      drawn += `<path class="${style}" style="--kind:${facts.color}" d="${line(points.map(place))}"/>`;
    }
    const [x, y] = place(truth[0]!);
    drawn += `<circle class="start" cx="${x}" cy="${y}" r="4"/>`;
    this.plot.firstElementChild!.innerHTML = drawn;
    const names = axes.filter((a) => a >= 0).map((a) => model.facts.dimensions[a]!.name);
    setAttribute(this.plot, "aria-label", `path in ${names.join(", ")}: truth and ${model.view.focus}`);
  }

  /** Points of a chunk on the screen, before scaling. */
  private project(actions: Float32Array): Point[] {
    const { dims, view } = this.model;
    const values = view.isSum ? summed(actions, dims) : actions;
    const points: Point[] = [];
    for (let i = 0; i < values.length; i += dims)
      points.push(this.onScreen(view.axes.map((axis) => (axis < 0 ? 0 : values[i + axis]!))));
    return points;
  }

  private onScreen([x = 0, y = 0, z = 0]: number[]): Point {
    const { axes, turn } = this.model.view;
    if (axes[2] < 0) return [x, -y];
    const [yaw, pitch] = turn.map((degrees) => (degrees * Math.PI) / 180) as Point;
    const across = x * Math.cos(yaw) - y * Math.sin(yaw);
    const away = x * Math.sin(yaw) + y * Math.cos(yaw);
    return [across, -(z * Math.cos(pitch) + away * Math.sin(pitch))];
  }

  /** The arrows of the axes, in the corner. */
  private frame(): string {
    const { axes } = this.model.view;
    const units = [
      [1, 0, 0],
      [0, 1, 0],
      [0, 0, 1],
    ];
    return axes
      .map((axis, i) => {
        if (axis < 0) return "";
        const [x, y] = this.onScreen(units[i]!);
        const at = (far: number) => [CORNER[0] + far * x, CORNER[1] + far * y] as const;
        const [tip, word] = [at(20), at(28)];
        const name = escape(this.model.facts.dimensions[axis]!.name);
        const left = Math.max(word[0] - 4, 4); // a long name stays in the panel
        return `<path class="axis" d="${line([CORNER, tip])}"/><text class="word" x="${left}" y="${word[1] + 3}">${name}</text>`;
      })
      .join("");
  }

  private addTurning(onChange: () => void): void {
    const turn = (dx: number, dy: number) => {
      const [yaw, pitch] = this.model.view.turn;
      this.model.view.turn = [(yaw + dx) % 360, Math.min(Math.max(pitch + dy, -90), 90)];
      onChange();
    };
    this.plot.addEventListener("pointerdown", (event) => {
      if (this.model.view.axes[2] >= 0) this.plot.setPointerCapture(event.pointerId);
    });
    this.plot.addEventListener("pointermove", (event) => {
      if (this.plot.hasPointerCapture(event.pointerId)) turn(event.movementX / 2, event.movementY / 2);
    });
    this.plot.addEventListener("keydown", (event) => {
      const turns: Record<string, Point> = {
        ArrowLeft: [-5, 0],
        ArrowRight: [5, 0],
        ArrowUp: [0, -5],
        ArrowDown: [0, 5],
      };
      const by = turns[event.key];
      if (!by || this.model.view.axes[2] < 0) return;
      event.preventDefault();
      event.stopPropagation();
      turn(...by);
    });
  }
}

/** Scale and shift that show all points as large as possible, the same in both directions. */
function fit(paths: Point[][]): (p: Point) => Point {
  const all = paths.flat();
  const range = (i: 0 | 1) => {
    const values = all.map((p) => p[i]);
    return [Math.min(...values), Math.max(...values)] as const;
  };
  const [left, right] = range(0);
  const [top, bottom] = range(1);
  const scale = Math.min(
    (WIDTH - 2 * MARGIN) / Math.max(right - left, 1e-9),
    (HEIGHT - 2 * MARGIN) / Math.max(bottom - top, 1e-9),
  );
  return ([x, y]) => [
    WIDTH / 2 + scale * (x - (left + right) / 2),
    HEIGHT / 2 + scale * (y - (top + bottom) / 2),
  ];
}

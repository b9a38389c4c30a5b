// One lane for each tokenizer: its numbers, its tokens, and a small plot of every dimension.

import { byId, element, escape, line, setAttribute, setText } from "./dom";
import type { TokenizerFacts } from "./facts";
import type { Model, Scale } from "./model";
import { column, count, short } from "./numbers";
import { Strip } from "./strip";

const WIDTH = 200;
const HEIGHT = 64;
/** Height of the band below the curves that shows the difference. */
const BAND = 22;
/** Duration of the animation from one reconstruction to the next. */
const ANIMATION_MS = 140;

export class Lanes {
  private readonly lanes: Lane[];

  constructor(model: Model) {
    this.lanes = model.facts.tokenizers.map((facts, i) => new Lane(model, facts, i));
    byId("lanes").append(...this.lanes.map((lane) => lane.root));
  }

  get isAnimating(): boolean {
    return this.lanes.some((lane) => lane.isAnimating);
  }

  draw(): void {
    for (const lane of this.lanes) lane.draw();
  }
}

class Lane {
  readonly root: HTMLElement;
  private readonly strip: Strip;
  private readonly plots: Plot[];
  private readonly name: HTMLElement;
  private readonly failure: HTMLElement;
  private readonly numbers: HTMLElement[];
  private chunkNumber = -1;
  private target: Float32Array | null = null;
  private shown: Float32Array | null = null;
  private animation = 0;

  constructor(
    private readonly model: Model,
    private readonly facts: TokenizerFacts,
    number: number,
  ) {
    const kind = facts.name === facts.kind ? "" : ` <small>${escape(facts.kind)}</small>`;
    const cells = ["tokens", "bits", "calls", "MSE"].map((n) => `<div><dt>${n}</dt><dd></dd></div>`);
    this.root = element(`<article class="lane card" style="--kind:${facts.color}">
      <div class="lane-head">
        <button class="name" type="button" aria-pressed="false">
          <i aria-hidden="true"></i>${escape(facts.name)}${kind}
        </button>
        <span class="remark soft">${facts.has_prefixes ? "" : "decodes only with all tokens"}</span>
        <dl>${cells.join("")}</dl>
      </div>
      <div class="drawn"><div class="plots"></div><p class="failure" hidden></p></div>
    </article>`);
    this.root.setAttribute("aria-label", facts.name);
    this.strip = new Strip(facts, number, (slot) => model.select(facts.name, slot));
    this.strip.root.addEventListener("keydown", (event) => this.onKey(event));
    this.root.insertBefore(this.strip.root, this.root.querySelector(".drawn"));
    this.plots = model.facts.dimensions.map((d, dim) => new Plot(d.name, dim, facts.name));
    this.root.querySelector(".plots")!.append(...this.plots.map((plot) => plot.root));
    this.name = this.root.querySelector(".name")!;
    this.name.addEventListener("click", () => model.select(facts.name, model.view.token));
    this.failure = this.root.querySelector(".failure")!;
    this.numbers = [...this.root.querySelectorAll<HTMLElement>("dd")];
  }

  get isAnimating(): boolean {
    return this.animation !== 0;
  }

  draw(): void {
    const { model, facts } = this;
    if (!model.chunk) return;
    const answer = model.answer(facts.name);
    const isFocus = model.view.focus === facts.name;
    this.root.classList.toggle("focus", isFocus);
    setAttribute(this.name, "aria-pressed", String(isFocus));
    const texts = [
      String(answer.tokens),
      answer.bits.toFixed(0),
      String(answer.calls),
      answer.mse === null ? "none" : short(answer.mse),
    ];
    this.numbers.forEach((cell, i) => setText(cell, texts[i]!));
    this.strip.draw({
      ids: answer.ids,
      encodedIds: model.encodedIds(facts.name),
      tokens: answer.tokens,
      selected: isFocus ? model.view.token : -1,
    });
    this.failure.hidden = answer.error === null;
    setText(this.failure, answer.error === null ? "" : `Does not decode: ${answer.error}.`);
    const isOtherChunk = this.chunkNumber !== model.chunkNumber;
    this.chunkNumber = model.chunkNumber;
    this.moveTo(answer.actions, isOtherChunk);
    for (const plot of this.plots) plot.describe(model, answer.actions, answer.tokens);
  }

  /** Animate the curves to another reconstruction of the same chunk; jump to another chunk. */
  private moveTo(actions: Float32Array | null, isOtherChunk: boolean): void {
    const isMotionReduced = matchMedia("(prefers-reduced-motion: reduce)").matches;
    const from = this.shown;
    const isSameTarget = actions === this.target;
    this.target = actions;
    if (!isOtherChunk && isSameTarget && actions) {
      if (!this.animation) this.show(actions);
      return;
    }
    cancelAnimationFrame(this.animation);
    this.animation = 0;
    if (isOtherChunk || isMotionReduced || !from || !actions) {
      this.show(actions);
      return;
    }
    const start = performance.now();
    const step = (now: number) => {
      const share = Math.min(Math.max((now - start) / ANIMATION_MS, 0), 1);
      const eased = 1 - (1 - share) ** 3;
      this.show(share < 1 ? actions.map((x, i) => from[i]! + (x - from[i]!) * eased) : actions);
      this.animation = share < 1 ? requestAnimationFrame(step) : 0;
    };
    this.animation = requestAnimationFrame(step);
  }

  private show(actions: Float32Array | null): void {
    this.shown = actions;
    for (const plot of this.plots) plot.draw(this.model, actions);
  }

  private onKey(event: KeyboardEvent): void {
    const moves: Record<string, number> = { ArrowLeft: -1, ArrowRight: 1, Home: -1e9, End: 1e9 };
    const move = moves[event.key];
    if (move === undefined) return;
    event.preventDefault();
    event.stopPropagation();
    const { view } = this.model;
    this.model.select(this.facts.name, view.focus === this.facts.name ? view.token + move : 0);
  }
}

class Plot {
  readonly root: HTMLElement;
  private readonly error: Element;
  private readonly drawing: Element;
  private readonly paths: Record<"padding" | "area" | "truth" | "decoded" | "difference", Element>;

  constructor(
    private readonly name: string,
    private readonly dim: number,
    private readonly tokenizer: string,
  ) {
    this.root = element(`<figure class="plot">
      <figcaption><span>${escape(name)}</span><span class="soft" title="root mean square error"></span></figcaption>
      <svg viewBox="0 0 ${WIDTH} ${HEIGHT + BAND}" preserveAspectRatio="none" role="img">
        <rect class="padding" y="0" height="${HEIGHT + BAND}" width="0"/>
        <path class="zero" d="M0 ${HEIGHT + BAND / 2}H${WIDTH}"/>
        <path class="difference"/>
        <svg class="curves" width="${WIDTH}" height="${HEIGHT}">
          <path class="area"/><path class="truth"/><path class="decoded"/>
        </svg>
      </svg></figure>`);
    this.error = this.root.querySelector("figcaption .soft")!;
    this.drawing = this.root.querySelector("svg")!;
    const find = (name: string) => this.root.querySelector(`.${name}`)!;
    this.paths = {
      padding: find("padding"),
      area: find("area"),
      truth: find("truth"),
      decoded: find("decoded"),
      difference: find("difference"),
    };
  }

  /** Update the number and the description for screen readers. */
  describe(model: Model, actions: Float32Array | null, tokens: number): void {
    let text = "none";
    if (actions) {
      const truth = column(model.chunk!.actions, this.dim, model.dims);
      const found = column(actions, this.dim, model.dims);
      const square = truth.reduce((sum, x, t) => sum + (x - found[t]!) ** 2, 0) / truth.length;
      text = short(Math.sqrt(square));
    }
    setText(this.error, text);
    const label = `${this.name}: truth, and ${this.tokenizer} with ${count(tokens, "token")}; root mean square error ${text}`;
    setAttribute(this.drawing, "aria-label", label);
  }

  draw(model: Model, actions: Float32Array | null): void {
    const scale = model.scales[this.dim];
    if (!model.chunk || !scale) return;
    const truth = column(model.chunk.actions, this.dim, model.dims);
    const x = (t: number) => (WIDTH * t) / Math.max(truth.length - 1, 1);
    const y = (value: number) => yOf(value, scale);
    const points = truth.map((value, t) => [x(t), y(value)] as const);
    const padded = model.chunk.num_padded;
    setAttribute(this.paths.padding, "x", x(truth.length - 1 - padded).toFixed(2));
    setAttribute(this.paths.padding, "width", padded ? String(WIDTH) : "0");
    setAttribute(this.paths.truth, "d", line(points));
    if (!actions) {
      for (const name of ["area", "decoded", "difference"] as const)
        setAttribute(this.paths[name], "d", "");
      return;
    }
    const found = column(actions, this.dim, model.dims);
    const decoded = found.map((value, t) => [x(t), y(value)] as const);
    const below = found.map((value, t) => {
      const share = (value - truth[t]!) / scale.difference;
      return [x(t), HEIGHT + BAND / 2 - share * (BAND / 2 - 1)] as const;
    });
    const zero = HEIGHT + BAND / 2;
    setAttribute(this.paths.decoded, "d", line(decoded));
    setAttribute(this.paths.area, "d", `${line([...decoded, ...points.reverse()])}Z`);
    setAttribute(this.paths.difference, "d", `M0 ${zero}${line(below).replace("M", "L")}V${zero}Z`);
  }
}

function yOf(value: number, { low, high }: Scale): number {
  return HEIGHT - 2 - ((HEIGHT - 4) * (value - low)) / (high - low);
}

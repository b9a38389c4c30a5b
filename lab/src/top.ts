// The controls at the top: episode, time line, camera and budget.

import { Latest, byId, element, escape, line, setAttribute, setText } from "./dom";
import type { Model } from "./model";
import { count } from "./numbers";
import { maxBudget } from "./view";

const WIDTH = 1000;
const HEIGHT = 80;
const PLAY_MS = 420;

export class TopPanel {
  private readonly episode = byId<HTMLSelectElement>("episode");
  private readonly frame = byId<HTMLInputElement>("frame");
  private readonly budget = byId<HTMLInputElement>("budget");
  private readonly image = byId<HTMLImageElement>("frame-image");
  private readonly window: Element;
  private readonly curves: Element;
  private readonly marks: Element;
  private readonly overviews = new Latest();
  private readonly images = new Latest();
  private drawnEpisode = -1;
  private drawnImage = "";
  private timer = 0;

  constructor(private readonly model: Model, private readonly onChange: () => void) {
    const { facts } = model;
    const svg = element(`<svg viewBox="0 0 ${WIDTH} ${HEIGHT}" preserveAspectRatio="none">
      <rect class="window" y="0" height="${HEIGHT}"/><g class="curves"></g><g class="marks"></g></svg>`);
    byId("overview").append(svg);
    this.window = svg.querySelector(".window")!;
    this.curves = svg.querySelector(".curves")!;
    this.marks = svg.querySelector(".marks")!;
    this.fillEpisodes();
    this.episode.addEventListener("change", () => model.move(Number(this.episode.value), 0));
    byId("previous").addEventListener("click", () => this.stepEpisode(-1));
    byId("next").addEventListener("click", () => this.stepEpisode(1));
    this.frame.addEventListener("input", () => model.move(model.view.episode, this.frame.valueAsNumber));
    this.budget.max = String(maxBudget(facts));
    this.budget.disabled = maxBudget(facts) < 2;
    this.budget.addEventListener("input", () => model.setBudget(this.budget.valueAsNumber));
    byId<HTMLButtonElement>("play").disabled = this.budget.disabled;
    byId("play").addEventListener("click", () => this.play());
    this.fillTicks();
    this.fillCameras();
    byId("hint").hidden = model.source.isLive;
  }

  stepEpisode(by: number): void {
    const episodes = this.model.source.episodes();
    const place = episodes.indexOf(this.model.view.episode) + by;
    const episode = episodes[(place + episodes.length) % episodes.length]!;
    this.model.move(episode, 0);
  }

  stepFrame(by: number): void {
    const { view, source } = this.model;
    const asked = view.frame + by;
    if (source.isLive || source.nearest(view.episode, asked) !== view.frame)
      return this.model.move(view.episode, asked);
    for (let far = 2; far < 512; far++) // jump to the next chosen chunk
      if (source.nearest(view.episode, view.frame + by * far) !== view.frame)
        return this.model.move(view.episode, source.nearest(view.episode, view.frame + by * far));
  }

  /** Let the budget grow step by step to the end; a second call stops it. */
  play(): void {
    if (this.timer) {
      this.stop();
    } else {
      const { model } = this;
      const last = maxBudget(model.facts);
      model.setBudget(model.view.budget >= last ? 1 : model.view.budget + 1);
      this.timer = window.setInterval(() => {
        if (model.view.budget >= last) this.stop();
        else model.setBudget(model.view.budget + 1);
      }, PLAY_MS);
    }
    this.onChange();
  }

  draw(): void {
    const { model, frame, budget } = this;
    const { view, facts } = model;
    const length = facts.episode_lengths[view.episode]!;
    this.episode.value = String(view.episode);
    byId("held-out").classList.toggle("absent", !facts.held_out.includes(view.episode));
    setText(byId("task"), facts.tasks[facts.episode_tasks[view.episode]!] ?? "");
    frame.max = String(length - 1);
    frame.value = String(view.frame);
    const seconds = facts.fps ? `, ${(view.frame / facts.fps).toFixed(2)} s` : "";
    setText(byId("frame-text"), `frame ${view.frame} of ${length}${seconds}`);
    setAttribute(frame, "aria-valuetext", `frame ${view.frame} of ${length}`);
    budget.value = String(view.budget);
    budget.style.setProperty("--share", `${(100 * (view.budget - 1)) / Math.max(maxBudget(facts) - 1, 1)}%`);
    setText(byId("budget-text"), count(view.budget, "token"));
    setAttribute(budget, "aria-valuetext", count(view.budget, "token"));
    setAttribute(byId("play"), "aria-pressed", String(this.timer !== 0));
    setText(byId("play").querySelector(".word")!, this.timer ? "Stop" : "Play");
    const x = (t: number) => (WIDTH * t) / Math.max(length - 1, 1);
    setAttribute(this.window, "x", x(view.frame).toFixed(1));
    setAttribute(this.window, "width", Math.max(x(facts.horizon - 1), 2).toFixed(1));
    this.drawEpisode();
    this.drawImage();
  }

  private stop(): void {
    clearInterval(this.timer);
    this.timer = 0;
    this.onChange();
  }

  private drawEpisode(): void {
    const { view, facts, source, dims } = this.model;
    if (this.drawnEpisode === view.episode) return;
    this.drawnEpisode = view.episode;
    this.overviews.run(async () => {
      const shown = this.model.view.episode;
      const { step, actions } = await source.episode(shown);
      const length = facts.episode_lengths[shown]!;
      const paths = facts.dimensions.map(({ low, high }, dim) => {
        const points: [number, number][] = [];
        for (let i = 0; i * dims < actions.length; i++) {
          const share = (actions[i * dims + dim]! - low) / Math.max(high - low, 1e-9);
          points.push([(WIDTH * i * step) / Math.max(length - 1, 1), HEIGHT - 4 - (HEIGHT - 8) * share]);
        }
        return `<path class="series s${dim % 4}" d="${line(points)}"/>`;
      });
      this.curves.innerHTML = paths.join("");
      this.marks.innerHTML = source.isLive ? "" : this.chosenMarks(shown, length);
    });
  }

  private chosenMarks(episode: number, length: number): string {
    const frames = new Set<number>();
    for (let t = 0; t < length; t++) frames.add(this.model.source.nearest(episode, t));
    return [...frames]
      .map((t) => `<path class="mark" d="M${(WIDTH * t) / Math.max(length - 1, 1)} 0v${HEIGHT}"/>`)
      .join("");
  }

  private drawImage(): void {
    const { view, source } = this.model;
    const address = view.camera ? source.image(view.episode, view.frame, view.camera) : null;
    if (address === null || address === this.drawnImage) return;
    this.images.run(async () => {
      const { episode, frame, camera } = this.model.view;
      const wanted = source.image(episode, frame, camera);
      if (wanted === null || wanted === this.drawnImage) return;
      this.drawnImage = wanted;
      this.image.src = wanted;
      this.image.alt = `${camera}, episode ${this.model.facts.episode_numbers[episode]}, frame ${frame}`;
      await this.image.decode().catch(() => (this.image.alt = "this image cannot be read"));
    });
  }

  private fillEpisodes(): void {
    const { facts, source } = this.model;
    const held = new Set(facts.held_out);
    this.episode.innerHTML = source
      .episodes()
      .map((e) => `<option value="${e}">episode ${facts.episode_numbers[e]}${held.has(e) ? " ○" : ""}</option>`)
      .join("");
  }

  private fillTicks(): void {
    const { facts } = this.model;
    const last = maxBudget(facts);
    const ticks = new Set(facts.tokenizers.filter((t) => t.has_prefixes).flatMap((t) => t.budgets));
    byId("ticks").innerHTML = [...ticks]
      .sort((a, b) => a - b)
      .map((b) => `<span style="left:${(100 * (b - 1)) / Math.max(last - 1, 1)}%">${b}</span>`)
      .join("");
  }

  private fillCameras(): void {
    const { facts, view } = this.model;
    const camera = byId("camera");
    camera.hidden = !facts.cameras.length;
    const select = byId<HTMLSelectElement>("camera-name");
    select.innerHTML = facts.cameras
      .map((c) => `<option value="${escape(c.name)}">${escape(c.name.split(".").pop()!)}</option>`)
      .join("");
    const shape = () => {
      const { height, width } = facts.cameras.find((c) => c.name === this.model.view.camera)!;
      this.image.width = width;
      this.image.height = height;
    };
    if (facts.cameras.length) shape();
    select.value = view.camera;
    select.addEventListener("change", () => {
      this.model.view.camera = select.value;
      shape();
      this.onChange();
    });
  }
}

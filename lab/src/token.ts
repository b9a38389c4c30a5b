// The selected token: what it changes, and how it can be edited.

import { byId, escape, setAttribute, setText } from "./dom";
import type { Model } from "./model";
import { calls, short } from "./numbers";

const UNDECODABLE = "var(--bad)";

export class TokenPanel {
  private readonly heat = byId("heat");
  private readonly id = byId<HTMLInputElement>("token-id");
  private drawn: unknown[] = [];

  constructor(private readonly model: Model) {
    const on = (id: string, handle: () => void) => byId(id).addEventListener("click", handle);
    this.id.addEventListener("change", () => this.setId());
    on("less", () => this.step(-1));
    on("more", () => this.step(1));
    on("randomize", () => this.randomize());
    on("mask", () => model.toggleMask());
    on("swap", () => this.swap());
    on("undo", () => model.undo());
    on("other-random", () => this.randomOther());
    on("other-this", () => model.setOther({ episode: model.view.episode, frame: model.view.frame }));
    this.heat.addEventListener("click", (event) => {
      const slot = (event.target as Element).getAttribute("data-slot");
      if (slot !== null) model.select(model.view.focus, Number(slot));
    });
    for (const id of ["token-id", "less", "more", "randomize", "swap", "other-random", "other-this"])
      if (!model.source.isLive) {
        byId<HTMLButtonElement>(id).disabled = true;
        byId(id).title = "only in the live lab: oatkit lab";
      }
  }

  step(by: number): void {
    if (this.model.source.isLive) this.model.setId(this.current() + by);
  }

  randomize(): void {
    const shift = 1 + Math.floor(Math.random() * (this.model.focus.vocab_size - 1));
    this.step(shift);
  }

  swap(): void {
    const id = this.otherId();
    if (id !== undefined && this.model.source.isLive) this.model.setId(id);
  }

  draw(): void {
    const { model } = this;
    const { view, focus } = model;
    const ids = model.ids(focus.name);
    const answer = model.answer(focus.name);
    const other = this.otherId();
    setText(byId("token-title"), `Token ${view.token + 1} of ${ids.length}`);
    const call = calls(focus.endpoints, view.token + 1);
    const total = calls(focus.endpoints, ids.length);
    byId("token-title").append(note(` ${focus.name}, call ${call} of ${total}`));
    this.id.max = String(focus.vocab_size - 1);
    if (document.activeElement !== this.id || !this.id.validity.valid) this.id.value = String(ids[view.token] ?? 0);
    setText(byId("token-range"), `of 0 … ${focus.vocab_size - 1}`);
    const mask = byId<HTMLButtonElement>("mask");
    mask.disabled = !focus.has_prefixes;
    mask.title = focus.has_prefixes ? "" : `${focus.name} decodes only all of its tokens`;
    setAttribute(mask, "aria-pressed", String(view.masks.get(focus.name) === view.token + 1));
    const swap = byId<HTMLButtonElement>("swap");
    swap.disabled = other === undefined || !model.source.isLive;
    setText(swap, other === undefined ? "Swap" : `Swap in ${other}`);
    byId<HTMLButtonElement>("undo").disabled = !view.edits.size && !view.masks.size;
    const number = model.facts.episode_numbers[view.other.episode];
    setText(byId("other"), `other: episode ${number}, frame ${view.other.frame}`);
    this.drawHeat(ids.length, answer.tokens);
  }

  private drawHeat(count: number, tokens: number): void {
    const { model, heat } = this;
    const { dims, influence, focus, view } = model;
    const isFresh = influence !== null && influence.influence.length === count * dims;
    const state = [isFresh && influence, tokens, view.token, focus.name];
    if (state.every((part, i) => part === this.drawn[i])) return;
    this.drawn = state;
    const values = isFresh ? influence.influence : new Float32Array(count * dims);
    const most = values.reduce((a, b) => (b > a ? b : a), 0);
    let cells = "";
    for (let slot = 0; slot < count; slot++) {
      const fade = slot < tokens ? 1 : 0.25;
      for (let dim = 0; dim < dims; dim++) {
        const value = values[slot * dims + dim]!;
        const isLost = Number.isNaN(value);
        const share = isLost ? 0.35 : most ? value / most : 0;
        const fill = isLost ? UNDECODABLE : "var(--kind)";
        const moved = isLost ? "no other id decodes" : `moves by ${short(value)} std`;
        const name = escape(model.facts.dimensions[dim]!.name);
        cells += `<rect data-slot="${slot}" x="${slot}" y="${dim}" width="1" height="1" fill="${fill}" fill-opacity="${(share * fade).toFixed(3)}"><title>token ${slot + 1}, ${name}: ${moved}</title></rect>`;
      }
    }
    const names = model.facts.dimensions.map((d) => `<span title="${escape(d.name)}">${escape(d.name)}</span>`).join("");
    const label = `how much each token of ${focus.name} moves each dimension`;
    heat.style.setProperty("--kind", focus.color);
    heat.style.setProperty("--rows", String(dims));
    heat.innerHTML = `<div class="heat-names soft" aria-hidden="true">${names}</div>
      <svg viewBox="0 0 ${count} ${dims}" preserveAspectRatio="none" role="img" aria-label="${escape(label)}">
      ${cells}<rect class="selected" x="${view.token}" y="0" width="1" height="${dims}"/></svg>`;
    setText(byId("heat-note"), this.heatNote(most, isFresh ? influence.undecodable : 0));
  }

  private heatNote(most: number, undecodable: number): string {
    if (undecodable > 0.995) return "Any other id makes the sequence undecodable.";
    const lost = undecodable > 0 ? ` ${(100 * undecodable).toFixed(0)} % of them do not decode (red).` : "";
    return `How far random other ids move a dimension; darkest: ${short(most)} std.${lost}`;
  }

  private current(): number {
    return this.model.ids(this.model.view.focus)[this.model.view.token] ?? 0;
  }

  private otherId(): number | undefined {
    return this.model.otherIds.get(this.model.view.focus)?.[this.model.view.token];
  }

  private setId(): void {
    const id = Number(this.id.value);
    if (Number.isInteger(id) && id >= 0 && id < this.model.focus.vocab_size) this.model.setId(id);
    else this.id.value = String(this.current());
  }

  private randomOther(): void {
    const lengths = this.model.facts.episode_lengths;
    const episode = Math.floor(Math.random() * lengths.length);
    this.model.setOther({ episode, frame: Math.floor(Math.random() * lengths[episode]!) });
  }
}

function note(text: string): HTMLElement {
  const small = document.createElement("small");
  small.textContent = text;
  return small;
}

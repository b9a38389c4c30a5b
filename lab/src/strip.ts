// The tokens of one tokenizer as colored cells, grouped by schedule block.

import { element, setAttribute, setText } from "./dom";
import type { TokenizerFacts } from "./facts";
import { calls } from "./numbers";

export interface StripState {
  ids: number[];
  encodedIds: number[];
  /** Number of leading tokens that are kept. */
  tokens: number;
  /** The selected slot; -1 for none. */
  selected: number;
}

const MAX_WITH_TEXT = 20;
const MAX_WITH_GAPS = 40;

export class Strip {
  readonly root: HTMLElement;
  private cells: HTMLElement[] = [];

  constructor(
    private readonly facts: TokenizerFacts,
    private readonly number: number,
    onSelect: (slot: number) => void,
  ) {
    this.root = element('<div class="strip" role="listbox" tabindex="0"></div>');
    this.root.setAttribute("aria-label", `tokens of ${facts.name}`);
    this.root.setAttribute("aria-orientation", "horizontal");
    this.root.addEventListener("click", (event) => {
      const slot = this.cells.indexOf((event.target as Element).closest(".cell") as HTMLElement);
      if (slot >= 0) onSelect(slot);
    });
  }

  draw({ ids, encodedIds, tokens, selected }: StripState): void {
    if (ids.length !== this.cells.length) this.build(ids.length);
    this.cells.forEach((cell, slot) => {
      const id = ids[slot]!;
      const isEdited = id !== encodedIds[slot];
      const isMasked = slot >= tokens;
      cell.style.setProperty("--hue", ((360 * id) / this.facts.vocab_size).toFixed(1));
      cell.classList.toggle("masked", isMasked);
      cell.classList.toggle("edited", isEdited);
      setAttribute(cell, "aria-selected", String(slot === selected));
      if (ids.length <= MAX_WITH_TEXT) setText(cell, String(id));
      const notes = `${isEdited ? ", edited" : ""}${isMasked ? ", masked" : ""}`;
      const label = `token ${slot + 1} of ${ids.length}: id ${id}${notes}`;
      setAttribute(cell, "aria-label", label);
      setAttribute(cell, "title", `${label}, call ${calls(this.facts.endpoints, slot + 1)}`);
    });
    if (selected >= 0) this.root.setAttribute("aria-activedescendant", this.cells[selected]?.id ?? "");
    else this.root.removeAttribute("aria-activedescendant");
  }

  private build(count: number): void {
    const ends = this.facts.endpoints.filter((end) => end < count);
    const starts = [0, ...ends];
    this.root.innerHTML = starts
      .map((start, i) => {
        const size = (ends[i] ?? count) - start;
        const cells = Array.from({ length: size }, (_, j) => {
          return `<span class="cell" role="option" id="cell-${this.number}-${start + j}"></span>`;
        });
        return `<span class="block" role="group" aria-label="call ${i + 1}" style="flex-grow:${size}">${cells.join("")}</span>`;
      })
      .join("");
    this.root.classList.toggle("many", count > MAX_WITH_TEXT);
    this.root.classList.toggle("dense", count > MAX_WITH_GAPS);
    this.cells = [...this.root.querySelectorAll<HTMLElement>(".cell")];
  }
}

// The model of the page: the view, and the answers that belong to it.

import { Latest } from "./dom";
import type { Chunk, Decoded, Influence, TokenizerFacts } from "./facts";
import { calls, clamp, meanSquare, rows } from "./numbers";
import type { Source } from "./source";
import { type Place, type View, maxBudget } from "./view";

/** What a tokenizer makes of the shown chunk at the shown budget. */
export interface Answer {
  ids: number[];
  /** Number of ids that are kept. */
  tokens: number;
  bits: number;
  calls: number;
  /** The decoded chunk (T, A); null where the tokens do not decode. */
  actions: Float32Array | null;
  mse: number | null;
  error: string | null;
  decoded: Decoded;
}

export interface Scale {
  low: number;
  high: number;
  /** The largest difference of any tokenizer at any budget. */
  difference: number;
}

const INFLUENCE_DELAY_MS = 60;
/** Share of the range of the truth by which reconstructions may widen a plot before they are cut. */
const ROOM = 0.4;

/** A kind of question to the source. */
type Question = "chunk" | "edited" | "influence" | "other";

export class Model {
  chunk: Chunk | null = null;
  /** Ids of the other chunk, by tokenizer. */
  otherIds = new Map<string, number[]>();
  influence: Influence | null = null;
  /** Scale of each dimension, the same for all tokenizers and budgets. */
  scales: Scale[] = [];
  /** Number of chunks that were loaded; budget and edits do not change it. */
  chunkNumber = 0;
  private place: Place | null = null;
  private edited = new Map<string, Decoded>();
  private readonly chunks = new Latest();
  private readonly decodes = new Latest();
  private readonly influences = new Latest();
  private influenceTimer = 0;
  private influenceKey = "";
  private numOpen = 0;
  private failures = new Map<Question, string>();

  constructor(
    readonly source: Source,
    public view: View,
    private readonly onChange: () => void,
    private readonly onError: (text: string | null) => void,
  ) {}

  get facts() {
    return this.source.facts;
  }

  get dims(): number {
    return this.facts.dimensions.length;
  }

  get focus(): TokenizerFacts {
    return this.facts.tokenizers.find((t) => t.name === this.view.focus)!;
  }

  /** Whether all answers have arrived, and are those of the view. */
  get isSettled(): boolean {
    return this.isChunkOfView && this.numOpen === 0 && this.influenceTimer === 0;
  }

  /** Whether the loaded chunk is the one of the view. */
  private get isChunkOfView(): boolean {
    return this.place?.episode === this.view.episode && this.place.frame === this.view.frame;
  }

  /** Show another view and load what it needs. */
  restore(view: View): void {
    this.view = view;
    this.view.frame = this.source.nearest(view.episode, view.frame);
    this.loadChunk();
    this.loadOther();
    this.onChange();
  }

  /** Go to another chunk, which drops the edits. */
  move(episode: number, frame: number): void {
    const last = this.facts.episode_lengths[episode]! - 1;
    const nearest = this.source.nearest(episode, clamp(Math.round(frame), 0, last));
    if (episode === this.view.episode && nearest === this.view.frame) return;
    Object.assign(this.view, { episode, frame: nearest });
    this.view.edits.clear();
    this.view.masks.clear();
    this.loadChunk();
    this.onChange();
  }

  setBudget(budget: number): void {
    this.view.budget = clamp(budget, 1, maxBudget(this.facts));
    this.onChange();
  }

  select(name: string, token: number): void {
    const count = this.ids(name).length;
    this.view.focus = name;
    this.view.token = clamp(token, 0, Math.max(count - 1, 0));
    this.loadInfluence();
    this.onChange();
  }

  /** Put an id into the selected slot, once its chunk is loaded; ids wrap around the vocabulary. */
  setId(id: number): void {
    if (!this.isChunkOfView) return;
    const { focus, token, edits } = this.view;
    const size = this.focus.vocab_size;
    const slots = edits.get(focus) ?? new Map<number, number>();
    slots.set(token, ((Math.trunc(id) % size) + size) % size);
    if (slots.get(token) === this.encodedIds(focus)[token]) slots.delete(token);
    edits.set(focus, slots);
    if (!slots.size) edits.delete(focus);
    this.loadEdited(focus);
    this.onChange();
  }

  /** Keep only the tokens up to the selected one, or all again. */
  toggleMask(): void {
    const { focus, token, masks } = this.view;
    if (!this.focus.has_prefixes) return;
    if (masks.get(focus) === token + 1) masks.delete(focus);
    else masks.set(focus, token + 1);
    this.onChange();
  }

  undo(): void {
    this.view.edits.clear();
    this.view.masks.clear();
    this.edited.clear();
    this.loadInfluence();
    this.onChange();
  }

  setOther(place: Place): void {
    this.view.other = { ...place, frame: this.source.nearest(place.episode, place.frame) };
    this.loadOther();
    this.onChange();
  }

  encodedIds(name: string): number[] {
    return this.chunk?.encoded[this.indexOf(name)]?.ids ?? [];
  }

  /** The ids with the edits. */
  ids(name: string): number[] {
    const ids = [...this.encodedIds(name)];
    for (const [slot, id] of this.view.edits.get(name) ?? []) if (slot < ids.length) ids[slot] = id;
    return ids;
  }

  answer(name: string): Answer {
    const facts = this.facts.tokenizers[this.indexOf(name)]!;
    const ids = this.ids(name);
    const decoded = this.decoded(name);
    const asked = Math.min(this.view.budget, this.view.masks.get(name) ?? Infinity);
    let place = decoded.budgets.length - 1;
    if (facts.has_prefixes) while (place > 0 && decoded.budgets[place]! > asked) place--;
    const tokens = decoded.budgets[place] ?? 0;
    const actions = decoded.chunks[place] ?? null;
    return {
      ids,
      tokens,
      bits: tokens * Math.log2(facts.vocab_size),
      calls: calls(facts.endpoints, tokens),
      actions,
      mse: actions && this.chunk ? meanSquare(actions, this.chunk.actions) : null,
      error: decoded.error,
      decoded,
    };
  }

  /** The chunk and all tokens as a record. */
  record(): object {
    const { facts, view } = this;
    return {
      schema: "oatkit/lab-chunk",
      version: 1,
      data: facts.data,
      episode: facts.episode_numbers[view.episode],
      frame: view.frame,
      dimensions: facts.dimensions.map((d) => d.name),
      actions: rows(this.chunk!.actions, this.dims),
      tokenizers: facts.tokenizers.map((t) => {
        const a = this.answer(t.name);
        return {
          name: t.name,
          kind: t.kind,
          ids: a.ids,
          encoded_ids: this.encodedIds(t.name),
          tokens: a.tokens,
          bits: a.bits,
          mse: a.mse,
          actions: a.actions ? rows(a.actions, this.dims) : null,
          error: a.error,
        };
      }),
    };
  }

  private decoded(name: string): Decoded {
    const encoded = this.chunk?.encoded[this.indexOf(name)]?.decoded;
    const edited = this.view.edits.has(name) ? this.edited.get(name) : undefined;
    return edited ?? encoded ?? { budgets: [], chunks: [], error: null };
  }

  private indexOf(name: string): number {
    return this.facts.tokenizers.findIndex((t) => t.name === name);
  }

  private loadChunk(): void {
    this.chunks.run(async () => {
      const { episode, frame } = this.view;
      await this.ask("chunk", async () => {
        const chunk = await this.source.chunk(episode, frame);
        this.chunk = chunk;
        this.place = { episode, frame };
        this.chunkNumber++;
        this.edited.clear();
        this.noteFailure("edited", null);
        this.view.token = clamp(this.view.token, 0, this.ids(this.view.focus).length - 1);
        if (this.isChunkOfView) for (const name of this.view.edits.keys()) this.loadEdited(name);
        this.updateScales();
        this.loadInfluence();
        this.onChange();
      });
    });
  }

  private loadEdited(name: string): void {
    if (!this.view.edits.has(name)) {
      this.edited.delete(name);
      this.noteFailure("edited", null);
      this.updateScales();
      this.loadInfluence();
      return;
    }
    const number = this.chunkNumber;
    this.decodes.run(async () => {
      await this.ask("edited", async () => {
        for (const [edited] of this.view.edits) {
          const decoded = await this.source.decode(edited, this.ids(edited));
          if (number !== this.chunkNumber) return;
          this.edited.set(edited, decoded);
        }
        this.updateScales();
        this.loadInfluence();
        this.onChange();
      });
    });
  }

  /** Load the influence after a pause, so that it does not slow down dragging. */
  private loadInfluence(): void {
    clearTimeout(this.influenceTimer);
    this.influenceTimer = window.setTimeout(() => {
      this.influenceTimer = 0;
      const { focus } = this.view;
      const ids = this.ids(focus);
      const key = `${focus} ${ids}`;
      if (!ids.length || key === this.influenceKey) return this.noteFailure("influence", null);
      this.influences.run(async () => {
        await this.ask("influence", async () => {
          this.influence = await this.source.influence(focus, ids);
          this.influenceKey = key;
          this.onChange();
        });
      });
    }, INFLUENCE_DELAY_MS);
  }

  private loadOther(): void {
    const { episode, frame } = this.view.other;
    void this.ask("other", async () => {
      const near = this.source.nearest(episode, frame);
      const { encoded } = await this.source.chunk(episode, near);
      this.facts.tokenizers.forEach((t, i) => this.otherIds.set(t.name, encoded[i]!.ids));
      this.onChange();
    });
  }

  private updateScales(): void {
    const { chunk, dims } = this;
    if (!chunk) return;
    this.scales = this.facts.dimensions.map(({ std }, dim) => {
      let [low, high, difference] = [Infinity, -Infinity, 0];
      const include = (actions: Float32Array) => {
        for (let i = dim; i < actions.length; i += dims) {
          low = Math.min(low, actions[i]!);
          high = Math.max(high, actions[i]!);
          difference = Math.max(difference, Math.abs(actions[i]! - chunk.actions[i]!));
        }
      };
      include(chunk.actions);
      const span = Math.max(high - low, std, 1e-9); // a joint that hardly moves is not blown up
      const [lowest, highest] = [low - ROOM * span, high + ROOM * span];
      for (const t of this.facts.tokenizers) this.decoded(t.name).chunks.forEach(include);
      return {
        low: Math.max(low - 0.04 * span, lowest),
        high: Math.min(high + 0.04 * span, highest),
        difference: Math.max(difference, 1e-9),
      };
    });
  }

  private async ask(question: Question, work: () => Promise<void>): Promise<void> {
    this.numOpen++;
    try {
      await work();
      this.noteFailure(question, null);
    } catch (error) {
      this.noteFailure(question, (error as Error).message);
    } finally {
      this.numOpen--;
    }
  }

  /** Show a failure until the same question succeeds, whatever else succeeds meanwhile. */
  private noteFailure(question: Question, failure: string | null): void {
    if (failure === null) this.failures.delete(question);
    else this.failures.set(question, failure);
    this.onError(this.failures.values().next().value ?? null);
  }
}

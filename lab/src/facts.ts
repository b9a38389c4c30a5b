// The types of what the server answers.

export interface Dimension {
  name: string;
  low: number;
  high: number;
  std: number;
}

export interface Camera {
  name: string;
  height: number;
  width: number;
}

export interface RatePoint {
  tokens: number;
  bits: number;
  mse: number;
}

export interface TokenizerFacts {
  name: string;
  kind: string;
  color: string;
  vocab_size: number;
  max_tokens: number;
  /** Budgets with direct supervision. */
  budgets: number[];
  /** Number of tokens after each stage of generation. */
  endpoints: number[];
  has_prefixes: boolean;
  is_total: boolean;
  is_fixed_length: boolean;
  /** Mean errors over held-out chunks. */
  curve: RatePoint[];
}

export interface Facts {
  version: string;
  data: string;
  format: string;
  fps: number | null;
  horizon: number;
  dimensions: Dimension[];
  cameras: Camera[];
  episode_numbers: number[];
  episode_lengths: number[];
  tasks: string[];
  episode_tasks: number[];
  held_out: number[];
  tokenizers: TokenizerFacts[];
}

/** Every `step`-th frame of an episode, (points, A). */
export interface Episode {
  step: number;
  actions: Float32Array;
}

/** What prefixes of a sequence decode to. */
export interface Decoded {
  budgets: number[];
  /** A chunk (T, A) for each budget; empty where nothing decodes. */
  chunks: Float32Array[];
  error: string | null;
}

export interface Encoded {
  ids: number[];
  decoded: Decoded;
}

export interface Chunk {
  actions: Float32Array;
  /** Steps past the episode's end, which repeat the last action. */
  num_padded: number;
  /** The tokens of each tokenizer. */
  encoded: Encoded[];
}

/** How much each token moves each dimension, (K, A); NaN where no replacement decodes. */
export interface Influence {
  influence: Float32Array;
  /** Share of the replacements that do not decode. */
  undecodable: number;
}

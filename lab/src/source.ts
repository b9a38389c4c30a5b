// Where answers come from: the server, or a few chosen chunks inside the page.

import type { Chunk, Decoded, Encoded, Episode, Facts, Influence } from "./facts";

export interface Source {
  facts: Facts;
  /** Whether any chunk and any tokens may be asked for. */
  isLive: boolean;
  episode(episode: number): Promise<Episode>;
  chunk(episode: number, frame: number): Promise<Chunk>;
  decode(name: string, ids: number[]): Promise<Decoded>;
  influence(name: string, ids: number[]): Promise<Influence>;
  /** Address of a camera's image; null where there is none. */
  image(episode: number, frame: number, camera: string): string | null;
  /** Episodes that can be looked at. */
  episodes(): number[];
  /** The frame closest to the asked one that can be looked at. */
  nearest(episode: number, frame: number): number;
}

interface RawDecoded {
  budgets: number[];
  chunks: string;
  error: string | null;
}
interface RawChunk {
  actions: string;
  num_padded: number;
  encoded: { ids: number[]; decoded: RawDecoded }[];
}
interface RawEpisode {
  step: number;
  actions: string;
}
interface RawInfluence {
  influence: string;
  undecodable: number;
}
interface Chosen {
  facts: Facts;
  episodes: Record<string, RawEpisode>;
  chunks: {
    episode: number;
    frame: number;
    chunk: RawChunk;
    influence: RawInfluence[];
    images: Record<string, string>;
  }[];
}

export async function openSource(): Promise<Source> {
  const chosen = JSON.parse(document.getElementById("chosen")!.textContent!) as Chosen | null;
  return chosen ? chosenSource(chosen) : liveSource(await ask<Facts>("api/facts"));
}

function liveSource(facts: Facts): Source {
  return {
    facts,
    isLive: true,
    episode: async (episode) => unpackEpisode(await ask(`api/episode?episode=${episode}`)),
    chunk: async (episode, frame) =>
      unpackChunk(await ask(`api/chunk?episode=${episode}&frame=${frame}`)),
    decode: async (name, ids) => unpackDecoded(await ask("api/decode", { name, ids })),
    influence: async (name, ids) => unpackInfluence(await ask("api/influence", { name, ids })),
    image: (episode, frame, camera) =>
      `api/image?episode=${episode}&frame=${frame}&camera=${encodeURIComponent(camera)}`,
    episodes: () => facts.episode_lengths.map((_, episode) => episode),
    nearest: (_, frame) => frame,
  };
}

function chosenSource({ facts, episodes, chunks }: Chosen): Source {
  const find = (episode: number, frame: number) =>
    chunks.find((c) => c.episode === episode && c.frame === frame);
  const known = (episode: number, frame: number) => {
    const found = find(episode, frame);
    if (!found) throw new Error(`episode ${episode}, frame ${frame} is not in this page`);
    return found;
  };
  return {
    facts,
    isLive: false,
    episode: async (episode) => unpackEpisode(episodes[String(episode)]!),
    chunk: async (episode, frame) => unpackChunk(known(episode, frame).chunk),
    decode: async () => {
      throw new Error("this page holds chosen chunks only: `oatkit lab` decodes any tokens");
    },
    influence: async (name, ids) => {
      const place = facts.tokenizers.findIndex((t) => t.name === name);
      const found = chunks.find((c) => String(c.chunk.encoded[place]!.ids) === String(ids));
      if (!found) throw new Error("these tokens are not in this page");
      return unpackInfluence(found.influence[place]!);
    },
    image: (episode, frame, camera) => find(episode, frame)?.images[camera] ?? null,
    episodes: () => [...new Set(chunks.map((c) => c.episode))],
    nearest: (episode, frame) => {
      const frames = chunks.filter((c) => c.episode === episode).map((c) => c.frame);
      return frames.reduce((a, b) => (Math.abs(b - frame) < Math.abs(a - frame) ? b : a));
    },
  };
}

/** JSON from the server; an error with its message where it refuses. */
async function ask<T>(address: string, body?: unknown): Promise<T> {
  const options = body === undefined ? {} : { method: "POST", body: JSON.stringify(body) };
  let reply: Response;
  try {
    reply = await fetch(address, options);
  } catch {
    throw new Error("the lab does not answer: is `oatkit lab` still running?");
  }
  const answer = (await reply.json().catch(() => ({}))) as T & { error?: string };
  if (!reply.ok) throw new Error(answer.error ?? `the lab answered ${reply.status}`);
  return answer;
}

function floats(text: string): Float32Array {
  const bytes = Uint8Array.from(atob(text), (c) => c.charCodeAt(0));
  return new Float32Array(bytes.buffer);
}

function unpackEpisode({ step, actions }: RawEpisode): Episode {
  return { step, actions: floats(actions) };
}

function unpackInfluence({ influence, undecodable }: RawInfluence): Influence {
  return { influence: floats(influence), undecodable };
}

function unpackDecoded({ budgets, chunks, error }: RawDecoded): Decoded {
  const all = floats(chunks);
  const size = all.length / budgets.length;
  const parts = all.length ? budgets.map((_, i) => all.subarray(i * size, (i + 1) * size)) : [];
  return { budgets, chunks: parts, error };
}

function unpackChunk({ actions, num_padded, encoded }: RawChunk): Chunk {
  const unpacked = encoded.map(
    ({ ids, decoded }): Encoded => ({ ids, decoded: unpackDecoded(decoded) }),
  );
  return { actions: floats(actions), num_padded, encoded: unpacked };
}

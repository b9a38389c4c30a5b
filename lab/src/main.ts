// The prefix lab: opens the source of answers, restores the view of the link, draws what changes.

import { byId, setText } from "./dom";
import { listen } from "./keys";
import { Lanes } from "./lanes";
import { Model } from "./model";
import { PathPanel } from "./path";
import { RatePanel } from "./rate";
import { type Source, openSource } from "./source";
import { TokenPanel } from "./token";
import { TopPanel } from "./top";
import { type View, fromHash, toHash } from "./view";

declare global {
  interface Window {
    /** For tests and the console; settled means that every answer has arrived and is drawn. */
    oatkitLab?: { record: () => object; view: () => View; isSettled: () => boolean };
  }
}

const LINK_DELAY_MS = 150;
const THEMES = ["auto", "light", "dark"] as const;
const isEmbedded = window.parent !== window;

async function start(): Promise<void> {
  setUpTheme();
  const source = await openSource().catch((error: Error) => showMessage(error.message));
  if (!source) return;
  const { facts } = source;
  setText(byId("where"), `${facts.data}, ${facts.format}: ${facts.episode_lengths.length} episodes`);
  document.title = `Prefix lab: ${facts.data}`;

  let isDrawingDue = false;
  const change = () => {
    if (isDrawingDue) return;
    isDrawingDue = true;
    requestAnimationFrame(() => {
      isDrawingDue = false;
      for (const panel of panels) panel.draw();
      keepLink(model.view);
    });
  };
  const model = new Model(source, viewOfLink(source), change, showMessage);
  const top = new TopPanel(model, change);
  const token = new TokenPanel(model);
  const lanes = new Lanes(model);
  const panels = [top, lanes, token, new PathPanel(model, change), new RatePanel(model, change)];
  listen(model, top, token);
  setUpButtons(model);
  addEventListener("hashchange", () => model.restore(viewOfLink(source)));
  byId("lab").hidden = false;
  document.body.classList.toggle("embedded", isEmbedded);
  window.oatkitLab = {
    record: () => model.record(),
    view: () => model.view,
    isSettled: () => model.isSettled && !isDrawingDue && !lanes.isAnimating,
  };
  model.restore(model.view);
  if (isEmbedded) reportHeight();
}

/** The view of the link; without a link, a chunk that no tokenizer was trained on. */
function viewOfLink(source: Source): View {
  const view = fromHash(location.hash, source.facts);
  const episodes = source.episodes();
  const { held_out, episode_lengths } = source.facts;
  if (location.hash.length < 2) {
    view.episode = held_out.find((e) => episodes.includes(e)) ?? episodes[0]!;
    view.frame = Math.floor(episode_lengths[view.episode]! / 4);
    const next = episodes[(episodes.indexOf(view.episode) + 1) % episodes.length]!;
    view.other = { episode: next, frame: Math.floor(episode_lengths[next]! / 4) };
  }
  if (!episodes.includes(view.episode)) view.episode = episodes[0]!;
  if (!episodes.includes(view.other.episode)) view.other = { episode: episodes[0]!, frame: 0 };
  return view;
}

let linkTimer = 0;

/** Write the view into the address bar, unless the page is embedded in another one. */
function keepLink(view: View): void {
  if (isEmbedded) return;
  clearTimeout(linkTimer);
  linkTimer = window.setTimeout(() => history.replaceState(null, "", toHash(view)), LINK_DELAY_MS);
}

function setUpButtons(model: Model): void {
  byId("link").hidden = isEmbedded;
  byId("link").addEventListener("click", async () => {
    history.replaceState(null, "", toHash(model.view));
    const isCopied = await navigator.clipboard.writeText(location.href).then(
      () => true,
      () => false,
    );
    setText(byId("link"), isCopied ? "Copied" : "In the address bar");
    setTimeout(() => setText(byId("link"), "Copy link"), 1500);
  });
  byId("download").addEventListener("click", () => {
    const text = JSON.stringify(model.record());
    const link = document.createElement("a");
    link.href = URL.createObjectURL(new Blob([text], { type: "application/json" }));
    link.download = `episode-${model.facts.episode_numbers[model.view.episode]}-frame-${model.view.frame}.json`;
    link.click();
    setTimeout(() => URL.revokeObjectURL(link.href), 1000);
  });
  const keys = byId<HTMLDialogElement>("keys");
  byId("help").addEventListener("click", () => keys.showModal());
}

function setUpTheme(): void {
  let theme: (typeof THEMES)[number] = "auto";
  try {
    theme = THEMES.find((t) => t === localStorage.getItem("oatkit-theme")) ?? "auto";
  } catch {
    // the browser may forbid storage
  }
  const show = () => {
    document.documentElement.dataset["theme"] = theme;
    setText(byId("theme"), `Theme: ${theme}`);
  };
  byId("theme").hidden = isEmbedded;
  byId("theme").addEventListener("click", () => {
    theme = THEMES[(THEMES.indexOf(theme) + 1) % THEMES.length]!;
    try {
      localStorage.setItem("oatkit-theme", theme);
    } catch {
      // without storage the theme lasts until the page is closed
    }
    show();
  });
  show();
}

function showMessage(text: string | null): void {
  const message = byId("message");
  message.hidden = text === null;
  setText(message, text ?? "");
}

/** Tell the page that embeds this one how high it is. */
function reportHeight(): void {
  const report = () => parent.postMessage({ oatkitLabHeight: document.body.scrollHeight }, "*");
  new ResizeObserver(report).observe(document.body);
}

void start();

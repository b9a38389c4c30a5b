// Keyboard shortcuts.

import { byId } from "./dom";
import type { Model } from "./model";
import type { TokenPanel } from "./token";
import type { TopPanel } from "./top";

export function listen(model: Model, top: TopPanel, token: TokenPanel): void {
  const half = Math.max(1, Math.round(model.facts.horizon / 2));
  const click = (id: string) => () => byId(id).click();
  const selectToken = (by: number) => () => model.select(model.view.focus, model.view.token + by);
  const handlers: Record<string, (event: KeyboardEvent) => void> = {
    ArrowLeft: (event) => top.stepFrame(event.shiftKey ? -half : -1),
    ArrowRight: (event) => top.stepFrame(event.shiftKey ? half : 1),
    ArrowUp: () => model.setBudget(model.view.budget + 1),
    ArrowDown: () => model.setBudget(model.view.budget - 1),
    " ": click("play"),
    p: () => top.stepEpisode(-1),
    n: () => top.stepEpisode(1),
    ",": selectToken(-1),
    ".": selectToken(1),
    "-": () => token.step(-1),
    "+": () => token.step(1),
    "=": () => token.step(1),
    r: () => token.randomize(),
    m: () => model.toggleMask(),
    x: () => token.swap(),
    u: () => model.undo(),
    c: click("link"),
    d: click("download"),
    "?": click("help"),
  };
  model.facts.tokenizers.slice(0, 9).forEach((t, i) => {
    handlers[String(i + 1)] = () => model.select(t.name, model.view.token);
  });
  document.addEventListener("keydown", (event) => {
    if (event.ctrlKey || event.metaKey || event.altKey || !model.chunk) return;
    const handle = handlers[event.key];
    if (!handle || isTaken(event)) return;
    event.preventDefault();
    handle(event);
  });
}

/** Whether the focused element has its own use for the key. */
function isTaken(event: KeyboardEvent): boolean {
  const target = event.target as HTMLElement;
  if (target.closest("dialog")) return true;
  if (target instanceof HTMLSelectElement) return true;
  if (target instanceof HTMLButtonElement) return event.key === " ";
  if (!(target instanceof HTMLInputElement)) return false;
  if (target.type === "range") return event.key.startsWith("Arrow");
  return target.type === "checkbox" ? event.key === " " : true;
}

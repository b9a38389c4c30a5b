// Elements by id, elements from markup, text for markup.

export function byId<T extends HTMLElement = HTMLElement>(id: string): T {
  return document.getElementById(id) as T;
}

/** The one element that some markup is; drawings get their namespace from the parser. */
export function element<T extends Element = HTMLElement>(markup: string): T {
  const template = document.createElement("template");
  template.innerHTML = markup.trim();
  return template.content.firstElementChild as unknown as T;
}

export function escape(text: string): string {
  const names: Record<string, string> = { "&": "&amp;", "<": "&lt;", ">": "&gt;", '"': "&quot;" };
  return text.replace(/[&<>"]/g, (c) => names[c]!);
}

/** Set text only where it changed, which spares the browser work. */
export function setText(node: Element, text: string): void {
  if (node.textContent !== text) node.textContent = text;
}

export function setAttribute(node: Element, name: string, value: string): void {
  if (node.getAttribute(name) !== value) node.setAttribute(name, value);
}

/** "M0 1L1 3..." through points. */
export function line(points: Iterable<readonly [number, number]>): string {
  let d = "";
  for (const [x, y] of points) d += `${d ? "L" : "M"}${x.toFixed(2)} ${y.toFixed(2)}`;
  return d;
}

/** One job at a time; of those that come meanwhile only the last is done. */
export class Latest {
  private isBusy = false;
  private waiting: (() => Promise<void>) | null = null;

  run(job: () => Promise<void>): void {
    if (this.isBusy) {
      this.waiting = job;
      return;
    }
    this.isBusy = true;
    void job().finally(() => {
      this.isBusy = false;
      const next = this.waiting;
      this.waiting = null;
      if (next) this.run(next);
    });
  }
}

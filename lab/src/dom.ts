// Small helpers for elements of the page, and for jobs that must not overlap.

export function byId<T extends HTMLElement = HTMLElement>(id: string): T {
  return document.getElementById(id) as T;
}

/** The element that some markup describes; the parser gives SVG its namespace. */
export function element<T extends Element = HTMLElement>(markup: string): T {
  const template = document.createElement("template");
  template.innerHTML = markup.trim();
  return template.content.firstElementChild as unknown as T;
}

export function escape(text: string): string {
  const names: Record<string, string> = { "&": "&amp;", "<": "&lt;", ">": "&gt;", '"': "&quot;" };
  return text.replace(/[&<>"]/g, (c) => names[c]!);
}

/** Set the text of a node unless it has it already, which saves the browser work. */
export function setText(node: Element, text: string): void {
  if (node.textContent !== text) node.textContent = text;
}

export function setAttribute(node: Element, name: string, value: string): void {
  if (node.getAttribute(name) !== value) node.setAttribute(name, value);
}

/** An SVG path through points: "M0 1L1 3...". */
export function line(points: Iterable<readonly [number, number]>): string {
  let d = "";
  for (const [x, y] of points) d += `${d ? "L" : "M"}${x.toFixed(2)} ${y.toFixed(2)}`;
  return d;
}

/** Runs one job at a time; of the jobs that arrive meanwhile only the last is run. */
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

// A list of which only the visible rows exist, however long it is.

import { h } from "./h.js";

const SPARE_ROWS = 6;

export class Rows {
  /// `draw()` is called when other rows have come into view.
  constructor(rowHeight, redraw) {
    Object.assign(this, { rowHeight, redraw, top: 0, height: 400, element: null, key: `rows ${(Rows.made = (Rows.made ?? 0) + 1)}` });
  }

  mount(element) {
    this.element = element;
    const measure = () => {
      if (!element.isConnected || Math.abs(element.clientHeight - this.height) < 2) return;
      this.height = element.clientHeight;
      this.redraw();
    };
    new ResizeObserver(measure).observe(element);
    element.addEventListener("scroll", () => {
      this.top = element.scrollTop;
      this.redraw();
    }, { passive: true });
  }

  /// The first row to show, and the one after the last.
  range(total) {
    const first = Math.max(0, Math.floor(this.top / this.rowHeight) - SPARE_ROWS);
    return [Math.min(first, total), Math.min(total, Math.ceil((this.top + this.height) / this.rowHeight) + SPARE_ROWS)];
  }

  /// Rows were added above: what is in view stays where it is.
  grewAbove(number) {
    if (this.element && this.top > 0) this.element.scrollTop = this.top += number * this.rowHeight;
  }

  toTop() {
    this.top = 0;
    if (this.element) this.element.scrollTop = 0;
  }

  view(properties, total, row) {
    const [first, last] = this.range(total);
    const rows = [];
    for (let index = first; index < last; index += 1) rows.push(row(index));
    return h("div", { ...properties, key: this.key, class: `rows ${properties.class ?? ""}`, style: { height: `${total * this.rowHeight + 1}px` }, tabindex: "0", mount: (element) => this.mount(element) },
      h("div", { class: "rows-all", role: "presentation", style: { height: `${total * this.rowHeight}px` } },
        h("div", { class: "rows-shown", role: "presentation", style: { transform: `translateY(${first * this.rowHeight}px)` } }, rows)));
  }
}

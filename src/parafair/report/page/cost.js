// What a fit costs: its residual and its error beside those of others, on axes that begin at zero.

function cost(point) {
  const best = least(points, "residual");
  if (!known(point.residual) || !best) return [];
  const own = [["this fit", point.residual], ["smallest residual of all fits", best.residual]];
  const errors = everybody(point);
  const tested = known(point.rmse) ? [["this fit", point.rmse], ["smallest of all fits", least(points, "rmse").rmse]] : [];
  if (known(errors?.baseline)) tested.push(["a prediction without people", errors.baseline]);
  return [
    html("p", { class: "hint" }, "Bars begin at zero, so their lengths can be compared."),
    html("div", { class: "columns" },
      costFigure("Residual", own, Math.max(1, ...own.map(([, value]) => value)), data.measure ?? "1 explains nothing, 0 everything"),
      tested.length ? costFigure("RMSE of held-out entries", tested, Math.max(...tested.map(([, value]) => value)), "in the units of the data") : null),
  ];
}

function costFigure(title, entries, most, words) {
  const [width, left, right, line] = [420, 170, 52, 26];
  const height = line * entries.length + 4;
  const x = scale([0, most], [left, width - right]);
  const label = `${title}: ${entries.map(([name, value]) => `${name} ${show(value)}`).join(", ")}`;
  return html("figure", {}, html("figcaption", {}, html("strong", {}, title), `: ${words}`),
    svg("svg", { viewBox: `0 0 ${width} ${height}`, role: "img", "aria-label": label },
      svg("line", { class: "axis", x1: left, x2: left, y1: 0, y2: height }),
      ...entries.flatMap(([name, value], place) => {
        const top = line * place + 5;
        return [
          svg("text", { x: left - 8, y: top + 12, "text-anchor": "end" }, name),
          svg("path", { class: `bars${place ? " other" : ""}`, d: polygon([[left, top], [x(value), top], [x(value), top + 16], [left, top + 16]]) }),
          svg("text", { class: "title", x: x(value) + 6, y: top + 12 }, show(value)),
        ];
      })));
}

"use strict";
(() => {
const data = JSON.parse(document.getElementById("data").textContent);
const find = (id) => document.getElementById(id);
const NAMESPACE = find("plot").namespaceURI;
const SPACING = 0.06; // empty share of an axis beyond the outermost point
const REACH = 28; // pixels within which a pointer finds a point
const FEW = 12; // labels that fit below an axis
const MOST_BARS = 40;
const phone = matchMedia("(max-width: 700px)");

// Text from the data enters the page through append and setAttribute only, never as markup.
function fill(element, attributes, children) {
  for (const [name, value] of Object.entries(attributes ?? {})) {
    if (value != null) element.setAttribute(name, value);
  }
  element.append(...children.filter((child) => child != null));
  return element;
}
const html = (name, attributes, ...children) => fill(document.createElement(name), attributes, children);
const svg = (name, attributes, ...children) => fill(document.createElementNS(NAMESPACE, name), attributes, children);

const known = (value) => value != null;
function show(value) {
  if (!known(value)) return "–";
  if (typeof value !== "number") return String(value);
  const short = Number(value.toPrecision(4));
  return short && Math.abs(short) < 1e-3 ? short.toExponential() : String(short);
}
const interval = (row) => (known(row.low) && known(row.high) ? `${show(row.low)} to ${show(row.high)}` : "–");
const round = (value) => Math.round(value * 100) / 100;
const unique = (values) => [...new Set(values)];
const extent = (values) => values.reduce(([low, high], v) => [Math.min(low, v), Math.max(high, v)], [Infinity, -Infinity]);
const least = (rows, name) => rows.filter((row) => known(row[name])).sort((a, b) => a[name] - b[name])[0];

// Points, methods and what is selected.

const points = data.points;
const methods = unique(points.map((point) => point.method));
const plotted = points.filter((p) => known(p.residual) && known(p.leakage)).sort((a, b) => a.residual - b.residual);
const hidden = new Set();
const markers = new Map(); // from a point to its element in the plot
const rows = new Map(); // from a point to its row in the table
let selected = null;

function describe(point) {
  const strength = known(point.strength) ? `, strength ${show(point.strength)}` : "";
  const seed = known(point.seed) ? `, seed ${point.seed}` : "";
  return point.method + strength + seed;
}
const marks = (point) =>
  [point.picked && "picked", point.efficient && "efficient", point.overfitted && "over-matched"].filter(Boolean);

function select(point, { reveal = false } = {}) {
  for (const shown of [markers, rows]) {
    shown.get(selected)?.classList.remove("selected");
    shown.get(point)?.classList.add("selected");
  }
  markers.get(selected)?.setAttribute("aria-pressed", "false");
  markers.get(point)?.setAttribute("aria-pressed", "true");
  selected = point;
  moveHalo();
  drawPanel(point);
  drawDetails(point);
  if (reveal) {
    const calm = matchMedia("(prefers-reduced-motion: reduce)").matches;
    find("panel").scrollIntoView({ behavior: calm ? "auto" : "smooth", block: "nearest" });
  }
}

// Shapes: one per method or group, so that color is never the only difference.

const polygon = (places) => `M${places.map(([x, y]) => `${round(x)} ${round(y)}`).join("L")}Z`;
const star = (r) => polygon(Array.from({ length: 10 }, (_, i) => {
  const [angle, length] = [(Math.PI * i) / 5, i % 2 ? 0.5 * r : 1.25 * r];
  return [length * Math.sin(angle), -length * Math.cos(angle)];
}));
const corners = (...places) => (r) => polygon(places.map(([x, y]) => [x * r, y * r]));
const [THIN, LONG] = [0.4, 1.1]; // arms of the plus
const SHAPES = [
  (r) => `M${-r} 0A${r} ${r} 0 1 0 ${r} 0A${r} ${r} 0 1 0 ${-r} 0Z`,
  corners([-0.88, -0.88], [0.88, -0.88], [0.88, 0.88], [-0.88, 0.88]),
  corners([0, -1.15], [1.08, 0.8], [-1.08, 0.8]),
  corners([0, -1.25], [1.25, 0], [0, 1.25], [-1.25, 0]),
  corners([0, 1.15], [1.08, -0.8], [-1.08, -0.8]),
  corners(
    [-THIN, -LONG], [THIN, -LONG], [THIN, -THIN], [LONG, -THIN], [LONG, THIN], [THIN, THIN],
    [THIN, LONG], [-THIN, LONG], [-THIN, THIN], [-LONG, THIN], [-LONG, -THIN], [-THIN, -THIN],
  ),
  star,
];
// Past the last color the shapes shift by one, so that no two methods look the same.
const shape = (index, r) => SHAPES[(index + Math.floor(index / SHAPES.length)) % SHAPES.length](r);
const color = (family, index) => `${family}${index % SHAPES.length}`;
const swatch = (look, ...parts) => svg("svg", { viewBox: "-9 -9 18 18", class: look, "aria-hidden": "true" }, ...parts);
const icon = (index) => swatch(`${color("m", index)} efficient`, svg("path", { class: "marker", d: shape(index, 6) }));
const methodName = (method) => html("span", { class: "name" }, icon(methods.indexOf(method)), method);

// Scales and axes.

function scale([low, high], [start, end], log = false) {
  const bend = log ? Math.log10 : (value) => value;
  return (value) => round(start + ((bend(value) - bend(low)) / (bend(high) - bend(low) || 1)) * (end - start));
}

function ticks([low, high], count) {
  const rough = (high - low) / count;
  if (!(rough > 0)) return [low];
  const power = 10 ** Math.floor(Math.log10(rough));
  const step = power * [1, 2, 5, 10].find((factor) => factor * power >= rough * 0.999);
  const found = [];
  for (let i = Math.ceil(low / step - 1e-9); i * step <= high + 1e-9 * step; i += 1) found.push(Number((i * step).toPrecision(12)));
  return found;
}

function logTicks([low, high]) {
  const powers = ticks([Math.log10(low), Math.log10(high)], 4).filter(Number.isInteger);
  if (powers.length > 2) return powers.map((exponent) => 10 ** exponent);
  if (!powers.length) return ticks([low, high], 4);
  const between = [powers[0] - 1, ...powers].flatMap((exponent) => [1, 2, 5].map((digit) => digit * 10 ** exponent));
  return between.filter((value) => value >= low && value <= high);
}

function widen([low, high]) {
  const space = high > low ? SPACING * (high - low) : 0.05 * Math.abs(high) || 1;
  return [low - space, high + space];
}

// box: left, top, right and bottom in the units of the viewBox.
function axes(box, x, y, names) {
  const layer = svg("g", { "aria-hidden": "true" });
  for (const value of x.ticks) {
    layer.append(
      svg("line", { class: "grid", x1: x.at(value), x2: x.at(value), y1: box.top, y2: box.bottom }),
      svg("text", { x: x.at(value), y: box.bottom + 17, "text-anchor": "middle" }, show(value)),
    );
  }
  for (const value of y.ticks) {
    layer.append(
      svg("line", { class: "grid", x1: box.left, x2: box.right, y1: y.at(value), y2: y.at(value) }),
      svg("text", { x: box.left - 7, y: y.at(value) + 4, "text-anchor": "end" }, show(value)),
    );
  }
  const middle = (box.left + box.right) / 2;
  layer.append(
    svg("line", { class: "axis", x1: box.left, x2: box.right, y1: box.bottom, y2: box.bottom }),
    svg("text", { class: "title", x: middle, y: box.bottom + 38, "text-anchor": "middle" }, names.x),
    svg("text", { class: "title", x: box.left, y: box.top - 10 }, names.y),
  );
  return layer;
}

// The tooltip, shared by all plots.

const tooltip = find("tooltip");
function tell(lines, x, y) {
  tooltip.replaceChildren(...lines.map((line) => html("div", {}, line)));
  tooltip.hidden = false;
  const { width, height } = tooltip.getBoundingClientRect();
  tooltip.style.left = `${Math.max(4, Math.min(x + 14, innerWidth - width - 4))}px`;
  tooltip.style.top = `${y - height - 12 > 0 ? y - height - 12 : y + 18}px`;
}
const hush = () => { tooltip.hidden = true; };
addEventListener("scroll", hush, { passive: true });
addEventListener("keydown", (event) => { if (event.key === "Escape") hush(); });

// The main plot.

let places = new Map(); // from a point to its place in the viewBox
let size = [1, 1];

const facts = (point) => [
  describe(point),
  `residual ${show(point.residual)}`,
  `leakage ${show(point.leakage)}` + (known(point.low) && known(point.high) ? `, 95 % interval ${interval(point)}` : ""),
  ...(marks(point).length ? [marks(point).join(", ")] : []),
];

function domains() {
  const limit = (data.limit?.residual ?? []).filter(known);
  let [left, right] = extent(plotted.map((p) => p.residual));
  if (limit.length) {
    // A limit far from all points may leave the plot, but points keep half of the width.
    const span = right - left || 0.1 * right || 1;
    const [first, last] = extent(limit);
    [left, right] = [Math.min(left, Math.max(first, left - span)), Math.max(right, Math.min(last, right + span / 2))];
  }
  const ends = plotted.flatMap((p) => [p.leakage, p.low ?? p.leakage, p.high ?? p.leakage]);
  const [low, high] = extent([0, ...ends]);
  return [widen([left, right]), widen([low, Math.max(high, 0.02)])];
}

function limitLayer(box, x, y) {
  const curve = data.limit.leakage.map((leakage, i) => [data.limit.residual[i], leakage])
    .filter(([r, l]) => known(r) && known(l)).sort((a, b) => a[1] - b[1]);
  if (!curve.length) return null;
  const line = curve.map(([r, l]) => [x.at(r), y.at(l)]);
  line.unshift([line[0][0], box.bottom]); // less leakage costs no less
  const [edge, top] = [Math.min(box.left, ...line.map((place) => place[0])), line[line.length - 1][1]];
  return svg("g", { "clip-path": "url(#inside)", "aria-hidden": "true" },
    svg("path", { class: "region", d: polygon([[edge, box.bottom], ...line, [edge, top]]) }),
    svg("path", { class: "limit", d: `M${line.map((p) => p.join(" ")).join("L")}` }));
}

function drawPlot() {
  const plot = find("plot");
  size = phone.matches ? [400, 400] : [780, 500];
  plot.replaceChildren();
  markers.clear();
  places = new Map();
  if (!plotted.length) {
    plot.setAttribute("viewBox", "0 0 400 60");
    const words = "No fit has a leakage to show; the table below has all fits.";
    plot.append(svg("text", { x: 200, y: 35, "text-anchor": "middle" }, words));
    return;
  }
  const [width, height] = size;
  const box = { left: 48, top: 28, right: width - 12, bottom: height - 46 };
  const [across, up] = domains();
  const x = { at: scale(across, [box.left, box.right]), ticks: ticks(across, phone.matches ? 4 : 8) };
  const y = { at: scale(up, [box.bottom, box.top]), ticks: ticks(up, 6) };
  plot.setAttribute("viewBox", `0 0 ${width} ${height}`);
  const inside = svg("rect", { x: box.left, y: box.top, width: box.right - box.left, height: box.bottom - box.top });
  const advantage = phone.matches ? "" : ", the strongest attacker’s advantage over chance";
  plot.append(
    svg("clipPath", { id: "inside" }, inside),
    axes(box, x, y, { x: "residual, ‖X − model‖ / ‖X‖", y: `leakage${advantage}` }),
  );
  if (data.limit) plot.append(limitLayer(box, x, y) ?? "");
  for (const point of plotted) places.set(point, [x.at(point.residual), y.at(point.leakage)]);
  const bars = svg("g", { "aria-hidden": "true" });
  methods.forEach((method, index) => {
    const own = plotted.filter((p) => p.method === method);
    const layer = svg("g", { class: color("m", index), "data-method": method });
    for (const point of own.filter((p) => known(p.low) && known(p.high))) {
      const [at] = places.get(point);
      layer.append(svg("line", { class: "interval", x1: at, x2: at, y1: y.at(point.low), y2: y.at(point.high) }));
    }
    const efficient = own.filter((p) => p.efficient).map((p) => places.get(p).join(" "));
    if (efficient.length > 1) layer.append(svg("path", { class: "path", d: `M${efficient.join("L")}` }));
    bars.append(layer);
  });
  plot.append(bars, svg("circle", { id: "halo", class: "halo", r: 15 }));
  plot.append(...plotted.map(marker));
  moveHalo();
  applyHidden();
}

function marker(point) {
  const index = methods.indexOf(point.method);
  const element = svg("g", {
    class: `point ${color("m", index)}${point.efficient ? " efficient" : ""}`,
    transform: `translate(${places.get(point).join(" ")})`,
    tabindex: 0, role: "button", "aria-pressed": String(point === selected), "aria-label": facts(point).join("; "),
    "data-id": point.id, "data-method": point.method,
  }, svg("circle", { class: "focus", r: 14 }), point.picked ? svg("circle", { class: "ring", r: 11 }) : null,
  svg("path", { class: "marker", d: shape(index, 6) }));
  element.addEventListener("focus", () => {
    if (!element.matches(":focus-visible")) return;
    const { left, top, width, height } = element.getBoundingClientRect();
    tell(facts(point), left + width / 2, top + height / 4);
  });
  element.addEventListener("blur", hush);
  element.addEventListener("keydown", (event) => press(event, point));
  markers.set(point, element);
  return element;
}

function press(event, point) {
  const order = plotted.filter((p) => !hidden.has(p.method));
  const at = order.indexOf(point);
  const moves = { ArrowRight: at + 1, ArrowUp: at + 1, ArrowLeft: at - 1, ArrowDown: at - 1, Home: 0, End: order.length - 1 };
  const next = moves[event.key];
  if (event.key === "Enter" || event.key === " ") select(point);
  else if (next != null) markers.get(order[next] ?? point).focus();
  else return;
  event.preventDefault();
}

function moveHalo() {
  const place = places.get(selected);
  const shown = place && !hidden.has(selected.method);
  find("halo")?.classList.toggle("hidden", !shown);
  if (shown) fill(find("halo"), { cx: place[0], cy: place[1] }, []);
}

// The nearest point answers the pointer, so that crowded points can be told apart.
function nearest(event) {
  const frame = find("plot").getBoundingClientRect();
  const unit = size[0] / frame.width;
  const [x, y] = [(event.clientX - frame.left) * unit, (event.clientY - frame.top) * unit];
  let [found, closest] = [null, REACH * unit];
  for (const [point, place] of places) {
    const distance = Math.hypot(place[0] - x, place[1] - y);
    if (distance < closest && !hidden.has(point.method)) [found, closest] = [point, distance];
  }
  return found;
}

function listen() {
  const plot = find("plot");
  plot.addEventListener("pointermove", (event) => {
    const point = nearest(event);
    plot.style.cursor = point ? "pointer" : "";
    if (point) tell(facts(point), event.clientX, event.clientY);
    else hush();
  });
  plot.addEventListener("pointerleave", hush);
  plot.addEventListener("click", (event) => {
    // Screen readers click an element, not a place.
    const direct = event.detail === 0 && plotted.find((p) => markers.get(p) === event.target.closest(".point"));
    const point = direct || nearest(event);
    if (point) select(point);
  });
}

function drawLegend() {
  find("legend").append(...methods.filter((method) => plotted.some((p) => p.method === method)).map((method) => {
    const looks = { type: "button", "aria-pressed": "true", title: "Show or hide" };
    const button = html("button", looks, icon(methods.indexOf(method)), method);
    button.addEventListener("click", () => {
      if (!hidden.delete(method)) hidden.add(method);
      button.setAttribute("aria-pressed", String(!hidden.has(method)));
      applyHidden();
      moveHalo();
    });
    return button;
  }));
  const dot = () => svg("path", { class: "marker", d: shape(0, 5) });
  const region = svg("svg", { viewBox: "0 0 28 18", class: "wide", "aria-hidden": "true" },
    svg("rect", { class: "region", y: 3, width: 28, height: 12 }), svg("line", { class: "limit", x2: 28, y1: 3, y2: 3 }));
  const entry = (picture, words) => html("span", {}, picture, words);
  find("key").append(...[
    entry(swatch("m4 efficient", dot()), "efficient: no other fit of the method has less of both"),
    entry(swatch("m4", dot()), "other fits"),
    entry(swatch("m4", svg("line", { class: "interval", y1: -8, y2: 8 })), "95 % interval"),
    points.some((p) => p.picked) ? entry(swatch("m4", svg("circle", { class: "ring", r: 7 })), "picked") : null,
    entry(swatch("m4", svg("circle", { class: "halo", r: 8 })), "selected"),
    data.limit?.residual.length ? entry(region, "left of the limit") : null,
  ].filter(Boolean));
}

function applyHidden() {
  for (const element of find("plot").querySelectorAll("[data-method]")) {
    element.classList.toggle("hidden", hidden.has(element.dataset.method));
  }
}

// Tables.

// A column: name, value (to sort by), and optionally cell (what to show) and number.
function table(columns, entries, { caption = null, onRow = null } = {}) {
  const body = html("tbody");
  const head = html("tr");
  const lines = entries.map((entry) => {
    const cells = columns.map((column) => {
      const shown = column.cell ? column.cell(entry) : show(column.value(entry));
      return html("td", { class: column.number ? "number" : null }, shown);
    });
    const line = html("tr", {}, ...cells);
    onRow?.(entry, line);
    return { entry, line };
  });
  for (const column of columns) {
    const cell = html("th", { scope: "col", class: column.number ? "number" : null });
    const button = html("button", { type: "button" }, column.name);
    button.addEventListener("click", () => {
      const down = cell.getAttribute("aria-sort") === "ascending";
      for (const other of head.children) other.removeAttribute("aria-sort");
      cell.setAttribute("aria-sort", down ? "descending" : "ascending");
      lines.sort((a, b) => compare(column.value(a.entry), column.value(b.entry), down ? -1 : 1));
      body.append(...lines.map(({ line }) => line));
    });
    cell.append(button);
    head.append(cell);
  }
  body.append(...lines.map(({ line }) => line));
  const words = caption ? html("caption", {}, html("span", {}, caption)) : null;
  return html("div", { class: "scroll" }, html("table", {}, words, html("thead", {}, head), body));
}

function compare(first, second, sign) {
  if (!known(first) || !known(second)) return Number(!known(first)) - Number(!known(second)); // unknown comes last
  if (typeof first === "number" && typeof second === "number") return sign * (first - second);
  return sign * String(first).localeCompare(String(second), "en", { numeric: true });
}

function link(point, words) {
  const button = html("button", { type: "button", class: "link" }, words);
  button.addEventListener("click", () => select(point, { reveal: true }));
  return button;
}

function drawMethods() {
  const entries = methods.map((method) => {
    const own = points.filter((p) => p.method === method);
    const small = own.filter((p) => known(p.leakage) && p.leakage <= data.level && !p.overfitted);
    const [residual, leakage, best] = [least(own, "residual"), least(own, "leakage"), least(small, "residual")];
    return { method, count: own.length, residual, leakage, best };
  });
  find("methods").append(table([
    { name: "method", value: (e) => e.method, cell: (e) => methodName(e.method) },
    { name: "points", value: (e) => e.count, number: true },
    { name: "least residual", value: (e) => e.residual?.residual, number: true },
    { name: "least leakage", value: (e) => e.leakage?.leakage, number: true },
    {
      name: `least residual with leakage ≤ ${data.level}`, value: (e) => e.best?.residual, number: true,
      cell: (e) => (e.best ? link(e.best, show(e.best.residual)) : "none"),
    },
    {
      name: "which fit that is", value: (e) => e.best && describe(e.best),
      cell: (e) => (e.best ? link(e.best, describe(e.best)) : "–"),
    },
  ], entries));
}

function drawPoints() {
  const number = (name, title = name) => ({ name: title, value: (p) => p[name], number: true });
  const tested = points.some((p) => known(p.rmse));
  find("points").append(table([
    { name: "point", value: (p) => p.id, cell: (p) => link(p, show(p.id)) },
    { name: "method", value: (p) => p.method, cell: (p) => methodName(p.method) },
    number("strength"), number("seed"), number("residual"), number("leakage"),
    { name: "95 % interval", value: (p) => p.low, cell: interval, number: true },
    number("p_value", "p"), number("criterion"),
    ...(tested ? [number("rmse", "held-out RMSE"), number("mae", "MAE"), number("rmse_gap", "RMSE gap of groups")] : []),
    number("rounds"), number("seconds"),
    { name: "marks", value: (p) => marks(p).join(", ") },
    { name: "status", value: (p) => p.status },
  ], points, {
    caption: "Fits without a leakage were not audited, or failed; they are not in the plot.",
    onRow: (point, line) => rows.set(point, line),
  }));
}

// The selected point: numbers beside the plot, the rest below.

function drawPanel(point) {
  const words = (text) => html("span", {}, text);
  const big = (name, value, below) => html("div", {}, words(name), html("strong", {}, show(value)), words(below));
  const below = !known(point.leakage) ? "not audited" : known(point.low) ? interval(point) : "";
  const list = html("dl");
  for (const [name, value] of [
    ["p-value", point.p_value], ["criterion", point.criterion], ["criterion by chance", point.null],
    ...(known(point.rmse) ? [["held-out RMSE", point.rmse]] : []),
    ["strength", point.strength], ["seed", point.seed], ["rounds", point.rounds], ["seconds", point.seconds], ["point", point.id],
  ]) list.append(html("dt", {}, name), html("dd", {}, show(value)));
  find("panel").replaceChildren(
    html("p", { class: "eyebrow" }, "Selected point"),
    html("h2", { id: "panel-heading" }, describe(point)),
    html("div", {}, ...marks(point).map((mark) => html("span", { class: `badge ${mark}` }, mark))),
    html("div", { class: "figures" },
      big("residual", point.residual, ""),
      big("leakage", point.leakage, below)),
    list,
    point.status ? html("p", { class: "note" }, `Status: ${point.status}`) : "",
  );
}

function drawDetails(point) {
  const sections = {
    "What attackers find": point.attackers?.length ? [attackers(point.attackers)] : [],
    "Held-out entries": point.errors?.length ? [heldOut(point.errors)] : [],
    "The embedding of people": point.embedding?.x?.length ? embeddings(point.embedding) : [],
    Components: components((point.components ?? []).filter((mode) => mode.values?.length)),
    Convergence: point.history?.round?.length ? [html("div", { class: "columns" }, ...histories(point.history))] : [],
  };
  find("details").replaceChildren(...Object.entries(sections).filter(([, parts]) => parts.length).map(([title, parts], index) => {
    const id = `details-${index}`;
    return html("section", { class: "card", "aria-labelledby": id }, html("h2", { id }, title), ...parts);
  }));
}

function attackers(entries) {
  const advantage = (e) => (known(e.value) && known(e.chance) ? e.value - e.chance : null);
  const above = (e) => known(e.low) && known(e.chance) && e.low > e.chance;
  const features = unique(entries.map((e) => e.feature));
  const one = features.length === 1;
  return table([
    ...(one ? [] : [{ name: "feature", value: (e) => e.feature }]),
    { name: "attacker", value: (e) => e.model },
    { name: "input", value: (e) => e.input },
    {
      name: "above chance", value: advantage, number: true,
      cell: (e) => html("span", { class: above(e) ? "above" : null }, show(advantage(e))),
    },
    { name: "value", value: (e) => e.value, number: true },
    { name: "95 % interval", value: (e) => e.low, cell: interval, number: true },
    { name: "by chance", value: (e) => e.chance, number: true },
    { name: "measure", value: (e) => e.measure },
  ], entries, { caption: `${one ? `Feature: ${features[0]}. ` : ""}Highlighted: the whole interval is above chance.` });
}

function heldOut(entries) {
  return table([
    { name: "people", value: (e) => (e.feature ? `${e.feature}: ${e.group}` : "everybody") },
    { name: "entries", value: (e) => e.entries, number: true },
    { name: "RMSE", value: (e) => e.rmse, number: true },
    { name: "MAE", value: (e) => e.mae, number: true },
    { name: "RMSE without people", value: (e) => e.baseline, number: true },
  ], entries, { caption: "Errors of entries that the fit has not seen, in the units of the data. Without people: the mean, and what each label of the other modes adds to it." });
}

// Embeddings.

const RAMP = [[68, 57, 131], [49, 104, 142], [33, 145, 140], [68, 191, 112], [189, 223, 38]];
function shade(share) {
  const place = Math.min(Math.max(share, 0), 1) * (RAMP.length - 1);
  const from = Math.min(Math.floor(place), RAMP.length - 2);
  return `rgb(${RAMP[from].map((part, i) => Math.round(part + (place - from) * (RAMP[from + 1][i] - part))).join(" ")})`;
}

// Whether somebody belongs to a listed group or, where there are no groups, has a number.
const isGroup = (group) => known(data.groups.length ? data.groups[group] : group);

function embeddings(after) {
  const pictures = html("div", { class: "columns" },
    data.before ? scatter(data.before, "Before", data.before.title) : null,
    scatter(after, data.before ? "After" : "This fit", data.before ? "the selected fit" : ""));
  return [groupLegend(after), pictures];
}

function groupLegend(embedding) {
  const entry = (look, path, words) => html("span", {}, swatch(look, svg("path", { class: "person", d: path })), words);
  const count = embedding.group.filter((group) => !isGroup(group)).length;
  const unknown = count ? entry("unknown", shape(0, 6), `not known (${count})`) : null;
  if (data.groups.length) {
    return html("div", { class: "legend key" }, ...data.groups.map((name, index) =>
      entry(color("g", index), shape(index, 6), `${name} (${embedding.group.filter((g) => g === index).length})`)), unknown);
  }
  const [low, high] = extent(embedding.group.filter(known));
  if (low > high) return null;
  const bar = html("span", { class: "bar" });
  bar.style.background = `linear-gradient(to right, ${[0, 0.25, 0.5, 0.75, 1].map(shade).join(", ")})`;
  return html("div", { class: "legend key" }, html("span", {}, show(low), bar, show(high)), unknown);
}

function scatter(embedding, title, words) {
  const [width, height, space] = [420, 320, 14];
  const people = embedding.x.map((x, i) => [x, embedding.y[i], embedding.group[i]])
    .filter(([x, y]) => known(x) && known(y));
  const [left, right] = extent(people.map((p) => p[0]));
  const [low, high] = extent(people.map((p) => p[1]));
  // The same unit on both axes: distances mean the same in all directions.
  const unit = Math.min((width - 2 * space) / (right - left || 1), (height - 2 * space) / (high - low || 1));
  const [first, last] = extent(people.map((p) => p[2]).filter(known));
  const label = `${title}: people in two dimensions`;
  const picture = svg("svg", { viewBox: `0 0 ${width} ${height}`, role: "img", "aria-label": label },
    svg("rect", { class: "frame", width, height, rx: 6 }));
  for (const [x, y, group] of people) {
    const at = `translate(${round(width / 2 + (x - (left + right) / 2) * unit)} ${round(height / 2 - (y - (low + high) / 2) * unit)})`;
    // A person of whom the group is not known is a gray circle.
    const index = data.groups.length && isGroup(group) ? group : 0;
    const person = svg("path", { class: `person ${isGroup(group) ? color("g", index) : "unknown"}`, d: shape(index, 4), transform: at });
    if (!data.groups.length && known(group)) person.style.fill = shade((group - first) / (last - first || 1));
    picture.append(person);
  }
  return html("figure", {}, html("figcaption", {}, html("strong", {}, title), words ? `: ${words}` : ""), picture);
}

// Components: one mode after the other, one small plot per component.

function components(modes) {
  if (!modes.length) return [];
  const words = "One row per component; within a mode all have the same scale.";
  return [html("p", { class: "hint" }, words), html("div", { class: "columns" }, ...modes.map(mode))];
}

function mode({ mode: name, size: all, labels, values, largest }) {
  const [low, high] = extent([0, ...values.flat().filter(known)]);
  const range = high > low ? [low, high] : [-1, 1];
  // Where labels do not fit below the axis, the largest are named under each plot.
  const named = labels.length > FEW && largest?.length;
  const plots = values.flatMap((column, index) => [
    component(column, index, labels, range, index === values.length - 1),
    named ? html("p", { class: "hint largest" }, `largest: ${largest[index].map(([label, value]) => `${shorten(label, 24)} (${show(value)})`).join(", ")}`) : null,
  ]);
  const count = all > labels.length ? `${labels.length} of ${all} labels, evenly spread` : `${labels.length} labels`;
  const words = `${count}, values from ${show(low)} to ${show(high)}`;
  return html("div", { class: "mode" }, html("h3", {}, name), html("p", { class: "hint" }, words), ...plots);
}

function component(values, index, labels, range, last) {
  const [width, top, bottom, left] = [340, 4, 50, 22];
  const few = labels.length <= FEW;
  const height = bottom + 4 + (last ? (few ? 62 : 16) : 0);
  const y = scale(range, [bottom, top]);
  const slot = (width - left - 4) / values.length;
  const middle = (i) => round(left + (i + 0.5) * slot);
  const picture = svg("svg", { viewBox: `0 0 ${width} ${height}`, role: "img", "aria-label": `Component ${index + 1}` },
    svg("rect", { class: "frame", x: left, width: width - left - 4, y: top - 2, height: bottom - top + 4, rx: 3 }),
    svg("text", { x: left - 7, y: (top + bottom) / 2 + 4, "text-anchor": "end" }, String(index + 1)),
    svg("line", { class: "grid", x1: left, x2: width - 4, y1: y(0), y2: y(0) }));
  if (values.length <= MOST_BARS) {
    const bar = (v, i) => {
      const [from, to] = [middle(i) - 0.35 * slot, middle(i) + 0.35 * slot];
      return polygon([[from, y(0)], [from, y(v)], [to, y(v)], [to, y(0)]]);
    };
    picture.append(svg("path", { class: "bars", d: values.map((v, i) => (known(v) ? bar(v, i) : "")).join("") }));
  } else {
    picture.append(svg("path", { class: "curve", d: trace(values.map((v, i) => [middle(i), known(v) ? y(v) : null])) }));
  }
  if (last) picture.append(...(few ? slanted(labels, middle, bottom) : outermost(labels, left, width - 4, bottom)));
  const cursor = svg("line", { class: "cursor hidden", y1: top, y2: bottom });
  picture.append(cursor);
  picture.addEventListener("pointermove", (event) => {
    const frame = picture.getBoundingClientRect();
    const at = Math.floor((((event.clientX - frame.left) * width) / frame.width - left) / slot);
    cursor.classList.toggle("hidden", !(at in values));
    if (!(at in values)) { hush(); return; }
    fill(cursor, { x1: middle(at), x2: middle(at) }, []);
    tell([show(labels[at]), `component ${index + 1}: ${show(values[at])}`], event.clientX, event.clientY);
  });
  picture.addEventListener("pointerleave", () => { hush(); cursor.classList.add("hidden"); });
  return html("figure", {}, picture);
}

const slanted = (labels, middle, bottom) => labels.map((label, i) => {
  const transform = `translate(${middle(i) + 4} ${bottom + 14}) rotate(-35)`;
  return svg("text", { "text-anchor": "end", transform }, shorten(label, 12));
});
const outermost = (labels, left, right, bottom) => [
  svg("text", { x: left, y: bottom + 18 }, shorten(labels[0], 20)),
  svg("text", { x: right, y: bottom + 18, "text-anchor": "end" }, shorten(labels[labels.length - 1], 20)),
];
const shorten = (label, length) => (String(label).length > length ? `${String(label).slice(0, length - 1)}…` : String(label));

// A line that breaks where a value is unknown.
function trace(places) {
  let pen = "M";
  return places.map(([x, y]) => {
    const step = known(y) ? `${pen}${x} ${y}` : "";
    pen = known(y) ? "L" : "M";
    return step;
  }).join("");
}

// Convergence.

function histories(history) {
  return [["objective", true], ["residual", false]].filter(([name]) => history[name]?.some(known)).map(([name, log]) => {
    const places = history.round.map((r, i) => [r, history[name][i]]).filter(([r, v]) => known(r) && known(v));
    const positive = log && places.every(([, value]) => value > 0);
    const [across, up] = [extent(places.map((p) => p[0])), extent(places.map((p) => p[1]))];
    const range = positive ? widen(up.map(Math.log10)).map((exponent) => 10 ** exponent) : widen(up);
    const box = { left: 58, top: 26, right: 410, bottom: 190 };
    const x = { at: scale(across, [box.left, box.right]), ticks: ticks(across, 5) };
    const y = { at: scale(range, [box.bottom, box.top], positive), ticks: positive ? logTicks(range) : ticks(range, 4) };
    const title = `${name}${positive ? ", log scale" : ""}`;
    const label = `${title}, by round; last ${show(places[places.length - 1][1])}`;
    return html("figure", {}, svg("svg", { viewBox: "0 0 420 234", role: "img", "aria-label": label },
      axes(box, x, y, { x: "round", y: title }),
      svg("path", { class: "curve", d: trace(places.map(([r, v]) => [x.at(r), y.at(v)])) })));
  });
}

drawLegend();
drawPlot();
drawMethods();
drawPoints();
listen();
phone.addEventListener("change", drawPlot);
select(points.find((p) => p.picked) ?? points.find((p) => p.efficient) ?? plotted[0] ?? points[0]);
})();

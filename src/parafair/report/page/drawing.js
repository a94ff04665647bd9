// Building blocks: elements, shapes, scales, axes and the tooltip.

const find = (id) => document.getElementById(id);
const NAMESPACE = find("plot").namespaceURI;
const SPACING = 0.06; // empty share of an axis beyond the outermost point

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

// A line that breaks where a value is undefined.
function trace(places) {
  let pen = "M";
  return places.map(([x, y]) => {
    const step = known(y) ? `${pen}${x} ${y}` : "";
    pen = known(y) ? "L" : "M";
    return step;
  }).join("");
}
const shorten = (label, length) => (String(label).length > length ? `${String(label).slice(0, length - 1)}…` : String(label));

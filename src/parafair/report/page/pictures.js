// Pictures of one fit: the embedding, the components, the convergence.

const FEW = 12; // labels that fit below an axis

// Embeddings.

const RAMP = [[68, 57, 131], [49, 104, 142], [33, 145, 140], [68, 191, 112], [189, 223, 38]];
function shade(share) {
  const place = Math.min(Math.max(share, 0), 1) * (RAMP.length - 1);
  const from = Math.min(Math.floor(place), RAMP.length - 2);
  return `rgb(${RAMP[from].map((part, i) => Math.round(part + (place - from) * (RAMP[from + 1][i] - part))).join(" ")})`;
}

// Whether a person has a group or, if the feature is a number, a value.
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
  const unknown = count ? entry("unknown", shape(0, 6), `no value (${count})`) : null;
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
  // Both axes have the same unit, so that distances are comparable in all directions.
  const unit = Math.min((width - 2 * space) / (right - left || 1), (height - 2 * space) / (high - low || 1));
  const [first, last] = extent(people.map((p) => p[2]).filter(known));
  const label = `${title}: people in two dimensions`;
  const picture = svg("svg", { viewBox: `0 0 ${width} ${height}`, role: "img", "aria-label": label },
    svg("rect", { class: "frame", width, height, rx: 6 }));
  for (const [x, y, group] of people) {
    const at = `translate(${round(width / 2 + (x - (left + right) / 2) * unit)} ${round(height / 2 - (y - (low + high) / 2) * unit)})`;
    // A person without a value is a gray circle.
    const index = data.groups.length && isGroup(group) ? group : 0;
    const person = svg("path", { class: `person ${isGroup(group) ? color("g", index) : "unknown"}`, d: shape(index, 4), transform: at });
    if (!data.groups.length && known(group)) person.style.fill = shade((group - first) / (last - first || 1));
    picture.append(person);
  }
  return html("figure", {}, html("figcaption", {}, html("strong", {}, title), words ? `: ${words}` : ""), picture);
}

// Components: a column per mode, a small plot per component.

function components(modes) {
  if (!modes.length) return [];
  const words = "One plot per component. All plots of a mode have the same scale. Of modes with many labels in no meaningful order, the labels with the largest values are drawn. People are sorted by value.";
  return [html("p", { class: "hint" }, words), html("div", { class: "columns" }, ...modes.map(mode))];
}

function mode({ mode: name, people, size: all, drawn, labels, values, largest }) {
  const [low, high] = extent([0, ...values.flat().filter(known)]);
  const range = high > low ? [low, high] : [-1, 1];
  const sorted = drawn === "sorted";
  if (drawn === "largest") {
    const words = `the largest of ${all} labels; all values are from ${show(low)} to ${show(high)}`;
    return html("div", { class: "mode" }, html("h3", {}, name), html("p", { class: "hint" }, words),
      ...largest.map((named, index) => largestOf(named, index, range)));
  }
  // If the labels do not fit below the axis, those of the largest values are listed below each plot.
  const named = (sorted || labels.length > FEW) && largest?.length;
  const plots = values.flatMap((column, index) => [
    component({ values: column, index, labels, range, drawn, all, last: index === values.length - 1 }),
    named ? html("p", { class: "hint largest" }, `largest: ${largest[index].map(([label, value]) => `${shorten(label, 24)} (${show(value)})`).join(", ")}`) : null,
  ]);
  const some = !sorted && all > labels.length ? `${labels.length} of ${all} labels, evenly spaced` : `${all} ${people ? "people" : "labels"}`;
  const words = `${some}${sorted ? ", sorted by value" : ""}; values from ${show(low)} to ${show(high)}`;
  return html("div", { class: "mode" }, html("h3", {}, name), html("p", { class: "hint" }, words), ...plots);
}

// The labels with the largest values of a component, a bar for each.
function largestOf(named, index, range) {
  const [width, left, line] = [340, 168, 17];
  const height = line * named.length + 8;
  const x = scale(range, [left, width - 4]);
  const words = named.map(([label, value]) => `${label} ${show(value)}`).join(", ");
  return html("figure", {}, svg("svg", { viewBox: `0 0 ${width} ${height}`, role: "img", "aria-label": `Component ${index + 1}: ${words}` },
    svg("text", { class: "title", x: 4, y: 14 }, String(index + 1)),
    svg("line", { class: "grid", x1: x(0), x2: x(0), y1: 2, y2: height - 4 }),
    ...named.flatMap(([label, value], place) => [
      svg("text", { x: left - 8, y: line * place + 14, "text-anchor": "end" }, shorten(label, 22), svg("title", {}, String(label))),
      svg("path", { class: "bars", d: polygon([[x(0), line * place + 4], [x(value), line * place + 4], [x(value), line * place + 15], [x(0), line * place + 15]]) },
        svg("title", {}, `${label}: ${show(value)}`)),
    ])));
}

// What is drawn of a component: bars by label, a line by label, or the area below sorted values.
const DRAWINGS = {
  bars: (values, middle, y, slot) => {
    const bar = (v, i) => {
      const [from, to] = [middle(i) - 0.35 * slot, middle(i) + 0.35 * slot];
      return polygon([[from, y(0)], [from, y(v)], [to, y(v)], [to, y(0)]]);
    };
    return [svg("path", { class: "bars", d: values.map((v, i) => (known(v) ? bar(v, i) : "")).join("") })];
  },
  line: (values, middle, y) => [svg("path", { class: "curve", d: trace(values.map((v, i) => [middle(i), known(v) ? y(v) : null])) })],
  sorted: (values, middle, y) => {
    const line = values.map((v, i) => [middle(i), y(v ?? 0)]);
    return [
      svg("path", { class: "area", d: polygon([[middle(0), y(0)], ...line, [middle(values.length - 1), y(0)]]) }),
      svg("path", { class: "curve", d: trace(line) }),
    ];
  },
};

function component({ values, index, labels, range, drawn, all, last }) {
  const [width, top, bottom, left] = [340, 4, 50, 22];
  const sorted = drawn === "sorted";
  const few = !sorted && labels.length <= FEW;
  const longest = Math.min(12, Math.max(...labels.map((label) => String(label).length)));
  const height = bottom + 4 + (last ? (few ? 20 + 3.8 * longest : 16) : 0);
  const y = scale(range, [bottom, top]);
  const slot = (width - left - 4) / values.length;
  const middle = (i) => round(left + (i + 0.5) * slot);
  const picture = svg("svg", { viewBox: `0 0 ${width} ${height}`, role: "img", "aria-label": `Component ${index + 1}` },
    svg("rect", { class: "frame", x: left, width: width - left - 4, y: top - 2, height: bottom - top + 4, rx: 3 }),
    svg("text", { x: left - 7, y: (top + bottom) / 2 + 4, "text-anchor": "end" }, String(index + 1)),
    svg("line", { class: "grid", x1: left, x2: width - 4, y1: y(0), y2: y(0) }));
  picture.append(...DRAWINGS[drawn](values, middle, y, slot));
  const ends = sorted ? ["smallest", "largest"] : labels;
  if (last) picture.append(...(few ? slanted(labels, middle, bottom) : outermost(ends, left, width - 4, bottom)));
  // Of sorted values the place is told: which label it is differs from component to component.
  const place = (at) => (sorted ? `larger than ${Math.round((100 * at) / (values.length - 1 || 1))} % of ${all}` : show(labels[at]));
  const cursor = svg("line", { class: "cursor hidden", y1: top, y2: bottom });
  picture.append(cursor);
  picture.addEventListener("pointermove", (event) => {
    const frame = picture.getBoundingClientRect();
    const at = Math.floor((((event.clientX - frame.left) * width) / frame.width - left) / slot);
    cursor.classList.toggle("hidden", !(at in values));
    if (!(at in values)) { hush(); return; }
    fill(cursor, { x1: middle(at), x2: middle(at) }, []);
    tell([place(at), `component ${index + 1}: ${show(values[at])}`], event.clientX, event.clientY);
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

// Convergence.

function histories(history) {
  return [["objective", true], ["residual", false]].filter(([name]) => history[name]?.some(known)).map(([name, log]) => {
    const places = history.iteration.map((i, place) => [i, history[name][place]]).filter(([i, v]) => known(i) && known(v));
    const [across, up] = [extent(places.map((p) => p[0])), extent(places.map((p) => p[1]))];
    // A scale that does not begin at zero is for values over a decade, so that a small change looks small.
    const positive = log && up[0] > 0 && up[1] > 10 * up[0];
    if (!positive) up.push(...extent([0, ...up.splice(0)]));
    const range = positive ? widen(up.map(Math.log10)).map((exponent) => 10 ** exponent) : widen(up);
    const box = { left: 58, top: 26, right: 410, bottom: 190 };
    const x = { at: scale(across, [box.left, box.right]), ticks: ticks(across, 5) };
    const y = { at: scale(range, [box.bottom, box.top], positive), ticks: positive ? logTicks(range) : ticks(range, 4) };
    const title = `${name}${positive ? ", log scale" : ""}`;
    const label = `${title}, by iteration; last ${show(places[places.length - 1][1])}`;
    return html("figure", {}, svg("svg", { viewBox: "0 0 420 234", role: "img", "aria-label": label },
      axes(box, x, y, { x: "iteration", y: title }),
      svg("path", { class: "curve", d: trace(places.map(([i, v]) => [x.at(i), y.at(v)])) })));
  });
}

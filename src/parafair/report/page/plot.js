// The main plot: residual or held-out error against leakage, and its legend.

const REACH = 28; // pixels within which a pointer finds a point
const phone = matchMedia("(max-width: 700px)");

// What the horizontal axis can be.
const AXES = [
  {
    name: "residual",
    button: "residual",
    // Read when it is shown: the data comes after this script.
    get title() {
      return `residual: ${data.measure ?? "‖X − model‖ / ‖X‖"}`;
    },
  },
  { name: "rmse", button: "held-out RMSE", title: "RMSE of held-out entries, in the units of the data" },
];
let axis = AXES[0];
let plotted = []; // the points in the plot, from left to right

const hidden = new Set(); // methods that the legend has switched off
const markers = new Map(); // from a point to its element
let places = new Map(); // from a point to its place in the viewBox
let size = [1, 1];

const facts = (point) => [
  describe(point),
  `residual ${show(point.residual)}`,
  ...(axis.name === "rmse" ? [`held-out RMSE ${show(point.rmse)}`] : []),
  `measured leakage ${show(point.leakage)}` + (known(point.low) && known(point.high) ? `, 95 % interval ${interval(point)}` : ""),
  ...offChance(point),
  ...(known(point.certified_release) ? [`certified leakage (F), threat (b): at most ${atMost(point.certified_release)}`] : []),
  ...(marks(point).length ? [marks(point).join(", ")] : []),
];

// Attackers significantly off chance: one mark per direction, above and below the point.
const SIDES = [
  { name: "above", path: polygon([[-6, -12.5], [6, -12.5], [0, -21.5]]), sign: "▲", words: "significantly above chance" },
  { name: "below", path: polygon([[-6, 12.5], [6, 12.5], [0, 21.5]]), sign: "▼", words: "significantly below chance" },
];
const sidesOf = (point) => SIDES.filter((side) => known(point[side.name]));
const offChance = (point) => sidesOf(point).map((side) => `attacker ${side.words}, by ${show(point[side.name])}`);
const sideMark = (side) => svg("path", { class: `side ${side.name}`, d: side.path });

// The certified leakage: a bar at the same residual, because it is about another attacker.
const certifiedMark = (x, y) => svg("path", { class: "certified-mark", d: `M${round(x - 6)} ${y}H${round(x + 6)}` });

// The errors of all people together, and of a prediction without people on the axis of errors.
const everybody = (point) => point.errors?.find((e) => !e.feature);
const baseline = () => (axis.name === "rmse" ? plotted.map(everybody).find(known)?.baseline : null);

function domains() {
  const limit = axis.name === "residual" ? (data.limit?.residual ?? []).filter(known) : [];
  // With the baseline in sight, a small cost looks small.
  let [left, right] = extent([...plotted.map((p) => p[axis.name]), baseline()].filter(known));
  if (limit.length) {
    // A limit far from all points is cut off, so that the points keep half of the width.
    const span = right - left || 0.1 * right || 1;
    const [first, last] = extent(limit);
    [left, right] = [Math.min(left, Math.max(first, left - span)), Math.max(right, Math.min(last, right + span / 2))];
  }
  // A quarter of the way to zero is always in sight, so that a small difference looks small.
  left = Math.min(left, 0.75 * right);
  const ends = plotted.flatMap((p) => [p.leakage, p.low ?? p.leakage, p.high ?? p.leakage, p.certified_release ?? p.leakage]);
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

function referenceLayer(box, x, y) {
  const layer = svg("g", { "clip-path": "url(#inside)", "aria-hidden": "true" });
  const line = (name, ends) => svg("line", { class: name, ...ends });
  const allowed = y.at(data.max_leakage);
  layer.append(line("allowed", { x1: box.left, x2: box.right, y1: allowed, y2: allowed }));
  if (known(baseline())) {
    const at = x.at(baseline());
    layer.append(line("baseline", { x1: at, x2: at, y1: box.top, y2: box.bottom }));
  }
  return layer;
}

function intervalLayer(y) {
  const bars = svg("g", { "aria-hidden": "true" });
  methods.forEach((method, index) => {
    const own = plotted.filter((p) => p.method === method);
    const layer = svg("g", { class: color("m", index), "data-method": method });
    for (const point of own.filter((p) => known(p.low) && known(p.high))) {
      const [at] = places.get(point);
      layer.append(svg("line", { class: "interval", x1: at, x2: at, y1: y.at(point.low), y2: y.at(point.high) }));
    }
    for (const point of own.filter((p) => known(p.certified_release))) layer.append(certifiedMark(places.get(point)[0], y.at(point.certified_release)));
    // Fits are efficient in residual and leakage, so the line has a meaning in that plane only.
    const efficient = axis.name === "residual" ? own.filter((p) => p.efficient).map((p) => places.get(p).join(" ")) : [];
    if (efficient.length > 1) layer.append(svg("path", { class: "path", d: `M${efficient.join("L")}` }));
    bars.append(layer);
  });
  return bars;
}

function drawPlot() {
  const plot = find("plot");
  size = phone.matches ? [400, 400] : [780, 500];
  plotted = points.filter((p) => known(p[axis.name]) && known(p.leakage)).sort((a, b) => a[axis.name] - b[axis.name]);
  plot.replaceChildren();
  markers.clear();
  places = new Map();
  if (!plotted.length) {
    plot.setAttribute("viewBox", "0 0 400 60");
    const words = "No fit was audited. The table below lists all fits.";
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
  const gain = phone.matches ? "" : ": what the strongest attacker gains over chance";
  for (const point of plotted) places.set(point, [x.at(point[axis.name]), y.at(point.leakage)]);
  plot.append(
    svg("clipPath", { id: "inside" }, inside),
    axes(box, x, y, { x: axis.title, y: `measured leakage${gain}` }),
    ...(data.limit && axis.name === "residual" ? [limitLayer(box, x, y) ?? ""] : []),
    referenceLayer(box, x, y),
    intervalLayer(y),
    svg("circle", { id: "halo", class: "halo", r: 15 }),
    ...plotted.map(marker),
  );
  moveHalo();
  applyHidden();
  drawKey();
}

function marker(point) {
  const index = methods.indexOf(point.method);
  const element = svg("g", {
    class: `point ${color("m", index)}${point.efficient ? " efficient" : ""}`,
    transform: `translate(${places.get(point).join(" ")})`,
    tabindex: 0, role: "button", "aria-pressed": String(point === selected), "aria-label": facts(point).join("; "),
    "data-id": point.id, "data-method": point.method,
  }, svg("circle", { class: "focus", r: 14 }), point.picked ? svg("circle", { class: "ring", r: 11 }) : null,
  svg("path", { class: "marker", d: shape(index, 6) }), ...sidesOf(point).map(sideMark));
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

// The point nearest to the pointer is chosen, so that crowded points can be told apart.
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
}

// Buttons that choose the horizontal axis, if there is a choice.
function drawAxes() {
  if (!points.some((p) => known(p.rmse) && known(p.leakage))) return;
  const buttons = AXES.map((each) => {
    const button = html("button", { type: "button", "aria-pressed": String(each === axis) }, each.button);
    button.addEventListener("click", () => {
      axis = each;
      buttons.forEach((other, i) => other.setAttribute("aria-pressed", String(AXES[i] === axis)));
      drawPlot();
    });
    return button;
  });
  find("axes").append("Horizontal axis:", ...buttons);
}

function drawKey() {
  const dot = () => svg("path", { class: "marker", d: shape(0, 5) });
  const wide = (...parts) => svg("svg", { viewBox: "0 0 28 18", class: "wide", "aria-hidden": "true" }, ...parts);
  const entry = (picture, words) => html("span", {}, picture, words);
  const onSide = (side) => plotted.some((p) => known(p[side.name]))
    && entry(swatch("m4", svg("g", { transform: `translate(0 ${side.name === "above" ? 17 : -17})` }, sideMark(side))), `an attacker is ${side.words}`);
  find("key").replaceChildren(...[
    entry(swatch("m4 efficient", dot()), "Pareto-efficient within its method"),
    entry(swatch("m4", dot()), "other fits"),
    ...SIDES.map(onSide),
    entry(swatch("m4", svg("line", { class: "interval", y1: -8, y2: 8 })), "95 % interval"),
    plotted.some((p) => known(p.certified_release))
      && entry(swatch("m4", certifiedMark(0, 0)), "certified (F): no attacker of threat (b) gains more"),
    plotted.some((p) => p.picked) && entry(swatch("m4", svg("circle", { class: "ring", r: 7 })), "picked"),
    entry(swatch("m4", svg("circle", { class: "halo", r: 8 })), "selected"),
    entry(wide(svg("line", { class: "allowed", x2: 28, y1: 9, y2: 9 })), `largest leakage that passes, ${data.max_leakage}`),
    axis.name === "residual" && data.limit?.residual.length
      && entry(wide(svg("rect", { class: "region", y: 3, width: 28, height: 12 }), svg("line", { class: "limit", x2: 28, y1: 3, y2: 3 })), "left of the limit"),
    known(baseline()) && entry(swatch("m4", svg("line", { class: "baseline", y1: -9, y2: 9 })), `baseline without people, ${show(baseline())}`),
  ].filter(Boolean));
}

function applyHidden() {
  for (const element of find("plot").querySelectorAll("[data-method]")) {
    element.classList.toggle("hidden", hidden.has(element.dataset.method));
  }
}

// The page: the data, the selected fit and its details.

const data = JSON.parse(find("data").textContent);
const points = data.points;
const methods = unique(points.map((point) => point.method));
let selected = null;

function describe(point) {
  const strength = known(point.strength) ? `, strength ${show(point.strength)}` : "";
  const noise = point.noise ? `, noise ${show(point.noise)}` : "";
  const seed = known(point.seed) ? `, seed ${point.seed}` : "";
  return point.method + strength + noise + seed;
}
const marks = (point) => [point.picked && "picked", point.efficient && "efficient", point.verdict].filter(Boolean);
// What a residual leaves unexplained: a ratio of norms is the root of a share of squares.
function unexplained(residual) {
  const share = 100 * (data.measure ? residual : residual ** 2);
  const percent = share < 0.1 ? "< 0.1" : String(Number(share.toPrecision(2)));
  return `leaves ${percent} % of ${data.measure ? "the loss" : "squares"}`;
}
const methodName = (method) => html("span", { class: "name" }, icon(methods.indexOf(method)), method);

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

// The selected fit: its numbers beside the plot, its pictures below.

function drawPanel(point) {
  const words = (text) => html("span", {}, text);
  const big = (name, value, below) => html("div", {}, words(name), html("strong", {}, show(value)), words(below));
  const below = !known(point.leakage) ? "not audited" : known(point.low) ? interval(point) : "";
  const list = html("dl");
  for (const [name, value] of [
    ...strongest(point.attackers ?? []),
    ["p-value", point.p_value], ["criterion", point.criterion], ["criterion at chance", point.null],
    ["strength", point.strength], ["noise", point.noise], ["seed", point.seed], ["iterations", point.iterations], ["seconds", point.seconds], ["fit", point.id],
  ]) list.append(html("dt", {}, name), html("dd", {}, show(value)));
  find("panel").replaceChildren(
    html("p", { class: "eyebrow" }, "Selected fit"),
    html("h2", { id: "panel-heading" }, describe(point)),
    html("div", {}, ...marks(point).map((mark) => html("span", { class: `badge ${mark}` }, mark))),
    ...offChance(point).map((words, i) => html("p", { class: `alarm ${sidesOf(point)[i].name}` }, `${sidesOf(point)[i].sign} ${words}`)),
    html("div", { class: "figures" },
      big("residual", point.residual, known(point.residual) ? unexplained(point.residual) : ""),
      big("measured leakage", known(point.leakage) ? Number(point.leakage.toFixed(3)) : point.leakage, below),
      known(point.certified_release) ? big("certified (F), at most", Number(atMost(point.certified_release)), "threat (b) only") : null,
      known(point.vote) ? big("measured vote", Number(point.vote.toFixed(3)), "threat (a), advantage") : null,
      known(point.rmse) ? big("held-out RMSE", point.rmse, `${show(everybody(point)?.baseline)} without people`) : null),
    list,
    point.status ? html("p", { class: "note" }, `Status: ${point.status}`) : "",
  );
}

function drawDetails(point) {
  const sections = {
    "Guarantees and exposure": point.certificate ? guarantees(point.certificate) : [],
    "Cost": cost(point),
    "Attackers": point.attackers?.length ? [attackers(point.attackers)] : [],
    "Held-out entries": point.errors?.length ? [heldOut(point.errors)] : [],
    "Embedding of people": point.embedding?.x?.length ? embeddings(point.embedding) : [],
    Components: components((point.components ?? []).filter((mode) => mode.values?.length)),
    Convergence: point.history?.iteration?.length ? [html("div", { class: "columns" }, ...histories(point.history))] : [],
  };
  find("details").replaceChildren(...Object.entries(sections).filter(([, parts]) => parts.length).map(([title, parts], index) => {
    const id = `details-${index}`;
    return html("section", { class: "card", "aria-labelledby": id }, html("h2", { id }, title), ...parts);
  }));
}

drawAxes();
drawPlot();
drawLegend();
drawMethods();
drawPoints();
listen();
phone.addEventListener("change", drawPlot);
select(points.find((p) => p.picked) ?? points.find((p) => p.efficient) ?? plotted[0] ?? points[0]);

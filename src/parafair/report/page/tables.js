// Tables that can be sorted: methods, fits, attackers, held-out entries.

const rows = new Map(); // from a point to its row

// A column: name, value (to sort by), and optionally cell (what to show), number, and minor: left out on paper.
const looks = (column) => [column.number && "number", column.minor && "minor"].filter(Boolean).join(" ") || null;
function table(columns, entries, { label, caption = null, onRow = null }) {
  const body = html("tbody");
  const head = html("tr");
  const lines = entries.map((entry) => {
    const cells = columns.map((column) => {
      const shown = column.cell ? column.cell(entry) : show(column.value(entry));
      return html("td", { class: looks(column) }, shown);
    });
    const line = html("tr", {}, ...cells);
    onRow?.(entry, line);
    return { entry, line };
  });
  for (const column of columns) {
    const cell = html("th", { scope: "col", class: looks(column) });
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
  // A region that scrolls can be reached with the keyboard.
  const region = { class: "scroll", tabindex: 0, role: "region", "aria-label": `Table: ${label}` };
  return html("div", region, html("table", {}, words, html("thead", {}, head), body));
}

function compare(first, second, sign) {
  if (!known(first) || !known(second)) return Number(!known(first)) - Number(!known(second)); // undefined comes last
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
    const passing = own.filter((p) => p.verdict === "passes");
    const [residual, leakage, best] = [least(own, "residual"), least(own, "leakage"), least(passing, "residual")];
    return { method, count: own.length, passing: passing.length, residual, leakage, best };
  });
  find("methods").append(table([
    { name: "method", value: (e) => e.method, cell: (e) => methodName(e.method) },
    { name: "fits", value: (e) => e.count, number: true },
    { name: "passing", value: (e) => e.passing, number: true },
    { name: "least residual", value: (e) => e.residual?.residual, number: true },
    { name: "least measured leakage", value: (e) => e.leakage?.leakage, number: true },
    {
      name: "least residual of a passing fit", value: (e) => e.best?.residual, number: true,
      cell: (e) => (e.best ? link(e.best, show(e.best.residual)) : "none"),
    },
    {
      name: "that fit", value: (e) => e.best && describe(e.best),
      cell: (e) => (e.best ? link(e.best, describe(e.best)) : "–"),
    },
  ], entries, { label: "Methods", caption: `A fit passes if its leakage is at most ${data.max_leakage} and no attacker is significantly above or below chance.` }));
}

const offChanceCell = (point) => html("span", {}, ...sidesOf(point).flatMap((side) =>
  [html("span", { class: side.name, title: `an attacker is ${side.words}` }, `${side.sign} ${show(point[side.name])}`), " "]));

function drawPoints() {
  const number = (name, title = name) => ({ name: title, value: (p) => p[name], number: true });
  const minor = (name, title) => ({ ...number(name, title), minor: true });
  const tested = points.some((p) => known(p.rmse));
  const certified = points.some((p) => p.certificate);
  const noisy = certified || points.some((p) => p.noise);
  const bound = (name, title) => ({ name: title, value: (p) => p[name], cell: (p) => atMost(p[name]) ?? "–", number: true });
  const sure = (name, title) => ({ name: title, value: (p) => p[name], cell: (p) => (known(p[name]) ? show(Number(p[name].toFixed(3))) : "–"), number: true });
  find("points").append(table([
    { name: "fit", value: (p) => p.id, cell: (p) => link(p, show(p.id)), minor: true },
    { name: "method", value: (p) => p.method, cell: (p) => methodName(p.method) },
    number("strength"), ...(noisy ? [number("noise")] : []), minor("seed"), number("residual"), number("leakage", "measured leakage"),
    ...(certified ? [bound("certified_release", "certified (F)"), sure("vote", "measured vote")] : []),
    { name: "95 % interval", value: (p) => p.low, cell: interval, number: true },
    { name: "off chance", value: (p) => Math.max(p.above ?? 0, p.below ?? 0), cell: offChanceCell, number: true },
    ...(certified ? [
      bound("certified_matrix", "certified (C)"), sure("exposure_b", "largest exposure (b)"), sure("exposure_a", "largest exposure (a)"),
    ].map((column) => ({ ...column, minor: true })) : []),
    { name: "marks", value: (p) => marks(p).join(", ") },
    minor("p_value", "p"), minor("criterion"),
    ...(tested ? [number("rmse", "held-out RMSE"), minor("mae", "MAE"), minor("rmse_gap", "RMSE gap between groups"), minor("ks", "KS of predictions")] : []),
    minor("iterations"), minor("seconds"),
    { name: "status", value: (p) => p.status, minor: true },
  ], points, {
    label: "All fits",
    caption: "Off chance: how far attackers are significantly above (▲) or below (▼) chance, at most. Fits without a leakage were not audited, or diverged. They are not in the plot."
      + (certified ? " Measured: attackers that were tried, threat (a). Certified: an upper bound for every attacker of threat (b), who holds all exact rows; fits without noise have none. Vote: the advantage of a vote of all others, threat (a). Exposure: the largest certainty about one person." : ""),
    onRow: (point, line) => rows.set(point, line),
  }));
}

// How far a score is from chance, marked if the whole interval is on one side.
const distance = (score) => (known(score?.value) && known(score.chance) ? score.value - score.chance : null);
function marked(score, value, sign = false) {
  const side = SIDES.find(({ name }) => name === score?.side);
  const text = sign && value > 0 ? `+${show(value)}` : show(value);
  return side ? html("span", { class: side.name, title: side.words }, `${side.sign} ${text}`) : text;
}

// The best of each kind of ranking: the AUC, or the rank correlation, that is furthest from chance.
function strongest(entries) {
  const rankings = entries.map((e) => e.ranking).filter((ranking) => known(distance(ranking)));
  return unique(rankings.map((ranking) => ranking.measure)).map((measure) => {
    const own = rankings.filter((ranking) => ranking.measure === measure);
    return [`${measure} furthest from chance`, own.sort((a, b) => Math.abs(distance(b)) - Math.abs(distance(a)))[0].value];
  });
}

function attackers(entries) {
  const features = unique(entries.map((e) => e.feature));
  const one = features.length === 1;
  const rankings = unique(entries.map((e) => e.ranking?.measure).filter(known));
  const off = (e) => Number(known(e.side) || known(e.ranking?.side));
  // A ranking is as good as its distance from chance in either direction; R squared is not.
  const strength = (e) => Math.abs(distance(e.ranking) ?? distance(e));
  const order = [...entries].sort((a, b) => off(b) - off(a) || strength(b) - strength(a));
  return table([
    ...(one ? [] : [{ name: "feature", value: (e) => e.feature }]),
    { name: "attacker", value: (e) => e.model },
    { name: "input", value: (e) => e.input },
    { name: "from chance", value: distance, number: true, cell: (e) => marked(e, distance(e), true) },
    { name: "value", value: (e) => e.value, number: true },
    { name: "95 % interval", value: (e) => e.low, cell: interval, number: true },
    { name: "chance", value: (e) => e.chance, number: true },
    { name: "measure", value: (e) => e.measure },
    ...(rankings.length ? [{ name: rankings.join(" or "), value: (e) => e.ranking?.value, number: true, cell: (e) => marked(e.ranking, e.ranking?.value) }] : []),
  ], order, {
    label: "Attackers",
    caption: `${one ? `Feature: ${features[0]}. ` : ""}▲ significantly above chance, ▼ significantly below chance: the whole simultaneous 95 % interval is on one side. `
      + "An attacker below chance knows the feature too: turned around, its answers are right.",
  });
}

function heldOut(entries) {
  return table([
    { name: "people", value: (e) => (e.feature ? `${e.feature}: ${e.group}` : "everybody") },
    { name: "entries", value: (e) => e.entries, number: true },
    { name: "RMSE", value: (e) => e.rmse, number: true },
    { name: "MAE", value: (e) => e.mae, number: true },
    { name: "RMSE of the baseline", value: (e) => e.baseline, number: true },
  ], entries, { label: "Held-out entries", caption: "Errors on held-out entries, in the units of the data. The baseline predicts without people: the mean plus an offset for each label of the other modes." });
}

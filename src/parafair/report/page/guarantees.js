// What is certified of one fit, and how exposed people are: certified and measured kept apart.

const KINDS = {
  certified: "holds for every attacker, also for those nobody has tried",
  estimated: "computed by random draws; no guarantee",
  measured: "found with attackers that were tried; others may find more",
};
const kind = (name) => html("span", { class: `badge ${name}`, title: KINDS[name] }, name);

const THREATS = [
  {
    letter: "b", kind: "estimated", name: "Threat (b): the holder of the exact rows",
    words: "Someone has all exact rows with everybody's group and sees the person's released row. How sure this attacker is:",
  },
  {
    letter: "a", kind: "measured", name: "Threat (a): a vote of the others",
    words: "Someone knows the groups of all other people in the release and lets those nearby vote. How large the majority is, whether it is right or wrong; the advantage below tells how often it is right:",
  },
];

function guarantees({ statements, exposures, percentile, notes }) {
  return [
    html("p", { class: "hint" }, "Certified and measured numbers are about different attackers, so none of them replaces another. "
      + "A certified leakage near 0 says nothing about attackers who learn from people whose group is known."),
    statementTable(statements),
    html("ul", { class: "statements" }, ...statements.map(({ letter, sentence }) =>
      html("li", {}, kind("certified"), `(${letter}) ${sentence}`))),
    html("h3", {}, "Exposure of people"),
    html("div", { class: "columns" }, ...THREATS.flatMap((threat) =>
      exposures.filter((e) => e.threat === threat.letter).map((e) => exposureFigure(e, threat, percentile)))),
    html("ul", { class: "statements" }, ...notes.map((note) => html("li", {}, note))),
  ];
}

// A certified number is rounded up, or it would promise more than was computed.
const atMost = (value) => (known(value) ? (Math.ceil(value * 1e4 - 1e-9) / 1e4).toFixed(4) : null);
const COVERS = {
  F: "(b): one released row, by random draws",
  C: "(b): one released row, in closed form by pairs of people",
  P: "(c): new people of the population",
};

function statementTable(statements) {
  return table([
    { name: "statement", value: (s) => s.letter, cell: (s) => html("span", {}, `(${s.letter})`) },
    { name: "feature", value: (s) => s.column },
    { name: "threat", value: (s) => COVERS[s.letter] },
    { name: "certified leakage, at most", value: (s) => s.upper, cell: (s) => atMost(s.upper), number: true },
    { name: "chance", value: (s) => s.chance, number: true },
    { name: "measure", value: (s) => s.measure },
  ], statements, { label: "Statements" });
}

// Width of the longest text at a mark.
const LONGEST_MARK = 210;

// People by exposure: bars from chance to certainty, with two lines.
function exposureFigure({ column, chance, largest, percentile: high, counts, sentence }, threat, percentile) {
  const box = { left: 46, top: 48, right: 408, bottom: 176 };
  const most = Math.max(1, ...counts);
  const x = { at: scale([chance, 1], [box.left, box.right]), ticks: ticks([chance, 1], 5) };
  const y = { at: scale([0, most], [box.bottom, box.top]), ticks: ticks([0, most], 3).filter(Number.isInteger) };
  const width = (box.right - box.left) / (counts.length || 1);
  const bar = (count, i) => {
    const [from, to] = [box.left + i * width + 0.5, box.left + (i + 1) * width - 0.5];
    return polygon([[from, box.bottom], [from, y.at(count)], [to, y.at(count)], [to, box.bottom]]);
  };
  // Text near the right end would leave the picture. Marks whose texts could meet have theirs on the same side.
  const beyond = (value) => x.at(value) > (box.left + box.right) / 2;
  const near = x.at(largest) - x.at(high) < LONGEST_MARK;
  const mark = (value, name, words, up, end) => {
    const at = x.at(value);
    return [
      svg("line", { class: `threshold ${name}`, x1: at, x2: at, y1: box.top - up, y2: box.bottom }),
      svg("text", { class: name, x: at + (end ? -5 : 5), y: box.top - up + 9, "text-anchor": end ? "end" : "start" }, `${words} ${show(Number(value.toFixed(3)))}`),
    ];
  };
  const left = beyond(largest);
  const total = counts.reduce((sum, count) => sum + count, 0);
  const marks = [
    mark(high, "percentile", `${percentile} % of ${total.toLocaleString("en")} people up to`, left ? 18 : 36, near ? left : beyond(high)),
    mark(largest, "largest", "largest", left ? 36 : 18, left),
  ];
  const label = `${threat.name}, ${column}: ${percentile}th percentile ${show(high)}, largest ${show(largest)}, chance ${show(chance)}`;
  const picture = svg("svg", { viewBox: "0 0 420 222", role: "img", "aria-label": label },
    axes(box, x, y, { x: "certainty about a person, from chance to 1", y: "" }),
    svg("path", { class: `bars exposure-${threat.letter}`, d: counts.map((count, i) => (count ? bar(count, i) : "")).join("") }),
    // Lines first. The upper text passes over the lower line: to the left over that of the percentile, to the right over the other.
    ...marks.map(([line]) => line), ...marks.map(([, words]) => words));
  return html("figure", { class: "exposure" },
    html("figcaption", {}, html("strong", {}, `${threat.name}, ${column} `), kind(threat.kind), html("br"), threat.words),
    counts.length ? picture : null,
    html("p", {}, sentence));
}

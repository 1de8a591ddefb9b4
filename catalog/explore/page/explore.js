"use strict";
// The page of `streamtime explore`: draws what /picture says, and asks again when a slider is moved.

const $ = (id) => document.getElementById(id);
const SVG = "http://www.w3.org/2000/svg";
const LANE = 34, LEVEL = 16, BAR = 11, TOP = 8, AXIS = 26, RIGHT = 14;
const SIGNS = {  // look -> path around 0, and whether it is hollow
  passed: ["M-5 0A5 5 0 1 0 5 0A5 5 0 1 0 -5 0Z", false],
  released: ["M0 -6L6 0L0 6L-6 0Z", false],
  deletion: ["M-5 -5L5 5M-5 5L5 -5", false],
  duplicate: ["M-5 -5L5 5M-5 5L5 -5", false],
  late: ["M-6 -5H6L0 6Z", true],
  replaced: ["M-5 0A5 5 0 1 0 5 0A5 5 0 1 0 -5 0Z", true],
  overwritten: ["M-5 0A5 5 0 1 0 5 0A5 5 0 1 0 -5 0Z", true],
  superseded: ["M-5 0A5 5 0 1 0 5 0A5 5 0 1 0 -5 0Z", true],
  out_of_order: ["M5 -6V6L-6 0Z", true],
  held: ["M-5 -5H5V5H-5Z", true],
};
const OTHER = ["M-2 -6H2V-2H6V2H2V6H-2V2H-6V-2H-2Z", true];
const BARS = new Set(["kept", "window", "session", "version", "wait"]);
const PACE = 900, BEAT = 500, SETTLED = 300;  // milliseconds

let answer = null, step = null, playing = null;
let busy = false, wanted = null;  // whether Spark is asked, and what is to be asked next
let sliding = [], settling = null;  // the settings as they were at first, and a slider that has just been moved

function made(name, attributes = {}, inside = null) {
  const node = document.createElementNS(SVG, name);
  for (const [key, value] of Object.entries(attributes)) node.setAttribute(key, value);
  if (inside !== null) node.textContent = inside;
  return node;
}

function said(name, text, into = null, className = "") {
  const node = document.createElement(name);
  node.textContent = text;
  if (className) node.className = className;
  if (into) into.append(node);
  return node;
}

// -- asking

// One question at a time; of those that come meanwhile, the last is asked next.
async function ask(durations) {
  if (busy) { wanted = durations; return; }
  busy = true;
  pause();
  $("picture").classList.add("busy");
  const since = Date.now(), beat = setInterval(() => working(since), BEAT);
  working(since);
  let reply;
  try {
    const response = await fetch("picture", { method: "POST", body: JSON.stringify(durations) });
    reply = await response.json();
  } catch (problem) {
    reply = { error: "streamtime explore does not answer any more. Was it stopped? Start it again, and open its new address." };
  }
  clearInterval(beat);
  busy = false;
  if (wanted) {
    const next = wanted;
    wanted = null;
    ask(next);
    return;
  }
  $("picture").classList.remove("busy");
  $("status").classList.remove("busy");
  $("error").hidden = !reply.error;
  $("error").textContent = reply.error || "";
  if (reply.error) {
    $("status").textContent = answer ? "This setting has no picture. What is shown is the one before it." : "There is no picture.";
    return;
  }
  $("status").textContent = `${reply.rows.length} rows, answered in ${((Date.now() - since) / 1000).toFixed(1)} s`;
  answer = reply;
  step = null;
  if (!sliding.length) sliders();
  show();
}

async function working(since) {
  const seconds = Math.round((Date.now() - since) / 1000);
  let tasks = "";
  if (seconds >= 1) {
    try {
      const { done, of } = await (await fetch("progress")).json();
      if (of) tasks = `, ${done} of ${of} tasks`;
    } catch (problem) { /* the answer will say it */ }
  }
  if (!busy) return;
  $("status").classList.add("busy");
  $("status").textContent = `Spark works .. ${seconds} s${tasks}`;
}

function sliders() {
  for (const setting of answer.settings) {
    const label = said("label", `${setting.name}: `, $("settings"));
    const output = said("output", setting.stops[setting.place].words, label);
    const input = document.createElement("input");
    Object.assign(input, { type: "range", min: 0, max: setting.stops.length - 1, step: 1, value: setting.place, name: setting.name });
    input.setAttribute("aria-valuetext", output.textContent);
    input.addEventListener("input", () => {
      output.textContent = setting.stops[input.value].words;
      input.setAttribute("aria-valuetext", output.textContent);
    });
    input.addEventListener("change", () => {
      clearTimeout(settling);
      settling = setTimeout(moved, SETTLED);
    });
    label.append(input);
    said("span", setting.help, label, "help");
  }
  sliding = answer.settings;
}

function moved() {
  const durations = {};
  for (const input of $("settings").querySelectorAll("input")) {
    const known = sliding.find((setting) => setting.name === input.name);
    if (Number(input.value) !== known.place) durations[input.name] = known.stops[input.value].micros;
  }
  ask(durations);
}

// -- drawing

function show() {
  const picture = answer.picture, rows = answer.rows;
  $("title").textContent = picture.title;
  document.title = `${picture.title} · streamtime explore`;
  $("sql").textContent = answer.sql;
  $("notes").textContent = [picture.caption, ...picture.notes, "the dashed line is stream time when a row came"].join("; ");
  $("legend").replaceChildren(...picture.legend.map(([look, words]) => {
    const item = document.createElement("li"), icon = made("svg", { class: `look-${known(look)}`, viewBox: "-10 -7 20 14" });
    icon.append(BARS.has(look) ? made("rect", { class: "bar", x: -9, y: -4, width: 18, height: 8 }) : sign(look));
    item.append(icon, words);
    return item;
  }));
  const dropped = rows.filter((row) => row.dropped);
  $("dropped-title").textContent = dropped.length ? `Dropped: ${dropped.length} of ${rows.length} rows` : "No row was dropped";
  $("dropped").replaceChildren(...dropped.map((row) => {
    const item = document.createElement("li"), button = said("button", `${row.lane} · ${row.cells.join(", ")} · ${row.sentence}`, item);
    button.addEventListener("click", () => go(row.number));
    return item;
  }));
  draw();
}

const known = (look) => (look in SIGNS || BARS.has(look) ? look : "other");

function sign(look) {
  const [path, hollow] = SIGNS[look] || OTHER;
  return made("path", { class: hollow ? "sign hollow" : "sign", d: path });
}

function draw() {
  const { lanes, levels, marks, bars, arrows, ticks, span } = answer.picture;
  const left = Math.min(Math.max(...lanes.map((lane) => lane.length), 3), 24) * 7 + 16;
  const width = Math.max($("picture").clientWidth - 2, 420);
  const x = (at) => left + ((at - span[0]) / (span[1] - span[0])) * (width - left - RIGHT);
  const tops = [];
  let height = TOP;
  levels.forEach((count, n) => { tops[n] = height + LANE / 2; height += LANE + LEVEL * count; });
  const svg = made("svg", { width, height: height + AXIS, viewBox: `0 0 ${width} ${height + AXIS}` });
  const until = step === null ? Infinity : step;
  const later = (numbers) => (numbers.length && Math.min(...numbers) > until ? " to-come" : "");
  lanes.forEach((lane, n) => {
    const y = tops[n] - LANE / 2;
    if (n % 2 === 0) svg.append(made("rect", { class: "lane", x: 0, y, width, height: LANE + LEVEL * levels[n] }));
    const label = made("text", { x: 8, y: tops[n] + 4 }, lane.length > 24 ? `${lane.slice(0, 23)}…` : lane);
    label.append(made("title", {}, lane));
    svg.append(label);
  });
  for (const [at, words] of ticks) {
    svg.append(made("line", { class: "grid", x1: x(at), x2: x(at), y1: TOP, y2: height }));
    const anchor = x(at) + words.length * 3.5 > width ? "end" : "middle";
    svg.append(made("text", { class: "tick", x: anchor === "end" ? width - 4 : x(at), y: height + 17, "text-anchor": anchor }, words));
  }
  for (const bar of bars) {
    const y = tops[bar.lane] + LANE / 2 + LEVEL * bar.level - 4, group = made("g", { class: `look-${known(bar.look)}${later(bar.numbers)}` });
    const end = bar.end === null ? span[1] : bar.end;
    const piece = (from, to, name) => group.append(made("rect", { class: name, x: x(from), y, width: Math.max(x(to) - x(from), 0), height: BAR }));
    if (bar.opens !== null) piece(bar.opens, bar.start, "bar pale");
    if (bar.closes !== null) piece(end, bar.closes, "bar pale");
    piece(bar.start, end, "bar");
    group.append(made("line", { class: "edge", x1: x(bar.start), x2: x(bar.start), y1: y, y2: y + BAR }));
    if (bar.words) group.append(made("title", {}, bar.words));
    svg.append(group);
  }
  for (const arrow of arrows) {
    const from = [x(arrow.at), tops[arrow.lane]], to = [x(arrow.to), tops[arrow.lane]];
    const group = made("g", { class: arrow.number > until ? "to-come" : "" });
    if (arrow.level === null) {
      const bend = Math.min(Math.abs(to[0] - from[0]) / 3 + 8, 18);
      group.append(made("path", { class: "arrow", d: `M${from[0]} ${from[1] - 5}Q${(from[0] + to[0]) / 2} ${from[1] - bend} ${to[0]} ${to[1] - 6}` }));
      group.append(made("path", { class: "arrow-head", d: `M${to[0] - 4} ${to[1] - 12}h8l-4 6Z` }));
    } else {
      to[1] += LANE / 2 + LEVEL * arrow.level - 5;
      group.append(made("path", { class: "arrow", d: `M${from[0]} ${from[1]}L${to[0]} ${to[1]}` }));
      group.append(made("path", { class: "arrow-head", d: `M${to[0] - 3} ${to[1] - 5}h6l-3 6Z` }));
    }
    svg.append(group);
  }
  const row = step ? answer.rows[step - 1] : null;
  if (row && row.clock !== null && row.clock >= span[0] && row.clock <= span[1]) {
    const line = made("line", { class: "clock", x1: x(row.clock), x2: x(row.clock), y1: TOP, y2: height });
    line.append(made("title", {}, "stream time when this row came"));
    svg.append(line);
  }
  for (const mark of marks) {
    const group = made("g", { class: `mark look-${known(mark.look)}${mark.number > until ? " to-come" : ""}`, "data-number": mark.number });
    group.setAttribute("transform", `translate(${x(mark.at)} ${tops[mark.lane]})`);
    if (mark.number === step) group.append(made("circle", { class: "now", r: 10 }));
    group.append(sign(mark.look));
    const about = answer.rows[mark.number - 1];
    group.append(made("title", {}, about ? `${mark.why}: ${about.cells.join(", ")}` : mark.why));
    svg.append(group);
  }
  $("picture").replaceChildren(svg);
  $("picture").setAttribute("aria-label", `${answer.picture.title}: ${answer.rows.length} rows in ${lanes.length} lanes`);
  told(row);
}

function told(row) {
  const count = answer.rows.length;
  $("place").textContent = step === null ? `all ${count} rows` : `row ${step} of ${count}`;
  $("row").textContent = row ? `${row.lane} · ${row.cells.join(", ")} · ${row.outcome}` : "";
  $("sentence").textContent = row ? row.sentence : step === 0 ? "No row has come yet." : "";
}

// -- row by row; `step` is how many rows have come, null: all

function go(to) {
  if (!answer) return;
  step = to;
  draw();
}

function next() {
  if (!answer) return;
  go(step === null ? 1 : step >= answer.rows.length ? null : step + 1);
}

function previous() {
  if (answer) go(Math.max((step === null ? answer.rows.length + 1 : step) - 1, 0));
}

function pause() {
  clearInterval(playing);
  playing = null;
  $("play").textContent = "▶ Play";
}

function play() {
  if (playing) return pause();
  if (!answer) return undefined;
  if (step === null) go(0);
  $("play").textContent = "❚❚ Pause";
  playing = setInterval(() => { next(); if (step === null) pause(); }, PACE);
  return undefined;
}

const KEYS = { ArrowRight: next, ArrowLeft: previous, " ": play, Home: () => go(0), End: () => go(null) };

document.addEventListener("keydown", (event) => {
  if (event.altKey || event.ctrlKey || event.metaKey || event.target.matches("input, textarea")) return;  // a slider has arrow keys of its own
  if (event.key === " " && event.target.matches("button")) return;  // which it presses
  const act = KEYS[event.key];
  if (!act) return;
  event.preventDefault();
  if (act !== play) pause();
  act();
});

for (const [id, act] of Object.entries({ next, previous, first: () => go(0), last: () => go(null) })) {
  $(id).addEventListener("click", () => { pause(); act(); });
}
$("play").addEventListener("click", play);
$("copy").addEventListener("click", async () => {
  try {
    await navigator.clipboard.writeText($("sql").textContent);
    $("copy").textContent = "Copied";
  } catch (problem) {
    getSelection().selectAllChildren($("sql"));
    $("copy").textContent = "Marked: copy it";
  }
  setTimeout(() => { $("copy").textContent = "Copy"; }, 1500);
});
addEventListener("resize", () => { if (answer) draw(); });
ask({});

"use strict";
// The graph is drawn on a canvas: a page of 50,000 elements would be slow.
const data = JSON.parse(document.getElementById("data").textContent);
const FIELDS = 5;
const ROW = 19;
const ALL = -1; // The node that stands above all roots.
const ROWS_SHOWN_MAX = 400;
const FUNCTIONS_SHOWN = 100;
const COLORS = {
  light: ["#8fb8de", "#c3c7cf", "#f2a65a", "#e8d16b", "#d98cb3", "#8fc98a", "#d8d8d8"],
  dark: ["#3f6d99", "#555b66", "#a8602a", "#8a7626", "#8f4a6c", "#417a3d", "#4a4a4a"],
};

const count = data.nodes.length / FIELDS;
const depth = new Uint32Array(count);
const nameOf = new Uint32Array(count);
const start = new Float64Array(count);
const samples = new Float64Array(count);
const before = new Float64Array(count);
const parent = new Int32Array(count).fill(ALL);
const self = new Float64Array(count);
const total = data.total[0];
let deepest = 0;
for (let node = 0, open = []; node < count; node++) {
  const [of, name, at, after, earlier] = data.nodes.slice(node * FIELDS, (node + 1) * FIELDS);
  depth[node] = of;
  nameOf[node] = name;
  start[node] = at;
  samples[node] = after;
  before[node] = earlier;
  self[node] = after;
  open.length = of;
  if (of > 0) {
    parent[node] = open[of - 1];
    self[parent[node]] -= after;
  }
  open.push(node);
  deepest = Math.max(deepest, of);
}

const element = (id) => document.getElementById(id);
const canvas = element("graph");
const context = canvas.getContext("2d");
const isDark = matchMedia("(prefers-color-scheme: dark)");
let zoomed = ALL;
let focused = ALL;
let hovered = ALL;
let rootAtTop = true;
let matches = new Set();
let matchingNodes = [];

const name = (node) => data.names[nameOf[node]][0];
const kind = (node) => data.names[nameOf[node]][1];
const percent = (part, whole) => `${((100 * part) / Math.max(whole, 1)).toFixed(2)}%`;

function change(node) {
  return samples[node] / Math.max(total, 1) - before[node] / Math.max(data.total[1], 1);
}

function changeColor(of) {
  const strength = Math.sqrt(Math.min(1, Math.abs(of) * 10));
  const hue = of > 0 ? 2 : 220;
  const lightness = isDark.matches ? 28 + 17 * strength : 88 - 30 * strength;
  return `hsl(${hue} ${Math.round(75 * strength)}% ${lightness}%)`;
}

function color(node) {
  if (matches.has(nameOf[node])) return isDark.matches ? "#8b2fb0" : "#d493ef";
  if (data.compares) return changeColor(change(node));
  return (isDark.matches ? COLORS.dark : COLORS.light)[kind(node)];
}

/** The part of all samples that is shown. */
function view() {
  return zoomed === ALL ? [0, total] : [start[zoomed], samples[zoomed]];
}

/** Whether a node is the zoomed one, in it, or what it is called by. */
function isShown(node) {
  if (zoomed === ALL) return true;
  const end = start[node] + samples[node];
  const zoomedEnd = start[zoomed] + samples[zoomed];
  if (depth[node] < depth[zoomed]) return start[node] <= start[zoomed] && end >= zoomedEnd;
  return start[node] >= start[zoomed] && end <= zoomedEnd && isWithin(node);
}

function isWithin(node) {
  while (node !== ALL && depth[node] > depth[zoomed]) node = parent[node];
  return node === zoomed;
}

function box(node) {
  const [from, width] = view();
  const scale = canvas.clientWidth / Math.max(width, 1);
  const left = Math.max(0, (start[node] - from) * scale);
  const right = Math.min(canvas.clientWidth, (start[node] + samples[node] - from) * scale);
  const row = rootAtTop ? depth[node] : rows() - 1 - depth[node];
  return { left, top: row * ROW, width: right - left };
}

function rows() {
  return Math.min(deepest + 1, ROWS_SHOWN_MAX);
}

function draw() {
  const scale = window.devicePixelRatio || 1;
  const [width, height] = [canvas.clientWidth, rows() * ROW];
  canvas.style.height = `${height}px`;
  canvas.width = width * scale;
  canvas.height = height * scale;
  context.scale(scale, scale);
  context.font = "12px ui-monospace, Menlo, Consolas, monospace";
  context.textBaseline = "middle";
  const character = context.measureText("M").width;
  for (let node = 0; node < count; node++) {
    if (depth[node] < ROWS_SHOWN_MAX && isShown(node)) drawNode(node, character);
  }
  if (focused !== ALL) outline(focused);
}

function drawNode(node, character) {
  const { left, top, width } = box(node);
  if (width < 0.3) return;
  context.globalAlpha = zoomed !== ALL && depth[node] < depth[zoomed] ? 0.55 : 1;
  context.fillStyle = color(node);
  context.fillRect(left, top, Math.max(width - 0.6, 0.3), ROW - 1);
  if (node === hovered) {
    context.fillStyle = isDark.matches ? "rgb(255 255 255 / 18%)" : "rgb(0 0 0 / 12%)";
    context.fillRect(left, top, width - 0.6, ROW - 1);
  }
  const fits = Math.floor((width - 8) / character);
  if (fits >= 3) {
    const text = name(node);
    context.fillStyle = isDark.matches ? "#f2f3f5" : "#16181c";
    const shown = text.length > fits ? `${text.slice(0, fits - 1)}…` : text;
    context.fillText(shown, left + 4, top + ROW / 2);
  }
  context.globalAlpha = 1;
}

function outline(node) {
  if (!isShown(node)) return;
  const { left, top, width } = box(node);
  context.strokeStyle = isDark.matches ? "#78aeed" : "#1a5fb4";
  context.lineWidth = 2;
  context.strokeRect(left + 1, top + 1, Math.max(width - 2.6, 2), ROW - 3);
}

function nodeAt(event) {
  const bounds = canvas.getBoundingClientRect();
  const row = Math.floor((event.clientY - bounds.top) / ROW);
  const level = rootAtTop ? row : rows() - 1 - row;
  const [from, width] = view();
  const at = from + ((event.clientX - bounds.left) / canvas.clientWidth) * width;
  for (let node = 0; node < count; node++) {
    const isIn = start[node] <= at && at < start[node] + samples[node];
    if (depth[node] === level && isIn && isShown(node)) return node;
  }
  return ALL;
}

function describe(node) {
  if (node === ALL) return "";
  const parts = [
    `${name(node)} (${data.kinds[kind(node)]})`,
    `${samples[node]} samples, ${percent(samples[node], total)} of all`,
    `self ${self[node]}, ${percent(self[node], total)}`,
  ];
  if (parent[node] !== ALL) parts.push(`${percent(samples[node], samples[parent[node]])} of its caller`);
  if (data.compares) {
    const of = 100 * change(node);
    parts.push(`change ${of > 0 ? "+" : ""}${of.toFixed(2)}% of all`);
  }
  return parts.join(" · ");
}

function showDetail() {
  element("detail").textContent = describe(hovered !== ALL ? hovered : focused);
}

function focusOn(node) {
  focused = node;
  showDetail();
  draw();
  if (node === ALL) return;
  const top = canvas.getBoundingClientRect().top + box(node).top;
  if (top < 0 || top > innerHeight - 80) window.scrollBy({ top: top - innerHeight / 2 });
}

function zoom(node) {
  zoomed = node;
  if (node !== ALL && focused === ALL) focused = node;
  showPath();
  showDetail();
  draw();
}

function showPath() {
  const path = element("path");
  path.replaceChildren();
  const stack = [];
  for (let node = zoomed; node !== ALL; node = parent[node]) stack.unshift(node);
  [ALL, ...(zoomed === ALL ? [] : stack)].forEach((node, at) => {
    const button = document.createElement("button");
    button.type = "button";
    button.textContent = node === ALL ? "all" : shortened(name(node));
    button.addEventListener("click", () => zoom(node));
    if (at > 0) path.append("›");
    path.append(button);
  });
}

function shortened(text) {
  return text.length > 40 ? `${text.slice(0, 39)}…` : text;
}

/** Returns a test for names: `/…/` is a regular expression, everything else text. */
function matcher(query) {
  if (query === "") return null;
  const expression = /^\/(.+)\/$/.exec(query);
  if (expression) {
    const compiled = new RegExp(expression[1], "i");
    return (text) => compiled.test(text);
  }
  const lower = query.toLowerCase();
  return (text) => text.toLowerCase().includes(lower);
}

function search() {
  const found = element("found");
  matches = new Set();
  matchingNodes = [];
  found.textContent = "";
  let test;
  try {
    test = matcher(element("query").value);
  } catch (error) {
    found.textContent = "not a regular expression";
  }
  if (test) {
    data.names.forEach(([text], number) => test(text) && matches.add(number));
    for (let node = 0; node < count; node++) {
      if (matches.has(nameOf[node])) matchingNodes.push(node);
    }
    found.textContent = `${matchingNodes.length} frames, ${percent(matchedSamples(), total)}`;
  }
  draw();
}

/** Samples below any match, each once. */
function matchedSamples() {
  let [sum, end] = [0, -1];
  for (const node of matchingNodes) {
    if (start[node] < end) continue;
    sum += samples[node];
    end = start[node] + samples[node];
  }
  return sum;
}

function nextMatch(step) {
  if (matchingNodes.length === 0) return;
  const at = matchingNodes.findIndex((node) => node >= focused);
  const isOn = at >= 0 && matchingNodes[at] === focused;
  let next = at < 0 ? 0 : isOn || step < 0 ? at + step : at;
  next = (next + matchingNodes.length) % matchingNodes.length;
  const node = matchingNodes[next];
  if (!isShown(node)) zoom(ALL);
  focusOn(node);
}

function children(node) {
  const found = [];
  for (let at = node + 1; at < count && (node === ALL || depth[at] > depth[node]); at++) {
    if (parent[at] === node) found.push(at);
  }
  return found;
}

function moveTo(key) {
  if (focused === ALL || !isShown(focused)) {
    return focusOn(zoomed === ALL ? (children(ALL)[0] ?? ALL) : zoomed);
  }
  const deeper = rootAtTop ? "ArrowDown" : "ArrowUp";
  if (key === deeper) {
    const within = children(focused);
    const widest = within.reduce((a, b) => (samples[b] > samples[a] ? b : a), within[0]);
    return widest === undefined ? undefined : focusOn(widest);
  }
  if (key === "ArrowUp" || key === "ArrowDown") {
    return parent[focused] === ALL ? undefined : focusOn(parent[focused]);
  }
  const level = [];
  for (let node = 0; node < count; node++) {
    if (depth[node] === depth[focused] && isShown(node)) level.push(node);
  }
  const next = level[level.indexOf(focused) + (key === "ArrowRight" ? 1 : -1)];
  if (next !== undefined) focusOn(next);
}

/** The samples of each function: self, and with what it calls, counted once per stack. */
function functions() {
  const rowsOf = data.names.map(([text], number) => ({ text, number, self: 0, total: 0 }));
  const ends = new Float64Array(data.names.length).fill(-1);
  for (let node = 0; node < count; node++) {
    const of = rowsOf[nameOf[node]];
    of.self += self[node];
    if (start[node] >= ends[of.number]) {
      of.total += samples[node];
      ends[of.number] = start[node] + samples[node];
    }
  }
  return rowsOf;
}

function showFunctions(by) {
  const hottest = functions().filter((of) => of[by] > 0);
  hottest.sort((a, b) => b[by] - a[by]);
  const body = element("functions");
  body.replaceChildren();
  for (const of of hottest.slice(0, FUNCTIONS_SHOWN)) {
    const row = body.insertRow();
    row.insertCell().textContent = percent(of.self, total);
    row.insertCell().textContent = percent(of.total, total);
    const button = document.createElement("button");
    button.type = "button";
    button.textContent = of.text;
    button.addEventListener("click", () => {
      element("query").value = `/^${of.text.replace(/[.*+?^${}()|[\]\\]/g, "\\$&")}$/`;
      search();
      focusOn(ALL);
      nextMatch(1);
    });
    const cell = row.insertCell();
    cell.className = "name";
    cell.append(button);
  }
  for (const button of document.querySelectorAll("[data-sort]")) {
    button.setAttribute("aria-pressed", String(button.dataset.sort === by));
  }
}

function showLegend() {
  const legend = element("legend");
  legend.replaceChildren();
  const palette = isDark.matches ? COLORS.dark : COLORS.light;
  const used = new Set(data.names.map(([, of]) => of));
  const entries = data.compares
    ? [["a larger share than before", changeColor(0.1)], ["a smaller share", changeColor(-0.1)]]
    : [...used].sort().map((of) => [data.kinds[of], palette[of]]);
  for (const [text, fill] of entries) {
    const item = document.createElement("li");
    const sample = document.createElement("span");
    sample.style.background = fill;
    item.append(sample, text);
    legend.append(item);
  }
}

function onKey(event) {
  const isTyping = event.target === element("query");
  if (event.ctrlKey || event.metaKey || event.altKey) return;
  if (event.key === "Escape") {
    if (isTyping) canvas.focus();
    else zoom(zoomed === ALL ? ALL : parent[zoomed]);
  } else if (isTyping) {
    if (event.key !== "Enter") return;
    nextMatch(event.shiftKey ? -1 : 1);
  } else if (event.key === "/") {
    element("query").focus();
    element("query").select();
  } else if (event.key === "n" || event.key === "N") {
    nextMatch(event.key === "n" ? 1 : -1);
  } else if (document.activeElement === canvas && event.key.startsWith("Arrow")) {
    moveTo(event.key);
  } else if (document.activeElement === canvas && event.key === "Enter" && focused !== ALL) {
    zoom(focused);
  } else {
    return;
  }
  event.preventDefault();
}

element("title").textContent = data.title;
element("about").textContent = data.about.join(" · ");
document.title = `Flame graph: ${data.title}`;
element("search").addEventListener("submit", (event) => event.preventDefault());
element("query").addEventListener("input", search);
element("reset").addEventListener("click", () => zoom(ALL));
element("flip").addEventListener("click", () => {
  rootAtTop = !rootAtTop;
  draw();
});
canvas.addEventListener("mousemove", (event) => {
  const node = nodeAt(event);
  if (node === hovered) return;
  hovered = node;
  canvas.title = node === ALL ? "" : name(node);
  showDetail();
  draw();
});
canvas.addEventListener("mouseleave", () => {
  hovered = ALL;
  showDetail();
  draw();
});
canvas.addEventListener("click", (event) => {
  const node = nodeAt(event);
  if (node === ALL) return;
  focused = node;
  zoom(node);
});
for (const button of document.querySelectorAll("[data-sort]")) {
  button.addEventListener("click", () => showFunctions(button.dataset.sort));
}
document.addEventListener("keydown", onKey);
window.addEventListener("resize", draw);
isDark.addEventListener("change", () => {
  showLegend();
  draw();
});
showLegend();
showPath();
showFunctions("self");
draw();

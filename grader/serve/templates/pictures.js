"use strict";
// Pictures as SVG: drawn as wide as their place, so that their text is as large as the page's.

const HUES = 5, DASHES = ["", "7 4", "2 3", "10 3 2 3"];
const shortNumber = (n) => n >= 1e6 ? `${+(n / 1e6).toPrecision(3)}M`
  : n >= 1e3 ? `${+(n / 1e3).toPrecision(3)}k` : `${+n.toPrecision(3)}`;
const money = (usd) => usd >= 1e4 ? Math.round(usd).toLocaleString("en")
  : usd >= 0.1 ? usd.toFixed(2) : `${+usd.toPrecision(2)}`;

function make(name, attributes = {}, ...children) {
  const found = ["svg", "path", "text", "rect", "circle", "g"].includes(name)
    ? document.createElementNS("http://www.w3.org/2000/svg", name)
    : document.createElement(name);
  for (const [key, value] of Object.entries(attributes)) found.setAttribute(key, value);
  found.append(...children);
  return found;
}

// The ticks of a logarithmic axis that has room for a few: 1, 2, 5 times powers of ten, or fewer.
function ticks(low, high, most) {
  for (const steps of [[1, 2, 5], [1, 3], [1]]) {
    const found = [];
    for (let power = Math.floor(Math.log10(low)); power <= Math.log10(high); power++)
      for (const step of steps) found.push(step * 10 ** power);
    const inside = found.filter((t) => t >= low * 0.999 && t <= high * 1.001);
    if (inside.length <= most) return inside;
  }
  return [low, high];
}

// Names beside the ends of lines, moved apart so that none covers another.
function apart(wanted, height, gap = 16) {
  const order = wanted.map((y, i) => [y, i]).sort((a, b) => a[0] - b[0]);
  let last = -Infinity;
  for (const each of order) last = each[0] = Math.max(each[0], last + gap);
  let next = height + gap;
  for (const each of order.reverse()) next = each[0] = Math.min(each[0], next - gap);
  const found = [];
  for (const [y, i] of order) found[i] = y;
  return found;
}

// Draw lines on two logarithmic axes. lines: [{name, hue, dash, strong, points: [[x, y]]}];
// mark: {x, y, from, name}, a point that is circled; here: an x that is told.
function chart(place, {lines, xTitle, yTitle, xName, yName, mark, here, label, dots}) {
  const all = lines.flatMap((line) => line.points).concat(mark ? [[mark.x, mark.y]] : []);
  place.replaceChildren();
  if (!all.length) return;
  const width = Math.max(280, place.clientWidth), height = 340;
  const longest = Math.max(...lines.map((line) => line.name.length));
  const right = Math.min(width * 0.34, 16 + 7.4 * longest), left = 46, top = 26, bottom = 44;
  const w = width - left - right, h = height - top - bottom;
  const xs = all.map((p) => p[0]).concat(here || []), ys = all.map((p) => p[1]);
  const span = (values) => {
    const low = Math.min(...values), high = Math.max(...values);
    return high / low > 1.6 ? [low, high] : [low / 1.3, high * 1.3];
  };
  const [xLow, xHigh] = span(xs).map((v, i) => i ? v * 1.06 : v), [yLow, yHigh] = span(ys).map((y, i) => i ? y * 1.08 : y / (mark ? 1.3 : 1.08));
  const x = (v) => left + w * Math.log(v / xLow) / Math.log(xHigh / xLow);
  const y = (v) => top + h - h * Math.log(v / yLow) / Math.log(yHigh / yLow);
  const svg = make("svg", {viewBox: `0 0 ${width} ${height}`, role: "img", "aria-label": label});
  for (const t of ticks(yLow, yHigh, 7)) {
    svg.append(make("path", {class: "rule", d: `M${left} ${y(t)}H${left + w}`}));
    svg.append(make("text", {x: left - 8, y: y(t) + 4, "text-anchor": "end"}, yName(t)));
  }
  for (const t of ticks(xLow, xHigh, Math.max(3, Math.floor(w / 52)))) {
    svg.append(make("path", {class: "rule axis", d: `M${x(t)} ${top + h}v5`}));
    svg.append(make("text", {x: x(t), y: top + h + 19, "text-anchor": "middle"}, xName(t)));
  }
  svg.append(make("path", {class: "rule axis", d: `M${left} ${top + h}H${left + w}`}));
  svg.append(make("text", {x: left + w / 2, y: height - 6, "text-anchor": "middle"}, xTitle));
  svg.append(make("text", {x: 4, y: 12}, yTitle));
  if (here) {
    const side = x(here) > left + w * 0.7 ? "end" : "start";
    svg.append(make("path", {class: "here", d: `M${x(here)} ${top}V${top + h}`}));
    svg.append(make("text", {class: "told", x: x(here) + (side === "end" ? -6 : 6), y: top + 10,
      "text-anchor": side}, `${xName(here)} now`));
  }
  const drawn = lines.filter((line) => line.points.length);
  for (const {points, hue, dash, strong} of [...drawn].sort((a, b) => a.strong - b.strong)) {
    const g = make("g", {class: strong ? `s${hue} strong` : `s${hue}`});
    const d = points.map(([px, py], i) => `${i ? "L" : "M"}${x(px).toFixed(1)} ${y(py).toFixed(1)}`);
    g.append(make("path", {class: "line", d: d.join(""), "stroke-dasharray": dash}));
    for (const [px, py] of dots ? points : points.slice(-1))
      g.append(make("circle", {class: "dot", cx: x(px), cy: y(py), r: 3.5}));
    svg.append(g);
  }
  const at = apart(drawn.map((line) => y(line.points.at(-1)[1])), top + h);
  drawn.forEach((line, i) => {
    const [endX, endY] = [x(line.points.at(-1)[0]), y(line.points.at(-1)[1])];
    const g = make("g", {class: `s${line.hue}`});
    if (left + w - endX > 24 || Math.abs(at[i] - endY) > 6)
      g.append(make("path", {class: "leader", d: `M${endX + 6} ${endY}L${left + w + 4} ${at[i]}`}));
    g.append(make("text", {class: "name", x: left + w + 8, y: at[i] + 4}, line.name));
    svg.append(g);
  });
  if (mark) {
    if (mark.from) svg.append(make("path", {class: "gap", d: `M${x(mark.x)} ${y(mark.from)}V${y(mark.y)}`}));
    svg.append(make("circle", {class: "chosen", cx: x(mark.x), cy: y(mark.y), r: 6}));
    // Lines fall from left to right: there is room above on the right, and below on the left.
    const [side, right, down] = x(mark.x) > left + w / 2 ? ["end", -10, 18] : ["start", 11, -9];
    svg.append(make("text", {class: "told", x: x(mark.x) + right, y: y(mark.y) + down,
      "text-anchor": side}, mark.name));
  }
  place.append(svg);
}

// One GPU's memory as a bar: weights, the caches of its requests, what is free, what is kept back.
function memoryBar(place, gpu, requests) {
  place.replaceChildren();
  if (!gpu) return;
  const width = Math.max(280, place.clientWidth), total = gpu.gpu_memory_gb, tall = 30;
  const cache = requests * gpu.cache_gb_per_request;
  const free = Math.max(0, gpu.usable_gb - gpu.weights_gb - cache);
  const parts = [["weights", "weights", gpu.weights_gb],
    ["cache", `${requests.toLocaleString("en")} caches of ${shortNumber(gpu.cache_gb_per_request)} GB`, cache],
    ["free", "free", free], ["kept", "kept for the engine (8 %)", total - gpu.usable_gb]];
  const told = parts.map(([, name, gb]) => `${name}: ${gb.toFixed(1)} GB`);
  const scale = width / Math.max(total, gpu.weights_gb + cache + total - gpu.usable_gb);
  const svg = make("svg", {viewBox: `0 0 ${width} ${tall}`, role: "img",
    "aria-label": `Memory of one ${gpu.gpu}, ${total} GB: ${told.join(", ")}`});
  let from = 0;
  for (const [kind, , gb] of parts) {
    svg.append(make("rect", {class: kind, x: from, y: 0, width: Math.max(0, gb * scale), height: tall}));
    if (kind === "cache" && requests <= 150)
      for (let i = 0; i < requests; i++)
        svg.append(make("path", {class: "cut", d: `M${from + i * gpu.cache_gb_per_request * scale} 0v${tall}`}));
    from += gb * scale;
  }
  const key = parts.map(([kind, , ], i) => make("li", {},
    make("svg", {viewBox: "0 0 10 10", "aria-hidden": "true"},
      make("rect", {class: kind, width: 10, height: 10, rx: 2})), told[i]));
  place.append(make("p", {class: "soft"}, `The memory of one ${gpu.gpu}, ${total} GB`), svg,
    make("ul", {class: "memory-key"}, ...key));
}

function table(place, caption, heads, rows) {
  const cell = (text, i) => make(i ? "td" : "th", i ? {class: "num"} : {scope: "row"}, text);
  place.replaceChildren(make("table", {class: "figures"}, make("caption", {}, caption),
    make("thead", {}, make("tr", {}, ...heads.map((text, i) =>
      make("th", i ? {scope: "col", class: "num"} : {scope: "col"}, text)))),
    make("tbody", {}, ...rows.map((row) => make("tr", {}, ...row.map(cell))))));
}

// The page: reads the form, asks the server, shows what it says. It plans nothing itself.

const byId = (id) => document.getElementById(id);
const catalog = JSON.parse(byId("catalog").textContent);
const SHAPE = ["n_layers", "hidden_size", "n_heads", "n_kv_heads", "head_dim",
  "intermediate_size", "params_b"];
const FIELDS = ["weight_bits", "kv_bits", "prompt_tokens", "output_tokens",
  "requests_per_second", "max_step_ms"];
// The case of milestone 7's notebook.
const START = {weight_bits: 8, kv_bits: 16, prompt_tokens: 5500, output_tokens: 500,
  requests_per_second: 24, max_step_ms: 50};
const FIRST_MODEL = "qwen2.5-32b", OWN = "own";
const SIZES = [[1, "below 1B"], [4, "1B to 4B"], [10, "4B to 10B"], [40, "10B to 40B"],
  [Infinity, "40B and more"]];
const LIMITS = {
  memory: "Memory limits it: one more request on each GPU would not fit.",
  latency: (ms) => `Latency limits it: one more request on each GPU would make a token take longer than ${ms} ms.`,
  load: "The load limits it: nothing stops one more request on each GPU, there is nobody to serve.",
};
const TRIES = 6, WAIT_MS = 300;
const whole = (n) => Math.round(n).toLocaleString("en");
const number = (input) => input.value.trim() === "" ? null : Number(input.value);
let shown = {}, asking = new AbortController(), timer;

// ------------------------------------------------------------ the form

function fillForm() {
  const select = byId("model");
  select.append(make("option", {value: OWN}, "a shape of your own"));
  for (const [below, name] of SIZES) {
    const above = SIZES[SIZES.findIndex(([b]) => b === below) - 1]?.[0] ?? 0;
    const models = catalog.models.filter((m) => m.shape.params_b >= above && m.shape.params_b < below);
    select.append(make("optgroup", {label: name}, ...models.map((m) =>
      make("option", {value: m.name}, `${m.name} (${sized(m.shape.params_b)}, ${m.attention})`))));
  }
  select.value = catalog.models.some((m) => m.name === FIRST_MODEL) ? FIRST_MODEL : OWN;
  takeShape();
  for (const field of FIELDS) byId(`f-${field}`).value = START[field];
  catalog.gpus.forEach((gpu, i) => {
    const about = `${gpu.gpu_memory_gb} GB, ${gpu.gpu_bandwidth_gbps.toLocaleString("en")} GB/s`;
    const band = gpu.band ? `listed ${gpu.band.map((usd) => usd.toFixed(2)).join(" to ")}` : "no list price found";
    const tick = make("input", {type: "checkbox", id: `offer-${i}`});
    tick.checked = gpu.in_runs;
    const price = make("input", {type: "number", id: `price-${i}`, min: 0, step: "any",
      inputmode: "decimal", autocomplete: "off", "aria-label": `${gpu.gpu}: USD per hour`});
    price.value = gpu.usd_per_hour === null ? "" : gpu.usd_per_hour.toFixed(2);
    byId(gpu.in_runs ? "offers" : "more-offers").append(make("li", {},
      make("label", {for: `offer-${i}`}, tick, make("span", {}, gpu.gpu, make("small", {}, about), make("small", {}, band))), price));
  });
}

const sized = (params_b) => `${params_b < 1 ? params_b.toFixed(2) : params_b.toFixed(1)}B`;
const chosenModel = () => catalog.models.find((m) => m.name === byId("model").value);

function takeShape() {
  const model = chosenModel();
  byId("shape").open = !model;
  if (model) for (const key of SHAPE) byId(`f-model.${key}`).value = model.shape[key];
}

function noteModel() {
  const model = chosenModel(), tokens = number(byId("f-prompt_tokens")) + number(byId("f-output_tokens"));
  const told = [];
  if (model) told.push(`${model.shape.n_layers} layers, ${model.shape.n_heads} query and ${model.shape.n_kv_heads} KV heads of ${model.shape.head_dim}.`);
  if (model?.slides) told.push("Some of its layers keep a window only; here each keeps everything.");
  if (model && tokens > model.longest) told.push(`Its config allows ${whole(model.longest)} tokens; these are ${whole(tokens)}.`);
  byId("model-note").textContent = told.join(" ");
}

const offered = () => catalog.gpus.map((gpu, i) => i).filter((i) => byId(`offer-${i}`).checked);

function readForm() {
  const values = (names, prefix) =>
    Object.fromEntries(names.map((name) => [name, number(byId(`${prefix}${name}`))]));
  const gpus = offered().map((i) => {
    const {gpu, gpu_memory_gb, gpu_bandwidth_gbps, gpu_tflops} = catalog.gpus[i];
    return {gpu, gpu_memory_gb, gpu_bandwidth_gbps, gpu_tflops, usd_per_hour: number(byId(`price-${i}`))};
  });
  return {model: values(SHAPE, "f-model."), ...values(FIELDS, "f-"), gpus};
}

// ------------------------------------------------------------ asking

async function post(path, body, signal) {
  for (let tried = 1; ; tried++) {
    const reply = await fetch(path, {method: "POST", signal, body: JSON.stringify(body),
      headers: {"Content-Type": "application/json"}});
    const wait = reply.headers.get("Retry-After");
    const told = await reply.json();
    if (reply.status !== 503 || wait === null || tried === TRIES) return {status: reply.status, told};
    await new Promise((done) => setTimeout(done, 1000 * Number(wait)));
    signal.throwIfAborted();
  }
}

async function plan(byHand) {
  clearTimeout(timer);
  asking.abort();
  const mine = asking = new AbortController();
  const workload = readForm();
  noteModel();
  byId("answer").setAttribute("aria-busy", "true");
  try {
    const [planned, memory] = await Promise.all(
      ["/plan", "/memory"].map((path) => post(path, workload, mine.signal)));
    clearTroubles();
    if (planned.status === 422) return refuse(planned.told.detail, byHand);
    shown = {workload, plan: null, curves: [], memory: memory.told};
    if (planned.status === 200) shown.plan = planned.told;
    else trouble(planned.told);
    showPlan();
    drawAll();
    if (planned.status !== 200) return;
    byId("cost-note").textContent = "Asking the planner about other promises ...";
    await Promise.all(workload.gpus.map(async (gpu) => {
      const {status, told} = await post("/curve", {...workload, gpus: [gpu]}, mine.signal);
      if (status === 200) shown.curves.push(told[0]);
      drawCost(shown.curves.length < workload.gpus.length);
    }));
    drawCost(false);
  } catch (error) {
    if (mine.signal.aborted) return;
    clearTroubles();
    trouble({detail: `The server does not answer (${error.message}). Is \`grader serve\` still running?`});
    shown = {};
    showPlan();
    drawAll();
  } finally {
    if (mine === asking) byId("answer").setAttribute("aria-busy", "false");
  }
}

// ------------------------------------------------------------ what went wrong

function clearTroubles() {
  byId("trouble").hidden = true;
  byId("trouble").replaceChildren();
  for (const told of document.querySelectorAll(".wrong")) told.remove();
  for (const input of document.querySelectorAll("[aria-invalid]")) {
    input.removeAttribute("aria-invalid");
    input.removeAttribute("aria-describedby");
  }
}

// What a screen reader hears, and, where the plan is below the form, what a phone shows of it.
function say(text, short) {
  byId("said").textContent = text;
  byId("peek").replaceChildren(short, make("span", {}, "See the plan"));
}

function trouble(told) {
  const box = byId("trouble");
  box.className = "notice failed";
  box.replaceChildren(make("p", {}, ...ticked(told.detail)));
  box.hidden = false;
  say(told.detail, "No plan");
}

// Text between backticks is code.
function ticked(text) {
  return text.split("`").map((part, i) => i % 2 ? make("code", {}, part) : part);
}

function refuse(reasons, byHand) {
  const links = reasons.map((reason, i) => {
    const input = inputOf(reason.field);
    const came = reason.got === "null" ? "it is empty" : `got ${reason.got}`;
    const text = reason.expected ? `${came}, expected ${reason.expected}` : reason.msg;
    const name = labelOf(input) || reason.field;
    if (!input) return make("li", {}, `${name} ${text}`);
    const id = `wrong-${i}`;
    const told = make("p", {class: "wrong", id}, text);
    if (input.closest("li")) input.closest("li").append(told);
    else input.closest(".field") ? input.after(told) : input.append(told);
    input.setAttribute("aria-invalid", "true");
    input.setAttribute("aria-describedby", id);
    const details = input.closest("details");
    if (details) details.open = true;
    const link = make("a", {href: `#${input.id}`}, name);
    link.addEventListener("click", (event) => { event.preventDefault(); input.focus(); });
    return make("li", {}, link, `: ${text}`);
  });
  const box = byId("trouble");
  box.className = "notice failed";
  box.replaceChildren(make("p", {}, "This is no workload yet:"), make("ul", {}, ...links));
  box.hidden = false;
  shown = {};
  showPlan();
  drawAll();
  say(`No plan: ${reasons.length} ${reasons.length === 1 ? "field is" : "fields are"} wrong. ${box.textContent}`, "No plan: look at the fields");
  if (byHand) document.querySelector("[aria-invalid]")?.focus();
}

function inputOf(field) {
  const price = /^gpus\[(\d+)\]/.exec(field);
  return price ? byId(`price-${offered()[Number(price[1])]}`) : byId(`f-${field}`);
}

function labelOf(input) {
  if (!input) return "";
  return input.getAttribute("aria-label") ?? (input.labels?.[0] ?? input.querySelector("legend")).textContent.trim();
}

// ------------------------------------------------------------ what is shown

function showPlan() {
  const {plan: found, workload, memory} = shown;
  const fleet = byId("fleet"), tiles = byId("tiles"), limit = byId("limit");
  tiles.replaceChildren();
  limit.replaceChildren();
  byId("holds").hidden = !found?.gpu;
  byId("results").classList.toggle("unasked", !workload);
  byId("curl").textContent = workload ? asCommand(workload) : "";
  if (!found) {
    fleet.textContent = "No plan";
    return;
  }
  if (found.gpu === null) {
    fleet.textContent = "Nothing on offer holds";
    limit.textContent = found.reason;
    say(`Nothing on offer holds: ${found.reason}`, "Nothing holds");
    return;
  }
  fleet.textContent = `${whole(found.n_gpus)} × ${found.gpu}`;
  const tile = (name, value, small) => tiles.append(make("div", {}, make("dt", {}, name),
    make("dd", {}, value, make("small", {}, ` ${small}`))));
  tile("a million tokens", money(found.usd_per_million_tokens), "USD");
  tile("the fleet, an hour", money(found.fleet_usd_per_hour), "USD");
  tile("requests on each GPU", whole(found.requests_per_gpu), "");
  tile("a token every", found.decode_step_ms.toPrecision(3), `of ${workload.max_step_ms} ms`);
  const why = LIMITS[found.limited_by];
  limit.textContent = typeof why === "function" ? why(workload.max_step_ms) : why;
  say(`${whole(found.n_gpus)} ${found.gpu}, ${money(found.usd_per_million_tokens)} dollars for a million tokens. ${limit.textContent}`,
    `${fleet.textContent}, ${money(found.usd_per_million_tokens)} USD/M tokens`);
  showSums(found, workload, memory);
}

// The plan's own figures against each other and against memory; the step itself nobody here knows.
function showSums(found, workload, memory) {
  const on = memory.gpus.find((gpu) => gpu.gpu === found.gpu);
  const price = workload.gpus.find((gpu) => gpu.gpu === found.gpu).usd_per_hour;
  const asked = workload.requests_per_second * workload.output_tokens;
  const made = found.n_gpus * found.requests_per_gpu * 1000 / found.decode_step_ms;
  const fleet = found.n_gpus * price, million = fleet / (asked * 3600 / 1e6);
  const near = (a, b) => Math.abs(a - b) <= 1e-6 * Math.abs(b);
  const sums = [
    [found.requests_per_gpu <= on.requests_that_fit, "Memory",
      `holds ${whole(on.requests_that_fit)} requests, planned are ${whole(found.requests_per_gpu)}`],
    [found.decode_step_ms <= workload.max_step_ms, "Latency",
      `a step of ${found.decode_step_ms.toPrecision(3)} ms, promised are ${workload.max_step_ms}`],
    [made >= asked * (1 - 1e-9), "Load", `${whole(made)} tokens/s at that step, needed are ${whole(asked)}`],
    [near(found.fleet_usd_per_hour, fleet) && near(found.usd_per_million_tokens, million), "Price",
      `${whole(found.n_gpus)} × ${money(price)} = ${money(fleet)} USD/h, ${money(million)} per million`],
  ];
  byId("sums").replaceChildren(...sums.map(([holds, name, text]) => make("li", holds ? {} : {class: "no"},
    make("span", {class: "sign", "aria-hidden": "true"}, holds ? "✓" : "✗"),
    make("strong", {}, `${name}${holds ? "" : " does not add up"}:`), ` ${text}`)));
}

function asCommand(workload) {
  const body = JSON.stringify(workload).replaceAll("'", "'\\''");
  return `curl -s ${location.origin}/plan -H 'Content-Type: application/json' -d '${body}'`;
}

function drawAll() {
  const {plan: found, memory} = shown;
  const on = found?.gpu ? memory.gpus.find((gpu) => gpu.gpu === found.gpu) : null;
  memoryBar(byId("memory-bar"), on, found?.requests_per_gpu);
  drawCost(false);
  drawFit();
}

const hueOf = (name) => {
  const i = shown.workload.gpus.findIndex((gpu) => gpu.gpu === name);
  return {hue: i % HUES, dash: DASHES[Math.floor(i / HUES) % DASHES.length],
    strong: name === shown.plan?.gpu};
};

function drawCost(more) {
  const {plan: found, workload, curves = []} = shown;
  const order = [...curves].sort((a, b) => hueOf(a.gpu).hue - hueOf(b.gpu).hue);
  const lines = order.filter((curve) => curve.points.length).map((curve) => ({name: curve.gpu,
    ...hueOf(curve.gpu), points: curve.points.map((p) => [p.requests_per_gpu, p.usd_per_million_tokens])}));
  // Nearly empty GPUs are so dear that they would press the rest together: they are in the figures.
  const ends = lines.map((line) => line.points.at(-1)[1]);
  const dear = Math.max(8 * Math.min(...ends), 1.2 * Math.max(...ends));
  for (const line of lines) line.points = line.points.filter(([, usd]) => usd <= dear);
  const own = curves.find((curve) => curve.gpu === found?.gpu);
  const mark = found?.gpu && lines.length ? {x: found.requests_per_gpu, y: found.usd_per_million_tokens,
    from: own && onCurve(own.points, found.requests_per_gpu), name: "the plan"} : null;
  const told = lines.map((line) => `${line.name} from ${money(line.points[0][1])} at ${line.points[0][0]} to ${money(line.points.at(-1)[1])} at ${line.points.at(-1)[0]}`);
  chart(byId("cost"), {lines, mark, dots: true, xTitle: "requests per GPU", yTitle: "USD per million tokens",
    xName: shortNumber, yName: money,
    label: `Cost of a million tokens in USD against requests per GPU: ${told.join("; ")}`});
  const missing = order.filter((curve) => curve.told).map((curve) => `${curve.gpu}: ${curve.told.replace(/\.?$/, ".")}`);
  const gap = mark ? " The plan lies above its line by what stands idle: GPUs come whole." : "";
  byId("cost-note").replaceChildren(...ticked(!workload ? "" : more ? "Asking the planner about other promises ..."
    : lines.length ? `Asked one GPU at a time under looser and tighter bounds, at 1,000 times the load.${gap} ${missing.join(" ")}`
    : missing.join(" ") || "Nothing to draw."));
  table(byId("cost-table"), "The planner's answers", ["GPU", "Requests per GPU", "USD per million", "Step, ms"],
    order.flatMap((curve) => curve.points.map((p) => [curve.gpu, whole(p.requests_per_gpu),
      money(p.usd_per_million_tokens), p.decode_step_ms.toPrecision(3)])));
}

// Where a curve passes between two of its points, on scales of ratios.
function onCurve(points, x) {
  const i = points.findIndex((p) => p.requests_per_gpu >= x);
  if (i < 0) return null;
  if (points[i].requests_per_gpu === x || i === 0) return points[i].usd_per_million_tokens;
  const [a, b] = [points[i - 1], points[i]];
  const t = Math.log(x / a.requests_per_gpu) / Math.log(b.requests_per_gpu / a.requests_per_gpu);
  return a.usd_per_million_tokens ** (1 - t) * b.usd_per_million_tokens ** t;
}

function drawFit() {
  const {plan: found, memory} = shown;
  const lines = (memory?.lines ?? []).filter((line) => line.context_len.length).map((line) => ({
    name: `${line.gpu_memory_gb} GB`,
    ...hueOf(line.gpus[0]), strong: line.gpus.includes(found?.gpu), points: line.context_len.map((tokens, i) => [tokens, line.requests_that_fit[i]])}));
  const on = found?.gpu ? memory.gpus.find((gpu) => gpu.gpu === found.gpu) : null;
  const told = (memory?.gpus ?? []).map((gpu) => `${gpu.gpu} ${gpu.requests_that_fit}`);
  const mark = on?.requests_that_fit ? {x: memory.context_len, y: found.requests_per_gpu, name: "the plan"} : null;
  chart(byId("fit"), {lines, mark, here: memory?.context_len, xTitle: "tokens of prompt and answer",
    yTitle: "requests per GPU", xName: shortNumber, yName: shortNumber,
    label: `Requests that fit on one GPU against context; at ${memory?.context_len} tokens: ${told.join(", ")}`});
  const same = (memory?.lines ?? []).filter((line) => line.gpus.length > 1).map((line) => `${line.gpus.join(" and ")} hold the same.`);
  byId("fit-note").textContent = !memory ? "" : lines.length
    ? `A token takes ${whole(memory.kv_bytes_per_token)} bytes of cache, the weights ${memory.gpus[0].weights_gb.toFixed(1)} GB, once. ${same.join(" ")}`
    : `The weights, ${memory.gpus[0].weights_gb.toFixed(1)} GB, leave room for no request on any GPU on offer.`;
  table(byId("fit-table"), "By memory alone", ["GPU", `Requests of ${whole(memory?.context_len ?? 0)} tokens`, "Longest single request, tokens"],
    (memory?.gpus ?? []).map((gpu) => [gpu.gpu, whole(gpu.requests_that_fit), whole(gpu.max_context_len)]));
}

// ------------------------------------------------------------ go

fillForm();
byId("workload").addEventListener("submit", (event) => { event.preventDefault(); plan(true); });
byId("workload").addEventListener("change", (event) => {
  if (event.target.id === "model") takeShape();
  else if (event.target.id.startsWith("f-model.")) byId("model").value = OWN;
  clearTimeout(timer);
  timer = setTimeout(() => plan(false), WAIT_MS);
});
new IntersectionObserver(([each]) => byId("peek").classList.toggle("seen", each.isIntersecting))
  .observe(byId("tiles"));
let width = innerWidth;
addEventListener("resize", () => {
  if (width !== innerWidth) { width = innerWidth; drawAll(); }
});
plan(false);

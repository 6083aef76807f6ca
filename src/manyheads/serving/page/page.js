"use strict";
// The try-it page. It has three modes (one input, many lines, similarity) and speaks to the API of the server it came from.
// What comes from a user or the server only ever becomes text nodes and attribute values, never markup.

const CHUNK_INPUTS = 100; // per request in the mode "many", where the server takes so many
const CHUNK_BYTES = 200_000; // long texts go in smaller chunks, so that no request becomes huge
const MOST_ROWS = 10_000;
const MOST_MEGABYTES = 10;
const TABLE_ROWS = 500; // a page with more becomes slow on a phone; the csv has all of them
const BARS = 8;
const KEY_NAME = "manyheads-api-key";

const state = {
  models: [],
  limits: { inputs: CHUNK_INPUTS, body_bytes: CHUNK_BYTES }, // of a request, as the server says
  key: storedKey(),
  lastRequest: null, // {path, body}
  csv: null, // the rows of the chosen csv file: {number, cells}
  many: null, // what the table shows: {model, noun, inputs, leftOut, pairs, tasks, rows}
  running: {}, // per form the AbortController of what it is doing
  afterKey: null, // what a 401 interrupted
};

const byId = (id) => document.getElementById(id);

function element(tag, attributes = {}, ...children) {
  const made = document.createElement(tag);
  for (const [name, value] of Object.entries(attributes)) made.setAttribute(name, value);
  made.append(...children); // strings become text nodes
  return made;
}

// ---- numbers and words

function percent(probability) {
  if (probability > 0 && probability < 0.001) return "< 0.1 %";
  if (probability < 1 && probability > 0.999) return "> 99.9 %";
  return `${(100 * probability).toFixed(1)} %`;
}

function shortNumber(value) {
  return Math.abs(value) >= 1000 ? value.toFixed(1) : String(Number(value.toPrecision(4)));
}

const signed = (weight) => (weight < 0 ? "−" : "+") + shortNumber(Math.abs(weight));
const counted = (number, noun) => `${number.toLocaleString("en")} ${noun}${number === 1 ? "" : "s"}`;
const milliseconds = (value) => `${value < 10 ? value.toFixed(1) : Math.round(value).toLocaleString("en")} ms`;

function latency(tokens, here, server) {
  const said = `${counted(tokens, "token")}. ${milliseconds(here)} measured here`;
  if (!server) return `${said}.`;
  return `${said}; on the server ${milliseconds(server.queue)} in the queue, ${milliseconds(server.encoder)} in the encoder.`;
}

// ---- the API

class ApiError extends Error {
  constructor(status, message, retryAfter) {
    super(message);
    this.status = status;
    this.retryAfter = retryAfter;
  }
}

async function callApi(path, body, signal) {
  const headers = {};
  if (state.key) headers.Authorization = `Bearer ${state.key}`;
  if (body) {
    headers["Content-Type"] = "application/json";
    rememberRequest(path, body);
  }
  const began = performance.now();
  const options = { method: body ? "POST" : "GET", headers, body: body && JSON.stringify(body), signal, cache: "no-store" };
  let response, answer;
  try {
    response = await fetch(path, options);
    answer = JSON.parse((await response.text()) || "null");
  } catch (error) {
    if (error.name === "AbortError") throw error;
    if (!response) throw new ApiError(0, "The server cannot be reached.");
    if (response.ok && body) throw new ApiError(response.status, "The server's answer is not JSON.");
  }
  if (!response.ok) {
    const message = answer?.error?.message ?? `The server answered with status ${response.status}.`;
    throw new ApiError(response.status, message, Number(response.headers.get("Retry-After")));
  }
  return { answer, here: performance.now() - began };
}

function pause(seconds, signal) {
  return new Promise((resolve, reject) => {
    const timer = setTimeout(resolve, 1000 * seconds);
    signal?.addEventListener("abort", () => (clearTimeout(timer), reject(signal.reason)), { once: true });
  });
}

/** Run what a form asks for: what it was doing before is given up, and an error is shown. */
async function perform(form, action) {
  state.running[form]?.abort();
  const controller = new AbortController();
  state.running[form] = controller;
  showAlert("");
  try {
    await action(controller.signal);
  } catch (error) {
    if (error.name !== "AbortError") showError(error, () => perform(form, action));
  }
  if (state.running[form] === controller) state.running[form] = null;
}

function showAlert(sentence) {
  byId("alert").textContent = sentence;
  if (sentence) byId("alert").scrollIntoView({ block: "nearest" });
}

function showError(error, again) {
  showAlert(error.message);
  if (error.status !== 401) return;
  state.afterKey = again;
  byId("status").textContent = "";
  byId("key-form").hidden = false;
  byId("key").focus();
}

// ---- the key: in memory and, until the tab is closed, in sessionStorage, which a browser may refuse

function storedKey() {
  try {
    return sessionStorage.getItem(KEY_NAME) ?? "";
  } catch {
    return "";
  }
}

function useKey(event) {
  event.preventDefault();
  const key = byId("key").value.trim();
  if (/[^\x21-\x7e]/.test(key)) return showAlert("A key has no spaces and only ASCII characters."); // no header may have others
  state.key = key;
  try {
    sessionStorage.setItem(KEY_NAME, key);
  } catch {
    // it stays in memory
  }
  byId("key-form").hidden = true;
  byId("key").value = "";
  state.afterKey?.();
}

// ---- start and choice of the model

async function start(signal) {
  await untilReady(signal);
  const { answer } = await callApi("v1/models", null, signal);
  state.models = (answer?.data ?? []).filter((model) => model.tasks); // one that could not be loaded has none
  if (!state.models.length) throw new Error("The server has no model.");
  state.limits = answer.limits;
  byId("many-limit").textContent =
    `At most ${MOST_ROWS.toLocaleString("en")} inputs and ${MOST_MEGABYTES} MB at a time, sent ${chunkInputs()} at once.`;
  byId("model").replaceChildren(...state.models.map((model) => element("option", { value: model.id }, model.id)));
  byId("model-choice").hidden = state.models.length < 2;
  byId("status").textContent = "";
  byId("app").hidden = false;
  showModel();
  showMode(); // after a reload a browser may have kept another choice than the first
}

async function untilReady(signal) {
  for (;;) {
    try {
      return await callApi("v2/health/ready", null, signal);
    } catch (error) {
      if (error.status !== 503 && error.status !== 0) throw error;
      // written only when it is new: a screen reader would say it every second
      if (byId("status").textContent !== error.message) byId("status").textContent = error.message;
      await pause(1, signal);
    }
  }
}

const currentModel = () => state.models[byId("model").selectedIndex] ?? state.models[0];
const tasksTaking = (model, texts) => model.tasks.filter((task) => task.texts === texts);
const asTexts = (input) => (Array.isArray(input) ? input : [input]);

function showModel() {
  const model = currentModel();
  const several = model.tasks.length > 1;
  byId("about").textContent =
    `${model.id}: one encoder, ${counted(model.tasks.length, "task")}${several ? ", all answered at once" : ""}.` +
    (model.max_length ? ` It reads up to ${counted(model.max_length, "token")}.` : "");
  const singles = tasksTaking(model, 1).length > 0;
  const pairs = tasksTaking(model, 2).length > 0;
  byId("shape").hidden = !(singles && pairs);
  if (!(singles && pairs)) byId(pairs ? "shape-two" : "shape-one").checked = true;
  byId("explain-hint").textContent = model.explains === false ? "(this model's backend cannot say)" : "";
  showExamples("similarity-examples", examplesOf(model, 2), fillSimilarity);
  byId("result").replaceChildren();
  byId("similarity-result").hidden = true;
  showShape();
}

function examplesOf(model, texts) {
  return (model.examples ?? []).map((example) => asTexts(example.inputs)).filter((example) => example.length === texts);
}

function showExamples(id, examples, fill) {
  const buttons = examples.map((texts) => {
    const shown = texts.map((text) => (text.length > 44 ? `${Array.from(text).slice(0, 40).join("")}…` : text)).join(" | ");
    const button = element("button", { type: "button", title: texts.join("\n") }, shown);
    button.addEventListener("click", () => fill(texts));
    return button;
  });
  byId(id).replaceChildren(...(buttons.length ? [element("span", { class: "soft" }, "Examples:")] : []), ...buttons);
  byId(id).hidden = buttons.length === 0;
}

function fillOne([first, second]) {
  byId(second === undefined ? "shape-one" : "shape-two").checked = true;
  byId("text").value = first;
  byId("text2").value = second ?? "";
  showShape();
}

function fillSimilarity([first, second]) {
  byId("similarity-text").value = first;
  byId("similarity-text2").value = second;
}

const textsWanted = () => (byId("shape-two").checked ? 2 : 1);

function showShape() {
  const texts = textsWanted();
  const names = tasksTaking(currentModel(), texts).map((task) => task.name);
  byId("second-box").hidden = texts === 1;
  byId("text-label").textContent = texts === 1 ? "Text" : "First text";
  byId("shape-hint").textContent = names.length ? `For: ${names.join(", ")}` : "";
  showExamples("examples", examplesOf(currentModel(), texts), fillOne);
}

function showMode() {
  for (const mode of ["one", "many", "similarity"]) byId(`panel-${mode}`).hidden = !byId(`mode-${mode}`).checked;
}

// ---- one input

async function predictOne(signal) {
  const model = currentModel();
  const texts = [byId("text").value, byId("text2").value].slice(0, textsWanted());
  refuseEmpty(texts);
  const body = { inputs: texts.length === 1 ? texts[0] : [texts], model: model.id };
  if (byId("explain").checked) body.explain = true;
  const result = byId("result");
  result.classList.add("waiting");
  try {
    const { answer, here } = await callApi("v1/predict", body, signal);
    const prediction = answer.predictions?.[0] ?? {};
    if (prediction.error) throw new Error(prediction.error.message);
    result.replaceChildren(...resultParts(model, prediction, texts, body.explain));
    result.append(element("p", { class: "latency" }, latency(prediction.tokens ?? 0, here, answer.milliseconds)));
    byId("announcement").textContent = Object.entries(prediction.tasks ?? {})
      .map(([name, given]) => `${name}: ${headline(given)}.`)
      .join(" ");
  } catch (error) {
    if (error.name !== "AbortError") result.replaceChildren(); // old predictions are not those of the new text
    throw error;
  } finally {
    if (!signal.aborted) result.classList.remove("waiting");
  }
}

function refuseEmpty(texts) {
  if (texts.some((text) => !text.trim())) throw new Error(texts.length === 1 ? "Type a text first." : "Type both texts first.");
}

function resultParts(model, prediction, texts, explained) {
  const given = new Map(Object.entries(prediction.tasks ?? {}));
  const order = model.tasks.map((task) => task.name).filter((name) => given.has(name));
  const names = new Set([...order, ...given.keys()]);
  const cards = [...names].map((name) => card(taskNamed(model, name), given.get(name), texts, explained));
  const parts = [];
  if (prediction.truncated) {
    const limit = model.max_length ? ` of ${counted(model.max_length, "token")}` : "";
    parts.push(element("p", { class: "notice" }, `The input was truncated: it is longer than the model's limit${limit}.`));
  }
  if (explained) parts.push(legend());
  parts.push(cards.length ? element("div", { class: "cards" }, ...cards) : element("p", {}, "No task of this model takes such an input."));
  return parts;
}

const taskNamed = (model, name) => model.tasks.find((task) => task.name === name) ?? { name, kind: "" };

/** Of tagged words the spans, which the page draws into the text. */
const spansOf = (given) => given?.spans ?? (given?.tagged ? given.prediction : undefined);

/** What a card says in large letters. */
function headline(given) {
  const spans = spansOf(given);
  if (spans) return counted(spans.length, "span");
  const prediction = given.prediction;
  if (typeof prediction === "number") return shortNumber(prediction);
  if (Array.isArray(prediction) && given.probabilities) return prediction.join(", ") || "no label";
  return typeof prediction === "string" ? prediction : JSON.stringify(prediction ?? given);
}

function probabilityOf(given) {
  const own = given.probabilities && Object.hasOwn(given.probabilities, given.prediction);
  return own ? given.probabilities[given.prediction] : null;
}

function card(task, given, texts, explained) {
  const made = element("article", { class: "card", "data-task": task.name });
  const probability = probabilityOf(given);
  const spans = spansOf(given);
  const known = spans || given.probabilities || typeof given.prediction === "number" || typeof given.prediction === "string";
  const line = element("p", { class: "headline" }, element("span", { class: known ? "prediction" : "prediction raw" }, headline(given)));
  if (probability !== null) line.append(element("span", { class: "soft" }, percent(probability)));
  made.append(element("h2", {}, task.name, element("span", {}, task.kind)), line);
  if (spans) texts.forEach((text, side) => made.append(markedText(text, ofSide(spans, side), tag)));
  else if (given.probabilities) made.append(...bars(task, given));
  else if (typeof given.prediction === "number" && task.range) made.append(scale(given.prediction, ...task.range));
  if (explained) made.append(...explanation(given, texts));
  return made;
}

function bars(task, given) {
  const chosen = asTexts(given.prediction).map(String);
  const rows = Object.entries(given.probabilities);
  if (task.kind === "ordinal") {
    const labels = (task.labels ?? []).map(String);
    return [barList(rows.sort(([a], [b]) => labels.indexOf(a) - labels.indexOf(b)), chosen)];
  }
  rows.sort(([, a], [, b]) => b - a);
  const parts = [barList(rows.slice(0, BARS), chosen)];
  const others = rows.slice(BARS);
  if (others.length) parts.push(element("details", {}, element("summary", {}, counted(others.length, "other")), barList(others, chosen)));
  return parts;
}

function barList(rows, chosen) {
  const items = rows.map(([label, probability]) => {
    const isChosen = chosen.includes(label);
    const fill = element("span", { class: "fill" });
    fill.style.width = `${100 * Math.min(1, Math.max(0, probability))}%`;
    const name = element("span", { dir: "auto" }, label);
    if (isChosen) name.prepend(element("span", { role: "img", "aria-label": "predicted:" }, "✓ "));
    const track = element("span", { class: "track", "aria-hidden": "true" }, fill);
    return element("li", isChosen ? { class: "chosen" } : {}, name, track, element("span", { class: "number" }, percent(probability)));
  });
  return element("ul", { class: "bars" }, ...items);
}

function scale(value, low, high) {
  const share = high > low ? Math.min(1, Math.max(0, (value - low) / (high - low))) : 0.5;
  const marker = element("span");
  marker.style.left = `${100 * share}%`;
  const said = `${shortNumber(value)} on a scale from ${shortNumber(low)} to ${shortNumber(high)}`;
  const line = element("div", { class: "line", role: "img", "aria-label": said }, marker);
  return element("div", { class: "scale" }, element("span", {}, shortNumber(low)), line, element("span", {}, shortNumber(high)));
}

// ---- words that mattered, and tags

const ofSide = (spans, side) => spans.filter((span) => (span.side ?? 0) === side);

/** The text with `decorate(piece, span)` in place of each span. Offsets count code points, JavaScript counts UTF-16 units. */
function markedText(text, spans, decorate) {
  const points = Array.from(text);
  const paragraph = element("p", { class: "marked", dir: "auto" });
  let done = 0;
  for (const span of [...spans].sort((a, b) => a.start - b.start)) {
    if (span.start < done || span.end <= span.start) continue; // one inside another cannot be drawn in a line
    paragraph.append(points.slice(done, span.start).join(""), decorate(points.slice(span.start, span.end).join(""), span));
    done = span.end;
  }
  paragraph.append(points.slice(done).join(""));
  return paragraph;
}

function tag(piece, span) {
  return element("mark", { class: "tag" }, piece, element("small", {}, String(span.label)));
}

function legend() {
  return element("p", { class: "soft legend" }, "Words ", element("mark", { class: "for" }, "for"), " the prediction (+, solid line) and ",
    element("mark", { class: "against" }, "against"), " it (−, dashed line); a stronger colour is a larger weight. A number: + raised, − lowered it.");
}

function explanation(given, texts) {
  if (!given.words?.length) return [element("p", { class: "soft" }, "There are no weights of words for this task.")];
  const largest = Math.max(...given.words.map((word) => Math.abs(word.weight))) || 1;
  const shade = (piece, word) => {
    const strength = Math.abs(word.weight) / largest;
    if (strength < 0.05) return piece; // lines under everything would hide the words that matter
    const mark = element("mark", { class: word.weight < 0 ? "against" : "for", title: signed(word.weight) }, piece);
    mark.style.setProperty("--strength", strength);
    return mark;
  };
  const paragraphs = texts.map((text, side) => markedText(text, ofSide(given.words, side), shade));
  const strongest = [...given.words].sort((a, b) => Math.abs(b.weight) - Math.abs(a.weight)).slice(0, 5);
  const piece = (word) => Array.from(texts[word.side ?? 0] ?? "").slice(word.start, word.end).join("");
  const listed = strongest.map((word) => `${piece(word)} ${signed(word.weight)}`).join(", ");
  return [...paragraphs, element("p", { class: "soft" }, `Strongest: ${listed}`)];
}

// ---- many: where the inputs come from

/**
 * The rows of a csv text, each with its number, which counts empty lines as a spreadsheet does; those at both ends are left out.
 * Cells may be quoted; within quotes "" is a quote, and delimiters and line ends are text.
 */
function parseCsv(text, delimiter) {
  const rows = [];
  let cells = [];
  let cell = "";
  let quoted = false;
  const endRow = () => {
    cells.push(cell);
    rows.push({ number: rows.length + 1, cells });
    cells = [];
    cell = "";
  };
  for (let at = 0; at < text.length; at++) {
    const character = text[at];
    if (quoted && character === '"' && text[at + 1] === '"') {
      cell += '"';
      at++;
    } else if (character === '"' && (quoted || cell === "")) {
      quoted = !quoted;
    } else if (quoted) {
      cell += character;
    } else if (character === delimiter) {
      cells.push(cell);
      cell = "";
    } else if (character === "\n" && text[at - 1] === "\r") {
      continue; // the second half of \r\n
    } else if (character === "\n" || character === "\r") {
      endRow();
    } else {
      cell += character;
    }
  }
  if (quoted) throw new Error(`The csv has a quote that is never closed, in row ${rows.length + 1}.`);
  endRow();
  const filled = withoutEmptyEnd(rows, ({ cells }) => cells.length === 1 && cells[0] === "");
  return filled.slice(filled.findIndex(({ cells }) => cells.length > 1 || cells[0] !== ""));
}

function withoutEmptyEnd(rows, isEmpty) {
  let end = rows.length;
  while (end && isEmpty(rows[end - 1])) end--;
  return rows.slice(0, end);
}

/** Comma, semicolon or tab: whichever the first line has most of outside of quotes. */
function delimiterOf(text) {
  const first = text.split(/[\r\n]/, 1)[0].replace(/"[^"]*"/g, "");
  const count = (delimiter) => first.split(delimiter).length;
  return [",", ";", "\t"].reduce((best, other) => (count(other) > count(best) ? other : best));
}

async function readFile(file) {
  removeCsv(); // should this file be unreadable, nothing may look as if it had been read
  if (file.size > MOST_MEGABYTES * 1e6) throw new Error(`${file.name} has more than ${MOST_MEGABYTES} MB.`);
  const text = await file.text();
  if (text.includes("\ufffd")) throw new Error(`${file.name} is not UTF-8 text; save it as UTF-8.`);
  if (!/\.(csv|tsv)$/i.test(file.name)) {
    byId("lines").value = text;
    return;
  }
  const rows = parseCsv(text, delimiterOf(text));
  if (!rows.length) throw new Error(`${file.name} has no rows.`);
  state.csv = rows;
  byId("csv-name").textContent = `${file.name}: ${counted(rows.length, "row")}`;
  byId("csv-header").checked = true;
  byId("lines-box").hidden = byId("file-box").hidden = true;
  byId("columns").hidden = false;
  showColumns();
  byId("column1").focus(); // the button that had the focus is hidden now
}

function removeCsv() {
  state.csv = null;
  byId("file").value = "";
  byId("lines-box").hidden = byId("file-box").hidden = false;
  byId("columns").hidden = true;
}

function showColumns() {
  const named = byId("csv-header").checked;
  const names = state.csv[0].cells.map((cell, index) => (named && cell.trim() ? cell : `column ${index + 1}`));
  const options = () => names.map((name, index) => element("option", { value: index }, name));
  byId("column1").replaceChildren(...options());
  byId("column2").replaceChildren(element("option", { value: "" }, "none"), ...options());
  const [first, second] = guessColumns(names);
  byId("column1").value = first;
  byId("column2").value = second ?? "";
}

/** The columns that a task was trained on, if all of a task's are there; else the one with the longest cells. */
function guessColumns(names) {
  for (const task of currentModel().tasks) {
    const found = (task.columns ?? []).map((column) => names.indexOf(column));
    if (found.length && !found.includes(-1)) return found;
  }
  const length = (index) => state.csv.slice(1, 50).reduce((sum, { cells }) => sum + (cells[index] ?? "").length, 0);
  return [names.reduce((best, _, index) => (length(index) > length(best) ? index : best), 0)];
}

/** Inputs as the API takes them (a text, or two in a list), each with its row's or line's number. Those without a text are left out. */
function manyInputs() {
  const rows = state.csv ? csvInputs() : lineInputs();
  const filled = rows.filter(({ input }) => asTexts(input).every((text) => text.trim()));
  if (!filled.length) throw new Error("There are no texts yet: paste lines or choose a file.");
  if (filled.length > MOST_ROWS) throw new Error(`That is ${counted(filled.length, "input")}; this page takes ${MOST_ROWS.toLocaleString("en")} at a time.`);
  return { inputs: filled, leftOut: rows.length - filled.length };
}

function lineInputs() {
  const lines = byId("lines").value.split("\n").map((line, index) => ({ number: index + 1, input: lineInput(line) }));
  return withoutEmptyEnd(lines, ({ input }) => input === "");
}

function lineInput(line) {
  const tab = line.trim().includes("\t") ? line.indexOf("\t") : -1;
  return tab < 0 ? line : [line.slice(0, tab), line.slice(tab + 1)];
}

function csvInputs() {
  const first = Number(byId("column1").value);
  const second = byId("column2").value;
  const rows = byId("csv-header").checked ? state.csv.slice(1) : state.csv;
  return rows.map(({ number, cells }) => {
    const text = cells[first] ?? "";
    return { number, input: second === "" ? text : [text, cells[Number(second)] ?? ""] };
  });
}

// ---- many: sending and showing

const chunkInputs = () => Math.min(CHUNK_INPUTS, state.limits.inputs);
const bytesOf = (value) => new TextEncoder().encode(JSON.stringify(value)).length;

/** Rows that go in one request, within the server's limits; a row that is too large alone is sent alone. */
function* chunksOf(rows, model) {
  const mostBytes = Math.min(CHUNK_BYTES, state.limits.body_bytes - bytesOf(manyBody([], model)));
  let chunk = [];
  let bytes = 0;
  for (const row of rows) {
    const added = bytesOf(row.input) + 1; // and a comma
    if (chunk.length === chunkInputs() || (chunk.length && bytes + added > mostBytes)) {
      yield chunk;
      chunk = [];
      bytes = 0;
    }
    chunk.push(row);
    bytes += added;
  }
  if (chunk.length) yield chunk;
}

const manyBody = (rows, model) => ({ inputs: rows.map(({ input }) => input), model: model.id });

/** The server counts within a request; whoever reads its message knows rows and lines. */
function nameRow(error, chunk, noun) {
  const [prefix, position] = /^(?:inputs: )?input (\d+): /.exec(error.message) ?? ["", 0];
  const tooLargeAlone = error.status === 413 && chunk.length === 1;
  const row = tooLargeAlone ? chunk[0] : chunk[position - 1];
  if (row) error.message = `${noun === "row" ? "Row" : "Line"} ${row.number}: ${error.message.slice(prefix.length)}`;
}

/** As long as the server is too busy, wait as long as it says, then ask again. */
async function predictPatiently(body, signal) {
  for (;;) {
    try {
      return (await callApi("v1/predict", body, signal)).answer;
    } catch (error) {
      if (error.status !== 429) throw error;
      const seconds = Math.min(60, error.retryAfter || 1);
      byId("many-summary").textContent = `${error.message} Asking again in ${seconds} s.`;
      await pause(seconds, signal);
      byId("many-summary").textContent = "";
    }
  }
}

async function predictMany(signal) {
  const model = currentModel();
  const noun = state.csv ? "row" : "line";
  const { inputs, leftOut } = manyInputs();
  const shapes = new Set(inputs.map(({ input }) => asTexts(input).length));
  const tasks = model.tasks.filter((task) => shapes.has(task.texts));
  const many = { model, noun, inputs, leftOut, pairs: shapes.has(2), tasks, rows: [] };
  state.many = many;
  startTable(many);
  const sums = { tokens: 0, queue: 0, encoder: 0 };
  const began = performance.now();
  try {
    for (const chunk of chunksOf(inputs, model)) {
      const answer = await predictPatiently(manyBody(chunk, model), signal).catch((error) => {
        if (error instanceof ApiError) nameRow(error, chunk, noun);
        throw error;
      });
      addRows(many, chunk, answer.predictions);
      sums.tokens += answer.usage?.tokens ?? 0;
      sums.queue += answer.milliseconds?.queue ?? 0;
      sums.encoder += answer.milliseconds?.encoder ?? 0;
      byId("many-progress").value = many.rows.length;
    }
  } finally {
    if (state.many === many) endTable(many, latency(sums.tokens, performance.now() - began, sums));
  }
}

const textTitles = (pairs) => (pairs ? ["text", "second text"] : ["text"]);
const textCells = (pairs, texts) => (pairs ? [texts[0], texts[1] ?? ""] : [texts[0]]);

function startTable({ inputs, pairs, tasks }) {
  const titles = [...textTitles(pairs), ...tasks.map((task) => task.name)];
  const cells = titles.map((title) => element("th", { scope: "col" }, title));
  byId("many-table").replaceChildren(element("thead", {}, element("tr", {}, ...cells)), element("tbody"));
  byId("many-summary").textContent = "";
  byId("many-result").hidden = true;
  byId("many-progress").max = inputs.length;
  byId("many-progress").value = 0;
  byId("many-progress").hidden = byId("many-stop").hidden = false;
}

function addRows(many, chunk, predictions) {
  const body = byId("many-table").tBodies[0];
  chunk.forEach(({ number, input }, index) => {
    const row = { number, texts: asTexts(input), ...predictions[index] };
    many.rows.push(row);
    if (many.rows.length <= TABLE_ROWS) body.append(tableRow(many, row));
  });
  byId("many-result").hidden = false;
}

function tableRow({ pairs, tasks }, row) {
  const made = element("tr", {}, ...textCells(pairs, row.texts).map((text) => element("td", { class: "text" }, text)));
  if (row.error) made.append(element("td", { class: "wrong", colspan: tasks.length }, row.error.message));
  else made.append(...tasks.map((task) => tableCell(task, answerOf(row, task), row.truncated)));
  return made;
}

const answerOf = (row, task) => (row.tasks && Object.hasOwn(row.tasks, task.name) ? row.tasks[task.name] : null);

function tableCell(task, given, truncated) {
  if (!given) return element("td", { class: "none" }, "–");
  const probability = probabilityOf(given);
  const notes = [probability === null ? "" : percent(probability), truncated ? "truncated" : ""].filter(Boolean).join(", ");
  return element("td", { "data-title": task.name }, `${headline(given)} `, element("span", { class: "soft" }, notes));
}

function endTable({ noun, inputs, leftOut, rows }, measured) {
  if (document.activeElement === byId("many-stop")) byId("run-many").focus(); // before it is hidden
  byId("many-progress").hidden = byId("many-stop").hidden = true;
  const done = rows.length === inputs.length ? counted(rows.length, "input") : `Stopped after ${rows.length} of ${counted(inputs.length, "input")}`;
  const shown = rows.length > TABLE_ROWS ? ` The table shows the first ${TABLE_ROWS}, the csv has all.` : "";
  const empty = leftOut ? `, ${counted(leftOut, `empty ${noun}`)} left out` : "";
  byId("many-summary").textContent = `${done}${empty}, ${measured}${shown}`;
}

// ---- many: the csv

/** A cell's text, quoted where needed. A spreadsheet would run a text that begins like a formula: an apostrophe prevents it. */
function csvCell(value) {
  if (typeof value === "number") return String(value);
  const text = /^[=+\-@\t\r]/.test(value) ? `'${value}` : value;
  return /[",;\t\r\n']/.test(text) ? `"${text.replaceAll('"', '""')}"` : text;
}

function manyCsv({ noun, pairs, tasks, rows }) {
  const titles = [noun, ...textTitles(pairs)]; // its number leads back to the source's other columns
  for (const task of tasks) titles.push(task.name, ...(task.kind === "regression" ? [] : [`${task.name} probability`]));
  const lines = [[...titles, "truncated", "error"]];
  for (const row of rows) {
    const line = [row.number, ...textCells(pairs, row.texts)];
    for (const task of tasks) line.push(...csvAnswer(task, answerOf(row, task)));
    lines.push([...line, row.truncated ? "yes" : "", row.error?.message ?? ""]);
  }
  return lines.map((line) => `${line.map(csvCell).join(",")}\r\n`).join("");
}

function csvAnswer(task, given) {
  if (task.kind === "regression") return [given?.prediction ?? ""];
  if (!given) return ["", ""];
  if (!given.probabilities) return [spansOf(given) ? JSON.stringify(spansOf(given)) : headline(given), ""];
  const chosen = asTexts(given.prediction);
  const probabilities = chosen.map((label) => given.probabilities[label]);
  return [chosen.join("; "), probabilities.length === 1 ? probabilities[0] : probabilities.join("; ")];
}

function downloadCsv() {
  const address = URL.createObjectURL(new Blob([manyCsv(state.many)], { type: "text/csv" }));
  element("a", { href: address, download: `predictions-${state.many.model.id.replace(/[^\w.-]/g, "_")}.csv` }).click();
  setTimeout(() => URL.revokeObjectURL(address), 10_000); // some browsers read it only after the click
}

// ---- similarity

async function compare(signal) {
  byId("similarity-result").hidden = true;
  const texts = [byId("similarity-text").value, byId("similarity-text2").value];
  refuseEmpty(texts);
  const { answer, here } = await callApi("v1/embeddings", { input: texts, model: currentModel().id }, signal);
  const [first, second] = [...answer.data].sort((a, b) => a.index - b.index).map((item) => item.embedding);
  const value = cosine(first, second);
  byId("similarity-value").textContent = value.toFixed(3);
  byId("similarity-scale").replaceChildren(scale(value, -1, 1));
  byId("similarity-latency").textContent = latency(answer.usage?.total_tokens ?? 0, here, answer.milliseconds);
  byId("similarity-result").hidden = false;
  byId("announcement").textContent = `Cosine similarity: ${value.toFixed(3)}.`;
}

function cosine(first, second) {
  const dot = (a, b) => a.reduce((sum, value, index) => sum + value * b[index], 0);
  const lengths = Math.sqrt(dot(first, first) * dot(second, second));
  return lengths ? dot(first, second) / lengths : 0;
}

// ---- the last request as code; the key itself never stands in it

function rememberRequest(path, body) {
  state.lastRequest = { path, body };
  byId("request").hidden = false;
  byId("snippet").hidden = true;
  byId("copied").textContent = "";
}

const shellQuoted = (text) => `'${text.replaceAll("'", "'\\''")}'`;
const fullAddress = (path) => new URL(path, document.baseURI).href;

function asCurl({ path, body }) {
  const lines = [`curl ${shellQuoted(fullAddress(path))}`, "-H 'Content-Type: application/json'"];
  if (state.key) lines.push('-H "Authorization: Bearer $MANYHEADS_API_KEY"');
  lines.push(`--data-raw ${shellQuoted(JSON.stringify(body))}`);
  return lines.join(" \\\n  ");
}

/** A Python literal. A string as JSON writes it is one; true, false and null are not. */
function pythonLiteral(value) {
  if (Array.isArray(value)) return `[${value.map(pythonLiteral).join(", ")}]`;
  if (typeof value === "boolean") return value ? "True" : "False";
  if (value === null || typeof value !== "object") return JSON.stringify(value);
  const items = Object.entries(value).map(([name, item]) => `${JSON.stringify(name)}: ${pythonLiteral(item)}`);
  return `{${items.join(", ")}}`;
}

function asPython({ path, body }) {
  const headers = ['"Content-Type": "application/json"'];
  if (state.key) headers.push('"Authorization": "Bearer " + os.environ["MANYHEADS_API_KEY"]');
  return `import json
${state.key ? "import os\n" : ""}import urllib.request

body = ${pythonLiteral(body)}
request = urllib.request.Request(
    ${JSON.stringify(fullAddress(path))},
    data=json.dumps(body).encode(),
    headers={${headers.join(", ")}},
)
with urllib.request.urlopen(request) as answer:
    print(json.dumps(json.load(answer), indent=2, ensure_ascii=False))
`;
}

/** The code is also shown: over plain http from another machine, browsers offer no clipboard. */
async function copy(code) {
  const box = byId("snippet");
  box.value = code;
  box.hidden = false;
  try {
    await navigator.clipboard.writeText(code);
    byId("copied").textContent = "Copied.";
  } catch {
    box.focus();
    box.select();
    box.scrollTop = 0;
    byId("copied").textContent = "Press Ctrl+C or ⌘+C to copy.";
  }
}

// ---- who listens to what

function listen() {
  const forms = { "one-form": predictOne, "many-form": predictMany, "similarity-form": compare };
  for (const [id, action] of Object.entries(forms)) {
    byId(id).addEventListener("submit", (event) => {
      event.preventDefault();
      perform(id, action);
    });
    byId(id).addEventListener("keydown", (event) => {
      if (event.key === "Enter" && (event.ctrlKey || event.metaKey)) byId(id).requestSubmit();
    });
  }
  for (const radio of document.getElementsByName("mode")) radio.addEventListener("change", showMode);
  for (const radio of document.getElementsByName("shape")) radio.addEventListener("change", showShape);
  byId("model").addEventListener("change", showModel);
  byId("key-form").addEventListener("submit", useKey);
  byId("copy-curl").addEventListener("click", () => copy(asCurl(state.lastRequest)));
  byId("copy-python").addEventListener("click", () => copy(asPython(state.lastRequest)));
  byId("many-stop").addEventListener("click", () => state.running["many-form"]?.abort());
  byId("many-csv").addEventListener("click", downloadCsv);
  byId("csv-header").addEventListener("change", showColumns);
  byId("csv-remove").addEventListener("click", () => (removeCsv(), byId("file").focus()));
  listenForFiles();
}

// A file may be dropped anywhere: outside of its box a browser would leave the page to show it.
function listenForFiles() {
  const form = byId("many-form");
  const read = (files) => files.length && perform("file", () => readFile(files[0]));
  byId("file").addEventListener("change", (event) => read(event.target.files));
  document.addEventListener("dragover", (event) => {
    if (!event.dataTransfer.types.includes("Files")) return; // dragged text goes into the box, as everywhere
    event.preventDefault();
    form.classList.add("over");
  });
  document.addEventListener("dragleave", () => form.classList.remove("over"));
  document.addEventListener("drop", (event) => {
    form.classList.remove("over");
    if (!event.dataTransfer.files.length) return;
    event.preventDefault();
    if (byId("app").hidden) return; // before a key is given
    byId("mode-many").checked = true;
    showMode();
    read(event.dataTransfer.files);
  });
}

listen();
perform("start", start);

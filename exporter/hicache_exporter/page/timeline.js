// One request's timeline: a picture of what it waited for, and every event in words.

import { bytes, count, el, seconds, svg } from "./dom.js";

const LANE = 34;
const LENGTH = 90; // room for the duration behind a bar

export function timeline(events, evidence) {
  const own = events.filter((event) => !event.earlier);
  if (!own.length) return el("p", { class: "hint" }, "its records are not kept any more");
  const zero = own[0].at_ns;
  return [picture(own, evidence, zero), list(events, zero)];
}

function spans(own, evidence) {
  const first = (kind, test = () => true) => own.find((event) => event.kind === kind && test(event));
  const lookup = first("lookup") ?? own[0];
  const admit = first("admit");
  const token = first("first_token");
  const received = token?.received_ns ?? null;
  const found = [];
  if (received !== null && received < lookup.at_ns) found.push(["waiting", "in the queue", received, lookup.at_ns]);
  if (admit) found.push(["lookup", "lookup → admission", lookup.at_ns, admit.at_ns]);
  for (const transfer of evidence.transfers ?? []) {
    const end = transfer.device_seconds === null ? transfer.finished_ns
      : transfer.submitted_ns + transfer.device_seconds * 1e9;
    if (end !== null) found.push(["load", `L2 → L1, ${count(transfer.request_tokens)} tokens`, transfer.submitted_ns, end]);
  }
  if (admit && token) found.push(["prefill", "prefill → first token", Math.max(token.prefill_start_ns ?? 0, admit.at_ns), token.at_ns]);
  return found;
}

function picture(own, evidence, zero) {
  const lanes = spans(own, evidence);
  if (!lanes.length) return null;
  const start = Math.min(...lanes.map((lane) => lane[2]));
  const end = Math.max(...lanes.map((lane) => lane[3]), start + 1e5);
  const narrow = matchMedia("(max-width: 760px)").matches;
  const [width, label] = narrow ? [520, 160] : [1100, 190];
  const x = (at) => label + ((at - start) / (end - start)) * (width - label - LENGTH);
  const height = lanes.length * LANE + 26;
  const ticks = (narrow ? [0, 0.5, 1] : [0, 0.25, 0.5, 0.75, 1]).map((part) => start + part * (end - start));
  return svg("svg", { viewBox: `0 0 ${width} ${height}`, class: "timeline", role: "img",
    "aria-label": lanes.map(([, what, from, to]) => `${what}: ${seconds((to - from) / 1e9)}`).join("; ") },
  ticks.map((at) => svg("g", { class: "tick" },
    svg("line", { x1: x(at), x2: x(at), y1: 0, y2: height - 20 }),
    svg("text", { x: x(at), y: height - 5, "text-anchor": "middle" }, sign(at - zero)))),
  lanes.map(([kind, what, from, to], at) => svg("g", {},
    svg("text", { x: 0, y: at * LANE + 21, class: "lane" }, what.split(",")[0]),
    svg("rect", { class: `span ${kind}`, x: x(from), y: at * LANE + 6, rx: 3, height: LANE - 12,
      width: Math.max(x(to) - x(from), 3) }, svg("title", {}, `${what}: ${seconds((to - from) / 1e9)}`)),
    svg("text", { x: Math.max(x(to), x(from) + 3) + 6, y: at * LANE + 21, class: "length" }, seconds((to - from) / 1e9)))));
}

function sign(offset) {
  return `${offset < 0 ? "−" : ""}${seconds(Math.abs(offset) / 1e9)}`;
}

const SENTENCES = {
  backup: (e) => `${whose(e)}${count(e.tokens)} tokens queued for the host (node ${e.node_id})`,
  evict: (e) => `${count(e.tokens)} tokens of node ${e.node_id} left L1${e.cause === "demoted" ? ", their host copy stayed" : ""}`,
  lookup: (e) => `lookup: ${count(e.device_tokens)} tokens in L1, ${count(e.host_tokens)} in L2 of ${count(e.prompt_tokens)}`,
  load: (e) => `${count(e.tokens)} tokens queued from the host (${count(e.runs)} run${e.runs === 1 ? "" : "s"} of slots)`,
  load_back: (e) => `load-back ${String(e.outcome).replaceAll("_", " ")}: ${count(e.loaded_tokens)} of ${count(e.promised_tokens)} promised`
    + (e.evicted_tokens ? `, after evicting ${count(e.evicted_tokens)} from L1` : ""),
  admit: (e) => `admitted: ${count(e.cached_tokens)} tokens cached, ${count(e.computed_tokens)} to compute`,
  transfer: (e) => `transfer ${arrow(e)} submitted: ${count(e.tokens)} tokens, ${bytes(e.bytes)}`,
  transfer_done: (e) => `${whose(e)}transfer ${arrow(e)} ${e.finished ? "finished" : "dropped by a reset"}: ${count(e.tokens)} tokens`
    + (e.device_ns === null ? "" : `, ${seconds(e.device_ns / 1e9)} on the device clock`),
  content: (e) => `content: ${count(e.checked - e.mismatched)} of ${count(e.checked)} rows equal`
    + (e.unseen ? `, ${count(e.unseen)} without a signature` : ""),
  first_token: () => "first token",
  finish: (e) => `finished after ${count(e.output_tokens)} output tokens${e.aborted ? ", aborted" : ""}`,
  trace: () => "SGLang’s own trace context taken",
  storage_prefetch: (e) => `L3 prefetch ${e.outcome}: ${count(e.hit_tokens)} of ${count(e.asked_tokens)} tokens in storage`,
};

function whose(event) {
  return event.earlier && event.request_id ? `${event.request_id}: ` : "";
}

function arrow(event) {
  return event.direction === "host_to_device" ? "L2 → L1" : "L1 → L2";
}

function list(events, zero) {
  return el("ol", { class: "events" }, events.map((event) => {
    const offset = (event.at_ns - zero) / 1e9;
    const when = offset < 0 ? `${seconds(-offset)} before` : offset ? `+ ${seconds(offset)}` : "0";
    const sentence = SENTENCES[event.kind]?.(event) ?? event.kind.replaceAll("_", " ");
    return el("li", { class: event.earlier ? "earlier" : null }, el("span", { class: "when" }, when), el("span", {}, sentence));
  }));
}

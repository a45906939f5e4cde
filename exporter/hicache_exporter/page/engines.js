// One card an engine: what its tiers hold, what they served, and how well it is being watched.

import { clock, count, el, percent, seconds } from "./dom.js";

export const TIERS = [
  ["device", "L1 GPU"],
  ["host", "L2 host"],
  ["storage", "L3 storage"],
  ["unattributed", "unattributed"],
];

export function engineCard(engine, state) {
  return el("article", { class: "card engine" },
    el("h2", {}, engine.engine, " ", health(engine)),
    el("p", { class: "facts" }, facts(engine)),
    advice(engine, state),
    el("div", { class: "columns" },
      el("div", {}, el("h3", {}, "Tiers now"), tiersNow(engine)),
      el("div", {}, el("h3", {}, "Prompt tokens came from"), served(engine)),
      el("div", {}, el("h3", {}, "Time to first token, mean"), ttft(engine)),
      el("div", {}, el("h3", {}, "Between the tiers"), movement(engine))),
    engine.counted ? el("p", { class: "hint since" }, since(state)) : null,
    el("div", { class: "recorders" }, engine.recorders.map(recorder)));
}

function health(engine) {
  if (engine.up === false) return badge("bad", `engine down: ${engine.why_down ?? "no answer"}`);
  if (engine.recorded === "before") return badge("warn", "recorder ended");
  if (engine.recorded === "never") return badge("warn", "not recorded");
  return badge("good", engine.up ? "up" : "recorded");
}

/** What is so and what to do, where requests are not being judged. */
function advice(engine, state) {
  if (engine.recorded === "now" || state.recording) return null;
  if (engine.recorded === "before") {
    if (engine.up) {
      return el("p", { class: "advice" }, "The engine answers, and its flight recorder has ended: was it started again without ",
        "HICACHE_WITNESS=1? What is shown was recorded before.");
    }
    return el("p", { class: "advice" }, "The engine’s process has ended. What is shown was recorded while it ran; ",
      "it goes on when the engine is started again with HICACHE_WITNESS=1.");
  }
  const { waiting, other_engine: others } = state.rings;
  return el("p", { class: "advice" }, "No flight recorder tells of this engine, so none of its requests can be judged: start it with ",
    el("code", {}, `HICACHE_WITNESS=1 HICACHE_WITNESS_DIR=${state.ring_folder}`), ".",
    waiting ? ` Recorders whose engine is not up yet: ${waiting}.` : null,
    others ? ` Recorders there of other engines: ${others} (is the address the one that the engine was started with?).` : null);
}

function since({ since: began, at, recording }) {
  if (began) return `Tokens, times and moves are counted since ${clock(began, recording?.at ?? at)}, when this sidecar began; what the tiers held before is not among them.`;
  return "Tokens, times and moves are counted since the recorded sidecar began; what the tiers held before is not among them.";
}

function badge(kind, text) {
  return el("span", { class: `badge ${kind}` }, text);
}

function facts(engine) {
  const known = [
    engine.model,
    engine.version && `SGLang ${engine.version}`,
    engine.write_policy && engine.write_policy.replaceAll("_", "-"),
    engine.page_size && `page ${engine.page_size}`,
    engine.content_mode && `content witness ${engine.content_mode}`,
  ];
  return known.filter(Boolean).join(" · ") || "model and version not known: no flight recorder has told them";
}

function tiersNow(engine) {
  const bars = el("dl", { class: "bars" }, [["device", "L1 GPU"], ["host", "L2 host"]].map(([tier, label]) => {
    const capacity = engine.capacity_tokens[tier];
    const used = engine.used_tokens?.[tier];
    const cached = engine.cached_tokens?.[tier];
    const text = used === undefined ? unused(engine, capacity) : inUse(used, cached, capacity);
    return [el("dt", {}, label), el("dd", {}, bar((used ?? 0) + (cached ?? 0), capacity, tier), el("small", {}, text))];
  }));
  // SGLang renews these numbers with every few batches, and every 30 seconds while it has none.
  return engine.used_tokens ? [bars, el("p", { class: "hint" }, "as the engine last told (idle: up to 30 s ago)")] : bars;
}

function inUse(used, cached, capacity) {
  const parts = cached == null ? `${count(used)} in use` : `${count(used)} in use + ${count(cached)} cached`;
  return `${parts}, of ${capacity == null ? "a number of tokens that is not known" : `${count(capacity)} tokens`}`;
}

function unused(engine, capacity) {
  const size = capacity == null ? "size not known" : `${count(capacity)} tokens in all`;
  const why = { true: "the engine does not tell its use", false: "use not known while the engine is down" }[engine.up];
  return `${size}, ${why ?? "use not known: name the engine with --engine"}`;
}

function bar(part, whole, kind) {
  const width = whole > 0 ? Math.min(100, (100 * part) / whole) : 0;
  const filled = el("span", { class: `fill ${kind}` });
  filled.style.width = `${width}%`;
  return el("span", { class: "bar", "aria-hidden": "true" }, filled);
}

function served({ counted }) {
  if (!counted) return nothing();
  const parts = [...TIERS.map(([tier, label]) => [tier, label, counted.hit_tokens[tier] ?? 0]),
    ["computed", "computed", counted.computed_tokens]];
  const whole = parts.reduce((sum, [, , tokens]) => sum + tokens, 0);
  const stack = el("span", { class: "bar stack", "aria-hidden": "true" }, parts.map(([tier, , tokens]) => {
    const filled = el("span", { class: `fill ${tier}` });
    filled.style.width = `${whole ? (100 * tokens) / whole : 0}%`;
    return filled;
  }));
  const rows = parts.filter(([tier, , tokens]) => tokens > 0 || tier === "device" || tier === "host" || tier === "computed");
  return [stack, el("table", { class: "plain" }, rows.map(([tier, label, tokens]) =>
    el("tr", {}, el("th", { scope: "row" }, el("span", { class: `key ${tier}` }), label),
      el("td", {}, count(tokens)), el("td", {}, percent(tokens, whole)))))];
}

function ttft({ counted }) {
  if (!counted) return nothing();
  const known = Object.entries(counted.ttft_mean_seconds);
  if (!known.length) return el("p", { class: "hint" }, "no first token yet");
  const names = { ...Object.fromEntries(TIERS), mixed: "several tiers", none: "no cache" };
  return el("table", { class: "plain" }, known.map(([tier, mean]) =>
    el("tr", {}, el("th", { scope: "row" }, names[tier] ?? tier),
      el("td", {}, seconds(mean)), el("td", {}, `${count(counted.requests[tier])} req`))));
}

function movement({ counted }) {
  if (!counted) return nothing();
  const declined = Object.entries(counted.load_backs).filter(([outcome, times]) => outcome !== "loaded" && times > 0);
  const rows = [
    ["backed up to L2", counted.transfer_tokens.device_to_host],
    ["left L1, kept in L2", counted.evicted_tokens.demoted],
    ["left L1 for good", counted.evicted_tokens.dropped],
    ["loaded back to L1", counted.transfer_tokens.host_to_device],
    ["left L2", counted.evicted_tokens.host_evicted],
  ];
  return [el("table", { class: "plain" }, rows.map(([label, tokens]) =>
    el("tr", {}, el("th", { scope: "row" }, label), el("td", {}, count(tokens))))),
  declined.length ? el("p", { class: "hint" }, "Load-backs not made: ",
    declined.map(([outcome, times]) => `${outcome.replaceAll("_", " ")} ${count(times)}`).join(", ")) : null];
}

function recorder(one) {
  const worries = [
    one.lost ? `${count(one.lost)} records lost` : null,
    one.watching ? null : "not all seams are attached",
    one.tripped.length ? `switched off: ${one.tripped.join(", ")}` : null,
  ].filter(Boolean);
  return el("span", { class: `badge ${worries.length ? "warn" : "quiet"}` },
    `recorder ${one.rank}: ${count(one.records)} records`, worries.length ? `; ${worries.join("; ")}` : "");
}

function nothing() {
  return el("p", { class: "hint" }, "not recorded");
}

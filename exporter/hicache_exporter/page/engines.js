// One card an engine: what its tiers hold, what they served, and how well it is being watched.

import { count, el, percent, seconds } from "./dom.js";

export const TIERS = [
  ["device", "L1 GPU"],
  ["host", "L2 host"],
  ["storage", "L3 storage"],
  ["unattributed", "unattributed"],
];

export function engineCard(engine) {
  return el("article", { class: "card engine" },
    el("h2", {}, engine.engine, " ", state(engine)),
    el("p", { class: "facts" }, facts(engine)),
    el("div", { class: "columns" },
      el("div", {}, el("h3", {}, "Tiers now"), tiersNow(engine)),
      el("div", {}, el("h3", {}, "Prompt tokens came from"), served(engine.counted)),
      el("div", {}, el("h3", {}, "Time to first token, mean"), ttft(engine.counted)),
      el("div", {}, el("h3", {}, "Between the tiers"), movement(engine.counted))),
    el("div", { class: "recorders" }, engine.recorders.map(recorder)));
}

function state(engine) {
  const recorded = engine.recorders.some((one) => one.up);
  if (engine.up === false) return badge("bad", `engine down: ${engine.why_down ?? "no answer"}`);
  if (!recorded) return badge("warn", "not recorded");
  return badge("good", engine.up ? "up" : "recorded");
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
  return known.filter(Boolean).join(" · ") || "no recorder has told who this is";
}

function tiersNow(engine) {
  return el("dl", { class: "bars" }, [["device", "L1 GPU"], ["host", "L2 host"]].map(([tier, label]) => {
    const capacity = engine.capacity_tokens[tier];
    const used = engine.used_tokens?.[tier];
    const cached = engine.cached_tokens?.[tier];
    const parts = cached == null ? count(used) : `${count(used)} in use + ${count(cached)} cached`;
    const text = used === undefined
      ? `${count(capacity)} tokens in all, use not known`
      : `${parts} of ${count(capacity)} tokens`;
    return [el("dt", {}, label), el("dd", {}, bar((used ?? 0) + (cached ?? 0), capacity, tier), el("small", {}, text))];
  }));
}

function bar(part, whole, kind) {
  const width = whole > 0 ? Math.min(100, (100 * part) / whole) : 0;
  const filled = el("span", { class: `fill ${kind}` });
  filled.style.width = `${width}%`;
  return el("span", { class: "bar", "aria-hidden": "true" }, filled);
}

function served(counted) {
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

function ttft(counted) {
  const known = Object.entries(counted?.ttft_mean_seconds ?? {});
  if (!known.length) return nothing();
  const names = { ...Object.fromEntries(TIERS), mixed: "several tiers", none: "no cache" };
  return el("table", { class: "plain" }, known.map(([tier, mean]) =>
    el("tr", {}, el("th", { scope: "row" }, names[tier] ?? tier),
      el("td", {}, seconds(mean)), el("td", {}, `${count(counted.requests[tier])} req`))));
}

function movement(counted) {
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
  return el("p", { class: "hint" }, "nothing recorded yet");
}

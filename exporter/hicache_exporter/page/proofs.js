// The last verdicts as a table, one request's proof in full.

import { clock, count, el, seconds } from "./dom.js";
import { timeline } from "./timeline.js";

const GLYPHS = { supports: "●", contradicts: "✕", none: "–", silent: "○", absent: "·" };
const STANCES = { supports: "supports", contradicts: "speaks against it", silent: "can’t tell", absent: "absent" };
const SERVED = { device: "L1", host: "L2", storage: "L3", mixed: "several", none: "nothing", unknown: "unknown" };

export function words(text) {
  return text.replaceAll("_", " ");
}

export function verdictBadge(proof) {
  const damaged = proof.content === "damaged";
  return [
    el("span", { class: `badge verdict ${proof.verdict}` }, words(proof.verdict), proof.final ? "" : " (for now)"),
    proof.content === "not_checked" ? null
      : el("span", { class: `badge ${damaged ? "bad" : "good"}` }, `content ${proof.content}`),
  ];
}

export function proofTable(state, chosen) {
  const { proofs } = state;
  if (!proofs.length) return el("p", { class: "hint" }, none(state));
  const heads = ["time", "request", "prompt", "L1", "L2", "computed", "TTFT", "from", "verdict", "witnesses"];
  const named = proofs[0].witnesses.map((witness) => words(witness.name)).join(", ");
  const now = state.recording?.at ?? state.at;
  return [el("table", { class: "proofs" },
    el("thead", {}, el("tr", {}, heads.map((head) => el("th", { scope: "col" }, head)))),
    el("tbody", {}, proofs.map((proof) => row(proof, heads, proof.request_id === chosen, now)))),
  el("p", { class: "hint below" }, `Witnesses, from left to right: ${named}.`)];
}

function none({ engines, recording }) {
  if (recording) {
    return recording.at ? "The recording has told of no judged request yet."
      : "This recording holds metrics only: no request can be judged from it.";
  }
  if (engines.some((engine) => engine.recorded === "now")) {
    return "No request has been judged yet. Requests appear here a moment after they are served.";
  }
  return "No request can be judged: no engine is being recorded. Start one with HICACHE_WITNESS=1.";
}

function row(proof, heads, chosen, now) {
  const cells = [
    el("time", { datetime: proof.at, title: proof.at }, clock(proof.at, now)),
    link(proof.request_id),
    count(proof.prompt_tokens),
    count(proof.device_tokens),
    count(proof.host_tokens),
    count(proof.computed_tokens),
    seconds(proof.ttft_seconds),
    [el("span", { class: `key ${proof.served_by}`, "aria-hidden": "true" }), SERVED[proof.served_by] ?? proof.served_by],
    verdictBadge(proof),
    el("span", { class: "glyphs" }, proof.witnesses.map((witness) =>
      stance(witness, proof.verdict, `${words(witness.name)}: ${stanceWords(witness, proof.verdict)}. ${witness.says}`))),
  ];
  return el("tr", { class: `${proof.verdict} ${chosen ? "chosen" : ""}` }, cells.map((cell, at) => el("td", { "data-head": heads[at] }, cell)));
}

/** Where no L2 read took place, a witness that saw none is right, and not in anybody's way. */
function agrees(witness, verdict) {
  return verdict === "no_read" && witness.stance === "contradicts";
}

function stance(witness, verdict, title) {
  const kind = agrees(witness, verdict) ? "none" : witness.stance;
  return el("span", { class: `stance ${kind}`, title, role: title && "img", "aria-label": title }, GLYPHS[kind]);
}

function stanceWords(witness, verdict) {
  return agrees(witness, verdict) ? "saw no L2 read" : STANCES[witness.stance];
}

// Where an id has no room its middle goes: ids of one client begin alike, and end in what tells them apart.
function link(id) {
  const tail = Math.max(0, id.length - 8);
  return el("a", { class: "id", href: `#${encodeURIComponent(id)}`, "data-key": id, title: id },
    el("span", {}, id.slice(0, tail)), id.slice(tail));
}

export function proofInFull(told) {
  const { summary, judgement, evidence, events } = told;
  return [
    el("h2", {}, el("span", { class: "rid" }, summary.request_id), " ", verdictBadge(summary)),
    el("p", { class: "facts" }, `${summary.engine} · rank ${summary.rank} · ${summary.at} · served from `,
      SERVED[summary.served_by] ?? summary.served_by),
    el("ul", { class: "reasons" }, judgement.reasons.map((reason) => el("li", {}, reason))),
    el("h3", {}, "Timeline"),
    timeline(events, evidence),
    el("h3", {}, "Witnesses"),
    el("table", { class: `plain witnesses ${judgement.verdict}` }, judgement.witnesses.map((witness) =>
      el("tr", { class: witness.stance }, el("td", {}, stance(witness, judgement.verdict)),
        el("th", { scope: "row" }, words(witness.name)), el("td", {}, stanceWords(witness, judgement.verdict)),
        el("td", {}, witness.says)))),
    el("p", {}, el("a", { href: `proofs/${encodeURIComponent(summary.request_id)}` }, "as JSON"), " · ",
      el("a", { href: "#" }, "close")),
  ];
}

export function noProof(requestId, why) {
  return [el("h2", {}, el("span", { class: "rid" }, requestId)), el("p", { class: "hint" }, why),
    el("p", {}, el("a", { href: "#" }, "close"))];
}

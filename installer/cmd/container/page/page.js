// SPDX-License-Identifier: Apache-2.0
// Draws rollout.json, asked for every few seconds. All of it becomes text: a node may have any name, and a reason any words.
"use strict";
const ASK_MS = 5000, OLD_S = 60;
const at = (id) => document.getElementById(id);
let last = null, timer;

function make(tag, text, name) {
  const element = document.createElement(tag);
  if (text !== undefined && text !== null) element.textContent = String(text);
  if (name) element.className = name;
  return element;
}
function ago(date, now) {
  const seconds = Math.max(0, (now - Date.parse(date)) / 1000);
  if (!date || Number.isNaN(seconds)) return "";
  for (const [unit, name] of [[86400, "d"], [3600, "h"], [60, "min"]]) if (seconds >= unit) return Math.floor(seconds / unit) + " " + name;
  return Math.floor(seconds) + " s";
}
function left(seconds) {
  if (seconds === null || seconds === undefined) return "";
  return ", about " + (seconds < 3600 ? Math.max(1, Math.round(seconds / 60)) + " min" :
    Math.floor(seconds / 3600) + " h " + Math.round((seconds % 3600) / 60) + " min") + " left";
}
function part(bar, count, total, name) {
  if (!count || !total) return;
  const piece = make("i", null, name);
  piece.style.width = (100 * count / total) + "%";
  piece.title = count + " " + name;
  bar.append(piece);
}
function pool(p) {
  const box = make("article", null, "pool"), bar = make("div", null, "bar");
  const busy = Math.max(0, Math.min(p.used, p.nodes - p.done - p.failed));
  part(bar, p.done, p.nodes, "done");
  part(bar, busy, p.nodes, "busy");
  part(bar, p.failed, p.nodes, "failed");
  box.append(make("h2", p.pool + ": driver " + p.driver), bar,
    make("p", p.done + " of " + p.nodes + " nodes done, " + busy + " in progress, " + p.failed + " failed; wave " + p.wave + left(p.secondsLeft)),
    make("p", p.unavailable + " unavailable of at most " + p.maxUnavailable + "; " + p.used + " slots of " + p.maxParallel, "small"));
  if (p.reason) box.append(make("p", (p.halted ? "Halted: " : "Waits: ") + p.reason + (p.action ? ". Next: " + p.action : ""), p.halted ? "is-failed" : ""));
  return box;
}
function row(n, now) {
  const line = make("tr");
  line.append(make("td", n.node), make("td", n.pool ?? "-"), make("td", n.wave || "-"),
    make("td", n.state, n.state === "failed" ? "state is-failed" : "state"), make("td", ago(n.since, now)), make("td", n.reason));
  if (n.text) line.lastChild.append(make("div", n.text, "small"));
  return line;
}
function rank(n) { // what needs somebody first, what is over last
  return n.state === "failed" || n.state === "rolledback" ? 0 : n.state === "done" || n.state === "idle" ? 2 : 1;
}
function drawNodes() {
  const words = at("words").value.toLowerCase().split(/\s+/).filter(Boolean);
  const nodes = (last?.nodes ?? []).filter((n) => {
    const text = [n.node, n.pool, n.wave, n.state, n.reason].join(" ").toLowerCase();
    return words.every((word) => text.includes(word));
  }).sort((a, b) => rank(a) - rank(b));
  const now = Date.now(), MOST = 500;
  at("nodes").replaceChildren(...nodes.slice(0, MOST).map((n) => row(n, now)));
  at("shown").textContent = nodes.length > MOST ? "the first " + MOST + " of " + nodes.length : nodes.length + " shown";
}
function problem(text) {
  at("problem").textContent = text;
  at("problem").hidden = !text;
}
function draw() {
  at("pools").replaceChildren(...last.pools.map(pool));
  drawNodes();
  problem(last.policy ? "The policy is refused, and the last good one stays in force: " + last.policy : "");
}
async function ask() {
  try {
    const token = sessionStorage.getItem("token"); // of this tab alone, until it is closed
    const reply = await fetch("rollout.json", { cache: "no-store", headers: token ? { Authorization: "Bearer " + token } : {} });
    at("login").hidden = reply.status !== 401 && reply.status !== 403;
    if (!reply.ok) throw new Error(await reply.text());
    last = await reply.json();
    draw();
  } catch (error) {
    problem(error.message || String(error));
  }
  const old = last ? (Date.now() - Date.parse(last.time)) / 1000 : 0;
  at("age").textContent = last ? "as of " + last.time + (old > OLD_S ? ", which is " + ago(last.time, Date.now()) + " old" : "") : "";
  timer = setTimeout(ask, ASK_MS);
}
at("words").addEventListener("input", drawNodes);
at("login").addEventListener("submit", (event) => {
  event.preventDefault();
  sessionStorage.setItem("token", at("token").value.trim());
  clearTimeout(timer);
  ask();
});
at("filter").addEventListener("submit", (event) => event.preventDefault());
ask();

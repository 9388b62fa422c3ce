// The workbench without this script is forms and links. With it a change repaints the page in place, an old
// answer never overwrites a newer one, running jobs are watched, and the keyboard has short ways.
(() => {
  "use strict";
  const PARTS = ["top", "screens", "work", "toasts"];
  const store = window.sessionStorage;
  const tab = store.getItem("tab") || Math.random().toString(36).slice(2);
  store.setItem("tab", tab);
  let asked = 0, waiting = 0, abort = null, address = location.pathname + location.search;
  const $ = (id) => document.getElementById(id);
  const epoch = () => Number($("work") ? $("work").dataset.epoch : 0);
  const revision = (work) => Number(work ? work.dataset.revision : 0);
  const letters = () => store.getItem("letters") !== "off";

  // A click that nobody answers is never lost in silence.
  const GONE = ["The workbench doesn't answer", "It was stopped, or is very busy. Your last change may not have been made; the plan and everything found are kept. Start it again with the same command and use the address that it shows."];
  const ANEW = ["The workbench was started anew", "This page belongs to an earlier start. Use the address that the terminal shows now; the plan is as you left it."];
  let unanswered = 0;
  function silence([head, words]) {
    const old = $("silence");
    if (!$("content") || (old && old.firstChild.textContent === head)) return;
    if (old) old.remove();
    const note = document.createElement("div"), title = document.createElement("h2"), text = document.createElement("p");
    note.id = "silence"; note.className = "note bad"; note.setAttribute("role", "alert");
    title.textContent = head; text.textContent = words;
    note.append(title, text);
    $("content").prepend(note);
    window.scrollTo({ top: 0 });
  }

  // A newer request ends an older one, and a look at jobs gives way to what the person asked for. An answer of
  // an older plan than the one that is painted is never painted: the page is asked for again.
  async function load(url, options = {}, { quiet = false, place = "" } = {}) {
    if (!quiet && abort) abort.abort();
    const control = new AbortController();
    if (!quiet) abort = control;
    const mine = quiet ? asked : ++asked;
    if (quiet && waiting) return;
    if (!quiet) waiting += 1;
    let answer, text;
    try {
      answer = await fetch(url, { ...options, signal: control.signal, credentials: "same-origin" });
      text = await answer.text();
    } catch (problem) {
      if (problem.name !== "AbortError") silence(GONE);
      return;
    } finally {
      if (!quiet) waiting -= 1;
    }
    if (mine !== asked) return;
    const page = new DOMParser().parseFromString(text, "text/html");
    const work = page.getElementById("work");
    if (!work) { location.href = "/data"; return; }
    if (PARTS.some((name) => !page.getElementById(name) !== !$(name))) { location.href = answer.url; return; }
    if (revision(work) < revision($("work"))) {
      if (!quiet) load(answer.url.replace(/([?&])said=[^&#]*&?/, "$1"));
      return;
    }
    paint(page, quiet);
    const there = new URL(answer.url);
    there.searchParams.delete("said");
    address = there.pathname + there.search;
    if (!quiet) history.replaceState(null, "", address + (there.hash || ""));
    const target = place || there.hash.slice(1);
    if (!quiet && target && $(target)) $(target).scrollIntoView({ block: "nearest" });
  }

  function paint(page, quiet) {
    const held = document.activeElement, id = held && held.id, top = window.scrollY;
    const typing = held && held.matches("input:not([type=checkbox]):not([type=range]), textarea") && held.value !== held.defaultValue;
    const open = [...document.querySelectorAll("details[open]")].map((d) => d.querySelector("summary").textContent);
    const at = held && held.selectionStart;
    document.title = page.title;
    for (const name of PARTS) {
      const fresh = page.getElementById(name), old = $(name);
      if (!fresh || !old || (quiet && name === "toasts")) continue;
      if (quiet && typing && name === "work") {
        $("rail").replaceWith(fresh.querySelector("#rail"));
        old.dataset.epoch = fresh.dataset.epoch;
        continue;
      }
      old.replaceWith(fresh);
    }
    for (const one of document.querySelectorAll("details")) {
      if (open.includes(one.querySelector("summary").textContent)) one.open = true;
    }
    window.scrollTo({ top });
    const again = id && $(id);
    if (again && again !== document.activeElement) {
      again.focus({ preventScroll: true });
      try { if (at !== null && again.setSelectionRange && again.type !== "number") again.setSelectionRange(at, at); } catch (e) { /* not a text field */ }
    }
    watch();
  }

  function post(form, submitter) {
    const body = new URLSearchParams(new FormData(form));
    if (submitter && submitter.name) body.set(submitter.name, submitter.value);
    body.set("tab", tab);
    load(form.getAttribute("action"), { method: "POST", body });
  }

  document.addEventListener("submit", (event) => {
    const form = event.target;
    event.preventDefault();
    if (form.method === "post") post(form, event.submitter);
    else load(form.getAttribute("action") + "?" + new URLSearchParams(new FormData(form)));
  });

  let later = 0;
  const soon = (form, wait) => { clearTimeout(later); later = setTimeout(() => form.isConnected && form.requestSubmit(), wait); };
  document.addEventListener("change", (event) => {
    const form = event.target.form;
    if (!form || event.target.type === "range") return;
    if (event.target.dataset.go) { location.href = event.target.dataset.go + encodeURIComponent(event.target.value); return; }
    if (form.matches("[data-auto]")) soon(form, 0);
    else if (form.matches("[data-find]")) soon(form, 0);
  });
  document.addEventListener("input", (event) => {
    const input = event.target, form = input.form;
    if (!form) return;
    if (input.type === "range") {
      const twin = form.querySelector("[name=tolerance_number]");
      if (twin) twin.value = input.value;
      if (form.elements.moved) form.elements.moved.value = "tolerance";
      soon(form, 120);
    } else if (input.name === "tolerance_number") {
      form.elements.moved.value = "number";
      if (Number(input.value) >= 2) soon(form, 400);
    } else if (input.type === "search" && form.matches("[data-find]")) soon(form, 180);
  });

  // Jobs: their lines move; what they find repaints the page, but never a field that is being typed in.
  let timer = 0;
  function watch() {
    clearTimeout(timer);
    const busy = $("work") && ($("work").dataset.busy !== undefined || document.querySelector("[data-waiting]"));
    timer = setTimeout(look, busy ? 400 : 3000);
  }
  async function look() {
    try {
      const answer = await fetch("/state", { credentials: "same-origin" });
      if (answer.status === 403) { silence(ANEW); return; }
      const said = await answer.json();
      unanswered = 0;
      if ($("silence")) $("silence").remove();
      for (const job of said.jobs) {
        const line = document.querySelectorAll(`[data-job="${job.number}"]`);
        for (const one of line) {
          const bar = one.querySelector("progress");
          if (job.parts) { bar.max = job.parts; bar.value = job.part; }
          one.querySelector(".how").textContent = job.what + (job.parts ? ` · ${job.part} of ${job.parts}` : "") + ` · ${job.seconds} s so far`;
        }
      }
      const gone = $("work").dataset.busy !== undefined && !said.jobs.length && !said.reading;
      if (said.epoch !== epoch() || gone) await load(address, {}, { quiet: true });
    } catch (problem) {
      unanswered += 1;
      if (unanswered > 1) silence(GONE);
    }
    watch();
  }

  // The limits on the map: dragged, or moved by arrows; the typed fields are the same values.
  function limit(line, value) {
    const field = $(line.dataset.limit === "risk" ? "most-risk" : "most-loss");
    const scale = line.dataset.limit === "risk" ? 100 : 1;
    field.value = String(Math.max(0, Math.round(value * scale * 1000) / 1000));
    line.setAttribute("aria-valuenow", Number(field.value) / scale); // arrows add up before the page is back
    soon(field.form, 150);
  }
  document.addEventListener("pointerdown", (event) => {
    const line = event.target.closest && event.target.closest("[data-limit]");
    if (!line) return;
    event.preventDefault();
    const svg = line.ownerSVGElement, risk = line.dataset.limit === "risk";
    const from = risk ? event.clientY : event.clientX, start = Number(line.getAttribute("aria-valuenow"));
    const box = svg.getBoundingClientRect(), size = svg.viewBox.baseVal;
    const room = risk ? (size.height - 70) * box.height / size.height : (size.width - 86) * box.width / size.width;
    const top = Number(line.getAttribute("aria-valuemax")) * (risk ? 1 : 1.02);
    const moved = (e) => start + (risk ? from - e.clientY : e.clientX - from) / room * top;
    const move = (e) => {
      const shift = risk ? `translate(0 ${(e.clientY - from) * size.height / box.height})` : `translate(${(e.clientX - from) * size.width / box.width} 0)`;
      line.setAttribute("transform", shift);
      line.previousElementSibling.setAttribute("transform", shift);
    };
    const up = (e) => { document.removeEventListener("pointermove", move); limit(line, moved(e)); };
    document.addEventListener("pointermove", move);
    document.addEventListener("pointerup", up, { once: true });
  });

  document.addEventListener("click", (event) => {
    const copy = event.target.closest("[data-copy]");
    if (copy) { navigator.clipboard.writeText($(copy.dataset.copy).textContent); copy.textContent = "Copied"; }
    const keys = event.target.closest("#letters");
    if (keys) store.setItem("letters", keys.checked ? "on" : "off");
  });

  document.addEventListener("keydown", (event) => {
    const t = event.target, field = t.matches && t.matches("input, select, textarea");
    if (t.dataset && t.dataset.limit && event.key.startsWith("Arrow")) {
      const by = (t.dataset.limit === "risk" ? 0.005 : 0.005) * (["ArrowUp", "ArrowRight"].includes(event.key) ? 1 : -1);
      event.preventDefault();
      limit(t, Number(t.getAttribute("aria-valuenow")) + by);
      return;
    }
    if ((event.ctrlKey || event.metaKey) && ["z", "Z", "y"].includes(event.key)) {
      if (field && t.matches("input[type=text], input[type=search], input[type=number], input:not([type]), textarea") && t.value !== t.defaultValue) return;
      event.preventDefault();
      const button = $(event.key === "y" || event.shiftKey ? "redo" : "undo");
      if (button && !button.disabled) button.click();
      return;
    }
    if (event.altKey && ["ArrowUp", "ArrowDown"].includes(event.key)) {
      const step = t.closest && t.closest(".step");
      const button = step && step.querySelector(event.key === "ArrowUp" ? "[value=up]" : "[value=down]");
      if (button && !button.disabled) { event.preventDefault(); button.click(); }
      return;
    }
    if (event.key === "Escape" && field) { t.blur(); return; }
    if (field || event.ctrlKey || event.metaKey || event.altKey || !letters()) return;
    const screens = document.querySelectorAll("#screens a");
    if (/^[1-6]$/.test(event.key) && screens.length) location.href = screens[Number(event.key) - 1].href;
    else if (event.key === "n" && $("next-step")) $("next-step").focus();
    else if (event.key === "v" && $("verdict")) $("verdict").focus();
    else if (event.key === "?") location.href = "/help";
    else if (event.key === "/") { const find = document.querySelector("main input[type=search]"); if (find) { event.preventDefault(); find.focus(); } }
    else if (event.key === "j" || event.key === "k") {
      const rows = [...document.querySelectorAll("main tbody tr a, main tbody tr button, main tbody tr select, .step .title")].filter((e) => !e.disabled);
      const at = rows.findIndex((e) => e === document.activeElement);
      const to = rows[Math.min(rows.length - 1, Math.max(0, at + (event.key === "j" ? 1 : -1)))];
      if (to) to.focus();
    }
  });
  const box = $("letters");
  if (box) box.checked = letters();
  watch();
})();

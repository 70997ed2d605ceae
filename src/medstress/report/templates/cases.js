"use strict";
(() => {
  const byId = (id) => document.getElementById(id);
  const source = byId("case-data");
  if (!source) return;
  const PAGE = 50;
  const PREFIX = "#case-";
  const SILENT = "The server does not answer; start medstress view again.";
  const SCORE = byId("case-browser")?.dataset.score ?? "P(key)";
  const LABELS = {
    verdict: "Outcome", attack: "Attack", dataset: "Data set", group: "Entity group",
    victim: "Model", valid: "Key still right", confidence: SCORE + " before", slice: "Slice",
  };

  const make = (tag, text, name) => {
    const element = document.createElement(tag);
    if (text !== undefined && text !== null) element.textContent = text;
    if (name) element.className = name;
    return element;
  };
  const within = (tag, name, ...children) => {
    const element = make(tag, null, name);
    element.append(...children);
    return element;
  };
  const share = (value) =>
    value === null || value === undefined ? "–" : value.toFixed(3).replace(/^0/, "");
  const known = (value) => value !== null && value !== undefined;

  const start = () => {
    const data = JSON.parse(source.textContent);
    const named = (factor, key) => (data.names[factor] || {})[key] || key;
    const validity = (line) => {
      const valid = line.valid === null ? "unknown" : line.valid ? "yes" : "no";
      return named("valid", valid) + (line.reason ? " (" + named("reason", line.reason) + ")" : "");
    };
    const store = data.served ? served() : embedded(data, named);
    const wish = { filters: {}, search: "", sort: "verdict", descending: false };
    const shown = { lines: [], total: 0, offset: 0 };
    let chosen = null;
    let touched = false;
    let view = "both";
    let asked = 0;

    // The list

    const filters = new Map();
    for (const factor of Object.keys(LABELS)) {
      const values = data.facets[factor];
      if (!values || (values.length < 2 && !data.served)) continue;
      const select = make("select");
      select.append(new Option("all", ""));
      for (const [value, n] of values) {
        select.append(new Option(named(factor, value) + " (" + n + ")", value));
      }
      select.addEventListener("change", () => {
        setFilter(factor, select.value);
        list(0);
      });
      filters.set(factor, select);
      byId("case-filters").append(within("label", null, LABELS[factor] + " ", select));
    }
    const setFilter = (factor, value) => {
      const select = filters.get(factor);
      if (!select) return;
      if (value && ![...select.options].some((option) => option.value === value)) {
        select.append(new Option(named(factor, value), value));
      }
      select.value = value;
      if (value) wish.filters[factor] = value;
      else delete wish.filters[factor];
    };

    const lineButton = (line) => {
      const button = make("button", null, "case-line");
      button.type = "button";
      button.dataset.id = line.id;
      const first = within("span", "case-first", verdictMark(line.verdict));
      // White space and punctuation alone say nothing in a list.
      if (/[\p{L}\p{N}]/u.test((line.replaced || "") + (line.replacement || ""))) {
        const swap = within("span", "swap");
        if (line.replaced) swap.append(make("del", line.replaced), " ");
        swap.append(make("ins", line.replacement));
        first.append(swap);
      } else first.append(make("bdi", line.item));
      if (known(line.before)) {
        const after = known(line.after) ? " → " + line.after : "";
        first.append(make("span", line.before + after, "answers"));
      }
      const place = [named("attack", line.attack)];
      for (const factor of ["victim", "dataset", "group"]) {
        if (data.facets[factor].length > 1) place.push(named(factor, line[factor]));
      }
      const second = within("span", "case-second", make("bdi", place.join(" · ")));
      if (known(line.confidence)) second.append(" · " + SCORE + " " + share(line.confidence));
      if (line.valid !== null) second.append(" · key still right: " + validity(line));
      button.append(first, second);
      button.addEventListener("click", () => open(line.id, { focus: true }));
      return within("li", null, button);
    };
    const verdictMark = (verdict) =>
      make("span", named("verdict", verdict), "case-verdict " + verdict);

    const list = async (offset) => {
      const number = ++asked;
      const found = await store.list(wish, offset, PAGE).catch((error) => error);
      if (number !== asked) return; // a later wish was answered first
      if (found instanceof Error) {
        byId("case-count").textContent = SILENT;
        return;
      }
      Object.assign(shown, { lines: found.lines, total: found.total, offset });
      byId("case-lines").replaceChildren(...found.lines.map(lineButton));
      byId("case-lines").start = offset + 1;
      byId("case-count").textContent =
        found.total + (found.total === 1 ? " case" : " cases") +
        (Object.keys(wish.filters).length || wish.search ? " of " + store.size() : "");
      const last = Math.min(offset + PAGE, found.total);
      byId("case-page").textContent = found.total ? offset + 1 + " to " + last : "none";
      byId("case-earlier").disabled = offset === 0;
      byId("case-later").disabled = last >= found.total;
      mark();
    };
    const mark = () => {
      for (const button of byId("case-lines").querySelectorAll(".case-line")) {
        if (button.dataset.id === chosen) button.setAttribute("aria-current", "true");
        else button.removeAttribute("aria-current");
      }
    };
    const currentLine = () => byId("case-lines").querySelector('[aria-current="true"]');
    const toList = () => (currentLine() || byId("case-lines").querySelector("button") || search).focus();
    const step = async (by) => {
      // Focus goes along with the choice: Enter must never press the button of another case.
      const isInList = byId("case-lines").contains(document.activeElement);
      let place = shown.lines.findIndex((line) => line.id === chosen);
      place = place < 0 ? (by > 0 ? 0 : shown.lines.length - 1) : place + by;
      if (place < 0 && shown.offset > 0) {
        await list(shown.offset - PAGE);
        place = shown.lines.length - 1;
      } else if (place >= shown.lines.length && shown.offset + PAGE < shown.total) {
        await list(shown.offset + PAGE);
        place = 0;
      }
      const line = shown.lines[place];
      if (!line) return;
      const opened = open(line.id, { scroll: true });
      if (isInList) toList();
      await opened;
    };

    // One case

    const open = async (id, { focus = false, scroll = false, quiet = false } = {}) => {
      chosen = id;
      touched ||= !quiet;
      mark();
      const found = await store.get(id).catch((error) => error);
      if (chosen !== id) return;
      const detail = byId("case-detail");
      if (found instanceof Error) detail.replaceChildren(make("p", found.told || SILENT, "none"));
      else detail.replaceChildren(...(found ? drawn(found) : missing(id)));
      if (!quiet) history.replaceState(null, "", PREFIX + id);
      const current = currentLine();
      if (current && (focus || scroll)) current.scrollIntoView({ block: "nearest" });
      if (focus) detail.focus({ preventScroll: true });
      if (focus || scroll) detail.scrollIntoView({ block: "nearest" });
    };
    const missing = (id) => [
      within("p", "none", "This page does not hold the case ", make("code", id), ". ",
        make("code", "medstress case DIR " + id), " shows it, and ",
        make("code", "medstress view DIR"), " has all cases."),
    ];

    // [change, text] of a text with its changes: places count UTF-16 units.
    const segments = (texts, shown, name) => {
      const text = texts[shown[0]];
      if (!shown[1]) return [["same", text]];
      const found = [];
      let at = 0;
      for (const [from, n, added] of shown[1]) {
        if (from > at) found.push(["same", text.slice(at, from)]);
        if (n) found.push(["removed", text.slice(from, from + n)]);
        // 0 stands for the name that the list has.
        const fresh = added === 0 ? name : added;
        if (fresh) found.push(["added", fresh]);
        at = from + n;
      }
      if (at < text.length) found.push(["same", text.slice(at)]);
      return found;
    };
    const marked = (parts) => {
      const box = make("div", null, "prompt");
      for (const [change, text] of parts) {
        if (change === "removed") box.append(make("del", text));
        else if (change === "added") box.append(make("ins", text));
        else box.append(text);
      }
      return box;
    };
    const turns = ({ line, detail, texts }) => {
      if (detail.sent === 1) return [["prompt", segments(texts, detail.shown, line.replacement)]];
      return (detail.sent || []).map(([role, ...shown]) => [role, segments(texts, shown)]);
    };

    const trialOf = ({ line, detail }) =>
      known(detail.trial) && detail.trial.length === 20
        ? "blake2b-128:" + line.id + detail.trial : detail.trial;
    const facts = (found) => {
      const { line, detail, texts } = found;
      const after = known(detail.answer) ? detail.answer : line.after;
      const rows = [
        ["Outcome", named("verdict", line.verdict)],
        ["Attack", named("attack", line.attack), line.attack],
        ["Model", named("victim", line.victim), line.victim],
        ["Data", named("dataset", line.dataset), line.dataset],
        ["Entity group", named("group", line.group), line.group],
        ["Item", line.item],
        ["Entity", detail.unit],
        ["Type", texts[detail.type]],
        ["Changed in", detail.in],
        ["Right answer", line.key],
        ["Answer", known(line.before) ? line.before + (known(after) ? " → " + after : "") : null],
        [SCORE, known(line.confidence)
          ? share(line.confidence) + (known(detail.p) ? " → " + share(detail.p) : "") +
            (detail.guess ? " (a guess: below .5 before)" : "")
          : null],
        ["Key still right", line.verdict === "flipped" ? validity(line) : null],
        ...(detail.evidence || []).map((place) => ["Evidence", texts[place]]),
        ["Asked again", line.verdict !== "flipped" ? null
          : !known(detail.repeats) ? "not asked again"
          : detail.repeats ? "misled again" : "not misled again"],
        ["Queries", known(detail.asked)
          ? detail.asked + (known(detail.first) ? ", misled at " + detail.first : "") +
            (known(detail.pick) && detail.pick !== detail.first ? ", shown: " + detail.pick : "")
          : null],
        ["Seed", line.seed],
        ...(detail.controls || []).map(([name, verdict]) =>
          ["Control: " + name, named("verdict", verdict)]),
        ...line.slices.map(([by, value]) => ["Slice: " + by, value]),
        ["Why it ended", texts[detail.error]],
        ["Trial", trialOf(found)],
      ];
      return rows.filter(([, value]) => known(value) && value !== "");
    };

    const notes = ({ detail, texts }) =>
      (detail.left_out || []).map((place) => "Left out: " + texts[place]);

    const drawn = (found) => {
      const { line, detail, texts } = found;
      const title = make("h3");
      title.append(verdictMark(line.verdict), make("bdi", named("attack", line.attack)));
      const link = make("a", "Link to this case");
      link.href = PREFIX + line.id;
      const copy = make("button", "Copy as Markdown");
      copy.type = "button";
      const copied = make("div");
      copy.addEventListener("click", () => copyText(markdown(found), copy, copied));
      const parts = [title, within("p", "case-actions", link, copy), copied];
      const list = make("dl", null, "facts");
      for (const [name, value, key] of facts(found)) {
        const told = make("dd", String(value));
        if (key && key !== value) told.title = key;
        list.append(within("div", null, make("dt", name), told));
      }
      parts.push(list);
      for (const note of notes(found)) parts.push(make("p", note, "note"));
      if (detail.shown) parts.push(views(), marked(segments(texts, detail.shown, line.replacement)));
      if (detail.shown && known(detail.sent) && detail.sent !== 1) {
        parts.push(make("p", "Not sent in this form: what was sent stands below.", "note"));
      }
      parts.push(...scores(detail), ...labels(detail), ...sent(found), ...tried(detail));
      parts.push(...attempts(detail));
      return parts;
    };
    const views = () => {
      const box = within("fieldset", "view", make("legend", "Show"));
      for (const each of ["both", "before", "after"]) {
        const button = make("input");
        Object.assign(button, { type: "radio", name: "case-view", value: each });
        button.checked = each === view;
        button.addEventListener("change", () => setView(each));
        const words = each === "both" ? " before and after" : " " + each;
        box.append(within("label", null, button, words));
      }
      return box;
    };
    const setView = (each) => {
      view = each;
      byId("case-detail").dataset.view = each;
    };

    const bar = (value, name) => {
      const svg = document.createElementNS("http://www.w3.org/2000/svg", "svg");
      const rect = document.createElementNS("http://www.w3.org/2000/svg", "rect");
      for (const [key, told] of [["viewBox", "0 0 100 10"], ["preserveAspectRatio", "none"],
        ["class", "case-bar"], ["aria-hidden", "true"]]) svg.setAttribute(key, told);
      rect.setAttribute("class", name);
      rect.setAttribute("height", "10");
      rect.setAttribute("width", String(100 * Math.max(0, Math.min(1, value || 0))));
      svg.append(rect);
      return svg;
    };
    const table = (heads, rows, name) => {
      const body = make("tbody");
      for (const cells of rows) {
        const row = make("tr");
        for (const cell of cells) {
          const made = make("td");
          made.append(...(Array.isArray(cell) ? cell : [known(cell) ? String(cell) : "–"]));
          row.append(made);
        }
        body.append(row);
      }
      const head = within("thead", null, within("tr", null, ...heads.map((h) => {
        const cell = make("th", h);
        cell.scope = "col";
        return cell;
      })));
      const box = within("div", "scroll", within("table", name, head, body));
      Object.assign(box, { tabIndex: 0 });
      box.setAttribute("role", "group");
      box.setAttribute("aria-label", "Table");
      return box;
    };
    const scores = (detail) => {
      if (!detail.scores) return [];
      const rows = detail.scores.map(([label, before, after]) => [
        label,
        [share(before), bar(before, "before")],
        [share(after), bar(after, "after")],
      ]);
      return [make("h4", "Scores"), table(["Answer", "Before", "After"], rows, "case-scores")];
    };
    const labels = (detail) =>
      (detail.tagged || []).flatMap(([tokens, gold, predicted], i) => [
        make("h4", i ? "Labels after the change" : "Labels before"),
        table(["Word", "Right label", "Label given"],
          tokens.map((token, place) => [token, gold[place], predicted[place]]), null),
      ]);
    const sent = (found) => {
      if (!known(found.detail.sent)) return [];
      const { detail, texts } = found;
      const same = detail.sent === 1;
      const parts = same
        ? [make("p", "This text was sent to the model exactly as shown.", "note")] : [];
      if (same && !detail.scored) return parts;
      const box = within("details", null, make("summary", same ? "What was scored after it"
        : "What was sent to the model, exactly"));
      if (!same) {
        for (const [role, told] of turns(found)) box.append(make("h4", role), marked(told));
      }
      if (detail.scored) {
        box.append(make("h4", "Continuations whose likelihood was asked for, one a line"),
          marked(segments(texts, detail.scored)));
      }
      return [...parts, box];
    };
    const swapText = (swaps) =>
      swaps.map(([old, fresh]) => (old ? old + " → " : "+ ") + (fresh || "(nothing)")).join("; ");
    const triedTitle = (detail) => "Tried before, without success" +
      (detail.tried.some((each) => each[4]) ? " or refuted" : "");
    const tried = (detail) => {
      if (!detail.tried) return [];
      const rows = detail.tried.map(([query, swaps, answer, p, refuted]) =>
        [query, swapText(swaps), answer + (refuted ? ", refuted" : ""), share(p)]);
      return [
        make("h4", triedTitle(detail)),
        table(["Query", "Change", "Answer", SCORE], rows, null),
      ];
    };
    const attempts = (detail) => {
      if (!detail.attempts) return [];
      const parts = [make("h4", "Attempts")];
      for (const each of detail.attempts) {
        const told = ["answer " + (known(each.answer) ? each.answer : "none")];
        if (each.confidences) told.push("confidences " + each.confidences.join(", "));
        const name = each.n ? "Attempt " + each.n : "Clean item";
        const box = within("details", null, make("summary", name + ": " + told.join("; ")));
        for (const text of each.objections || []) box.append(make("p", "Objection: " + text));
        if (each.plan) box.append(make("h5", "Plan of the attacker"), make("p", each.plan, "prompt"));
        if (each.rationale) {
          box.append(make("h5", "Reasoning of the model"), make("p", each.rationale, "prompt"));
        }
        parts.push(box);
      }
      return parts;
    };

    // Markdown

    // In one line, without marks of Markdown and without turning the direction of what follows.
    const plain = (text) =>
      String(text).replace(/\s+/g, " ").replace(/[\u202a-\u202e\u2066-\u2069]/g, "\ufffd")
        .replace(/[\\`*_{}[\]<>#|~]/g, "\\$&");
    const fenced = (text) => {
      const longest = Math.max(2, ...(text.match(/`+/g) || []).map((run) => run.length));
      const fence = "`".repeat(longest + 1);
      return fence + "text\n" + text + "\n" + fence;
    };
    const side = (parts, without) =>
      parts.filter(([change]) => change !== without).map(([, text]) => text).join("");
    const markdown = (found) => {
      const { line, detail, texts } = found;
      const lines = ["## Case " + line.id + ": " + plain(named("verdict", line.verdict)), ""];
      for (const [name, value] of facts(found)) lines.push("- " + plain(name) + ": " + plain(value));
      if (known(line.replaced)) {
        lines.push("- Change: " + plain(swapText([[line.replaced, line.replacement || ""]])));
      }
      const both = (title, parts) => {
        lines.push("", "### " + title + ", before", "", fenced(side(parts, "added")));
        if (parts.some(([change]) => change !== "same")) {
          lines.push("", "### " + title + ", after", "", fenced(side(parts, "removed")));
        }
      };
      if (detail.shown) both("Text", segments(texts, detail.shown, line.replacement));
      if (detail.sent && detail.sent !== 1) {
        for (const [role, parts] of turns(found)) both("Sent (" + plain(role) + ")", parts);
      }
      if (detail.scored) both("Scored continuations", segments(texts, detail.scored));
      if (detail.scores) {
        lines.push("", "| Answer | Before | After |", "| --- | ---: | ---: |");
        for (const [label, before, after] of detail.scores) {
          lines.push("| " + [plain(label), share(before), share(after)].join(" | ") + " |");
        }
      }
      if (detail.tried) {
        lines.push("", "### " + triedTitle(detail), "");
        for (const [query, swaps, answer, , refuted] of detail.tried) {
          lines.push(query + ". " + plain(swapText(swaps)) + ": answer " + plain(answer || "none") +
            (refuted ? ", refuted" : ""));
        }
      }
      for (const each of detail.attempts || []) {
        lines.push("", "### " + (each.n ? "Attempt " + each.n : "Clean item"), "");
        lines.push("- Answer: " + plain(known(each.answer) ? each.answer : "none"));
        for (const text of each.objections || []) lines.push("- Objection: " + plain(text));
        if (each.plan) lines.push("", "Plan:", "", fenced(each.plan));
        if (each.rationale) lines.push("", "Reasoning:", "", fenced(each.rationale));
      }
      for (const note of notes(found)) lines.push("", plain(note));
      return lines.join("\n") + "\n";
    };
    const copyText = async (text, button, place) => {
      try {
        await navigator.clipboard.writeText(text);
        button.textContent = "Copied";
      } catch {
        const box = make("textarea", text);
        box.readOnly = true;
        box.rows = 8;
        box.setAttribute("aria-label", "The case as Markdown, to copy");
        place.replaceChildren(box);
        box.select();
        button.textContent = "Selected below";
      }
    };

    // What the reader does

    const search = byId("case-search");
    let pause = 0;
    const find = () => {
      clearTimeout(pause);
      wish.search = search.value.trim().replace(/\s+/g, " ").toLowerCase();
      return list(0);
    };
    const openFirst = async () => {
      if (shown.lines.length) await open(shown.lines[0].id);
      else byId("case-detail").replaceChildren(make("p", "No such case.", "none"));
    };
    search.addEventListener("input", () => {
      clearTimeout(pause);
      pause = setTimeout(find, 120);
    });
    search.addEventListener("keydown", async (event) => {
      if (event.isComposing || (event.key !== "Enter" && event.key !== "Escape")) return;
      event.preventDefault();
      if (event.key === "Escape") search.value = "";
      await find();
      if (event.key === "Enter" && !shown.lines.length) return;
      if (event.key === "Enter") await openFirst();
      toList();
    });
    byId("case-sort").addEventListener("change", (event) => {
      wish.sort = event.target.value;
      list(0);
    });
    byId("case-descending").addEventListener("change", (event) => {
      wish.descending = event.target.checked;
      list(0);
    });
    const clear = () => {
      clearTimeout(pause);
      Object.assign(wish, { filters: {}, search: "", sort: "verdict", descending: false });
    };
    byId("case-wish").addEventListener("submit", (event) => event.preventDefault());
    byId("case-wish").addEventListener("reset", () => {
      clear();
      list(0);
    });
    byId("case-earlier").addEventListener("click", () => list(Math.max(0, shown.offset - PAGE)));
    byId("case-later").addEventListener("click", () => list(shown.offset + PAGE));
    const help = () => {
      const hidden = byId("case-help").toggleAttribute("hidden");
      byId("case-keys").setAttribute("aria-expanded", String(!hidden));
      if (!hidden) byId("case-help").scrollIntoView({ block: "nearest" });
    };
    byId("case-keys").addEventListener("click", help);
    document.addEventListener("keydown", (event) => {
      if (event.ctrlKey || event.metaKey || event.altKey || event.defaultPrevented) return;
      const typing = event.target.closest("input:not([type=radio]):not([type=checkbox]), select, textarea");
      if (event.key === "Escape" && byId("case-browser").contains(event.target)) {
        toList();
        return;
      }
      if (typing) return;
      if (event.key === "j" || event.key === "k") step(event.key === "j" ? 1 : -1);
      else if (event.key === "/") search.focus();
      else if (event.key === "?") help();
      else if (event.key === "Enter" && event.target === document.body && chosen) {
        byId("case-detail").focus();
      } else return;
      event.preventDefault();
    });
    document.addEventListener("medstress:filter", (event) => {
      byId("case-wish").reset();
      for (const [factor, value] of Object.entries(event.detail || {})) {
        if (value) setFilter(factor, String(value));
      }
      list(0).then(openFirst).then(() => byId("cases").scrollIntoView());
    });
    const follow = (scroll) => {
      if (location.hash.startsWith(PREFIX)) open(decodeURIComponent(location.hash.slice(6)), { scroll });
    };
    window.addEventListener("hashchange", () => follow(true));

    byId("case-static").remove();
    byId("case-browser").hidden = false;
    setView("both");
    list(0).then(() => {
      if (location.hash.startsWith(PREFIX)) follow(true);
      else if (shown.lines.length) open(shown.lines[0].id, { quiet: true });
    });
    if (data.served) {
      const isIdle = () => !touched && !wish.search && !Object.keys(wish.filters).length;
      watch(data, () => list(shown.offset), isIdle);
    }
  };

  // Cases that this page holds.
  const embedded = (data, named) => {
    const columns = data.columns;
    const lines = data.rows.map((row) => {
      const line = {};
      columns.forEach((column, i) => {
        const codes = data.codes[column];
        line[column] = codes ? codes[row[i]] : row[i];
      });
      return line;
    });
    const places = new Map(lines.map((line, i) => [line.id, i]));
    const order = Object.keys(data.names.verdict);
    const band = (p) =>
      p === null ? "unknown" : p < 0.5 ? "below .5" : p < 0.9 ? ".5 to .9" : ".9 and more";
    const values = (line, factor) => {
      if (factor === "valid") return [line.valid === null ? "unknown" : line.valid ? "yes" : "no"];
      if (factor === "confidence") return [band(line.confidence)];
      if (factor === "slice") return line.slices.map(([by, value]) => by + " = " + value);
      return [line[factor]];
    };
    const searched = (line) => {
      const texts = [line.id, line.item, line.replaced, line.replacement, line.key, line.before,
        line.after, line.reason];
      for (const factor of ["attack", "dataset", "group", "victim"]) {
        texts.push(line[factor], named(factor, line[factor]));
      }
      texts.push(...values(line, "slice"));
      return texts.filter(known).join("\n").toLowerCase();
    };
    const text = new Intl.Collator("en", { numeric: true }).compare;
    const byVerdict = (a, b) =>
      order.indexOf(a.verdict) - order.indexOf(b.verdict) || text(a.attack, b.attack) ||
      text(a.dataset, b.dataset) || text(a.group, b.group) || text(a.item, b.item);
    const comparers = {
      verdict: byVerdict,
      confidence: (a, b) => (a.confidence === null) - (b.confidence === null) ||
        (a.confidence || 0) - (b.confidence || 0),
      change: (a, b) => text(a.replaced || "", b.replaced || "") ||
        text(a.replacement || "", b.replacement || ""),
      valid: (a, b) => text(values(a, "valid")[0], values(b, "valid")[0]),
      slice: (a, b) => text(values(a, "slice").join(), values(b, "slice").join()),
    };
    const compare = (sort) => comparers[sort] || ((a, b) => text(a[sort], b[sort]));
    let last = { wish: null, found: [] };
    const matching = (wish) => {
      const key = JSON.stringify(wish);
      if (last.wish === key) return last.found;
      // A question that many cases share is searched once.
      const hits = wish.search && data.texts.map((each) => each.toLowerCase().includes(wish.search));
      const asked = Object.entries(wish.filters);
      const found = lines.filter((line, i) => {
        if (!asked.every(([factor, value]) => values(line, factor).includes(value))) return false;
        if (!wish.search || searched(line).includes(wish.search)) return true;
        const detail = data.details[i];
        return Boolean(detail && detail.shown && hits[detail.shown[0]]);
      });
      const sign = wish.descending ? -1 : 1;
      const by = compare(wish.sort);
      found.sort((a, b) => sign * by(a, b) || byVerdict(a, b));
      last = { wish: key, found };
      return found;
    };
    return {
      size: () => lines.length,
      list: async (wish, offset, limit) => {
        const found = matching(wish);
        return { total: found.length, lines: found.slice(offset, offset + limit) };
      },
      get: async (id) => {
        const place = places.get(id);
        if (place === undefined) return null;
        const detail = data.details[place];
        if (detail) return { line: lines[place], detail, texts: data.texts };
        const told = "all but this line, for the size of the page: medstress case DIR " + id;
        return { line: lines[place], detail: { left_out: [0] }, texts: [told] };
      },
    };
  };

  // Cases that a local server has.
  const served = () => {
    let size = 0;
    return {
      size: () => size,
      list: async (wish, offset, limit) => {
        const asked = new URLSearchParams({
          offset, limit, search: wish.search, sort: wish.sort, descending: wish.descending ? 1 : 0,
        });
        for (const [factor, value] of Object.entries(wish.filters)) asked.set(factor, value);
        const found = await (await fetch("cases?" + asked)).json();
        size = found.size;
        return found;
      },
      get: async (id) => {
        const reply = await fetch("case/" + encodeURIComponent(id));
        if (reply.status === 404) return null;
        const found = await reply.json();
        if (!reply.ok) throw Object.assign(new Error(), { told: found.error });
        return found;
      },
    };
  };

  // Follow a run in progress.
  const watch = (data, again, isIdle) => {
    const told = within("p", "note case-changed");
    told.setAttribute("role", "status");
    byId("case-wish").before(told);
    let version = data.version;
    const ask = async () => {
      if (document.hidden) return;
      try {
        const state = await (await fetch("state")).json();
        if (state.version === version) return;
        version = state.version;
        if (isIdle() && scrollY === 0) return location.reload();
        const more = make("button", "Show its new numbers and plots");
        more.type = "button";
        more.addEventListener("click", () => location.reload());
        told.replaceChildren("The run goes on: " + state.n_trials + " of " + state.n_planned +
          " trials have ended. ", more);
        again();
      } catch {
        clearInterval(timer);
        told.textContent = SILENT;
      }
    };
    const timer = setInterval(ask, 1000 * data.seconds);
  };

  // A page with very many cases is painted before they are read.
  if (source.textContent.length < 1e6 || document.hidden) start();
  else requestAnimationFrame(() => setTimeout(start));
})();

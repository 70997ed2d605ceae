"use strict";
// Tables are sorted by a click on a heading.
(() => {
  const rank = (cell) => (cell.dataset.sort === undefined ? null : Number(cell.dataset.sort));
  const compare = (a, b, sign) => {
    const [x, y] = [rank(a), rank(b)];
    if (x !== null && y !== null) return sign * (x - y);
    if (x !== null || y !== null) return x === null ? 1 : -1;
    return sign * a.textContent.localeCompare(b.textContent, "en", { numeric: true });
  };
  for (const table of document.querySelectorAll("table.sortable")) {
    const body = table.tBodies[0];
    if (body.rows.length < 2) continue;
    const heads = [...table.tHead.rows[table.tHead.rows.length - 1].cells];
    heads.forEach((head, column) => {
      const button = document.createElement("button");
      button.type = "button";
      button.append(...head.childNodes);
      head.append(button);
      button.addEventListener("click", () => {
        const sign = head.getAttribute("aria-sort") === "ascending" ? -1 : 1;
        for (const other of heads) other.removeAttribute("aria-sort");
        head.setAttribute("aria-sort", sign === 1 ? "ascending" : "descending");
        body.append(...[...body.rows].sort((a, b) => compare(a.cells[column], b.cells[column], sign)));
      });
    });
  }
})();

// Cases: a list with search and filters, and the chosen case. A page holds some of them; a page of
// `medstress view` asks its server, which has all.
(() => {
  const byId = (id) => document.getElementById(id);
  const source = byId("case-data");
  if (!source || !byId("case-browser")) return;
  const data = JSON.parse(source.textContent);
  const PAGE = 50;
  const PREFIX = "#case-";
  const FILTERS = [
    ["outcome", "Outcome"], ["attack", "Attack"], ["model", "Model"], ["dataset", "Data"],
    ["group", "Group"], ["run", "Run"], ["validity", "Right answer still right"],
  ];
  const SORTS = [["", "the headline first"], ["item", "item"], ["score", "score before"]];

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
  const isThere = (value) => value !== null && value !== undefined && value !== "";
  const share = (value) => (isThere(value) ? value.toFixed(3).replace(/^(-?)0/, "$1") : "–");
  const to = (before, after) => (isThere(after) ? (isThere(before) ? before : "–") + " → " + after : before);
  const words = (part, key) => (data.words[part] || {})[key] || key;

  // Where cases come from

  const folded = new Map();
  const strings = (value) =>
    typeof value === "string" ? value
      : value && typeof value === "object" ? Object.values(value).map(strings).join("\n") : "";
  const text = (one) => {
    if (!folded.has(one)) folded.set(one, (words("attack", one.attack) + "\n" + strings(one)).toLowerCase());
    return folded.get(one);
  };
  const embedded = {
    list: async (wish, offset) => {
      const search = wish.search.trim().toLowerCase();
      const fitting = data.cases.filter(
        (one) =>
          Object.entries(wish.filters).every(([part, value]) => String(one[part]) === value) &&
          (!search || text(one).includes(search)),
      );
      if (wish.sort === "item") fitting.sort((a, b) => a.item.localeCompare(b.item, "en", { numeric: true }));
      if (wish.sort === "score") fitting.sort((a, b) => (a.score ?? 9) - (b.score ?? 9));
      return { total: fitting.length, cases: fitting.slice(offset, offset + PAGE) };
    },
    get: async (id) => data.cases.find((one) => one.id === id) || null,
  };
  const ask = async (path) => {
    const reply = await fetch(path);
    if (reply.status === 404) return null;
    if (!reply.ok) throw new Error("the server could not read the run");
    return reply.json();
  };
  const served = {
    list: (wish, offset) =>
      ask("cases?" + new URLSearchParams({ ...wish.filters, search: wish.search, sort: wish.sort, offset, limit: PAGE })),
    get: (id) => ask("case/" + encodeURIComponent(id)),
  };
  const store = data.served ? served : embedded;

  // The list

  const wish = { filters: {}, search: "", sort: "" };
  const shown = { cases: [], total: 0, offset: 0 };
  const selects = new Map();
  let chosen = null;
  let latest = 0;
  for (const [part, name] of FILTERS) {
    const values = data.values[part] || [];
    if (values.length < 2 && !data.served) continue;
    const select = within("select", null, new Option("all", ""));
    for (const [value, n] of values) select.append(new Option(words(part, value) + " (" + n + ")", value));
    select.addEventListener("change", () => {
      choose(part, select.value);
      list(0);
    });
    selects.set(part, select);
    byId("case-filters").append(within("label", null, name + " ", select), " ");
  }
  const choose = (part, value) => {
    const select = selects.get(part);
    if (!select) return;
    if (![...select.options].some((option) => option.value === value)) select.append(new Option(words(part, value), value));
    select.value = value;
    if (value) wish.filters[part] = value;
    else delete wish.filters[part];
  };
  for (const [value, name] of SORTS) byId("case-sort").append(new Option(name, value));

  const mark = (one) => make("span", words("outcome", one.outcome), "case-verdict " + one.outcome);
  const swap = (edit) => {
    const box = within("span", "swap");
    if (edit.replaced) box.append(make("del", edit.replaced), " ");
    box.append(make("ins", edit.replacement || "(nothing)"));
    return box;
  };
  const button = (one) => {
    const line = within("button", "case-line");
    line.type = "button";
    line.dataset.id = one.id;
    const first = within("span", "case-first", mark(one));
    const isReadable = one.change && /[\p{L}\p{N}]/u.test((one.change.replaced || "") + one.change.replacement);
    first.append(isReadable ? swap(one.change) : make("bdi", one.item));
    if (isThere(one.before)) first.append(" ", make("bdi", to(one.before, one.after), "answers"));
    const place = [words("attack", one.attack)];
    for (const part of ["model", "dataset", "group", "run"]) {
      if ((data.values[part] || []).length > 1) place.push(words(part, one[part]));
    }
    if (isReadable) place.push(one.item);
    if (one.draw) place.push(one.draw);
    line.append(first, within("span", "case-second", make("bdi", place.join(" · "))));
    line.addEventListener("click", () => open(one.id, { focus: true }));
    return within("li", null, line);
  };
  const list = async (offset) => {
    const number = ++latest;
    const reply = await store.list(wish, offset).catch(() => null);
    if (number !== latest) return;
    if (!reply) {
      byId("case-count").textContent = "The server does not answer; start medstress view again.";
      return;
    }
    Object.assign(shown, reply, { offset });
    byId("case-lines").replaceChildren(...reply.cases.map(button));
    byId("case-lines").start = offset + 1;
    byId("case-count").textContent = reply.total + (reply.total === 1 ? " case" : " cases");
    const last = Math.min(offset + PAGE, reply.total);
    byId("case-page").textContent = reply.total ? offset + 1 + " to " + last : "none";
    byId("case-earlier").disabled = offset === 0;
    byId("case-later").disabled = last >= reply.total;
    current();
  };
  const current = () => {
    let line = null;
    for (const one of byId("case-lines").querySelectorAll(".case-line")) {
      one.toggleAttribute("aria-current", one.dataset.id === chosen);
      if (one.dataset.id === chosen) {
        one.setAttribute("aria-current", "true");
        line = one;
      }
    }
    return line;
  };
  const step = async (by) => {
    const isInList = byId("case-lines").contains(document.activeElement);
    let place = shown.cases.findIndex((one) => one.id === chosen);
    place = place < 0 ? (by > 0 ? 0 : shown.cases.length - 1) : place + by;
    if (place < 0 && shown.offset > 0) {
      await list(shown.offset - PAGE);
      place = shown.cases.length - 1;
    } else if (place >= shown.cases.length && shown.offset + PAGE < shown.total) {
      await list(shown.offset + PAGE);
      place = 0;
    }
    if (!shown.cases[place]) return;
    await open(shown.cases[place].id, { scroll: true });
    if (isInList) current().focus();
  };

  // One case

  const open = async (id, { focus = false, scroll = false, quiet = false } = {}) => {
    chosen = id;
    const line = current();
    const one = await store.get(id).catch(() => null);
    if (chosen !== id) return;
    const detail = byId("case-detail");
    detail.replaceChildren(...(one ? drawn(one) : missing(id)));
    if (!quiet) history.replaceState(null, "", PREFIX + id);
    if (line && (focus || scroll)) line.scrollIntoView({ block: "nearest" });
    if (focus) detail.focus({ preventScroll: true });
    if (focus || scroll) detail.scrollIntoView({ block: "nearest" });
  };
  const missing = (id) => [
    within("p", "none", "This page does not hold the case ", make("code", id), ". ",
      make("code", "medstress case DIR " + id), " shows it, and ", make("code", "medstress view DIR"),
      " has all cases."),
  ];
  const marked = (parts) => {
    const box = within("div", "prompt");
    for (const [change, part] of parts) {
      box.append(change === "same" ? part : make(change === "removed" ? "del" : "ins", part));
    }
    return box;
  };
  const table = (heads, rows, label) => {
    const line = (tag, cells) =>
      within("tr", null, ...cells.map((cell) => {
        const made = make(tag, isThere(cell) ? String(cell) : tag === "th" ? "" : "–");
        if (tag === "th") made.scope = "col";
        return made;
      }));
    const box = within("div", "scroll", within("table", null,
      within("thead", null, line("th", heads)),
      within("tbody", null, ...rows.map((cells) => line("td", cells)))));
    box.tabIndex = 0;
    box.setAttribute("role", "group");
    box.setAttribute("aria-label", label);
    return box;
  };
  const swaps = (edits) =>
    edits.map((edit) => (edit.replaced ? edit.replaced + " → " : "+ ") + (edit.replacement || "(nothing)")).join("; ");
  const facts = (one) => [
    ["Run", (data.values.run || []).length > 1 ? one.run : null],
    ["Attack", words("attack", one.attack), one.attack],
    ["Model", words("model", one.model), one.model],
    ["Data", one.dataset], ["Group", one.group], ["Item", one.item],
    ...one.facts,
  ].filter(([, value]) => isThere(value));
  const drawn = (one) => {
    const title = within("h3", null, mark(one), make("bdi", words("attack", one.attack)));
    const link = make("a", "Link to this case");
    link.href = PREFIX + one.id;
    const list = within("dl", "facts");
    for (const [name, value, key] of facts(one)) {
      const cell = make("dd", String(value));
      if (key && key !== value) cell.title = key;
      list.append(within("div", null, make("dt", name), cell));
    }
    const parts = [title, within("p", null, link), list];
    if (one.text.length) parts.push(marked(one.text));
    if (one.sent.length) {
      const box = within("details", null, make("summary", "What was sent to the model, exactly"));
      for (const [role, segments] of one.sent) box.append(make("h4", role), marked(segments));
      parts.push(box);
    } else if (one.text.length && one.is_sent) {
      parts.push(make("p", "This text was sent to the model exactly as shown.", "note"));
    }
    if (one.continuations.length) {
      parts.push(within("details", null, make("summary", "Continuations whose likelihood was asked for"),
        make("div", one.continuations.join("\n"), "prompt")));
    }
    if (one.scores.length) {
      parts.push(make("h4", "Scores"), table(["Answer", "Before", "After"],
        one.scores.map(([label, before, after]) => [label, share(before), share(after)]), "Scores"));
    }
    for (const [name, tokens, gold, labels] of one.labels) {
      parts.push(make("h4", "Labels " + name), table(["Word", "Right label", "Label given"],
        tokens.map((token, i) => [token, gold[i], labels[i]]), "Labels " + name));
    }
    if (one.tried.length) {
      const answer = (t) => (t.answer || "none") + (t.is_refuted ? ", a success that was refuted" : "");
      parts.push(make("h4", "Tried before"), table(["Query", "Change", "Answer", "Score"],
        one.tried.map((t) => [t.query, swaps(t.edits), answer(t), share(t.score)]), "Tried before"));
    }
    if (one.n_left_out) {
      parts.push(make("p", one.n_left_out + " earlier edits are left out: medstress case shows all.", "note"));
    }
    if (one.attempts.length) parts.push(make("h4", "Attempts"));
    for (const attempt of one.attempts) {
      const name = attempt.number ? "Attempt " + attempt.number : "Clean item";
      const stated = (attempt.confidences || []).join(", ");
      const box = within("details", null, make("summary",
        name + ": answer " + (attempt.answer || "none") + (stated ? "; stated confidences " + stated : "")));
      for (const text of attempt.inserted) box.append(make("p", "Inserted: " + text));
      for (const reason of attempt.objections) box.append(make("p", "Objection: " + reason));
      if (attempt.plan) box.append(make("h5", "Plan of the attacker"), make("p", attempt.plan, "prompt"));
      if (attempt.reasoning) box.append(make("h5", "Reasoning of the model"), make("p", attempt.reasoning, "prompt"));
      parts.push(box);
    }
    return parts;
  };

  // What people do

  const search = byId("case-search");
  let typing = 0;
  search.addEventListener("input", () => {
    clearTimeout(typing);
    typing = setTimeout(() => {
      wish.search = search.value;
      list(0);
    }, 150);
  });
  byId("case-sort").addEventListener("change", (event) => {
    wish.sort = event.target.value;
    list(0);
  });
  byId("case-wish").addEventListener("submit", (event) => event.preventDefault());
  byId("case-wish").addEventListener("reset", () => {
    Object.assign(wish, { filters: {}, search: "", sort: "" });
    list(0);
  });
  byId("case-earlier").addEventListener("click", () => list(Math.max(0, shown.offset - PAGE)));
  byId("case-later").addEventListener("click", () => list(shown.offset + PAGE));
  for (const link of document.querySelectorAll(".to-cases")) {
    link.addEventListener("click", async () => {
      for (const part of selects.keys()) choose(part, "");
      const { run, dataset, group, victim, attack } = link.dataset;
      for (const [part, value] of Object.entries({ run, dataset, group, model: victim, attack })) choose(part, value || "");
      choose("outcome", "flipped");
      await list(0);
      if (!shown.total) {
        choose("outcome", "");
        await list(0);
      }
      if (shown.cases.length) open(shown.cases[0].id, { quiet: true });
    });
  }
  document.addEventListener("keydown", (event) => {
    if (event.ctrlKey || event.metaKey || event.altKey) return;
    const isTyping = /^(input|select|textarea)$/i.test(event.target.tagName);
    if (event.key === "Escape") (current() || byId("case-lines")).focus();
    else if (isTyping) return;
    else if (event.key === "j") step(1);
    else if (event.key === "k") step(-1);
    else if (event.key === "/") search.focus();
    else return;
    event.preventDefault();
  });
  const ofHash = () => (location.hash.startsWith(PREFIX) ? decodeURIComponent(location.hash.slice(PREFIX.length)) : null);
  addEventListener("hashchange", () => {
    const id = ofHash();
    if (id && id !== chosen) open(id, { focus: true });
  });

  byId("case-browser").hidden = false;
  list(0).then(() => {
    const id = ofHash();
    if (id) open(id, { focus: true });
    else if (shown.cases.length) open(shown.cases[0].id, { quiet: true });
  });

  // A run that goes on: the server is asked whether it has changed.
  if (data.served && data.seconds) {
    setInterval(async () => {
      const state = await ask("state").catch(() => null);
      if (!state || state.version === data.version || byId("case-changed")) return;
      const note = within("p", "progress", state.n_trials + " of " + state.n_planned + " trials ended. ");
      note.id = "case-changed";
      note.setAttribute("role", "status");
      const again = make("button", "Show them");
      again.type = "button";
      again.addEventListener("click", () => location.reload());
      note.append(again);
      document.querySelector(".first").prepend(note);
    }, data.seconds * 1000);
  }
})();

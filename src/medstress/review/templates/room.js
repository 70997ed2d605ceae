"use strict";
(() => {
  const at = (id) => document.getElementById(id);
  const data = JSON.parse(at("data").textContent);
  const isAnswer = data.mode === "answer";
  const byId = new Map(data.cases.map((one) => [one.id, one]));
  const judgements = Object.keys(data.questions);
  const letters = "ABCDEFGHIJ";
  let rater = "", order = [], place = 0, row = 0;
  let saved = {};            // case -> {answers, note, time}
  const unsent = new Set();  // cases whose last answer the server has not confirmed
  let sending = Promise.resolve();

  function make(name, text, attributes = {}) {
    const made = document.createElement(name);
    if (text !== undefined) made.textContent = text;
    for (const [key, value] of Object.entries(attributes)) made.setAttribute(key, value);
    return made;
  }

  // The order is a pure function of seed, rater and codes (FNV-1a, then MurmurHash3's last steps).
  function hash(text) {
    let h = 0x811c9dc5;
    for (let i = 0; i < text.length; i++) h = Math.imul(h ^ text.charCodeAt(i), 0x01000193);
    h = Math.imul(h ^ (h >>> 16), 0x85ebca6b);
    h = Math.imul(h ^ (h >>> 13), 0xc2b2ae35);
    return (h ^ (h >>> 16)) >>> 0;
  }
  const who = () => rater.toLowerCase();
  function shuffled(ids) {
    const rank = new Map(ids.map((id) => [id, hash(data.seed + "\n" + who() + "\n" + id)]));
    return [...ids].sort((a, b) => rank.get(a) - rank.get(b) || (a < b ? -1 : 1));
  }
  // Of each item a rater sees one version, and the next rater the other one.
  function chosen(pair, number) {
    return pair.find((id) => saved[id]?.answers.answer) ?? pair[number % 2];
  }

  const shelf = () => "medstress-review " + data.room + " " + who();
  const transport = data.served ? {
    async start() { return post("start", { rater }); },
    async save(verdict) { await post("verdict", { rater, ...verdict }); },
  } : {
    async start() {
      let kept = {};
      try {
        kept = JSON.parse(localStorage.getItem(shelf()) || "{}");
      } catch {
        warn("This browser keeps nothing. Download your answers before you close the page.");
      }
      return { number: hash(who()) % 2, saved: kept };
    },
    async save() {
      try {
        localStorage.setItem(shelf(), JSON.stringify(saved));
      } catch {
        warn("This browser keeps nothing. Download your answers before you close the page.");
      }
    },
  };

  async function post(path, body) {
    const headers = { "Content-Type": "application/json" };
    const options = { method: "POST", headers, body: JSON.stringify(body) };
    let response;
    try {
      response = await fetch(path, options);
    } catch {
      throw new Error("The review room does not answer; is the command still running?");
    }
    const text = await response.text();
    if (!response.ok) throw new Error(text.trim());
    return JSON.parse(text);
  }

  function warn(text) {
    at("problem").textContent = text;
    at("problem").hidden = !text;
  }

  const now = () => new Date().toISOString().slice(0, 19) + "+00:00";
  const current = () => byId.get(order[place]);
  const asked = (one) => one.ask ?? judgements;
  function isDone(one) {
    const given = saved[one.id]?.answers ?? {};
    return isAnswer ? Boolean(given.answer) : asked(one).every((name) => given[name]);
  }
  const nDone = () => order.filter((id) => isDone(byId.get(id))).length;

  function keep(answers, note) {
    const id = current().id;
    saved[id] = { answers, note, time: now() };
    unsent.add(id);
    sending = sending.then(send);
    progress();
  }
  async function send() {
    for (const id of [...unsent]) {
      const verdict = saved[id];
      try {
        await transport.save({ case: id, answers: verdict.answers, note: verdict.note });
      } catch (error) {
        at("saved").textContent = "";
        return warn("Not saved: " + error.message + " It is tried again with your next answer.");
      }
      if (saved[id] === verdict) unsent.delete(id);
    }
    if (data.served) warn("");
    at("saved").textContent = "Saved";
  }

  function progress() {
    const done = nDone();
    at("progress").textContent = `Case ${place + 1} of ${order.length}, ${done} done`;
    at("bar").max = order.length;
    at("bar").value = done;
  }

  function showTexts(one) {
    at("texts").replaceChildren(...one.texts.flatMap((text) => {
      const body = make("p", undefined, { dir: "auto" });
      text.parts.forEach((part, i) => {
        if (i && part.text) body.append(" ");
        body.append(part.marked ? make("mark", part.text) : part.text);
      });
      return [make("h3", text.name), body];
    }));
  }
  function showOptions(one) {
    at("options").replaceChildren(...one.options.map((text, i) => {
      const letter = letters[i], item = make("li");
      const parts = [make("span", letter), make("bdi", text)];
      if (isAnswer) {
        const button = make("button", undefined, { type: "button", "data-answer": letter });
        button.append(...parts);
        button.addEventListener("click", () => answer(letter));
        item.append(button);
      } else {
        item.append(...parts);
        if (letter === one.key) {
          item.className = "key";
          item.append(make("span", "marked answer", { class: "tag" }));
        }
      }
      return item;
    }));
  }
  function showJudgements(one) {
    at("judgements").replaceChildren(...asked(one).map((name, i) => {
      const set = make("fieldset", undefined, { "data-judgement-row": name });
      const legend = make("legend");
      legend.append(make("span", i + 1 + ". ", { class: "number" }), data.questions[name]);
      const words = make("div", undefined, { class: "words" });
      for (const word of data.words) {
        const tags = { type: "button", "data-judgement": name, "data-value": word };
        const button = make("button", word[0].toUpperCase() + word.slice(1), tags);
        button.addEventListener("click", () => judge(i, word));
        words.append(button);
      }
      set.append(legend, words);
      return set;
    }));
  }
  function showSaid(one) {
    at("said").hidden = !one.said;
    if (!one.said) return;
    const lines = Object.entries(one.said).map(([name, counts]) => {
      const told = Object.entries(counts).map(([word, n]) => `${word}: ${n}`).join(", ");
      return make("p", `${data.questions[name]} ${told}`);
    });
    const notes = one.notes.map((note) => make("p", "“" + note + "”", { dir: "auto" }));
    at("said").replaceChildren(make("h3", "What raters said"), ...lines, ...notes);
  }
  function mark() {
    const given = saved[current().id]?.answers ?? {};
    for (const button of at("judging").querySelectorAll("button[data-judgement]")) {
      const is = given[button.dataset.judgement] === button.dataset.value;
      button.setAttribute("aria-pressed", String(is));
    }
    for (const button of at("options").querySelectorAll("button[data-answer]")) {
      button.setAttribute("aria-pressed", String(given.answer === button.dataset.answer));
    }
    [...at("judgements").children].forEach((set, i) => set.classList.toggle("at", i === row));
  }
  function show() {
    const one = current();
    for (const id of ["welcome", "done"]) at(id).hidden = true;
    at("judging").hidden = false;
    at("case-title").textContent = (isAnswer ? "Question " : "Case ") + (place + 1);
    row = 0;
    showTexts(one);
    showOptions(one);
    showSaid(one);
    showJudgements(one);
    at("note").value = saved[one.id]?.note ?? "";
    at("saved").textContent = "";
    at("back").disabled = place === 0;
    mark();
    progress();
    scrollTo(0, 0);
    at("case-title").focus();
  }
  function finish() {
    at("judging").hidden = true;
    at("done").hidden = false;
    const left = order.length - nDone();
    at("done-title").textContent = left ? "Not all done yet" : "All done, thank you";
    at("left").textContent = left
      ? `${left} of ${order.length} still lack an answer. What you answered is kept.`
      : data.served ? "Everything is saved. You may close the page."
        : "Download your answers, and send the file back.";
    at("done-title").focus();
  }

  const noteNow = () => at("note").value.trim();
  function judge(i, word) {
    const name = asked(current())[i];
    const given = saved[current().id]?.answers ?? {};
    row = Math.min(i + 1, asked(current()).length - 1);
    keep({ ...given, [name]: word }, noteNow());
    mark();
  }
  function answer(letter) {
    keep({ answer: letter }, noteNow());
    mark();
  }
  function keepNote() {
    const known = saved[current().id];
    if (noteNow() !== (known?.note ?? "")) keep(known?.answers ?? {}, noteNow());
  }
  function go(step) {
    keepNote();
    if (place + step < 0) return;
    place += step;
    if (place < order.length) return show();
    place = order.length - 1;
    finish();
  }

  async function start() {
    rater = at("rater").value.trim().replace(/\s+/g, " ");
    if (!rater) {
      warn("Please give your name or initials.");
      return at("rater").focus();
    }
    warn("");
    let begun;
    try {
      begun = await transport.start();
    } catch (error) {
      return warn(error.message);
    }
    saved = begun.saved;
    const ids = isAnswer ? data.pairs.map((pair) => chosen(pair, begun.number)) : [...byId.keys()];
    order = shuffled(ids);
    const open = order.findIndex((id) => !isDone(byId.get(id)));
    place = Math.max(open, 0);
    show();
  }
  function download() {
    const verdicts = order.filter((id) => saved[id]).map((id) => ({ case: id, ...saved[id] }));
    const text = JSON.stringify({ format: 1, room: data.room, rater, verdicts }, null, 1);
    const url = URL.createObjectURL(new Blob([text], { type: "application/json" }));
    const name = who().replace(/[^a-z0-9]+/g, "-").replace(/^-|-$/g, "") || "rater";
    const link = make("a", undefined, { href: url, download: `review-${name}.json` });
    document.body.append(link);
    link.click();
    link.remove();
    setTimeout(() => URL.revokeObjectURL(url), 60000);
  }

  at("start").addEventListener("click", start);
  at("rater").addEventListener("keydown", (event) => { if (event.key === "Enter") start(); });
  at("back").addEventListener("click", () => go(-1));
  at("next").addEventListener("click", () => go(1));
  at("again").addEventListener("click", show);
  at("download")?.addEventListener("click", download);
  at("note").addEventListener("change", keepNote);
  addEventListener("beforeunload", (event) => { if (data.served && unsent.size) event.preventDefault(); });
  addEventListener("keydown", (event) => {
    if (event.ctrlKey || event.metaKey || event.altKey || at("judging").hidden) return;
    if (event.target.closest("input, textarea")) return;
    const key = event.key.toLowerCase();
    const word = { y: "yes", n: "no", u: "cannot say" }[key];
    if (key === "arrowright") go(1);
    else if (key === "arrowleft") go(-1);
    else if (isAnswer && key.length === 1 && letters.slice(0, current().options.length).includes(key.toUpperCase())) {
      answer(key.toUpperCase());
    } else if (!isAnswer && /^[1-4]$/.test(key) && Number(key) <= asked(current()).length) {
      row = Number(key) - 1;
      mark();
      at("judgements").children[row].querySelector("button").focus();
    } else if (!isAnswer && word) judge(row, word);
    else return;
    event.preventDefault();
  });
  at("rater").focus();
})();

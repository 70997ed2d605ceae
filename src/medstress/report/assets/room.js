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
  // case -> {answers, note}: what changed there and is not confirmed; the note only if it changed.
  let unsent = {};
  let isKept = true;         // whether this browser keeps what is not confirmed
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

  // A file keeps all answers on the shelf; a served page those that the server has not confirmed.
  const shelf = () => "medstress-review " + data.room + " " + who();
  function shelved() {
    try {
      isKept = true;
      return JSON.parse(localStorage.getItem(shelf()) || "{}");
    } catch {
      isKept = false;
      return {};
    }
  }
  function shelve(kept) {
    try {
      if (Object.keys(kept).length) localStorage.setItem(shelf(), JSON.stringify(kept));
      else localStorage.removeItem(shelf());
      isKept = true;
    } catch {
      isKept = false;
    }
  }
  function warnIfLost() {
    if (!isKept) warn("This browser keeps nothing. Download your answers before you close the page.");
  }
  // Another tab of the same rater may have said more of a case than this one.
  const joined = (known, change) => ({
    answers: { ...known?.answers, ...change.answers },
    note: change.note ?? known?.note ?? "",
    time: change.time,
  });
  const transport = data.served ? {
    async start() {
      const begun = await post("start", { rater });
      unsent = shelved();
      for (const [id, change] of Object.entries(unsent)) {
        if (byId.has(id)) begun.saved[id] = joined(begun.saved[id], change);
        else delete unsent[id];
      }
      return begun;
    },
    async save(id, { answers, note }) { return post("verdict", { rater, case: id, answers, note }); },
  } : {
    async start() {
      const kept = shelved();
      warnIfLost();
      return { number: hash(who()) % 2, saved: kept };
    },
    async save(id, change) {
      const kept = shelved();
      kept[id] = joined(kept[id], change);
      shelve(kept);
      warnIfLost();
      return kept[id];
    },
  };

  async function post(path, body) {
    const headers = { "Content-Type": "application/json" };
    // What is sent while the page closes still arrives.
    const options = { method: "POST", headers, body: JSON.stringify(body), keepalive: true };
    let response;
    try {
      response = await fetch(path, options);
    } catch {
      throw new Error(gone());
    }
    // A command that was started again has another address.
    if (response.status === 404) throw new Error(gone());
    const text = await response.text();
    if (!response.ok) throw new Error(text.trim() + ".");
    return JSON.parse(text);
  }
  function gone() {
    const kept = isKept ? "What you answered is kept in this browser and sent then." : "";
    return "The review room does not answer. Start the command again, and open its new address " +
      `under the same name. ${kept}`.trim();
  }

  function warn(text) {
    at("problem").textContent = text;
    at("problem").hidden = !text;
  }

  const now = () => new Date().toISOString().slice(0, 19) + "+00:00";
  const current = () => byId.get(order[place]);
  function isDone(one) {
    const given = saved[one.id]?.answers ?? {};
    return isAnswer ? Boolean(given.answer) : judgements.every((name) => given[name]);
  }
  const nDone = () => order.filter((id) => isDone(byId.get(id))).length;

  function keep(answers) {
    const id = current().id, change = { answers, time: now() };
    if (noteNow() !== (saved[id]?.note ?? "")) change.note = noteNow();
    saved[id] = joined(saved[id], change);
    const earlier = unsent[id];
    unsent[id] = { ...earlier, ...change, answers: { ...earlier?.answers, ...answers } };
    if (data.served) shelve(unsent);
    sending = sending.then(send);
    progress();
  }
  async function send() {
    const sender = rater;
    let failed;
    for (const [id, change] of Object.entries(unsent)) {
      let known;
      try {
        known = await transport.save(id, change);
      } catch (error) {
        failed = error;
      }
      if (rater !== sender) return;
      if (failed || unsent[id] !== change) continue;
      delete unsent[id];
      if (data.served) shelve(unsent);
      saved[id] = { answers: known.answers, note: known.note, time: change.time };
      if (current()?.id === id && !at("judging").hidden) {
        mark();
        progress();
      }
    }
    at("saved").textContent = failed ? "" : "Saved";
    if (failed) warn("Not saved yet. " + failed.message);
    else if (data.served) warn("");
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
    at("judgements").replaceChildren(...judgements.map((name, i) => {
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
    showJudgements(one);
    at("note").value = saved[one.id]?.note ?? "";
    at("saved").textContent = "";
    at("back").disabled = place === 0;
    mark();
    progress();
    scrollTo(0, 0);
    at("case-title").focus();
    remember("#" + (place + 1));
  }
  function finish() {
    for (const id of ["welcome", "judging"]) at(id).hidden = true;
    at("done").hidden = false;
    const open = order.flatMap((id, i) => (isDone(byId.get(id)) ? [] : [i]));
    const left = open.length;
    at("open").replaceChildren(...open.map((i) => {
      const button = make("button", (isAnswer ? "Question " : "Case ") + (i + 1), { type: "button" });
      button.addEventListener("click", () => goTo(i));
      const item = make("li");
      item.append(button);
      return item;
    }));
    at("open").hidden = !left;
    at("again").textContent = left ? "Go to the first that is open" : "← Back to the cases";
    at("done-title").textContent = left ? "Not all done yet" : "All done, thank you";
    at("left").textContent = left
      ? `${left} of ${order.length} still lack an answer. What you answered is kept.`
      : data.served ? "Everything is saved. You may close the page."
        : "Download your answers, and send the file back.";
    at("done-title").focus();
    remember("#end");
  }
  // The browser's own Back goes to what was shown before, and not out of the room.
  function remember(hash) {
    if (location.hash !== hash) history.pushState(null, "", hash);
  }
  function recall() {
    if (!order.length) return;
    if (!at("judging").hidden) keepNote();
    const number = Number(location.hash.slice(1));
    if (location.hash === "#end") finish();
    else if (Number.isInteger(number) && number >= 1 && number <= order.length) goTo(number - 1);
    else {
      for (const id of ["judging", "done"]) at(id).hidden = true;
      at("welcome").hidden = false;
    }
  }

  const noteNow = () => at("note").value.trim();
  function judge(i, word) {
    const name = judgements[i];
    row = Math.min(i + 1, judgements.length - 1);
    keep({ [name]: word });
    mark();
  }
  function answer(letter) {
    keep({ answer: letter });
    mark();
  }
  let typing;
  function keepNote() {
    clearTimeout(typing);
    if (!order.length || at("judging").hidden) return;
    if (noteNow() !== (saved[current().id]?.note ?? "")) keep({});
  }
  function goTo(i) {
    place = i;
    show();
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
    place = Math.max(firstOpen(), 0);
    show();
    if (Object.keys(unsent).length) sending = sending.then(send);
  }
  const firstOpen = () => order.findIndex((id) => !isDone(byId.get(id)));
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
  at("again").addEventListener("click", () => goTo(firstOpen() < 0 ? place : firstOpen()));
  at("download")?.addEventListener("click", download);
  at("note").addEventListener("change", keepNote);
  at("note").addEventListener("input", () => {
    clearTimeout(typing);
    typing = setTimeout(keepNote, 500);
  });
  addEventListener("popstate", recall);
  addEventListener("pagehide", keepNote);
  addEventListener("beforeunload", (event) => {
    keepNote();
    if (data.served && !isKept && Object.keys(unsent).length) event.preventDefault();
  });
  addEventListener("keydown", (event) => {
    if (event.ctrlKey || event.metaKey || event.altKey) return;
    if (event.target.closest("input, textarea")) return;
    const key = event.key.toLowerCase();
    if (!at("done").hidden && key === "arrowleft") {
      event.preventDefault();
      return goTo(order.length - 1);
    }
    if (at("judging").hidden) return;
    const word = { y: "yes", n: "no", u: "cannot say" }[key];
    if (key === "arrowright") go(1);
    else if (key === "arrowleft") go(-1);
    else if (isAnswer && key.length === 1 && letters.slice(0, current().options.length).includes(key.toUpperCase())) {
      answer(key.toUpperCase());
    } else if (!isAnswer && /^[1-4]$/.test(key) && Number(key) <= judgements.length) {
      row = Number(key) - 1;
      mark();
      at("judgements").children[row].querySelector("button").focus();
    } else if (!isAnswer && word) judge(row, word);
    else return;
    event.preventDefault();
  });
  at("rater").focus();
})();

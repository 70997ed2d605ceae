"use strict";
(() => {
  // The policy forbids style attributes; styles that scripts set are properties, which it allows.
  const tip = document.createElement("dl");
  tip.className = "tip";
  tip.hidden = true;
  document.body.append(tip);

  const showTip = (_, event, item, value) => {
    if (value === null || value === undefined || value === "") {
      tip.hidden = true;
      return;
    }
    const lines = typeof value === "object" ? Object.entries(value) : [["", value]];
    tip.replaceChildren();
    for (const [name, text] of lines) {
      const [term, told] = [document.createElement("dt"), document.createElement("dd")];
      term.textContent = name;
      told.textContent = text;
      tip.append(term, told);
    }
    tip.hidden = false;
    const { width, height } = tip.getBoundingClientRect();
    const left = Math.min(event.clientX + 12, innerWidth - width - 8);
    const isLow = event.clientY + 16 + height > innerHeight;
    tip.style.left = Math.max(8, left) + "px";
    tip.style.top = Math.max(8, isLow ? event.clientY - height - 12 : event.clientY + 16) + "px";
  };

  const keys = JSON.parse(document.getElementById("keys").textContent);
  const factors = ["attack", "victim", "dataset", "group"];
  const filter = (event, item) => {
    const datum = (item && item.datum) || {};
    const told = factors.filter((name) => datum[name] !== undefined && datum[name] !== null);
    if (!told.length) return;
    const detail = Object.fromEntries(
      told.map((name) => [name, (keys[name] || {})[datum[name]] || datum[name]]),
    );
    document.dispatchEvent(new CustomEvent("medstress:filter", { detail }));
  };

  const draw = async (chart) => {
    const picture = chart.querySelector("svg");
    const live = document.createElement("div");
    live.className = "live";
    live.setAttribute("role", "img");
    live.setAttribute("aria-label", picture.getAttribute("aria-label") || "Plot");
    chart.append(live);
    const options = {
      ast: true,
      defaultStyle: false,
      actions: false,
      renderer: "svg",
      tooltip: showTip,
    };
    try {
      const spec = JSON.parse(chart.querySelector("script").textContent);
      const { view } = await window.vegaEmbed(live, spec, options);
      view.addEventListener("click", filter);
      picture.remove();
      chart.dataset.drawn = "yes";
    } catch (error) {
      live.remove();
      throw error;
    }
  };

  const seen = new IntersectionObserver(
    (entries) => {
      for (const { isIntersecting, target } of entries) {
        if (!isIntersecting) continue;
        seen.unobserve(target);
        draw(target);
      }
    },
    { rootMargin: "300px" },
  );
  for (const chart of document.querySelectorAll(".chart")) seen.observe(chart);
  addEventListener("scroll", () => (tip.hidden = true), { passive: true });
})();

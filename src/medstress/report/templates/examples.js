"use strict";
(() => {
  const byId = (id) => document.getElementById(id);

  const filter = byId("filter");
  if (!filter) return;
  const [attack, group, text] = ["attack", "group", "text"].map((name) => byId("filter-" + name));
  const examples = [...byId("examples").children].map((element) => ({
    element,
    text: element.textContent.toLowerCase(),
  }));
  const apply = () => {
    const wanted = text.value.trim().toLowerCase();
    let shown = 0;
    for (const example of examples) {
      const { attack: ofAttack, group: ofGroup } = example.element.dataset;
      const fits =
        (!attack.value || attack.value === ofAttack) &&
        (!group.value || group.value === ofGroup) &&
        example.text.includes(wanted);
      example.element.hidden = !fits;
      shown += fits;
    }
    byId("filter-count").textContent = shown + " of " + examples.length + " shown";
  };
  const setOpen = (open) => () => {
    for (const { element } of examples) element.open = open;
  };
  filter.hidden = false;
  attack.addEventListener("change", apply);
  group.addEventListener("change", apply);
  text.addEventListener("input", apply);
  byId("open-all").addEventListener("click", setOpen(true));
  byId("close-all").addEventListener("click", setOpen(false));
  apply();
})();

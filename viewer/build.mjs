// Bundles the viewer into one HTML file. With --check it only compares with the file that is checked in.
import { createHash } from 'node:crypto';
import { readFile, writeFile } from 'node:fs/promises';
import { build } from 'esbuild';

const here = new URL('./', import.meta.url);
const target = new URL('../crates/onbeat-cli/assets/viewer.html', here);

const bundled = async (entry, more) => {
  const { outputFiles } = await build({
    entryPoints: [new URL(entry, here).pathname], bundle: true, write: false, minify: true, charset: 'utf8', legalComments: 'none',
    target: ['es2022'], ...more,
  });
  return outputFiles[0].text.trim();
};
const hash = (text) => `'sha256-${createHash('sha256').update(text, 'utf8').digest('base64')}'`;

/** A package's version and licence, as a comment of the bundle it goes into. */
const notice = async (name, folder) => {
  const licence = (await readFile(new URL(`node_modules/${folder}/LICENSE`, here), 'utf8')).trim();
  const { version } = JSON.parse(await readFile(new URL(`node_modules/${folder}/package.json`, here), 'utf8'));
  return `/* Bundles ${name} ${version}. ${licence.replaceAll('*/', '')} */`;
};

/** The page's text; `@@DATA@@` stands in it exactly once. */
export async function page() {
  const notices = await Promise.all([notice('uPlot', 'uplot'), notice('fflate', 'fflate')]);
  const js = `${notices.join('\n')}\n${await bundled('src/main.ts', { format: 'iife' })}`;
  const css = await bundled('src/style.css', { loader: { '.css': 'css' } });
  const csp = ["default-src 'none'", `script-src ${hash(js)}`, `style-src ${hash(css)}`, 'img-src data: blob:', "base-uri 'none'", "form-action 'none'"].join('; ');
  const parts = { CSP: csp, CSS: css, JS: js, DATA: '@@DATA@@' };
  const template = await readFile(new URL('src/template.html', here), 'utf8');
  const html = template.replace(/%(CSP|CSS|JS|DATA)%/g, (_, name) => parts[name]);
  if (html.split('@@DATA@@').length !== 2) throw new Error('the place for the data must occur exactly once');
  return html;
}

if (process.argv[1] === new URL(import.meta.url).pathname) {
  const html = await page();
  if (process.argv.includes('--check')) {
    const kept = await readFile(target, 'utf8').catch(() => '');
    if (kept !== html) {
      console.error('crates/onbeat-cli/assets/viewer.html is not what the sources make; run `npm run build` and commit it.');
      process.exit(1);
    }
    console.log('crates/onbeat-cli/assets/viewer.html is what the sources make.');
  } else {
    await writeFile(target, html);
    console.log(`viewer.html: ${(Buffer.byteLength(html) / 1024).toFixed(1)} KiB`);
  }
}

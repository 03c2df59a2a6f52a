// Bundles the tests and runs them: `node test/run.mjs [measure|screenshots|test [PART OF A NAME]]`.
import { mkdtempSync, readdirSync, rmSync, statSync, symlinkSync } from 'node:fs';
import { availableParallelism, tmpdir } from 'node:os';
import { join } from 'node:path';
import { spawnSync } from 'node:child_process';
import { run } from 'node:test';
import { spec } from 'node:test/reporters';
import { build } from 'esbuild';

const root = new URL('..', import.meta.url).pathname.replace(/\/$/, '');
const what = process.argv[2] ?? 'test';
const out = mkdtempSync(join(tmpdir(), 'onbeat-viewer-'));
const only = process.argv[3] ?? '';
// The longest first, so that none runs alone in the end.
const length = (name) => statSync(join(root, 'test', name)).size;
const entries = readdirSync(join(root, 'test'))
  .sort((a, b) => length(b) - length(a))
  .filter((name) =>
    what === 'test' ? name.endsWith('.test.ts') && name.includes(only) : name === `${what}.ts`,
  );
try {
  await build({
    entryPoints: entries.map((name) => join(root, 'test', name)),
    bundle: true,
    platform: 'node',
    format: 'esm',
    outdir: out,
    outExtension: { '.js': '.mjs' },
    packages: 'external',
    logLevel: 'warning',
    absWorkingDir: root,
  });
  // Bundles stand in a temporary folder, so that packages are found through a link beside them.
  symlinkSync(join(root, 'node_modules'), join(out, 'node_modules'));
  const files = entries.map((name) => join(out, name.replace(/\.ts$/, '.mjs')));
  process.env.VIEWER_ROOT = root;
  if (what === 'test') {
    const counts = { pass: 0, fail: 0, skip: 0 };
    const stream = run({ files, concurrency: availableParallelism() });
    const leaf = ({ details }) => details?.type !== 'suite';
    stream.on('test:pass', (event) => {
      if (leaf(event)) counts[event.skip ? 'skip' : 'pass']++;
    });
    stream.on('test:fail', (event) => {
      if (leaf(event)) counts.fail++;
    });
    await new Promise((done) => stream.compose(spec).on('end', done).pipe(process.stdout));
    console.log(
      `viewer: ${counts.pass + counts.fail + counts.skip} tests, ${counts.pass} passed, ${counts.fail} failed, ${counts.skip} skipped`,
    );
    process.exitCode = counts.fail > 0 || counts.pass === 0 ? 1 : 0;
  } else {
    const { status } = spawnSync(process.execPath, [...files, ...process.argv.slice(3)], {
      stdio: 'inherit',
    });
    process.exitCode = status ?? 1;
  }
} finally {
  rmSync(out, { recursive: true, force: true });
}

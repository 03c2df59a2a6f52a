// The words that CONTRIBUTING.md bans do not occur, neither in the sources nor on the built page.
import assert from 'node:assert/strict';
import { readdirSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { test } from 'node:test';

const root = process.env['VIEWER_ROOT']!;
const BANNED = /\btold\b|befall|\banew\b|\bso many\b|to be had|gone on with|\bwhoever\b|\bis no\s/gi;
const PHRASES = /What was permitted|What each tuning paid|Why it was late|'The words'|looked at|looked into|stands? above|Against it|found no room|may be or not|Read off the/g;

const sources = readdirSync(root, { recursive: true, encoding: 'utf8' })
  .filter((name) => /^(src|test)\/.*\.(ts|css|html)$/.test(name) || ['README.md', 'build.mjs', 'test/run.mjs'].includes(name))
  .filter((name) => name !== 'test/words.test.ts');

const found = (text: string, pattern: RegExp): string[] => [...text.matchAll(pattern)].map(({ index }) => text.slice(Math.max(0, index - 30), index + 40).replaceAll('\n', ' '));

test('no banned word stands in the viewer’s sources', () => {
  assert.ok(sources.length > 50);
  for (const name of sources) assert.deepEqual(found(readFileSync(join(root, name), 'utf8'), BANNED), [], name);
});

test('no wording that was replaced stands in the viewer’s sources or on the built page', () => {
  const page = readFileSync(join(root, '../crates/onbeat-cli/assets/viewer.html'), 'utf8');
  for (const [name, text] of [...sources.filter((name) => name.startsWith('src/')).map((name) => [name, readFileSync(join(root, name), 'utf8')] as const), ['viewer.html', page] as const]) {
    assert.deepEqual(found(text, PHRASES), [], name);
  }
});

test('the search finds what it looks for', () => {
  assert.equal(found('It is no tuning, told anew; so many befall whoever.', BANNED).length, 6);
});

import assert from 'node:assert/strict';
import { execFileSync } from 'node:child_process';
import { test } from 'node:test';
import { shellWord } from '../src/shell.ts';

const words = [
  'onbeat',
  'measure',
  '--load=cpu=50%',
  'run:make -j4',
  "it's",
  '$HOME `id`; rm x & #',
  '',
  '=ls',
  '~',
  'a\nb',
  '*',
  '"\\',
  'µ',
];

test('a shell reads back the words of a command', () => {
  const read = execFileSync('sh', ['-c', `printf '%s\\0' ${words.map(shellWord).join(' ')}`], {
    encoding: 'utf8',
  });
  assert.equal(read, words.map((word) => `${word}\0`).join(''));
});

test('plain words stay plain', () => {
  assert.equal(
    ['onbeat', 'bench', '--loads', 'idle,cpu=50%', '/usr/bin/x'].map(shellWord).join(' '),
    'onbeat bench --loads idle,cpu=50% /usr/bin/x',
  );
});

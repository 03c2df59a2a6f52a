// Headless Chromium for tests, when the machine has one.
import { existsSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { chromium, type Browser, type Page } from 'playwright-core';

const PLACES = [
  process.env['CHROMIUM'],
  '/usr/bin/chromium',
  '/usr/bin/chromium-browser',
  '/usr/bin/google-chrome',
];
export const CHROMIUM = PLACES.find((place) => place !== undefined && existsSync(place));
export const NO_CHROMIUM = 'no Chromium at /usr/bin/chromium and CHROMIUM is not set';

export const launch = (): Promise<Browser> =>
  chromium.launch({
    executablePath: CHROMIUM!,
    args: [
      '--headless',
      '--no-sandbox',
      '--disable-gpu',
      '--disable-quic',
      '--no-first-run',
      '--disable-background-networking',
      '--disable-component-update',
      '--disable-sync',
    ],
  });

/** Waits until the charts have drawn what was asked of them, and the page is laid out with them. */
export async function settled(page: Page): Promise<void> {
  await page.waitForFunction(
    () =>
      document.querySelector('#page h1') !== null &&
      document.documentElement.dataset['drawing'] === undefined,
  );
  await page.evaluate(
    () =>
      new Promise((done) => {
        requestAnimationFrame(() => requestAnimationFrame(done));
      }),
  );
}

/** Writes pages into a folder of their own; `done` removes it. */
export function pages(contents: Record<string, string>): {
  url: (name: string) => string;
  done: () => void;
} {
  const folder = mkdtempSync(join(tmpdir(), 'onbeat-page-'));
  for (const [name, text] of Object.entries(contents)) writeFileSync(join(folder, name), text);
  return {
    url: (name) => `file://${join(folder, name)}`,
    done: () => rmSync(folder, { recursive: true, force: true }),
  };
}

// Where the page's data comes from: its own tag, or files the reader drops.
import { base64Bytes } from './packed.ts';
import { readText, type Unpacked } from './hlog.ts';

async function gunzip(bytes: Uint8Array<ArrayBuffer>): Promise<string> {
  const stream = new Blob([bytes]).stream().pipeThrough(new DecompressionStream('gzip'));
  return new Response(stream).text();
}

/** Unpacks the data tag; null when the template was never filled. */
export async function fromTag(tag: HTMLElement | null): Promise<Unpacked | null> {
  const text = tag?.textContent?.trim() ?? '';
  if (text === '' || text.startsWith('@')) return null;
  return readText(await gunzip(base64Bytes(text)), 'data');
}

/** Reads dropped files: run files, HdrHistogram logs, either of them gzipped, or a whole unpacked page text. */
export async function fromFiles(files: readonly File[]): Promise<Unpacked> {
  const all: Unpacked = { files: [], summary: null };
  for (const file of files) {
    const bytes = new Uint8Array(await file.arrayBuffer());
    const zipped = bytes[0] === 0x1f && bytes[1] === 0x8b;
    const text = zipped ? await gunzip(bytes) : new TextDecoder().decode(bytes);
    const { files: found, summary } = readText(text, file.name.replace(/\.gz$/, ''));
    all.files.push(...found);
    all.summary ??= summary;
  }
  return all;
}

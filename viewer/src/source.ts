// Where the page's data comes from: its own tag, or files the reader drops.
import { base64Bytes } from './packed.ts';
import { readText, type Unpacked } from './hlog.ts';

async function gunzip(bytes: Uint8Array<ArrayBuffer>): Promise<string> {
  const stream = new Blob([bytes]).stream().pipeThrough(new DecompressionStream('gzip'));
  try {
    return await new Response(stream).text();
  } catch {
    // Chromium says "Failed to fetch".
    throw new Error('damaged or truncated gzip data');
  }
}

/** Unpacks the data tag; null when the template was never filled. */
export async function fromTag(tag: HTMLElement | null): Promise<Unpacked | null> {
  const text = tag?.textContent?.trim() ?? '';
  if (text === '' || text.startsWith('@')) return null;
  return readText(await gunzip(base64Bytes(text)), 'data');
}

async function textOf(file: File): Promise<string> {
  const bytes = new Uint8Array(await file.arrayBuffer());
  const zipped = bytes[0] === 0x1f && bytes[1] === 0x8b;
  return zipped ? gunzip(bytes) : new TextDecoder().decode(bytes);
}

/** Reads dropped files: run files, HdrHistogram logs, either of them gzipped, or a whole unpacked page text. Those that hold nothing to show are named in `refused`, each with the reason. */
export async function fromFiles(files: readonly File[]): Promise<Unpacked & { refused: string[] }> {
  const all: Unpacked & { refused: string[] } = { files: [], summary: null, refused: [] };
  for (const file of files) {
    try {
      const found = readText(await textOf(file), file.name.replace(/\.gz$/, ''));
      if (found.summary === null && !found.files.some(({ series }) => series.size > 0))
        throw new Error('no histogram lines');
      all.files.push(...found.files);
      all.summary ??= found.summary;
    } catch (error) {
      all.refused.push(`${file.name} (${(error as Error).message})`);
    }
  }
  return all;
}

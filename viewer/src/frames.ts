// Pictures of cameras during a run, as the page has them (docs/format.md).

/** A small picture; `place` is that of its number. */
export interface FramePicture {
  place: number;
  of: [number, number];
  size: [number, number];
  jpeg: string;
}

/** The pictures of one camera. Times are µs since the file's start. */
export interface RunFrames {
  channel: string;
  clock: 'cycles' | 'wall_clock';
  numbers: number[];
  t_us: number[];
  more: number;
  outside: number;
  pictures: FramePicture[];
  undecoded: Record<string, number>;
}

/** The last place whose value is at most `value`, in rising values; -1 without one. */
export function lastAtMost(values: readonly number[], value: number): number {
  let [low, high] = [0, values.length];
  while (low < high) {
    const middle = (low + high) >> 1;
    if (values[middle]! <= value) low = middle + 1;
    else high = middle;
  }
  return low - 1;
}

/** The kept picture that shows what the camera had seen by the frame at `place`: its own, or the last one before it. */
export function pictureAt(frames: RunFrames, place: number): FramePicture | null {
  return (
    frames.pictures[
      lastAtMost(
        frames.pictures.map((it) => it.place),
        place,
      )
    ] ?? null
  );
}

/** How the clocks of run and log were joined, and what is missing. */
export function framesLead(all: readonly RunFrames[]): string {
  const count = (n: number): string => n.toLocaleString('en-US');
  const parts = [
    'Each mark is a picture at the time of its capture; those with a dot are in this page.',
  ];
  if (all.some(({ clock }) => clock === 'wall_clock'))
    parts.push(
      'The log has no cycles of this run: times are by the wall clock as it was when run and camera began.',
    );
  const outside = all.reduce((sum, it) => sum + it.outside, 0);
  if (outside > 0) parts.push(`${count(outside)} of the log are before or after the run.`);
  const more = all.reduce((sum, it) => sum + it.more, 0);
  if (more > 0) parts.push(`${count(more)} further ones are left out.`);
  for (const { channel, undecoded } of all)
    for (const [why, n] of Object.entries(undecoded))
      parts.push(`${channel}: ${count(n)} not shown: ${why}.`);
  return parts.join(' ');
}

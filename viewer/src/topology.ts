// The fact "CPU topology" of a host: `package 0 node 0 L3 0-3: 0+2 (1 3); package 1 …`.

/** Cores that share a second-level cache; each core is its CPUs. */
export type Cluster = readonly (readonly number[])[];
/** What shares a package, a node and a third-level cache. */
export interface CoreGroup {
  /** `package 0, node 0, L3 0-3`. */
  name: string;
  clusters: readonly Cluster[];
}

/** The groups of cores of a machine; empty where the text is not one. */
export function coreGroups(text: string): CoreGroup[] {
  const groups = text.split('; ').map((part): CoreGroup | null => {
    const [head = '', cores] = part.split(': ');
    if (cores === undefined) return null;
    const core = (word: string): number[] => word.split('+').map(Number);
    const clusters = (cores.match(/\([^)]*\)|[^ ]+/g) ?? []).map((word) =>
      word.replace(/[()]/g, '').split(' ').map(core),
    );
    const name = head.replace(/ (?=node|L3)/g, ', ');
    return { name, clusters };
  });
  const isWhole = groups.every((group) =>
    group?.clusters.every((cluster) =>
      cluster.every((core) => core.length > 0 && core.every(Number.isInteger)),
    ),
  );
  return isWhole ? groups.filter((group) => group !== null) : [];
}

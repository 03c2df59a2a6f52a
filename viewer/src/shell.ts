// Words as they are pasted into a shell; the same rule as in the library (thread/pasted.rs).

/** A word so that a POSIX shell takes it for this very word: as it is where that is plain, within single quotes otherwise. */
export function shellWord(word: string): string {
  return /^[A-Za-z0-9_./:,+@%-][A-Za-z0-9_./:,+@%=-]*$/.test(word)
    ? word
    : `'${word.replaceAll("'", "'\\''")}'`;
}

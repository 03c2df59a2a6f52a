package onbeat;

/** Decompresses LZ4 frames (LZ4 Frame Format Description, version 1.6). Checksums are not compared: MCAP has its own. */
final class Lz4 {
    private static final int MAGIC = 0x184D2204;
    private static final int MIN_MATCH = 4;

    private final byte[] in;
    private final byte[] out;
    private int from;
    private int to;

    private Lz4(byte[] in, int from, byte[] out) {
        this.in = in;
        this.from = from;
        this.out = out;
    }

    /** Returns the content of the frame that begins at {@code from}, of which the size is known. */
    static byte[] decompressed(byte[] frame, int from, int size) {
        Lz4 lz4 = new Lz4(frame, from, new byte[size]);
        try {
            lz4.frame();
        } catch (IndexOutOfBoundsException why) {
            throw wrong("ends too early");
        }
        if (lz4.to != size) throw wrong("has " + lz4.to + " bytes, and " + size + " are announced");
        return lz4.out;
    }

    private static OnbeatException wrong(String why) {
        return new OnbeatException(OnbeatException.LOG, "a chunk of the log " + why);
    }

    private int word() {
        int word = in[from] & 0xff | (in[from + 1] & 0xff) << 8 | (in[from + 2] & 0xff) << 16 | in[from + 3] << 24;
        from += 4;
        return word;
    }

    private void frame() {
        if (word() != MAGIC) throw wrong("is not an LZ4 frame");
        int flags = in[from];
        boolean hasBlockChecksums = (flags & 0x10) != 0;
        boolean hasSize = (flags & 0x08) != 0;
        boolean hasDictionary = (flags & 0x01) != 0;
        // Flags, block size, and the checksum of this header.
        from += 3 + (hasSize ? 8 : 0) + (hasDictionary ? 4 : 0);

        int length = word();
        while (length != 0) {
            if (length < 0) {
                int plain = length & 0x7fffffff;
                System.arraycopy(in, from, out, to, plain);
                from += plain;
                to += plain;
            } else {
                block(from + length);
            }
            if (hasBlockChecksums) from += 4;
            length = word();
        }
    }

    private int length(int short_) {
        int length = short_;
        if (short_ < 15) return length;
        int more;
        do {
            more = in[from++] & 0xff;
            length += more;
        } while (more == 255);
        return length;
    }

    /** Copies literals and earlier output in turns until the block ends. */
    private void block(int end) {
        while (from < end) {
            int token = in[from++] & 0xff;
            int literals = length(token >> 4);
            System.arraycopy(in, from, out, to, literals);
            from += literals;
            to += literals;
            if (from >= end) return;

            int back = in[from] & 0xff | (in[from + 1] & 0xff) << 8;
            from += 2;
            int length = length(token & 15) + MIN_MATCH;
            int source = to - back;
            if (back >= length) {
                System.arraycopy(out, source, out, to, length);
                to += length;
            } else {
                // The copy reads what it has just written.
                for (int i = 0; i < length; i++) out[to++] = out[source++];
            }
        }
    }
}

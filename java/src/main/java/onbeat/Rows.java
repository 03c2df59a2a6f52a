package onbeat;

/**
 * Chosen fields of a channel, record by record: the fastest way to each single record, without an object for any of them.
 *
 * <pre>{@code
 * Rows rows = cycles.rows(new String[] {"cycle", "actual_rad"});
 * while (rows.advance(100)) use(rows.number(), rows.value(0));
 * }</pre>
 */
public final class Rows {
    private static final double[] NOTHING = new double[0];

    private final Ring ring;
    private final String[] fields;
    private Layout layout;
    private Layout.Part[] parts = new Layout.Part[0];
    private double[] row = NOTHING;

    Rows(Ring ring, String[] fields) {
        this.ring = ring;
        this.fields = fields.clone();
    }

    /**
     * Moves to the next record; false after {@code ms} milliseconds without one, 0 never waits. Memory is allocated when the
     * first record comes, and when a text or sequence changes its length.
     *
     * @throws OnbeatException if the writer has ended and everything was read, or a field does not exist
     */
    public boolean advance(int ms) {
        if (!ring.await(ms) || !ring.take()) return false;
        Layout now = ring.layout();
        if (now != layout) {
            layout = now;
            parts = now.parts(fields);
            int columns = 0;
            for (Layout.Part part : parts) columns += part.count;
            row = new double[columns];
        }
        int column = 0;
        for (Layout.Part part : parts) {
            for (int i = 0; i < part.count; i++) row[column++] = ring.number(part, i);
        }
        return true;
    }

    /** Returns the number of the record, from 1. */
    public long number() {
        return ring.slotNumber();
    }

    /** Returns the time of the record by CLOCK_MONOTONIC, in ns. */
    public long atNs() {
        return ring.slotAtNs();
    }

    /** Returns a number of the record: the fields' numbers, in the order in which they were chosen, have columns from 0. */
    public double value(int column) {
        return row[column];
    }

    /**
     * Returns the chosen numbers of the next record, or nothing after {@code ms} milliseconds: one call for each record. The
     * array is used again by the next call; Octave and MATLAB copy it.
     *
     * @throws OnbeatException as {@link #advance}
     */
    public double[] next(int ms) {
        return advance(ms) ? row : NOTHING;
    }
}

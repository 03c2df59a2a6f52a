package onbeat;

import java.nio.ByteBuffer;
import java.util.Arrays;

/** Collects fields of consecutive records, all of one layout, into a {@link Table}. */
final class TableBuilder {
    private final String[] fields;
    private final int room;
    private final double[] at;
    private final long[] numbers;
    private Layout.Part[] parts;
    private double[] rows = new double[0];
    private int columns;
    private int count;

    /** For at most {@code room} records. */
    TableBuilder(String[] fields, int room) {
        this.fields = fields;
        this.room = room;
        at = new double[room];
        numbers = new long[room];
    }

    boolean hasRoom() {
        return count < room;
    }

    boolean isEmpty() {
        return count == 0;
    }

    /** Adds a record of this layout, which is that of the first one. */
    void add(Layout layout, ByteBuffer message, long number, long atNs) {
        if (parts == null) {
            parts = layout.parts(fields);
            for (Layout.Part part : parts) columns += part.count;
            rows = new double[room * columns];
        }
        at[count] = atNs / 1e9;
        numbers[count] = number;
        int column = 0;
        for (Layout.Part part : parts) {
            for (int i = 0; i < part.count; i++) rows[column++ * room + count] = part.number(message, i);
        }
        count++;
    }

    /** Returns the table; {@code lost} records were lost before its first one. */
    Table build(long lost) {
        return new Table(count, columns, packed(), Arrays.copyOf(at, count), Arrays.copyOf(numbers, count), lost);
    }

    /** Columns of {@code room} rows, of which {@code count} are used, without the rest. */
    private double[] packed() {
        if (room == count) return rows;
        double[] values = new double[count * columns];
        for (int column = 0; column < columns; column++) {
            System.arraycopy(rows, column * room, values, column * count, count);
        }
        return values;
    }
}

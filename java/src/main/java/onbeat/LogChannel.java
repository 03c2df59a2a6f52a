package onbeat;

import java.nio.ByteBuffer;
import java.nio.ByteOrder;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.List;
import java.util.Map;

/** The records of one channel of a log. */
public final class LogChannel {
    private static final double NS = 1e-9;

    private final Definition definition;
    private final Map<String, String> texts;
    private final long utcOffsetNs;
    /** Chunks with messages of this channel, and the first message in each. */
    private final List<ByteBuffer> chunks = new ArrayList<>();
    private int[] firsts = new int[16];
    private int[] places = new int[1024];
    private long[] utcNs = new long[1024];
    private int[] numbers = new int[1024];
    private int rows;
    private int length;
    private Layout layout;

    LogChannel(Definition definition, Map<String, String> texts) {
        this.definition = definition;
        this.texts = texts;
        String offset = texts.get("onbeat:utc_offset_ns");
        this.utcOffsetNs = offset == null ? 0 : Long.parseUnsignedLong(offset);
    }

    void add(ByteBuffer chunk, int at, int bytes, int number, long logTime) {
        if (layout == null) {
            length = bytes;
            ByteBuffer first = chunk.duplicate();
            first.position(at);
            layout = new Layout(definition, first.slice().order(ByteOrder.LITTLE_ENDIAN), bytes);
        } else if (!layout.fits(chunk, at, bytes)) {
            throw new OnbeatException(OnbeatException.LOG, "record " + (rows + 1) + " of type " + definition.name
                    + " has texts or sequences of other lengths than the first one; matrices need the same, and onbeat.load in Python reads it");
        }
        if (chunks.isEmpty() || chunks.get(chunks.size() - 1) != chunk) {
            if (chunks.size() == firsts.length) firsts = Arrays.copyOf(firsts, 2 * firsts.length);
            firsts[chunks.size()] = rows;
            chunks.add(chunk);
        }
        if (rows == places.length) {
            places = Arrays.copyOf(places, 2 * rows);
            utcNs = Arrays.copyOf(utcNs, 2 * rows);
            numbers = Arrays.copyOf(numbers, 2 * rows);
        }
        places[rows] = at;
        utcNs[rows] = logTime;
        numbers[rows++] = number;
    }

    /** Returns the number of records. */
    public int rows() {
        return rows;
    }

    /** Returns the name of the type. */
    public String type() {
        return definition.name;
    }

    /** Returns the writer's text about the channel: JSON with joints and values; empty for a log of others. */
    public String description() {
        String text = texts.get("onbeat:description");
        return text == null ? "" : text;
    }

    /** Returns the names of the fields with a blank between two. */
    public String fieldNames() {
        return layout == null ? "" : String.join(" ", layout.names());
    }

    /** Returns the times of the records by CLOCK_MONOTONIC if onbeat wrote the log, else since 1970, in s. */
    public double[] at() {
        double[] at = new double[rows];
        for (int i = 0; i < rows; i++) at[i] = (utcNs[i] - utcOffsetNs) * NS;
        return at;
    }

    /** Returns the times of the records since 1970 (UTC), in ns. */
    public long[] utcNs() {
        return Arrays.copyOf(utcNs, rows);
    }

    /** Returns the numbers of the records. */
    public double[] numbers() {
        double[] whole = new double[rows];
        double wraps = 0;
        for (int i = 0; i < rows; i++) {
            // The file has the low 32 bits.
            if (i > 0 && Integer.compareUnsigned(numbers[i], numbers[i - 1]) < 0) wraps += 4294967296.0;
            whole[i] = (numbers[i] & 0xffffffffL) + wraps;
        }
        return whole;
    }

    /** Returns the number of numbers of a field; 0 for a text. */
    public int columns(String field) {
        Layout.Part part = layout.part(field);
        return part.isText() ? 0 : part.count;
    }

    /** Returns a field of all records, column by column: {@code reshape(values, rows, columns)}. */
    public double[] values(String field) {
        Layout.Part part = layout.part(field);
        int columns = columns(field);
        double[] values = new double[Math.multiplyExact(rows, columns)];
        for (int chunk = 0; chunk < chunks.size(); chunk++) {
            ByteBuffer data = chunks.get(chunk);
            int end = chunk + 1 < chunks.size() ? firsts[chunk + 1] : rows;
            for (int row = firsts[chunk]; row < end; row++) {
                for (int i = 0; i < columns; i++) values[i * rows + row] = part.number(data, places[row], i);
            }
        }
        return values;
    }
}

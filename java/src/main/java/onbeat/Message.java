package onbeat;

import java.nio.ByteBuffer;
import java.nio.ByteOrder;
import java.util.Collections;

/** One record of a channel, with its bytes. */
public final class Message {
    private final long number;
    private final long atNs;
    private final byte[] bytes;
    private final ByteBuffer buffer;
    private final Layout layout;

    Message(long number, long atNs, byte[] bytes, Layout layout) {
        this.number = number;
        this.atNs = atNs;
        this.bytes = bytes;
        this.buffer = ByteBuffer.wrap(bytes).order(ByteOrder.LITTLE_ENDIAN);
        this.layout = layout;
    }

    /** Returns the number of the record, from 1. */
    public long number() {
        return number;
    }

    /** Returns the time of the record by CLOCK_MONOTONIC, in s. */
    public double at() {
        return atNs / 1e9;
    }

    /** Returns the time of the record by CLOCK_MONOTONIC, in ns, in an array: scripts turn a single long into a double. */
    public long[] atNs() {
        return new long[] {atNs};
    }

    /** Returns the names of the fields. */
    public String[] fields() {
        return layout.names();
    }

    /** Returns the names of the fields with a blank between two: Octave does not convert an array of strings. */
    public String fieldNames() {
        return String.join(" ", layout.names());
    }

    /** Returns whether a field is a text. */
    public boolean isText(String field) {
        return layout.part(field).isText();
    }

    /** Returns the numbers of a field that is not a text; one for a field that is not an array. */
    public double[] get(String field) {
        Layout.Part part = layout.numbers(field);
        double[] values = new double[part.count];
        for (int i = 0; i < values.length; i++) values[i] = part.number(buffer, i);
        return values;
    }

    /** Returns the text of a field. */
    public String getText(String field) {
        return Layout.text(layout.part(field), buffer);
    }

    /** Returns the text of a field for an interpreter, which may take it as bytes. */
    public Texts getTexts(String field) {
        return new Texts(Collections.singletonList(getText(field)));
    }

    /** Returns the encoded message: CDR, little-endian. */
    public byte[] bytes() {
        return bytes.clone();
    }
}

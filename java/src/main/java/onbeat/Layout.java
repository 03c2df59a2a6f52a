package onbeat;

import java.nio.ByteBuffer;
import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;

/**
 * Where the fields of a message are, as long as its texts and sequences keep their lengths.
 *
 * <p>The messages of a robot have the lengths of its joints and of its process image, so one layout serves all of them.
 */
final class Layout {
    /** A field with its numbers: the first one's offset, their type and count. */
    static final class Part {
        final String kind;
        final int at;
        final int bytes;
        final int count;

        Part(String kind, int at, int bytes, int count) {
            this.kind = kind;
            this.at = at;
            this.bytes = bytes;
            this.count = count;
        }

        boolean isText() {
            return kind.equals("string") || kind.equals("wstring");
        }

        /** Returns number {@code i} of the field. 64-bit integers beyond 2^53 are rounded. */
        double number(ByteBuffer message, int i) {
            return number(message, 0, i);
        }

        /** As above, of a message that begins at {@code from}. */
        double number(ByteBuffer message, int from, int i) {
            int place = from + at + i * bytes;
            switch (kind) {
                case "bool":
                case "byte":
                case "char":
                case "uint8":
                    return message.get(place) & 0xff;
                case "int8":
                    return message.get(place);
                case "int16":
                    return message.getShort(place);
                case "uint16":
                    return message.getShort(place) & 0xffff;
                case "int32":
                    return message.getInt(place);
                case "uint32":
                    return message.getInt(place) & 0xffffffffL;
                case "int64":
                    return message.getLong(place);
                case "uint64":
                    long bits = message.getLong(place);
                    return bits >= 0 ? bits : (double) (bits >>> 1) * 2.0;
                case "float32":
                    return message.getFloat(place);
                default:
                    return message.getDouble(place);
            }
        }
    }

    private static final int HEADER_BYTES = 4;

    private final Definition definition;
    private final ByteBuffer message;
    private final int length;
    private int at;
    private final Map<String, Part> parts = new LinkedHashMap<>();
    /** Offsets and values of the numbers of elements, which must be the same in all messages. */
    private final List<int[]> counts = new ArrayList<>();

    Layout(Definition definition, ByteBuffer message, int length) {
        this.definition = definition;
        this.message = message;
        this.length = length;
        if (length < HEADER_BYTES || message.get(0) != 0 || message.get(1) != 1) {
            throw wrong("does not begin with 00 01: it is not CDR, little-endian");
        }
        add(definition.name, "");
        if (at + HEADER_BYTES > length) throw wrong("is not complete");
    }

    /** Of a record of a channel without a type: the field {@code payload}, its bytes. */
    Layout(Definition definition, int length) {
        this.definition = definition;
        this.message = null;
        this.length = length;
        parts.put("payload", new Part("uint8", 0, 1, length));
    }

    /** Returns whether the texts and sequences of a message have the lengths of this layout. */
    boolean fits(ByteBuffer other, int otherLength) {
        return fits(other, 0, otherLength);
    }

    /** As above, of a message that begins at {@code from}. */
    boolean fits(ByteBuffer other, int from, int otherLength) {
        if (otherLength != length) return false;
        // Without an iterator, which would be an object for each message.
        for (int i = 0; i < counts.size(); i++) {
            int[] count = counts.get(i);
            if (other.getInt(from + count[0]) != count[1]) return false;
        }
        return true;
    }

    /** Returns a field by its name, or by names with dots for one of a message within the message. */
    Part part(String name) {
        Part part = parts.get(name);
        if (part == null) {
            String sentence = definition.name + " has no field " + name + "; it has " + String.join(", ", parts.keySet());
            throw new OnbeatException(OnbeatException.TYPE, sentence);
        }
        return part;
    }

    /** Returns fields of numbers. */
    Part[] parts(String[] names) {
        Part[] all = new Part[names.length];
        for (int i = 0; i < all.length; i++) all[i] = numbers(names[i]);
        return all;
    }

    /** Returns a field of numbers, as {@link #part}; a text has none. */
    Part numbers(String name) {
        Part part = part(name);
        if (part.isText()) {
            throw new OnbeatException(OnbeatException.TYPE, name + " of " + definition.name + " is a text, and has no numbers");
        }
        return part;
    }

    String[] names() {
        return parts.keySet().toArray(new String[0]);
    }

    /** Returns the text of a field of the type {@code string} or {@code wstring}. */
    static String text(Part part, ByteBuffer message) {
        if (part.kind.equals("wstring")) {
            char[] units = new char[part.count];
            for (int i = 0; i < units.length; i++) units[i] = message.getChar(part.at + 2 * i);
            return new String(units);
        }
        byte[] bytes = new byte[Math.max(part.count, 0)];
        for (int i = 0; i < bytes.length; i++) bytes[i] = message.get(part.at + i);
        return new String(bytes, StandardCharsets.UTF_8);
    }

    private OnbeatException wrong(String why) {
        return new OnbeatException(OnbeatException.TYPE, definition.name + ": the message of " + length + " bytes " + why);
    }

    private void align(int size) {
        at += (size - at % size) % size;
    }

    private int count() {
        align(4);
        int place = at + HEADER_BYTES;
        if (place + 4 > length) throw wrong("is not complete");
        int count = message.getInt(place);
        counts.add(new int[] {place, count});
        at += 4;
        if (count < 0 || count > length) throw wrong("is not complete");
        return count;
    }

    private void add(String type, String prefix) {
        List<Definition.Field> fields = definition.fields(type);
        for (Definition.Field field : fields) {
            String path = prefix + field.name;
            boolean isSingle = field.count == Definition.Field.SINGLE;
            int several = field.count == Definition.Field.SEQUENCE ? count() : field.count;
            if (field.isNumber()) {
                int count = isSingle ? 1 : several;
                if (count > 0) align(field.bytes());
                parts.put(path, new Part(field.kind, at + HEADER_BYTES, field.bytes(), count));
                at += field.bytes() * count;
                continue;
            }
            for (int i = 0; i < (isSingle ? 1 : several); i++) {
                String indexed = isSingle ? path : path + "[" + i + "]";
                if (field.kind.equals("string")) {
                    int bytes = count();
                    parts.put(indexed, new Part("string", at + HEADER_BYTES, 1, bytes - 1));
                    at += bytes;
                } else if (field.kind.equals("wstring")) {
                    int units = count();
                    parts.put(indexed, new Part("wstring", at + HEADER_BYTES, 2, units));
                    at += 2 * units;
                } else {
                    add(field.kind, indexed + ".");
                }
            }
        }
        if (fields.isEmpty()) at += 1;
    }
}

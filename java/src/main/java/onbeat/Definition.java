package onbeat;

import java.util.ArrayList;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.regex.Matcher;
import java.util.regex.Pattern;

/** Message definitions in the {@code .msg} language, as a ring carries them: the fields of each type. */
final class Definition {
    /** Types of numbers with their size in bytes. */
    private static final Map<String, Integer> SIZES = new HashMap<>();

    static {
        for (String name : "bool byte char int8 uint8".split(" ")) SIZES.put(name, 1);
        for (String name : "int16 uint16".split(" ")) SIZES.put(name, 2);
        for (String name : "float32 int32 uint32".split(" ")) SIZES.put(name, 4);
        for (String name : "float64 int64 uint64".split(" ")) SIZES.put(name, 8);
    }

    /** A field of a message. */
    static final class Field {
        final String name;
        /** A number's type, {@code string}, or the name of a message. */
        final String kind;
        /** Number of elements of an array; {@link #SINGLE} or {@link #SEQUENCE} otherwise. */
        final int count;

        static final int SINGLE = -1;
        static final int SEQUENCE = -2;

        Field(String name, String kind, int count) {
            this.name = name;
            this.kind = kind;
            this.count = count;
        }

        boolean isNumber() {
            return SIZES.containsKey(kind);
        }

        int bytes() {
            return SIZES.get(kind);
        }
    }

    private static final Pattern NEXT_TYPE = Pattern.compile("(?m)^={3,}\\nMSG: *(.+)\\n");
    private static final Pattern FIELD =
            Pattern.compile("\\s*([\\w/]+)(?:<=\\d+)?(\\[[^\\]]*\\])?\\s+([a-z]\\w*)\\b(?!\\s*=).*");

    private final Map<String, List<Field>> types = new HashMap<>();
    final String name;

    /** Parses the text of a schema: the type {@code name}, then those that it uses. */
    Definition(String name, String text) {
        this.name = name;
        String of = name;
        int begin = 0;
        Matcher next = NEXT_TYPE.matcher(text);
        while (next.find()) {
            types.put(of, fields(of, text.substring(begin, next.start())));
            of = fullName(next.group(1).trim(), name);
            begin = next.end();
        }
        types.put(of, fields(of, text.substring(begin)));
    }

    List<Field> fields(String of) {
        List<Field> fields = types.get(of);
        if (fields == null) {
            throw new OnbeatException(OnbeatException.TYPE, "the type " + of + " is not defined in the channel's schema");
        }
        return fields;
    }

    /** Throws for a type that is used and not defined. */
    void check() {
        for (List<Field> fields : types.values()) {
            for (Field field : fields) {
                if (!field.isNumber() && !field.kind.equals("string")) fields(field.kind);
            }
        }
    }

    private static List<Field> fields(String of, String text) {
        List<Field> fields = new ArrayList<>();
        for (String line : text.split("\n")) {
            Matcher match = FIELD.matcher(line);
            if (!match.matches()) continue;
            String kind = match.group(1);
            String several = match.group(2);
            if (!SIZES.containsKey(kind) && !kind.equals("string")) kind = fullName(kind, of);
            int count = Field.SINGLE;
            if (several != null) {
                String number = several.substring(1, several.length() - 1);
                count = number.matches("\\d+") ? Integer.parseInt(number) : Field.SEQUENCE;
            }
            fields.add(new Field(match.group(3), kind, count));
        }
        return fields;
    }

    private static String fullName(String name, String user) {
        String[] parts = name.split("/");
        String owner = parts.length > 1 ? parts[0] : user.split("/")[0];
        return owner + "/msg/" + parts[parts.length - 1];
    }
}

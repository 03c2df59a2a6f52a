package onbeat;

import java.util.ArrayList;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.TreeMap;
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

        /** Returns whether it is a number or a text. */
        boolean isPlain() {
            return isNumber() || kind.equals("string") || kind.equals("wstring");
        }
    }

    private static final Pattern NEXT_TYPE = Pattern.compile("(?m)^={3,}[ \\t]*\\r?\\nMSG: *(.+)(?:\\n|\\z)");
    private static final Pattern FIELD =
            Pattern.compile("([\\w/]+)(?:<=\\d+)?(\\[[^\\]]*\\])?\\s+([A-Za-z]\\w*)\\b.*");
    private static final Pattern CONSTANT = Pattern.compile("[\\w/]+(?:<=\\d+)?\\s+[A-Za-z]\\w*\\s*=");

    private final Map<String, List<Field>> types = new HashMap<>();
    /** Why types cannot be used: others of the text can. */
    private final Map<String, String> wrong = new HashMap<>();
    final String name;

    /** Parses the text of a schema: the type {@code name}, then those that it uses. */
    Definition(String name, String text) {
        this.name = name;
        String of = name;
        int begin = 0;
        Matcher next = NEXT_TYPE.matcher(text);
        while (next.find()) {
            add(of, text.substring(begin, next.start()));
            of = fullName(next.group(1).trim(), name);
            begin = next.end();
        }
        add(of, text.substring(begin));
        // A definition may use them without defining them: readers of MCAP know them.
        for (String time : new String[] {"builtin_interfaces/msg/Time", "builtin_interfaces/msg/Duration"}) {
            if (!types.containsKey(time)) types.put(time, fields(time, "int32 sec\nuint32 nanosec\n"));
        }
    }

    private void add(String of, String text) {
        types.remove(of);
        wrong.remove(of);
        try {
            types.put(of, fields(of, text));
        } catch (OnbeatException why) {
            wrong.put(of, why.sentence());
        }
    }

    private static final Pattern INTERFACE = Pattern.compile("\\A={3,}[ \\t]*\\r?\\n(SRV|ACTION): *(\\S+)[ \\t\\r]*(?:\\n|\\z)");
    private static final Pattern PART_END = Pattern.compile("(?m)^---[ \\t]*\\r?$");
    private static final Pattern OTHERS = Pattern.compile("(?m)^={3,}[ \\t]*\\r?$");
    /** The messages that ROS 2 makes of the parts of an action and of a service, whose name is {@code @}, and what they use. */
    private static final String OF_ACTION =
            "===\nMSG: @_FeedbackMessage\nunique_identifier_msgs/UUID goal_id\n@_Feedback feedback\n"
                    + "===\nMSG: @_SendGoal_Request\nunique_identifier_msgs/UUID goal_id\n@_Goal goal\n"
                    + "===\nMSG: @_SendGoal_Response\nbool accepted\nbuiltin_interfaces/Time stamp\n"
                    + "===\nMSG: @_GetResult_Request\nunique_identifier_msgs/UUID goal_id\n"
                    + "===\nMSG: @_GetResult_Response\nint8 status\n@_Result result\n";
    private static final String OF_SERVICE =
            "===\nMSG: @_Event\nservice_msgs/ServiceEventInfo info\n@_Request[<=1] request\n@_Response[<=1] response\n";
    private static final String COMMON =
            "===\nMSG: service_msgs/msg/ServiceEventInfo\n"
                    + "uint8 event_type\nbuiltin_interfaces/Time stamp\nuint8[16] client_gid\nint64 sequence_number\n"
                    + "===\nMSG: unique_identifier_msgs/msg/UUID\nuint8[16] uuid\n"
                    + "===\nMSG: action_msgs/msg/GoalInfo\nunique_identifier_msgs/UUID goal_id\nbuiltin_interfaces/Time stamp\n"
                    + "===\nMSG: action_msgs/msg/GoalStatus\nGoalInfo goal_info\nint8 status\n"
                    + "===\nMSG: action_msgs/msg/GoalStatusArray\nGoalStatus[] status_list\n";

    /** Returns a type of a schema as rosbag2 writes it: with the file of a service or an action, and not the messages made of it. */
    static Definition ofRos2(String name, String text) {
        Matcher begin = INTERFACE.matcher(text);
        if (!begin.find()) return new Definition(name, text);
        boolean isAction = begin.group(1).equals("ACTION");
        String of = begin.group(2);
        Matcher others = OTHERS.matcher(text).region(begin.end(), text.length());
        int end = others.find() ? others.start() : text.length();
        String[] parts = PART_END.split(text.substring(begin.end(), end), -1);
        String[] names = isAction ? new String[] {"Goal", "Result", "Feedback"} : new String[] {"Request", "Response"};
        StringBuilder all = new StringBuilder();
        for (int i = 0; i < Math.min(parts.length, names.length); i++) {
            all.append("\n===\nMSG: ").append(of).append('_').append(names[i]).append('\n').append(parts[i]);
        }
        all.append('\n').append(isAction ? OF_ACTION.replace("@", of) : OF_SERVICE.replace("@", of));
        for (String service : new String[] {"_SendGoal", "_GetResult"}) {
            if (isAction) all.append(OF_SERVICE.replace("@", of + service));
        }
        all.append(COMMON).append(text, end, text.length());
        if (all.indexOf("\nMSG: " + name + "\n") < 0) return new Definition(name, text);
        return new Definition(fullName(name, name), all.toString());
    }

    /** The type of a channel of ROS 1, which has times of its own, signed bytes, and {@code Header} without its package. */
    static Definition ofRos1(String name, String text) {
        String[] parts = name.split("/");
        Definition own = new Definition(parts.length > 1 ? parts[0] + "/msg/" + parts[parts.length - 1] : name, text);
        for (Map.Entry<String, List<Field>> type : own.types.entrySet()) {
            List<Field> fields = new ArrayList<>();
            for (Field field : type.getValue()) {
                String last = field.kind.substring(field.kind.lastIndexOf('/') + 1);
                String kind = field.kind;
                if (kind.equals("byte")) kind = "int8";
                else if ((last.equals("time") || last.equals("duration")) && !own.types.containsKey(kind)) kind = last;
                else if (last.equals("Header") && !own.types.containsKey(kind)) kind = "std_msgs/msg/Header";
                fields.add(new Field(field.name, kind, field.count));
            }
            type.setValue(fields);
        }
        for (String time : new String[] {"uint32 time", "int32 duration"}) {
            String[] words = time.split(" ");
            own.types.put(words[1], fields(words[1], words[0] + " secs\n" + words[0] + " nsecs\n"));
        }
        return own;
    }

    /** Most fields of a type with all within it, and deepest nesting: anyone may have written it. */
    private static final int MOST_FIELDS = 20000;
    private static final int MOST_DEPTH = 64;

    /** Throws for a type that contains itself, is not defined, or has more fields than any message. */
    void checkSize() {
        size(name, 0, 0);
    }

    private int size(String of, int depth, int before) {
        if (depth > MOST_DEPTH) throw new OnbeatException(OnbeatException.TYPE, "the type " + name + " is nested too deeply, or contains itself");
        int size = before;
        for (Field field : fields(of)) {
            // Messages count too: those without fields could be any number.
            size = field.isPlain() ? size + 1 : size(field.kind, depth + 1, size + 1);
            if (size > MOST_FIELDS) throw new OnbeatException(OnbeatException.TYPE, "the type " + name + " has more than " + MOST_FIELDS + " fields");
        }
        return size;
    }

    /** Returns whether all lists are of numbers and no text is wide: one layout may then serve all records. */
    boolean isFlat(String of) {
        for (Field field : fields(of)) {
            if (field.kind.equals("wstring") || !field.isNumber() && field.count != Field.SINGLE) return false;
            if (!field.isPlain() && !isFlat(field.kind)) return false;
        }
        return true;
    }

    /** Returns whether all types of another definition have the same fields. */
    boolean isAlike(Definition other) {
        return described().equals(other.described());
    }

    private String described() {
        StringBuilder all = new StringBuilder(name);
        for (Map.Entry<String, List<Field>> type : new TreeMap<>(types).entrySet()) {
            all.append('\n').append(type.getKey());
            for (Field field : type.getValue()) all.append('\n').append(field.kind).append(' ').append(field.count).append(' ').append(field.name);
        }
        return all.toString();
    }

    /** Returns whether a type has a wide text. */
    boolean hasWide() {
        for (List<Field> fields : types.values()) {
            for (Field field : fields) {
                if (field.kind.equals("wstring")) return true;
            }
        }
        return false;
    }

    List<Field> fields(String of) {
        List<Field> fields = types.get(of);
        if (fields == null) {
            if (wrong.containsKey(of)) throw new OnbeatException(OnbeatException.TYPE, wrong.get(of));
            throw new OnbeatException(OnbeatException.TYPE, "the type " + of + " is not defined in the channel's schema");
        }
        return fields;
    }

    /** Throws for a type that is used and not defined. */
    void check() {
        fields(name);
        for (List<Field> fields : types.values()) {
            for (Field field : fields) {
                if (!field.isPlain()) fields(field.kind);
            }
        }
    }

    private static List<Field> fields(String of, String text) {
        List<Field> fields = new ArrayList<>();
        int number = 0;
        for (String line : text.split("\n")) {
            number++;
            String code = line.split("#", 2)[0].trim();
            if (code.isEmpty() || CONSTANT.matcher(code).lookingAt()) continue;
            Matcher match = FIELD.matcher(code);
            if (!match.matches()) {
                throw new OnbeatException(OnbeatException.TYPE, of + ", line " + number + ": `" + code + "` is not a field");
            }
            String kind = match.group(1);
            String several = match.group(2);
            boolean isPlain = SIZES.containsKey(kind) || kind.equals("string") || kind.equals("wstring");
            if (!isPlain) kind = fullName(kind, of);
            int count = Field.SINGLE;
            if (several != null) {
                String many = several.substring(1, several.length() - 1).trim();
                count = many.matches("\\d{1,9}") ? Integer.parseInt(many) : Field.SEQUENCE;
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

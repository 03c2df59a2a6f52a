package onbeat;

import java.util.ArrayList;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.regex.Pattern;

/** What a robot says of itself, in JSON: maps, lists, strings, doubles, booleans and null. */
final class Json {
    private static final int MOST_DEPTH = 512;
    private static final Pattern NUMBER = Pattern.compile("-?(0|[1-9]\\d*)(\\.\\d+)?([eE][+-]?\\d+)?|NaN|-?Infinity");

    private final String text;
    private int at;

    private Json(String text) {
        this.text = text;
    }

    /** Returns the value of a text, or throws for one that is not JSON. */
    static Object parse(String text) {
        Json json = new Json(text);
        Object value = json.value(0);
        json.blanks();
        if (json.at < text.length()) throw json.wrong();
        return value;
    }

    /** Returns why a text is not JSON; nothing if it is. */
    static String defect(String text) {
        try {
            parse(text);
            return "";
        } catch (IllegalArgumentException why) {
            return why.getMessage();
        }
    }

    @SuppressWarnings("unchecked")
    static Map<String, Object> object(Object value) {
        if (value instanceof Map) return (Map<String, Object>) value;
        throw new IllegalArgumentException("not an object");
    }

    @SuppressWarnings("unchecked")
    static List<Object> list(Object value) {
        if (value instanceof List) return (List<Object>) value;
        throw new IllegalArgumentException("not a list");
    }

    private Object value(int depth) {
        if (depth > MOST_DEPTH) throw wrong();
        blanks();
        switch (peek()) {
            case '{':
                return members(depth);
            case '[':
                return elements(depth);
            case '"':
                return string();
            default:
                return word();
        }
    }

    private Map<String, Object> members(int depth) {
        Map<String, Object> members = new LinkedHashMap<>();
        at++;
        for (boolean isFirst = true; !ends('}', isFirst); isFirst = false) {
            blanks();
            String name = string();
            blanks();
            expect(':');
            members.put(name, value(depth + 1));
        }
        return members;
    }

    private List<Object> elements(int depth) {
        List<Object> elements = new ArrayList<>();
        at++;
        for (boolean isFirst = true; !ends(']', isFirst); isFirst = false) elements.add(value(depth + 1));
        return elements;
    }

    /** Passes over the end of a list, or over the comma before its next element. */
    private boolean ends(char end, boolean isFirst) {
        blanks();
        if (peek() == end) {
            at++;
            return true;
        }
        if (!isFirst) expect(',');
        return false;
    }

    private String string() {
        expect('"');
        StringBuilder content = new StringBuilder();
        for (char letter = take(); letter != '"'; letter = take()) {
            if (letter < ' ') throw wrong();
            content.append(letter == '\\' ? escaped() : letter);
        }
        return content.toString();
    }

    private char escaped() {
        char letter = take();
        int known = "bfnrt".indexOf(letter);
        if (known >= 0) return "\b\f\n\r\t".charAt(known);
        if ("\"\\/".indexOf(letter) >= 0) return letter;
        if (letter != 'u') throw wrong();
        if (at + 4 > text.length()) throw wrong();
        at += 4;
        return (char) Integer.parseInt(text.substring(at - 4, at), 16);
    }

    private Object word() {
        int begin = at;
        while (at < text.length() && ",]} \t\r\n".indexOf(text.charAt(at)) < 0) at++;
        String word = text.substring(begin, at);
        switch (word) {
            case "true":
                return true;
            case "false":
                return false;
            case "null":
                return null;
            default:
                if (!NUMBER.matcher(word).matches()) throw wrong();
                return Double.valueOf(word);
        }
    }

    private void blanks() {
        while (at < text.length() && " \t\r\n".indexOf(text.charAt(at)) >= 0) at++;
    }

    private char peek() {
        if (at >= text.length()) throw wrong();
        return text.charAt(at);
    }

    private char take() {
        char letter = peek();
        at++;
        return letter;
    }

    private void expect(char letter) {
        if (take() != letter) throw wrong();
    }

    private IllegalArgumentException wrong() {
        return new IllegalArgumentException("not JSON at letter " + at);
    }
}

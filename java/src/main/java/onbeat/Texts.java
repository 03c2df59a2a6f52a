package onbeat;

import java.nio.charset.StandardCharsets;
import java.util.List;

/**
 * Texts for an interpreter, all of them in one piece with the length of each: a call for each would take a second for a million.
 *
 * <p>Octave takes a text of Java in the modified UTF-8 of JNI, which has other bytes for U+0000 and beyond U+FFFF: such texts
 * are handed over as bytes.
 */
public final class Texts {
    private final List<String> texts;
    private final String all;
    private final double[] units;
    private final double[] bytes;
    private final boolean isPlain;

    Texts(List<String> texts) {
        this.texts = texts;
        StringBuilder joined = new StringBuilder();
        units = new double[texts.size()];
        bytes = new double[texts.size()];
        boolean plain = true;
        for (int i = 0; i < units.length; i++) {
            String text = texts.get(i);
            joined.append(text);
            units[i] = text.length();
            if (i > 0 && text == texts.get(i - 1)) {
                bytes[i] = bytes[i - 1];
                continue;
            }
            int more = 0;
            for (int j = 0; j < text.length(); j++) {
                char unit = text.charAt(j);
                if (unit == 0 || Character.isSurrogate(unit)) plain = false;
                more += unit < 0x80 ? 0 : unit < 0x800 ? 1 : 2;
            }
            bytes[i] = text.length() + more;
            if (!plain) bytes[i] = text.getBytes(StandardCharsets.UTF_8).length;
        }
        all = joined.toString();
        isPlain = plain;
    }

    /** Returns all texts, one after the other. */
    public String all() {
        return all;
    }

    /** Returns whether {@link #all} arrives in Octave as it is. */
    public boolean isPlain() {
        return isPlain;
    }

    /** Returns the bytes of all texts in UTF-8, one after the other, as numbers. */
    public double[] allBytes() {
        double whole = 0;
        for (double one : bytes) whole += one;
        double[] numbers = new double[(int) whole];
        int to = 0;
        // Each alone: halves of a pair at the end of one and the beginning of the next are none.
        for (String text : texts) {
            for (byte one : text.getBytes(StandardCharsets.UTF_8)) numbers[to++] = one & 0xff;
        }
        return numbers;
    }

    /** Returns the length of each text in units of UTF-16, as MATLAB counts letters. */
    public double[] lengths() {
        return units.clone();
    }

    /** Returns the length of each text in bytes of UTF-8, as Octave counts letters. */
    public double[] byteLengths() {
        return bytes.clone();
    }
}

package onbeat;

import java.io.BufferedReader;
import java.io.Closeable;
import java.io.File;
import java.io.IOException;
import java.io.InputStreamReader;
import java.io.OutputStream;
import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.List;
import java.util.Map;
import java.util.concurrent.TimeUnit;

/**
 * A channel of this computer, and of a network, by the program {@code onbeat message publish}, which ends with this process.
 *
 * <p>The program is the one in the variable {@code ONBEAT}, else the one in {@code PATH}.
 */
public final class Publisher implements Closeable {
    static final String ENDED = "it has ended";
    private final Process process;
    private final OutputStream lines;
    private final BufferedReader answers;
    private boolean hasEnded;

    private Publisher(List<String> words) throws IOException {
        process = new ProcessBuilder(words).start();
        lines = process.getOutputStream();
        answers = new BufferedReader(new InputStreamReader(process.getInputStream(), StandardCharsets.UTF_8));
        answer();
    }

    /**
     * Makes a channel.
     *
     * @param channel {@code NAME/TOPIC}
     * @param type {@code PACKAGE/msg/Name}
     * @param file its definition, {@code .msg}, {@code .lcm} or {@code .idl}; a text of several words, such as {@code float64 x}, is the
     *     definition itself, a field a line; empty for a type of onbeat
     * @param to {@code udpm://}, {@code tcp://} or {@code ros2://}; empty for this computer alone
     * @param remote name of the channel there; empty for the same
     * @throws OnbeatException with the program's sentence
     */
    public static Publisher open(String channel, String type, String file, String to, String remote) {
        List<String> words = words("publish", channel, "--type", type);
        boolean isText = file.indexOf('\n') >= 0 || file.indexOf(' ') >= 0 && !new File(file).exists();
        if (!file.isEmpty()) words.addAll(Arrays.asList(isText ? "--definition" : "--file", file));
        if (!to.isEmpty()) words.addAll(Arrays.asList("--to", to));
        if (!remote.isEmpty()) words.addAll(Arrays.asList("--remote", remote));
        try {
            return new Publisher(words);
        } catch (IOException why) {
            throw notStarted(why);
        }
    }

    static List<String> words(String... command) {
        String program = System.getenv("ONBEAT");
        List<String> words = new ArrayList<>(Arrays.asList(program == null ? "onbeat" : program, "message"));
        words.addAll(Arrays.asList(command));
        return words;
    }

    static OnbeatException notStarted(IOException why) {
        String sentence = "cannot start the program onbeat: " + why.getMessage() + "; set the variable ONBEAT to its path";
        return new OnbeatException(OnbeatException.GATEWAY, sentence);
    }

    /** The sentence with which a program ended; what follows it is how to ask for help. */
    static String reason(Process ended, String otherwise) {
        String last = otherwise;
        boolean isSentence = false;
        try (BufferedReader errors = new BufferedReader(new InputStreamReader(ended.getErrorStream(), StandardCharsets.UTF_8))) {
            for (String line = errors.readLine(); line != null; line = errors.readLine()) {
                // Colours: CLICOLOR_FORCE of a CI asks for them.
                line = line.replaceAll("\u001b\\[[0-9;]*m", "");
                boolean begins = line.startsWith("onbeat: ") || line.startsWith("error: ");
                if (begins || !isSentence && !line.isEmpty()) last = line;
                isSentence |= begins;
            }
        } catch (IOException gone) {
            // The sentence above stands.
        }
        return isSentence ? last.substring(last.indexOf(' ') + 1) : last;
    }

    /**
     * Publishes a message, an object of JSON; returns its number. Missing fields have their default, or are 0 or empty.
     *
     * @throws OnbeatException if it is not of the type, or the channel has ended
     */
    public long publish(String json) {
        try {
            lines.write((json.replace('\n', ' ') + "\n").getBytes(StandardCharsets.UTF_8));
            lines.flush();
        } catch (IOException gone) {
            throw ended();
        }
        try {
            Map<String, Object> said = Json.object(Json.parse(answer()));
            if (said.containsKey("refused")) throw new OnbeatException(OnbeatException.GATEWAY, (String) said.get("refused"));
            return ((Double) said.get("published")).longValue();
        } catch (IOException gone) {
            throw ended();
        }
    }

    private String answer() throws IOException {
        String line = answers.readLine();
        if (line == null) throw ended();
        return line;
    }

    private OnbeatException ended() {
        hasEnded = true;
        return new OnbeatException(OnbeatException.GATEWAY, reason(process, ENDED));
    }

    /** Returns whether a call has found that the program has ended, or was killed. */
    public boolean hasEnded() {
        return hasEnded;
    }

    /** Ends the channel; what was published is sent. */
    @Override
    public void close() {
        try {
            lines.close();
            if (!process.waitFor(5, TimeUnit.SECONDS)) process.destroy();
        } catch (IOException | InterruptedException ended) {
            process.destroy();
        }
    }
}

package onbeat;

import java.io.BufferedReader;
import java.io.Closeable;
import java.io.IOException;
import java.io.InputStream;
import java.io.InputStreamReader;
import java.io.OutputStream;
import java.nio.charset.StandardCharsets;
import java.util.concurrent.TimeUnit;

/**
 * The writing end of a channel, by the program {@code onbeat message publish}: other processes on this machine read its records
 * as they read the cycles of a robot.
 *
 * <pre>{@code
 * ChannelWriter marker = ChannelWriter.open("tracker/marker", "tracker_msgs/msg/Marker", "float64 x\nfloat64 y");
 * marker.write("{\"x\": 0.1, \"y\": 0.2}");
 * }</pre>
 *
 * <p>The program {@code onbeat} is the one in the variable {@code ONBEAT}, else the one in {@code PATH}. It ends with this process.
 */
public final class ChannelWriter implements Closeable {
    private final Process process;
    private final OutputStream lines;
    private final InputStream answers;
    private final BufferedReader errors;

    private ChannelWriter(Process process) throws IOException {
        this.process = process;
        lines = process.getOutputStream();
        answers = process.getInputStream();
        errors = new BufferedReader(new InputStreamReader(process.getErrorStream(), StandardCharsets.UTF_8));
        if (line().isEmpty()) throw new OnbeatException(OnbeatException.CHANNEL, why());
    }

    /**
     * Creates a channel whose records have a type with this definition, a field a line.
     *
     * @throws OnbeatException if the channel has a writer, or the definition is not valid
     */
    public static ChannelWriter open(String channel, String type, String definition) {
        String program = System.getenv("ONBEAT");
        String[] words = {
            program == null ? "onbeat" : program, "message", "publish", channel, "--type", type, "--definition", definition,
            "--most-bytes", "65536"
        };
        try {
            return new ChannelWriter(new ProcessBuilder(words).start());
        } catch (IOException why) {
            String sentence = "cannot start the program onbeat: " + why.getMessage() + "; set the variable ONBEAT to its path";
            throw new OnbeatException(OnbeatException.CHANNEL, sentence);
        }
    }

    /**
     * Publishes a record, given as a JSON object on one line. Fields that it does not name are 0 or empty.
     *
     * @throws OnbeatException if an earlier record was refused, or the program has ended
     */
    public void write(String json) {
        try {
            while (answers.available() > 0) {
                String answer = line();
                int end = answer.lastIndexOf('"');
                String sentence = end > 12 ? answer.substring(12, end).replace("\\\"", "\"") : answer;
                throw new OnbeatException(OnbeatException.TYPE, sentence);
            }
            lines.write((json.replace('\n', ' ') + "\n").getBytes(StandardCharsets.UTF_8));
            lines.flush();
        } catch (IOException ended) {
            throw new OnbeatException(OnbeatException.CHANNEL, why());
        }
    }

    /** Ends the channel, after its last record was published. */
    @Override
    public void close() {
        try {
            lines.close();
            if (!process.waitFor(5, TimeUnit.SECONDS)) process.destroy();
        } catch (IOException | InterruptedException ended) {
            process.destroy();
        }
    }

    private String line() throws IOException {
        StringBuilder line = new StringBuilder();
        for (int letter = answers.read(); letter >= 0 && letter != '\n'; letter = answers.read()) line.append((char) letter);
        return new String(line.toString().getBytes(StandardCharsets.ISO_8859_1), StandardCharsets.UTF_8);
    }

    private String why() {
        String last = "the records are not accepted any more";
        try {
            for (String line = errors.readLine(); line != null; line = errors.readLine()) {
                if (!line.isEmpty()) last = line;
            }
        } catch (IOException gone) {
            // The sentence above stands.
        }
        return last.startsWith("onbeat: ") ? last.substring(8) : last;
    }
}

package onbeat;

import java.io.Closeable;
import java.io.IOException;
import java.io.InputStream;
import java.io.OutputStream;
import java.nio.charset.StandardCharsets;
import java.util.Locale;
import java.util.concurrent.TimeUnit;

/**
 * The one process that commands a robot: {@code onbeat robot run FILE --trajectory commander --name NAME}.
 *
 * <p>A command is valid for a time. A script that stops commanding, or is killed, leaves a robot that holds and then stops
 * safely; {@link #leave()} leaves one that keeps its last targets. The program {@code onbeat} is the one in the variable
 * {@code ONBEAT}, else the one in {@code PATH}.
 */
public final class Commander implements Closeable {
    private final Process process;
    private final OutputStream commands;
    private final InputStream answers;
    private final String head;
    private String waiting = "";

    private Commander(Process process) throws IOException {
        this.process = process;
        commands = process.getOutputStream();
        answers = process.getInputStream();
        head = line();
        if (head.isEmpty()) throw new OnbeatException(OnbeatException.ROBOT, why());
    }

    /** Becomes the commander of a robot. A command is valid for 0.25 s. */
    public static Commander open(String name) {
        return open(name, 0.25);
    }

    /** Becomes the commander of a robot, with another lifetime of commands in s. */
    public static Commander open(String name, double lifetime) {
        String program = System.getenv("ONBEAT");
        String time = String.format(Locale.ROOT, "%dus", Math.round(lifetime * 1e6));
        String[] words = {program == null ? "onbeat" : program, "message", "command", name, "--lifetime", time};
        try {
            return new Commander(new ProcessBuilder(words).start());
        } catch (IOException why) {
            String sentence = "cannot start the program onbeat: " + why.getMessage() + "; set the variable ONBEAT to its path";
            throw new OnbeatException(OnbeatException.ROBOT, sentence);
        }
    }

    /** Returns the joints with their limits, in JSON. */
    public String description() {
        return head;
    }

    /**
     * Sets the target position of a joint in rad. Joints that were not named stay where they are.
     *
     * @throws OnbeatException if an earlier command was refused, or the robot has stopped
     */
    public void command(String joint, double rad) {
        command(new String[] {joint}, new double[] {rad});
    }

    /** As {@link #command(String, double)}, for several joints, each with its target. */
    public void command(String[] joints, double[] rad) {
        checkLengths(joints, rad);
        StringBuilder line = new StringBuilder();
        for (int i = 0; i < joints.length; i++) {
            line.append(i > 0 ? ", " : "").append(joints[i]).append('=').append(rad[i]);
        }
        try {
            while (answers.available() > 0) {
                String answer = line();
                if (answer.startsWith("{\"refused\"")) throw new OnbeatException(OnbeatException.ROBOT, sentence(answer));
                waiting = sentence(answer);
            }
            write(line.append('\n').toString());
        } catch (IOException ended) {
            throw new OnbeatException(OnbeatException.ROBOT, why());
        }
    }

    /**
     * Returns why the robot has followed no command for a second, or which commanded joints have no power, as of the last
     * command; empty while it follows.
     */
    public String waiting() {
        return waiting;
    }

    /** Ends in order: the robot keeps its last targets until another process commands it. */
    public void leave() {
        try {
            write("leave\n");
        } catch (IOException ended) {
            // It has ended already.
        }
        close();
    }

    /** Ends without taking leave: the robot holds, and then stops safely. */
    @Override
    public void close() {
        try {
            commands.close();
            if (!process.waitFor(5, TimeUnit.SECONDS)) process.destroy();
        } catch (IOException | InterruptedException ended) {
            process.destroy();
        }
    }

    static void checkLengths(String[] joints, double[] rad) {
        if (joints.length != rad.length) {
            throw new OnbeatException(OnbeatException.ROBOT, joints.length + " joints and " + rad.length + " targets");
        }
    }

    private void write(String line) throws IOException {
        commands.write(line.getBytes(StandardCharsets.UTF_8));
        commands.flush();
    }

    private String line() throws IOException {
        StringBuilder line = new StringBuilder();
        for (int letter = answers.read(); letter >= 0 && letter != '\n'; letter = answers.read()) line.append((char) letter);
        return new String(line.toString().getBytes(StandardCharsets.ISO_8859_1), StandardCharsets.UTF_8);
    }

    /** The sentence in {@code {"refused":"..."}} or {@code {"waiting":"..."}}; its quotation marks are escaped. */
    private static String sentence(String answer) {
        int begin = answer.indexOf(':') + 2;
        int end = answer.lastIndexOf('"');
        return begin > 1 && end > begin ? answer.substring(begin, end).replace("\\\"", "\"") : answer;
    }

    private String why() {
        return Publisher.reason(process, "the commands are not accepted any more");
    }
}

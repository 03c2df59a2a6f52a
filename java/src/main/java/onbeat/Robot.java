package onbeat;

import java.io.Closeable;
import java.util.Arrays;
import java.util.Map;

/**
 * A robot of this computer or of another one: its cycles, and its commander from the first command on.
 *
 * <pre>{@code
 * Robot r = Robot.connect("robot.local", "robot.key");        // or Robot.connect("walker"), on this computer
 * r.command("left knee", 0.3);                                // rad, valid for 0.25 s
 * Table cycles = r.drain(new String[] {"actual_rad"}, 1000);
 * }</pre>
 *
 * <p>Times of cycles are by CLOCK_MONOTONIC of the robot's computer: {@code System.nanoTime()} here is another clock.
 *
 * <p>On the robot's computer runs {@code onbeat message command walker --from tcp://0.0.0.0:7791 --key robot.key}. The connection
 * needs neither a native library nor another jar.
 */
public final class Robot implements Closeable {
    /** Where a robot listens unless it is told otherwise; its channels are on the next port. */
    public static final int PORT = 7791;
    private static final double LIFETIME = 0.25;

    private final String name;
    private final RemoteCommander remote;
    private final ZmqSubscription subscription;
    private final Ring ring;
    private Commander local;

    private Robot(String name) {
        this.name = name;
        remote = null;
        subscription = null;
        ring = Ring.open(name + "/cycle");
    }

    private Robot(String host, int port, String key) {
        remote = new RemoteCommander(host, port, key, LIFETIME);
        name = remote.name();
        ring = null;
        try {
            subscription = subscribed(host);
        } catch (OnbeatException why) {
            remote.close();
            throw why;
        }
    }

    /** Finds a robot that runs on this computer by its name, any other one by its computer, to read it. */
    public static Robot connect(String robot) {
        return connect(robot, "");
    }

    /**
     * Finds a robot that runs on this computer by its name, any other one by its computer, {@code HOST}, {@code HOST:PORT} or
     * {@code [ADDRESS]:PORT}.
     *
     * @param key the file of the robot's key; an empty text to read only
     * @throws OnbeatException if there is none, or it has another key
     */
    public static Robot connect(String robot, String key) {
        if (robot.matches("[\\w.-]{1,64}") && Arrays.asList(Ring.channels()).contains(robot + "/cycle")) return new Robot(robot);
        // An IPv6 address without brackets has no port.
        boolean hasPort = robot.contains("]:") || robot.indexOf(':') == robot.lastIndexOf(':') && robot.indexOf(':') >= 0;
        int end = hasPort ? robot.lastIndexOf(':') : robot.length();
        String host = robot.substring(0, end).replaceAll("^\\[|\\]$", "");
        String port = hasPort ? robot.substring(end + 1) : "" + PORT;
        if (host.isEmpty() || !port.matches("\\d{1,5}") || Integer.parseInt(port) > 65535) {
            throw new OnbeatException(OnbeatException.ROBOT, "\"" + robot
                    + "\" is not the address of a robot; write HOST, HOST:PORT or [ADDRESS]:PORT");
        }
        return new Robot(host, Integer.parseInt(port), key.isEmpty() ? null : key);
    }

    private ZmqSubscription subscribed(String host) {
        try {
            int port = ((Double) remote.described().get("telemetry")).intValue();
            for (Object each : Json.list(remote.described().get("channels"))) {
                Map<String, Object> of = Json.object(each);
                if (port > 0 && of.get("channel").equals(name + "/cycle")) {
                    String address = "tcp://" + host + ":" + port;
                    return ZmqSubscription.open(address, (String) of.get("channel"), (String) of.get("type"),
                            (String) of.get("schema"), (String) of.get("description"));
                }
            }
        } catch (IllegalArgumentException | ClassCastException | NullPointerException wrong) {
            throw new OnbeatException(OnbeatException.ROBOT, host + " describes its channels in another way: another version of onbeat");
        }
        throw new OnbeatException(OnbeatException.ROBOT, host + " does not publish " + name + "/cycle");
    }

    /** Returns the name of the robot. */
    public String name() {
        return name;
    }

    /** Sets the target position of a joint in rad, as {@link Commander#command(String, double)}. */
    public void command(String joint, double rad) {
        command(new String[] {joint}, new double[] {rad});
    }

    /**
     * As {@link #command(String, double)}, for several joints.
     *
     * @throws OnbeatException if an earlier command was refused, or the robot has stopped, or does not answer for a second
     */
    public void command(String[] joints, double[] rad) {
        if (remote != null) {
            remote.command(joints, rad);
            return;
        }
        if (local == null) local = Commander.open(name, LIFETIME);
        local.command(joints, rad);
    }

    /** Returns why the robot does not follow; empty while it does. */
    public String waiting() {
        return remote != null ? remote.waiting() : local == null ? "" : local.waiting();
    }

    /** Returns the number of commands that reached a robot of another computer after their lifetime. */
    public long tooLate() {
        return remote == null ? 0 : remote.tooLate();
    }

    /** Returns the description of the cycles in JSON: joints, devices, values. */
    public String description() {
        return ring != null ? ring.description() : subscription.description();
    }

    /** Returns fields of all cycles since the last call, as {@link Ring#drain}. */
    public Table drain(String[] fields, int ms) {
        return ring != null ? ring.drain(fields, ms) : subscription.drain(fields, ms);
    }

    /** Returns the next cycle, or null after {@code ms} milliseconds; 0 never waits. */
    public Message next(int ms) {
        return ring != null ? ring.next(ms) : subscription.next(ms);
    }

    /** Returns the newest cycle, or null; those before it are passed over. */
    public Message latest() {
        return ring != null ? ring.latest() : subscription.latest();
    }

    /** Waits until a cycle can be read, at most {@code ms} milliseconds. */
    public boolean await(int ms) {
        return ring != null ? ring.await(ms) : subscription.await(ms);
    }

    /** Returns the number of cycles that can be read at once. */
    public long pending() {
        return ring != null ? ring.pending() : subscription.pending();
    }

    /** Returns the number of cycles received. */
    public long received() {
        return ring != null ? ring.received() : subscription.received();
    }

    /** Returns the number of cycles lost. */
    public long lost() {
        return ring != null ? ring.lost() : subscription.lost();
    }

    /** Ends in order: the robot keeps its last targets until another process commands it. */
    public void leave() {
        if (remote != null) remote.leave();
        if (local != null) local.leave();
        close();
    }

    /** Ends without taking leave: a robot that was commanded holds, and then stops safely. */
    @Override
    public void close() {
        if (remote != null) remote.close();
        if (local != null) local.close();
        if (ring != null) ring.close();
        if (subscription != null) subscription.close();
    }
}

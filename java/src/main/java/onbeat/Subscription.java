package onbeat;

import java.io.IOException;
import java.util.Arrays;
import java.util.List;
import java.util.concurrent.atomic.AtomicInteger;

/**
 * Channels of LCM, ZeroMQ and ROS 2 as channels of this computer, by the program {@code onbeat message receive}, which ends when the
 * channel is closed or this process ends.
 */
public final class Subscription {
    private static final AtomicInteger NEXT = new AtomicInteger(1);
    private static final long JOINED_WITHIN_NS = 10_000_000_000L;

    private Subscription() {}

    /**
     * Joins a network for a channel; the ring that is returned leaves it when it is closed.
     *
     * @param url {@code udpm://}, {@code tcp://} or {@code ros2://}
     * @param remote name of the channel there
     * @param type {@code PACKAGE/msg/Name}
     * @param file its definition, {@code .msg} or {@code .lcm}; empty for a type of onbeat
     * @throws OnbeatException with the program's sentence
     */
    public static Ring open(String url, String remote, String type, String file) {
        String topic = remote.replaceAll("^/+", "").replaceAll("[^A-Za-z0-9_.-]", "_");
        // The id of this process, in Java 8 too.
        String process = java.lang.management.ManagementFactory.getRuntimeMXBean().getName().split("@")[0];
        String channel = "sub-" + process + "-" + NEXT.getAndIncrement() + "/" + topic.substring(0, Math.min(topic.length(), 64));
        List<String> words = Publisher.words("receive", remote, channel, "--from", url, "--type", type, "--until-input-ends");
        if (!file.isEmpty()) words.addAll(Arrays.asList("--file", file));
        Process gateway;
        try {
            gateway = new ProcessBuilder(words).start();
        } catch (IOException why) {
            throw Publisher.notStarted(why);
        }
        long end = System.nanoTime() + JOINED_WITHIN_NS;
        while (true) {
            try {
                return joined(Ring.open(channel).endsWith(gateway), gateway);
            } catch (OnbeatException none) {
                // Its writer is about to make it.
            }
            boolean isLate = System.nanoTime() > end;
            if (isLate) gateway.destroy();
            if (isLate || !gateway.isAlive()) {
                String otherwise = isLate ? url + " was not joined within 10 s" : Publisher.ENDED;
                throw new OnbeatException(OnbeatException.GATEWAY, Publisher.reason(gateway, otherwise));
            }
            pause();
        }
    }

    /** The program would stop at a pipe that its warnings have filled: from here on they go nowhere. */
    private static Ring joined(Ring ring, Process gateway) {
        try {
            gateway.getErrorStream().close();
        } catch (IOException closed) {
            // Then it is no pipe that fills.
        }
        return ring;
    }

    private static void pause() {
        try {
            Thread.sleep(5);
        } catch (InterruptedException ended) {
            Thread.currentThread().interrupt();
        }
    }
}

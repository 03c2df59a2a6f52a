package onbeat.hiccup;

import java.io.BufferedReader;
import java.io.IOException;
import java.io.InputStreamReader;
import java.nio.charset.Charset;
import java.util.Arrays;
import java.util.LinkedHashMap;
import java.util.Locale;
import java.util.Map;
import java.util.concurrent.TimeUnit;

/** What Java can see of the machine: nothing is read of {@code /proc}, so that it is the same on every system. */
final class MachineFacts {
    private static final int SLEEPS = 50;
    private static final int CLOCK_STEPS = 1_000;

    private final Map<String, String> facts = new LinkedHashMap<>();

    private MachineFacts() {}

    static MachineFacts read() {
        MachineFacts read = new MachineFacts();
        read.add("operating system", property("os.name") + " " + property("os.version"));
        read.add("architecture", property("os.arch"));
        read.add("CPUs online", String.valueOf(Runtime.getRuntime().availableProcessors()));
        read.add("Java virtual machine", property("java.vm.name") + " " + property("java.vm.version"));
        read.add("Java vendor", property("java.vendor"));
        read.add("Java version", property("java.version"));
        read.add("clock step", clockStep());
        read.add("Thread.sleep(1)", sleeps());
        read.add("power plan", powerPlan());
        return read;
    }

    Map<String, String> all() {
        return facts;
    }

    private void add(String name, String value) {
        facts.put(name, value.trim());
    }

    private static String property(String name) {
        return System.getProperty(name, "unknown");
    }

    /** The smallest of many steps by which {@link System#nanoTime} was seen to go on. */
    private static String clockStep() {
        long smallestNs = Long.MAX_VALUE;
        for (int step = 0; step < CLOCK_STEPS; step++) {
            long before = System.nanoTime();
            long after = before;
            while (after == before) after = System.nanoTime();
            smallestNs = Math.min(smallestNs, after - before);
        }
        return smallestNs + " ns";
    }

    /** How long a sleep of 1 ms takes: on Windows it shows the interval of the system's timer. */
    private static String sleeps() {
        long[] tookNs = new long[SLEEPS];
        try {
            for (int sleep = 0; sleep < SLEEPS; sleep++) {
                long before = System.nanoTime();
                Thread.sleep(1);
                tookNs[sleep] = System.nanoTime() - before;
            }
        } catch (InterruptedException nobodyDoes) {
            return "not measured";
        }
        Arrays.sort(tookNs);
        // In tenths: what tells systems apart, and not one start from the next.
        return String.format(Locale.ROOT, "%.1f ms, the median of %d", tookNs[SLEEPS / 2] / 1e6, SLEEPS);
    }

    /** On Windows what {@code powercfg} names; other systems show Java nothing of it. */
    private static String powerPlan() {
        if (!property("os.name").startsWith("Windows")) return "not visible to Java";
        try {
            Process powercfg = new ProcessBuilder("powercfg", "/getactivescheme").redirectErrorStream(true).start();
            powercfg.getOutputStream().close();
            if (!powercfg.waitFor(5, TimeUnit.SECONDS)) {
                powercfg.destroy();
                return "not visible to Java: powercfg gave no answer in 5 s";
            }
            try (BufferedReader answer = new BufferedReader(new InputStreamReader(powercfg.getInputStream(), Charset.defaultCharset()))) {
                String line = answer.readLine();
                boolean isAnswer = powercfg.exitValue() == 0 && line != null && !line.trim().isEmpty();
                return isAnswer ? line : "not visible to Java: powercfg ended with status " + powercfg.exitValue();
            }
        } catch (IOException absent) {
            return "not visible to Java: powercfg cannot be run";
        } catch (InterruptedException nobodyDoes) {
            Thread.currentThread().interrupt();
            return "not visible to Java";
        }
    }
}

package onbeat.hiccup;

import java.nio.file.Path;
import java.nio.file.Paths;
import java.time.Instant;
import java.time.ZoneOffset;
import java.time.format.DateTimeFormatter;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.List;
import java.util.Locale;
import java.util.regex.Matcher;
import java.util.regex.Pattern;

/** {@code java -jar onbeat.jar hiccup}: options, sentences and the exit status. */
public final class Main {
    private static final String USAGE = String.join(System.lineSeparator(),
            "Usage: java -jar onbeat.jar hiccup [--for TIME] [--interval TIME] [--out FILE]",
            "",
            "Measure how long this system delays a program that only sleeps, by jHiccup's rule",
            "",
            "  --for TIME        Measuring time; 0: until Ctrl-C [default: 10s]",
            "  --interval TIME   Length of a sleep, from 1us to 10s [default: 1ms]",
            "  --out FILE        Run file to create [default: hiccup-DATE.onbeat.hlog]",
            "",
            "Times are numbers with ns, us, ms, s, min or h, such as 24h. Ctrl-C ends a run; what was measured stays.",
            "`onbeat report FILE`, `onbeat compare` and `onbeat gate` read the file, on any computer.",
            "",
            "Exit status: 0 measured, 2 could not run or not write, 130 ended by Ctrl-C");
    private static final Pattern TIME = Pattern.compile("([0-9]+(?:\\.[0-9]+)?)(ns|us|ms|s|min|m|h|d)");
    private static final List<String> UNITS = Arrays.asList("ns", "us", "ms", "s", "min", "m", "h", "d");
    private static final double[] UNIT_NS = {1, 1e3, 1e6, 1e9, 60e9, 60e9, 3600e9, 86_400e9};
    private static final long LONGEST_SLEEP_NS = 10_000_000_000L;
    /** A year: times beyond are mistakes of typing, and their sums would not fit. */
    private static final double LONGEST_NS = 366 * 86_400e9;

    private Main() {}

    /** Runs the meter; ends the process with its status. */
    public static void main(String[] words) {
        int status = run(words);
        if (status != 0) System.exit(status);
    }

    private static int run(String[] words) {
        List<String> all = Arrays.asList(words);
        if (all.contains("--help") || all.contains("-h")) {
            System.out.println(USAGE);
            return 0;
        }
        try {
            Options options = options(all);
            return measure(options, words);
        } catch (IllegalArgumentException refused) {
            System.err.println("onbeat: " + refused.getMessage());
            return 2;
        }
    }

    /** What was asked for. */
    private static final class Options {
        long forNs = 10_000_000_000L;
        long sleepNs = 1_000_000;
        Path out;
    }

    private static Options options(List<String> words) {
        if (words.isEmpty() || !words.get(0).equals("hiccup")) {
            String typed = words.isEmpty() ? "no command" : "`" + words.get(0) + "` is not a command";
            throw new IllegalArgumentException(typed + " of this jar; it has one: `java -jar onbeat.jar hiccup --for 24h`");
        }
        Options options = new Options();
        for (int at = 1; at < words.size(); at += 2) {
            String name = words.get(at);
            if (!Arrays.asList("--for", "--interval", "--out").contains(name)) {
                throw new IllegalArgumentException("`" + name + "` is not an option of hiccup; it has --for, --interval and --out (--help)");
            }
            if (at + 1 == words.size()) throw new IllegalArgumentException(name + " needs a value (--help)");
            String value = words.get(at + 1);
            if (name.equals("--for")) options.forNs = value.equals("0") ? 0 : timeNs(name, value);
            if (name.equals("--interval")) options.sleepNs = timeNs(name, value);
            if (name.equals("--out")) options.out = path(value);
        }
        if (options.sleepNs < 1_000 || options.sleepNs > LONGEST_SLEEP_NS) {
            throw new IllegalArgumentException("--interval " + options.sleepNs + "ns is outside 1us to 10s");
        }
        if (options.forNs != 0 && options.forNs < options.sleepNs) {
            throw new IllegalArgumentException("--for " + options.forNs + "ns is shorter than one sleep of " + options.sleepNs + "ns");
        }
        if (options.out == null) {
            String now = DateTimeFormatter.ofPattern("yyyy-MM-dd'T'HH-mm-ss'Z'", Locale.ROOT).withZone(ZoneOffset.UTC).format(Instant.now());
            options.out = Paths.get("hiccup-" + now + ".onbeat.hlog");
        }
        return options;
    }

    private static Path path(String typed) {
        if (typed.isEmpty()) throw new IllegalArgumentException("--out needs the name of a file");
        return Paths.get(typed);
    }

    private static long timeNs(String option, String typed) {
        Matcher matcher = TIME.matcher(typed);
        double ns = matcher.matches() ? Double.parseDouble(matcher.group(1)) * UNIT_NS[UNITS.indexOf(matcher.group(2))] : 0;
        if (ns < 1 || ns > LONGEST_NS) {
            throw new IllegalArgumentException(option + " `" + typed + "` is not a time up to a year; write it such as 24h, 30s or 500us");
        }
        return Math.round(ns);
    }

    private static int measure(Options options, String[] words) {
        List<String> command = new ArrayList<>(Arrays.asList("java", "-jar", "onbeat.jar"));
        command.addAll(Arrays.asList(words));
        MachineFacts facts = MachineFacts.read();
        Meter meter = new Meter(options.sleepNs);
        RunFile file;
        try {
            file = RunFile.create(options.out, new RunFile.Labels(command, facts, options.sleepNs));
        } catch (RunFile.Failure failure) {
            System.err.println("onbeat: " + failure.getMessage());
            return 2;
        }

        Thread main = Thread.currentThread();
        Thread onSignal = new Thread(() -> {
            meter.stop();
            // The process ends when this thread does: the file is closed before.
            for (boolean isOver = false; !isOver; ) {
                try {
                    main.join();
                    isOver = true;
                } catch (InterruptedException again) {
                    // Nothing else is to be done here.
                }
            }
        }, "onbeat-stop");
        Runtime.getRuntime().addShutdownHook(onSignal);
        int status = 0;
        try {
            System.out.println(file.run(meter, options.forNs));
        } catch (RunFile.Failure failure) {
            System.err.println("onbeat: " + failure.getMessage());
            status = 2;
        }
        try {
            Runtime.getRuntime().removeShutdownHook(onSignal);
        } catch (IllegalStateException isEnding) {
            // A signal has begun the shutdown, which ends with the signal's status. To ask for another one here would wait forever.
            return 0;
        }
        return status;
    }
}

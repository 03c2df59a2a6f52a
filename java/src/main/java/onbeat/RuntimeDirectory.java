package onbeat;

import java.io.IOException;
import java.nio.channels.FileChannel;
import java.nio.file.AccessDeniedException;
import java.nio.file.Files;
import java.nio.file.LinkOption;
import java.nio.file.NoSuchFileException;
import java.nio.file.Path;
import java.nio.file.Paths;
import java.nio.file.StandardOpenOption;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.List;
import java.util.Map;

/**
 * A directory in which the processes of one user share objects, and what is checked before a file in it is read.
 *
 * <p>The directories of this user come first, then those of root. A directory or a file counts only if it belongs to this
 * user or to root and nobody else can write it. {@code docs/ring.md} names the directories.
 */
final class RuntimeDirectory {
    private static final String VARIABLE = "ONBEAT_RUNTIME_DIR";
    private static final Path OF_ROOT = Paths.get("/run/onbeat");
    private static final Path IN_MEMORY = Paths.get("/dev/shm");
    /** Bits of a mode: the kind of a file, and writing by others than its owner. */
    private static final int KIND = 0170000;
    private static final int DIRECTORY = 0040000;
    private static final int REGULAR = 0100000;
    private static final int BY_OTHERS = 0022;

    final Path path;

    private RuntimeDirectory(Path path) {
        this.path = path;
    }

    /** Returns the directories in which this user finds objects; those that are missing are left out. */
    static List<RuntimeDirectory> existing() {
        List<RuntimeDirectory> found = new ArrayList<>();
        List<Path> paths = paths();
        for (Path path : paths) {
            // Another user who takes the name of a second one keeps nobody from his files.
            boolean isSecond = path.startsWith(IN_MEMORY) && path != paths.get(0);
            try {
                check(path);
                found.add(new RuntimeDirectory(path));
            } catch (NoSuchFileException missing) {
                continue;
            } catch (OnbeatException why) {
                if (!isSecond) throw why;
            }
        }
        return found;
    }

    private static void check(Path path) throws NoSuchFileException {
        try {
            Map<String, Object> attributes = attributes(path);
            int kind = (int) attributes.get("mode") & KIND;
            String why = kind == DIRECTORY ? distrust(attributes) : "it is " + words(kind) + ", not a directory";
            if (why == null) return;
            throw refused(path + " is not used for shared objects: " + why + "; name another directory in " + VARIABLE);
        } catch (NoSuchFileException missing) {
            throw missing;
        } catch (IOException why) {
            throw refused("cannot open " + path + ", the directory of shared objects: " + why + "; name another one in "
                    + VARIABLE);
        }
    }

    /** Returns the names in this directory, in order. */
    String[] names() {
        String[] names = path.toFile().list();
        if (names == null) return new String[0];
        Arrays.sort(names);
        return names;
    }

    /**
     * Opens a file for reading. Its kind is checked first: opening a pipe would block.
     *
     * @throws NoSuchFileException if there is no such file
     * @throws OnbeatException if it is not trusted
     */
    FileChannel open(String name, long mostBytes) throws IOException {
        Path file = path.resolve(name);
        Map<String, Object> attributes = attributes(file);
        int kind = (int) attributes.get("mode") & KIND;
        long size = (long) attributes.get("size");
        String why = kind == REGULAR ? distrust(attributes) : "it is " + words(kind) + ", not a regular file";
        if (why == null && size > mostBytes) {
            why = "it has " + (size >> 20) + " MiB, and at most " + (mostBytes >> 20) + " MiB are read";
        }
        if (why != null) throw refused("cannot open " + file + ": " + why);
        try {
            return FileChannel.open(file, StandardOpenOption.READ, LinkOption.NOFOLLOW_LINKS);
        } catch (AccessDeniedException denied) {
            throw refused("cannot open " + file + ": Permission denied");
        }
    }

    private static List<Path> paths() {
        String named = variable(VARIABLE);
        if (named != null) return Arrays.asList(Paths.get(named));
        long user = user();
        Path inMemory = IN_MEMORY.resolve("onbeat-" + user);
        Path ofRootInMemory = IN_MEMORY.resolve("onbeat-0");
        if (user == 0) return Arrays.asList(OF_ROOT, ofRootInMemory);
        String session = variable("XDG_RUNTIME_DIR");
        Path ofSystem = Paths.get("/run/user/" + user);
        if (session != null) return Arrays.asList(Paths.get(session, "onbeat"), inMemory, OF_ROOT, ofRootInMemory);
        if (Files.isDirectory(ofSystem)) return Arrays.asList(ofSystem.resolve("onbeat"), inMemory, OF_ROOT, ofRootInMemory);
        return Arrays.asList(inMemory, OF_ROOT, ofRootInMemory);
    }

    private static String variable(String name) {
        String value = System.getenv(name);
        return value == null || value.isEmpty() ? null : value;
    }

    private static Map<String, Object> attributes(Path of) throws IOException {
        return Files.readAttributes(of, "unix:mode,uid,size", LinkOption.NOFOLLOW_LINKS);
    }

    /** Returns the user id of this process. */
    private static long user() {
        try {
            return Integer.toUnsignedLong((int) Files.getAttribute(Paths.get("/proc/self"), "unix:uid"));
        } catch (IOException why) {
            throw refused("cannot look at /proc/self: " + why);
        }
    }

    /** Returns why a file or directory is not trusted; null if it is. */
    private static String distrust(Map<String, Object> attributes) {
        long owner = Integer.toUnsignedLong((int) attributes.get("uid"));
        long user = user();
        int mode = (int) attributes.get("mode");
        if (owner != user && owner != 0) {
            return "it belongs to user " + owner + ", and user " + user + " does not trust its content";
        }
        if ((mode & BY_OTHERS) == 0) return null;
        return String.format("others than its owner can write it (mode %04o)", mode & 07777);
    }

    private static String words(int kind) {
        switch (kind) {
            case REGULAR: return "a file";
            case DIRECTORY: return "a directory";
            case 0010000: return "a pipe";
            case 0140000: return "a socket";
            case 0120000: return "a link";
            default: return "a device";
        }
    }

    private static OnbeatException refused(String sentence) {
        return new OnbeatException(OnbeatException.REFUSED, sentence);
    }
}

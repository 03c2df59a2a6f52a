package onbeat;

/** A channel cannot be read, or a robot not be commanded. The message begins with an identifier that a script can compare. */
public final class OnbeatException extends RuntimeException {
    private static final long serialVersionUID = 1;

    /** The channel does not exist. */
    public static final String NO_CHANNEL = "onbeat:ring:no_channel";
    /** The writer has ended, and everything it had published was read. */
    public static final String ENDED = "onbeat:ring:ended";
    /** The object is not a ring, or of another version. */
    public static final String NOT_A_RING = "onbeat:ring:not_a_ring";
    /** A directory or file is not trusted: another user owns it or can write it, or it is not a regular file. */
    public static final String REFUSED = "onbeat:ring:refused";
    /** The channel cannot be created, or its program has ended. */
    public static final String CHANNEL = "onbeat:ring:write";
    /** The type has no such field, or its bytes cannot be read. */
    public static final String TYPE = "onbeat:type";

    /** The camera does not run. */
    public static final String NO_CAMERA = "onbeat:camera:no_camera";
    /** The camera has ended, and its newest frame was taken. */
    public static final String ENDED_CAMERA = "onbeat:camera:ended";
    /** The file does not hold pictures of a camera, or of another version. */
    public static final String NOT_FRAMES = "onbeat:camera:not_frames";

    /** The file is not a log, or cannot be read. */
    public static final String LOG = "onbeat:log";
    /** A command was refused, or the robot takes none. */
    public static final String ROBOT = "onbeat:robot";

    /** A network cannot be joined, or its address is not valid. */
    public static final String NETWORK = "onbeat:zmq";
    /** The jar of jeromq, by which this library speaks ZeroMQ, is not in the class path. */
    public static final String NO_JEROMQ = "onbeat:zmq:no_jeromq";

    /** The program onbeat cannot join a network, or a message is not of its type. */
    public static final String GATEWAY = "onbeat:network";

    private final String identifier;
    private final String sentence;

    OnbeatException(String identifier, String sentence) {
        super(identifier + ": " + sentence);
        this.identifier = identifier;
        this.sentence = sentence;
    }

    /** Returns the message without the identifier. */
    String sentence() {
        return sentence;
    }

    /** Returns the identifier, one of the constants of this class. */
    public String identifier() {
        return identifier;
    }
}

import static com.eprosima.xmlschemas.fastrtps_profiles.DurabilityQosKindPolicyType.VOLATILE;
import static com.eprosima.xmlschemas.fastrtps_profiles.HistoryQosKindPolicyType.KEEP_LAST;
import static com.eprosima.xmlschemas.fastrtps_profiles.ReliabilityQosKindPolicyType.RELIABLE;

import java.net.InetAddress;
import java.util.concurrent.atomic.AtomicLong;
import sensor_msgs.msg.dds.JointState;
import us.ihmc.pubsub.Domain;
import us.ihmc.pubsub.DomainFactory;
import us.ihmc.pubsub.DomainFactory.PubSubImplementation;
import us.ihmc.pubsub.common.SampleInfo;
import us.ihmc.ros2.ROS2Node;
import us.ihmc.ros2.ROS2PublisherBasics;
import us.ihmc.ros2.ROS2QosProfile;

/** A node of IHMC's ROS 2, on Fast-DDS, that sends back what it receives: DOMAIN THERE BACK. Ends with its standard input. */
public final class Echo {
    private static final int MOST_MESSAGES = 5000;

    public static void main(String[] args) throws Exception {
        // IHMC's profiles are transient-local, whose readers take nothing from a volatile writer.
        ROS2QosProfile reliable = new ROS2QosProfile(KEEP_LAST, MOST_MESSAGES, RELIABLE, VOLATILE, false);
        InetAddress loopback = InetAddress.getByName("127.0.0.1");
        Domain domain = DomainFactory.getDomain(PubSubImplementation.FAST_RTPS);
        // Without a namespace of its own, a node's topics begin with /us/ihmc.
        ROS2Node node = new ROS2Node(domain, "echo", "", Integer.parseInt(args[0]), loopback);
        ROS2PublisherBasics<JointState> publisher = node.createPublisher(JointState.getPubSubType().get(), args[2], reliable);
        JointState message = new JointState();
        SampleInfo info = new SampleInfo();
        AtomicLong echoed = new AtomicLong();
        node.createSubscription(JointState.getPubSubType().get(), subscriber -> {
            while (subscriber.takeNextData(message, info)) {
                publisher.publish(message);
                echoed.incrementAndGet();
            }
        }, args[1], reliable);
        while (System.in.read() >= 0) {}
        System.out.println("echoed " + echoed.get());
        System.exit(0);
    }
}

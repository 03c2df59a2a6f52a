/* Settings of the firmware; each can be given to make, such as `make firmware DEVICE='-DDEVICE_PORTS=1'`. Addresses are a,b,c,d. */
#ifndef DEVICE_H
#define DEVICE_H

#ifndef DEVICE_ADDRESS
#define DEVICE_ADDRESS 192, 168, 7, 2
#endif
#ifndef DEVICE_MASK
#define DEVICE_MASK 255, 255, 255, 0
#endif

/* Devices at consecutive ports from ONBEAT_NET_PORT on, as `onbeat net device --count`. */
#ifndef DEVICE_PORTS
#define DEVICE_PORTS 32
#endif

/* Edges that wait for the end of their delay; further ones are dropped, and missing at their sender. */
#ifndef DEVICE_EDGES
#define DEVICE_EDGES 32
#endif

/* Delay of an edge at the device's own input. */
#ifndef DEVICE_DELAY_NS
#define DEVICE_DELAY_NS 200000u
#endif

/* Where an edge at the input goes at the end of its delay: with DEVICE_NEXT to a board at that address, else to the device's own output. */
#ifndef DEVICE_NEXT_PORT
#define DEVICE_NEXT_PORT 7470
#endif

/* Settings of the sender (sender.c): whom it asks, how often, with how many bytes, how many times (0: without end), and where the log goes. */
#ifndef SENDER_TO
#define SENDER_TO 192, 168, 7, 2
#endif
#ifndef SENDER_PERIOD_NS
#define SENDER_PERIOD_NS 1000000u
#endif
#ifndef SENDER_PAYLOAD
#define SENDER_PAYLOAD 200
#endif
#ifndef SENDER_PACKETS
#define SENDER_PACKETS 0
#endif
#ifndef SENDER_LOG
#define SENDER_LOG 192, 168, 7, 3
#endif

#endif

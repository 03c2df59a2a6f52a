/* Settings of the device; each can be given to make, such as `make firmware DEVICE='-DDEVICE_PORTS=1'`. */
#ifndef DEVICE_H
#define DEVICE_H

/* Address and network, in lwIP's order of bytes: a.b.c.d as a,b,c,d. */
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

#endif

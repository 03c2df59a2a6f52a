#!/usr/bin/env python3
"""Round trips to `onbeat net device` from a program that knows the wire format alone (docs/net.md, include/onbeat_net.h).

usage: round_trip.py HOST PORT COUNT
"""
import socket
import struct
import sys
import time

# struct onbeat_packet of include/onbeat_net.h: 56 bytes, little-endian.
HEADER = struct.Struct("<4sBBHQQQQIIH6x")
ECHO_REQUEST, ECHO_ANSWER, VERSION, PAYLOAD = 1, 2, 1, 200


def main(host, port, count):
    plug = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    plug.settimeout(5.0)
    trips_us, device_us = [], []
    for sequence in range(count):
        sent_ns = time.monotonic_ns()
        header = HEADER.pack(b"ONBT", VERSION, ECHO_REQUEST, 0, sequence, sent_ns, 0, 0, 42, 0, PAYLOAD)
        plug.sendto(header.ljust(PAYLOAD, b"\xa5"), (host, port))
        answer = plug.recv(2048)
        trips_us.append((time.monotonic_ns() - sent_ns) / 1000)

        magic, version, kind, device, number, sent, received, answered, session, _, length = HEADER.unpack_from(answer)
        assert (magic, version, kind) == (b"ONBT", VERSION, ECHO_ANSWER), answer[:8]
        assert (device, number, sent, session, length) == (0, sequence, sent_ns, 42, PAYLOAD), number
        assert answer[HEADER.size:] == b"\xa5" * (PAYLOAD - HEADER.size), "the bytes behind the header come back"
        device_us.append((answered - received) / 1000)

    trips_us.sort()
    device_us.sort()
    print(f"{count} answers of {PAYLOAD} bytes; round trip {trips_us[0]:.1f} us at least, {trips_us[count // 2]:.1f} us median, "
          f"{trips_us[-1]:.1f} us at most; of it in the device {device_us[count // 2]:.1f} us median")


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]), int(sys.argv[3]))

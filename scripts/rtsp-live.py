"""An RTSP server with the pictures of a running camera: rtsp-live.py NAME WIDTH HEIGHT RATE. Prints its address.

The camera is `onbeat camera run test:WIDTHxHEIGHT@RATE --name NAME --layout decoded`; x264 encodes each picture as it comes, without a
delay of its own. So what is painted on a picture that another camera receives here is the time that all of it took.
Needs python3-gi, gir1.2-gst-rtsp-server-1.0 and gstreamer1.0-plugins-ugly.
"""

import mmap
import os
import struct
import sys
import threading
import time

import gi

gi.require_version("Gst", "1.0")
gi.require_version("GstRtspServer", "1.0")
from gi.repository import GLib, Gst, GstRtspServer  # noqa: E402

Gst.init(None)
name, width, height, rate = sys.argv[1], *map(int, sys.argv[2:5])
folders = ["/run/onbeat", os.path.join(os.environ.get("XDG_RUNTIME_DIR", ""), "onbeat"), f"/dev/shm/onbeat-{os.getuid()}"]
path = next(at for at in (f"{folder}/{name}.frames" for folder in folders) if os.path.exists(at))
ring = mmap.mmap(os.open(path, os.O_RDONLY), 0, prot=mmap.PROT_READ)
head = struct.unpack("<64Q", ring[:512])
slots, slot, length = head[6], head[7], width * height * 3 // 2


def push(source):
    """Pushes each new picture, until nobody takes them."""
    last = struct.unpack("<Q", ring[320:328])[0]
    while True:
        newest = struct.unpack("<Q", ring[320:328])[0]
        if newest == last:
            time.sleep(0.0005)
            continue
        last = newest
        at = (1 << 21) + newest % slots * slot
        buffer = Gst.Buffer.new_wrapped(ring[at : at + length])
        if source.emit("push-buffer", buffer) != Gst.FlowReturn.OK:
            return


class Factory(GstRtspServer.RTSPMediaFactory):
    def do_configure(self, media):
        source = media.get_element().get_child_by_name("source")
        threading.Thread(target=push, args=(source,), daemon=True).start()


factory = Factory()
caps = f"video/x-raw,format=I420,width={width},height={height},framerate={rate}/1"
factory.set_launch(
    f"( appsrc name=source is-live=true do-timestamp=true format=time caps={caps} ! "
    f"x264enc tune=zerolatency speed-preset=ultrafast key-int-max={rate} bitrate=8000 threads=1 ! "
    "rtph264pay name=pay0 pt=96 config-interval=-1 )"
)
factory.set_latency(0)
server = GstRtspServer.RTSPServer()
server.set_address("127.0.0.1")
server.set_service("0")
server.get_mount_points().add_factory("/left", factory)
server.attach(None)
print(f"rtsp://127.0.0.1:{server.get_bound_port()}/left", flush=True)
GLib.MainLoop().run()

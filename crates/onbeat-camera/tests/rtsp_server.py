"""An RTSP server with the pictures of a recording: rtsp_server.py FILE jpeg|h264 [REPEATS]. Prints its address."""

import sys

import gi

gi.require_version("Gst", "1.0")
gi.require_version("GstRtspServer", "1.0")
from gi.repository import GLib, Gst, GstRtspServer  # noqa: E402

Gst.init(None)
file, coding = sys.argv[1:3]
parts = {"h264": "h264parse config-interval=-1 ! rtph264pay", "jpeg": "jpegparse ! rtpjpegpay"}[coding]
factory = GstRtspServer.RTSPMediaFactory()
factory.set_launch(f'( filesrc location="{file}" ! matroskademux ! {parts} name=pay0 pt=96 )')
factory.set_shared(False)
server = GstRtspServer.RTSPServer()
server.set_address("127.0.0.1")
server.set_service("0")
server.get_mount_points().add_factory("/left", factory)
server.attach(None)
print(f"rtsp://127.0.0.1:{server.get_bound_port()}/left", flush=True)
GLib.MainLoop().run()

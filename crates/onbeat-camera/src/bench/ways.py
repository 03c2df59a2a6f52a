"""The ways of the article "Streaming HD Video in Real-Time" (2017), from Python; a line for each with times in ms."""

import io
import sys
import time

folder, camera = sys.argv[2], sys.argv[1]
width, height, channels, rounds, has_arrays = map(int, sys.argv[3:8])
sys.path[:0] = [folder + "/python", folder + "/python/src"]

import numpy as np  # noqa: E402
import onbeat.camera  # noqa: E402


def measure(name, rounds, way):
    times = []
    for _ in range(rounds + 1):
        began = time.perf_counter()
        kept = way()
        times.append(1e3 * (time.perf_counter() - began))
        assert kept is not None
    print(name, *(f"{ms:.4f}" for ms in times[1:]), flush=True)


shape = (height, width, channels) if channels > 1 else (height, width)
own = np.add.outer(np.arange(height) // 4, np.arange(width) // 8).astype(np.uint8)
if channels > 1:
    own = np.dstack([own + 64 * channel for channel in range(channels)])
own = np.ascontiguousarray(own)

if has_arrays:
    lists = own.tolist()
    measure("array", min(rounds, 3), lambda: np.array(lists, dtype=np.uint8))
    del lists
try:
    from PIL import Image
except ImportError:
    print("python: Pillow is not installed (package python3-pil): no row for JPEG", file=sys.stderr)
else:
    packed = io.BytesIO()
    Image.fromarray(own).save(packed, "jpeg", quality=75)
    measure("jpeg", min(rounds, 10), lambda: np.asarray(Image.open(io.BytesIO(packed.getvalue()))))
planes = np.asfortranarray(own)
measure("rows", rounds, lambda: np.ascontiguousarray(planes))
with onbeat.camera.open(camera) as cam:
    copies, views = [], []
    for _ in range(rounds + 1):
        while cam.newest(timeout=5.0) is None:
            pass
        began = time.perf_counter()
        frame = None
        while frame is None:
            frame = cam.newest(timeout=0)
            if frame is None:
                time.sleep(0.001)
                began = time.perf_counter()
        views.append(1e3 * (time.perf_counter() - began))
        began = time.perf_counter()
        copied, _ = frame.copy()
        copies.append(1e3 * (time.perf_counter() - began))
        assert copied.shape == shape
    print("columns", *(f"{ms:.4f}" for ms in copies[1:]))
    print("shared", *(f"{ms:.4f}" for ms in views[1:]))

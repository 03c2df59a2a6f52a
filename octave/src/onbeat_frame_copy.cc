// A picture of a camera as a matrix of Octave, copied once. Compiled by onbeat.build; onbeat.frame and onbeat.each call it.
#include <octave/oct.h>

#include "onbeat_frame_copy.h"

DEFUN_DLD(onbeat_frame_copy, args, ,
          "img = onbeat_frame_copy (name, generation, number)\n\n"
          "Returns a frame as a height x width x channels matrix of uint8, or [] if the camera has overwritten it.")
{
    if (args.length() != 3) print_usage();
    const std::string name = args(0).xstring_value("onbeat_frame_copy: the name of a camera is a text");
    const uint64_t generation = static_cast<uint64_t>(args(1).xdouble_value("onbeat_frame_copy: a generation is a number"));
    const uint64_t number = static_cast<uint64_t>(args(2).xdouble_value("onbeat_frame_copy: a frame is a number"));
    char why[ONBEAT_RING_PATH + 256];
    struct onbeat_frames *frames = onbeat_camera_of(name.c_str(), generation, why, sizeof why);
    if (!frames && why[0]) error_with_id("onbeat:camera:not_frames", "%s", why);
    if (!frames || !onbeat_holds(frames, number)) return octave_value(uint8NDArray());
    if (frames->layout != ONBEAT_FRAMES_COLUMNS) {
        error_with_id("onbeat:camera:not_frames", "the pictures of camera %s are not in columns; start it with --layout columns", name.c_str());
    }
    // Not filled with zeros before: the pointer is the array's from here on, and freed as its own would be.
    const dim_vector size = frames->channels == 1 ? dim_vector(frames->height, frames->width)
                                                  : dim_vector(frames->height, frames->width, frames->channels);
    octave_uint8 *pixels = static_cast<octave_uint8 *>(::operator new(frames->frame_bytes));
    memcpy(static_cast<void *>(pixels), onbeat_pixels_of(frames, number), frames->frame_bytes);
    Array<octave_uint8> img(pixels, size);
    return octave_value(onbeat_holds(frames, number) ? uint8NDArray(img) : uint8NDArray());
}

/* A picture of a camera as a matrix of MATLAB, copied once. Compiled by onbeat.build; onbeat.frame and onbeat.each call it.
 *
 *     img = onbeat_frame_copy (name, generation, number)       [] if the camera has overwritten the frame */
#include <mex.h>

#include "onbeat_frame_copy.h"

void mexFunction(int nlhs, mxArray *plhs[], int nrhs, const mxArray *prhs[]) {
    char name[80], why[ONBEAT_RING_PATH + 256];
    (void)nlhs;
    if (nrhs != 3 || !mxIsChar(prhs[0]) || !mxIsDouble(prhs[1]) || !mxIsDouble(prhs[2])) {
        mexErrMsgIdAndTxt("onbeat:camera:usage", "img = onbeat_frame_copy (name, generation, number)");
    }
    if (mxGetString(prhs[0], name, sizeof name)) mexErrMsgIdAndTxt("onbeat:camera:no_camera", "the name of a camera has at most 64 letters");
    const uint64_t number = (uint64_t)mxGetScalar(prhs[2]);
    struct onbeat_frames *frames = onbeat_camera_of(name, (uint64_t)mxGetScalar(prhs[1]), why, sizeof why);
    if (!frames && why[0]) mexErrMsgIdAndTxt("onbeat:camera:not_frames", "%s", why);
    if (!frames || !onbeat_holds(frames, number)) {
        plhs[0] = mxCreateNumericMatrix(0, 0, mxUINT8_CLASS, mxREAL);
        return;
    }
    if (frames->layout != ONBEAT_FRAMES_COLUMNS) {
        mexErrMsgIdAndTxt("onbeat:camera:not_frames", "the pictures of camera %s are not in columns; start it with --layout columns", name);
    }
    const mwSize size[3] = {frames->height, frames->width, frames->channels};
    const mwSize dimensions = frames->channels == 1 ? 2 : 3;
#ifdef MATLAB_MEX_FILE
    plhs[0] = mxCreateUninitNumericArray(dimensions, (mwSize *)size, mxUINT8_CLASS, mxREAL);
#else
    plhs[0] = mxCreateNumericArray(dimensions, size, mxUINT8_CLASS, mxREAL);
#endif
    memcpy(mxGetData(plhs[0]), onbeat_pixels_of(frames, number), frames->frame_bytes);
    if (!onbeat_holds(frames, number)) {
        mxDestroyArray(plhs[0]);
        plhs[0] = mxCreateNumericMatrix(0, 0, mxUINT8_CLASS, mxREAL);
    }
}

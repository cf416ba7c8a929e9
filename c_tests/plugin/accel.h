/* What the test accelerator counts; a host finds it as "accel_stats" with ggml_backend_reg_get_proc_address. */
#ifndef ACCEL_H
#define ACCEL_H

struct accel_stats {
    int graphs, mul_mats, adds, inits, sets, gets, copies, live_buffers, live_backends;
};

#endif

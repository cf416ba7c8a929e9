// ggml-opencl.h: GPUs, with OpenCL.
//
// This library does not have this backend. Its functions are declared for hosts that mention them, but not defined.

#pragma once

#include "ggml.h"
#include "ggml-backend.h"

#ifdef __cplusplus
extern "C" {
#endif // __cplusplus

/// Creates a backend. Free it with `ggml_backend_free`. Returns NULL on failure.
GGML_BACKEND_API ggml_backend_t ggml_backend_opencl_init(void);

/// Returns whether this is a backend of this kind.
GGML_BACKEND_API bool ggml_backend_is_opencl(ggml_backend_t backend);

/// Returns the buffer type of the device.
GGML_BACKEND_API ggml_backend_buffer_type_t ggml_backend_opencl_buffer_type(void);

/// Returns the buffer type in pinned host memory, for fast transfers to the device.
GGML_BACKEND_API ggml_backend_buffer_type_t ggml_backend_opencl_host_buffer_type(void);

/// Returns the registration of all devices.
GGML_BACKEND_API ggml_backend_reg_t ggml_backend_opencl_reg(void);

#ifdef __cplusplus
}  // extern "C"
#endif  // __cplusplus

// ggml-opencl.h: graphics processors by OpenCL.
//
// This library has no such backend: its functions are declared, for hosts that name them, and not defined.

#pragma once

#include "ggml.h"
#include "ggml-backend.h"

#ifdef __cplusplus
extern "C" {
#endif // __cplusplus

/// A backend, freed with `ggml_backend_free`; NULL on failure.
GGML_BACKEND_API ggml_backend_t ggml_backend_opencl_init(void);

/// Whether a backend is one of this kind.
GGML_BACKEND_API bool ggml_backend_is_opencl(ggml_backend_t backend);

/// Memory of the device.
GGML_BACKEND_API ggml_backend_buffer_type_t ggml_backend_opencl_buffer_type(void);

/// Memory of the host from which copies to the device are fast.
GGML_BACKEND_API ggml_backend_buffer_type_t ggml_backend_opencl_host_buffer_type(void);

/// The family of all devices.
GGML_BACKEND_API ggml_backend_reg_t ggml_backend_opencl_reg(void);

#ifdef __cplusplus
}  // extern "C"
#endif  // __cplusplus

// ggml-webgpu.h: GPUs, with WebGPU.
//
// This library does not have this backend. Its functions are declared for hosts that mention them, but not defined.

#pragma once

#include "ggml.h"
#include "ggml-backend.h"

/// Name of the backend.
#define GGML_WEBGPU_NAME "WebGPU"

#ifdef __cplusplus
extern "C" {
#endif // __cplusplus

/// Creates a backend. Free it with `ggml_backend_free`. Returns NULL on failure.
GGML_BACKEND_API ggml_backend_t ggml_backend_webgpu_init(void);

/// Returns the registration of all devices.
GGML_BACKEND_API ggml_backend_reg_t ggml_backend_webgpu_reg(void);

#ifdef __cplusplus
}  // extern "C"
#endif  // __cplusplus

// ggml-webgpu.h: graphics processors by WebGPU.
//
// This library has no such backend: its functions are declared, for hosts that name them, and not defined.

#pragma once

#include "ggml.h"
#include "ggml-backend.h"

/// Name of the backend.
#define GGML_WEBGPU_NAME "WebGPU"

#ifdef __cplusplus
extern "C" {
#endif // __cplusplus

/// A backend, freed with `ggml_backend_free`; NULL on failure.
GGML_BACKEND_API ggml_backend_t ggml_backend_webgpu_init(void);

/// The family of all devices.
GGML_BACKEND_API ggml_backend_reg_t ggml_backend_webgpu_reg(void);

#ifdef __cplusplus
}  // extern "C"
#endif  // __cplusplus

// ggml-virtgpu.h: the host's devices, from within a virtual machine.
//
// This library has no such backend: its functions are declared, for hosts that name them, and not defined.

#pragma once

#include "ggml.h"
#include "ggml-backend.h"

#ifdef __cplusplus
extern "C" {
#endif // __cplusplus

/// The family of all devices.
GGML_BACKEND_API ggml_backend_reg_t ggml_backend_virtgpu_reg(void);

#ifdef __cplusplus
}  // extern "C"
#endif  // __cplusplus

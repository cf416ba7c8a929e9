// ggml-virtgpu.h: devices of the host, used from a virtual machine.
//
// This library does not have this backend. Its functions are declared for hosts that mention them, but not defined.

#pragma once

#include "ggml.h"
#include "ggml-backend.h"

#ifdef __cplusplus
extern "C" {
#endif // __cplusplus

/// Returns the registration of all devices.
GGML_BACKEND_API ggml_backend_reg_t ggml_backend_virtgpu_reg(void);

#ifdef __cplusplus
}  // extern "C"
#endif  // __cplusplus

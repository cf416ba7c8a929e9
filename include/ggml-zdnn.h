// ggml-zdnn.h: IBM Z processors, with zDNN.
//
// This library does not have this backend. Its functions are declared for hosts that mention them, but not defined.

#pragma once

#include "ggml.h"
#include "ggml-backend.h"

#ifdef __cplusplus
extern "C" {
#endif // __cplusplus

/// Returns the buffer type of the device.
GGML_BACKEND_API ggml_backend_buffer_type_t ggml_backend_zdnn_buffer_type(void);

/// Returns whether this is a backend of this kind.
GGML_BACKEND_API bool ggml_backend_is_zdnn(ggml_backend_t backend);

/// Returns the registration of all devices.
GGML_BACKEND_API ggml_backend_reg_t ggml_backend_zdnn_reg(void);

#ifdef __cplusplus
}  // extern "C"
#endif  // __cplusplus

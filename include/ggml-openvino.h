// ggml-openvino.h: Intel processors of all kinds, with OpenVINO.
//
// This library does not have this backend. Its functions are declared for hosts that mention them, but not defined.

#pragma once

#include "ggml-backend.h"

#include <stddef.h>
#ifdef __cplusplus
#    include <cstring> // hosts get it from this header with the original
#endif

/// Name of the backend.
#define GGML_OPENVINO_NAME "OPENVINO"

#ifdef __cplusplus
extern "C" {
#endif // __cplusplus

/// Creates a backend on one device. Free it with `ggml_backend_free`. Returns NULL on failure.
GGML_BACKEND_API ggml_backend_t ggml_backend_openvino_init(int device);

/// Returns whether this is a backend of this kind.
GGML_BACKEND_API bool ggml_backend_is_openvino(ggml_backend_t backend);

/// Returns whether a buffer is in the memory of an OpenVINO device.
GGML_BACKEND_API bool ggml_backend_buffer_is_openvino(ggml_backend_buffer_t buffer);

/// Returns whether a buffer type is the memory of an OpenVINO device.
GGML_BACKEND_API bool ggml_backend_buft_is_openvino(ggml_backend_buffer_type_t buft);

/// Returns whether a buffer type is host memory that an OpenVINO device reads.
GGML_BACKEND_API bool ggml_backend_buft_is_openvino_host(ggml_backend_buffer_type_t buft);

/// Returns the unique number of a buffer's context.
GGML_BACKEND_API size_t ggml_backend_openvino_buffer_get_ctx_id(ggml_backend_buffer_t buffer);

/// Returns the buffer type of a device.
GGML_BACKEND_API ggml_backend_buffer_type_t ggml_backend_openvino_buffer_type(int device);

/// Returns the buffer type in host memory that a device reads.
GGML_BACKEND_API ggml_backend_buffer_type_t ggml_backend_openvino_host_buffer_type(int device);

/// Returns the number of devices.
GGML_BACKEND_API int ggml_backend_openvino_get_device_count(void);

/// Returns the registration of all devices.
GGML_BACKEND_API ggml_backend_reg_t ggml_backend_openvino_reg(void);

#ifdef __cplusplus
}  // extern "C"
#endif  // __cplusplus

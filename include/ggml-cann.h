// ggml-cann.h: Ascend processors, with CANN.
//
// This library does not have this backend. Its functions are declared for hosts that mention them, but not defined.

#pragma once

#include "ggml.h"
#include "ggml-backend.h"

/// Maximum number of devices.
#define GGML_CANN_MAX_DEVICES 16

#ifdef __cplusplus
extern "C" {
#endif // __cplusplus

/// Returns the registration of all CANN devices.
GGML_BACKEND_API ggml_backend_reg_t ggml_backend_cann_reg(void);

/// Creates a backend on one device. Free it with `ggml_backend_free`. Returns NULL on failure.
GGML_BACKEND_API ggml_backend_t ggml_backend_cann_init(int32_t device);

/// Returns whether this is a backend of this kind.
GGML_BACKEND_API bool ggml_backend_is_cann(ggml_backend_t backend);

/// Returns the buffer type of a device. NULL if there is no such device.
GGML_BACKEND_API ggml_backend_buffer_type_t ggml_backend_cann_buffer_type(int32_t device);

/// Returns the number of devices.
GGML_BACKEND_API int32_t ggml_backend_cann_get_device_count(void);

/// Returns the buffer type in pinned host memory, for fast transfers to devices.
GGML_BACKEND_API ggml_backend_buffer_type_t ggml_backend_cann_host_buffer_type(void);

/// Writes the name of a device, cut to `description_size` bytes.
GGML_BACKEND_API void ggml_backend_cann_get_device_description(int32_t device,
                                                               char *description,
                                                               size_t description_size);

/// Writes the free and the total memory of a device in bytes.
GGML_BACKEND_API void ggml_backend_cann_get_device_memory(int32_t device, size_t *free, size_t *total);

#ifdef __cplusplus
}  // extern "C"
#endif  // __cplusplus

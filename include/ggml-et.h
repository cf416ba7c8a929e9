// ggml-et.h: Esperanto ET-SoC processors.
//
// This library does not have this backend. Its functions are declared for hosts that mention them, but not defined.

#pragma once

#include "ggml.h"
#include "ggml-backend.h"

/// Name of the backend.
#define GGML_ET_NAME "ET"

#ifdef __cplusplus
extern "C" {
#endif // __cplusplus

/// Returns the identifier of backends of this kind.
GGML_BACKEND_API ggml_guid_t ggml_backend_et_guid(void);

/// Creates a backend on one device. Free it with `ggml_backend_free`. Returns NULL on failure.
GGML_BACKEND_API ggml_backend_t ggml_backend_et_init(size_t devidx);

/// Returns whether this is a backend of this kind.
GGML_BACKEND_API bool ggml_backend_is_et(ggml_backend_t backend);

/// Returns the number of devices.
GGML_BACKEND_API int ggml_backend_et_get_device_count(void);

/// Writes the name of a device, cut to `description_size` bytes.
GGML_BACKEND_API void ggml_backend_et_get_device_description(int devidx, char *description, size_t description_size);

/// Writes the free and the total memory of a device in bytes.
GGML_BACKEND_API void ggml_backend_et_get_device_memory(int devidx, size_t *free, size_t *total);

/// Returns the buffer type of a device.
GGML_BACKEND_API ggml_backend_buffer_type_t ggml_backend_et_buffer_type(size_t dev_num);

/// Returns the buffer type in pinned host memory, for fast transfers to devices.
GGML_BACKEND_API ggml_backend_buffer_type_t ggml_backend_et_host_buffer_type(void);

/// Returns the registration of all devices.
GGML_BACKEND_API ggml_backend_reg_t ggml_backend_et_reg(void);

#ifdef __cplusplus
}  // extern "C"
#endif  // __cplusplus

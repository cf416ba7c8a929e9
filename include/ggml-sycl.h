// ggml-sycl.h: Intel GPUs, with SYCL.
//
// This library does not have this backend. Its functions are declared for hosts that mention them, but not defined.

#pragma once

#include "ggml.h"
#include "ggml-backend.h"

/// Name of the backend.
#define GGML_SYCL_NAME "SYCL"

/// Maximum number of devices.
#define GGML_SYCL_MAX_DEVICES 48

#ifdef __cplusplus
extern "C" {
#endif // __cplusplus

/// Creates a backend on one device. Free it with `ggml_backend_free`. Returns NULL on failure.
GGML_BACKEND_API ggml_backend_t ggml_backend_sycl_init(int device);

/// Returns whether this is a backend of this kind.
GGML_BACKEND_API bool ggml_backend_is_sycl(ggml_backend_t backend);

/// Returns the buffer type of a device.
GGML_BACKEND_API ggml_backend_buffer_type_t ggml_backend_sycl_buffer_type(int device);

/// Returns a buffer type that distributes the rows of a matrix over all devices, in the proportions `tensor_split`.
GGML_BACKEND_API ggml_backend_buffer_type_t ggml_backend_sycl_split_buffer_type(int main_device,
                                                                                const float *tensor_split);

/// Creates a communication context for `n_backends` backends. Returns NULL if they cannot communicate.
GGML_BACKEND_API void *ggml_backend_sycl_comm_init(ggml_backend_t *backends, size_t n_backends);

/// Frees the context of `ggml_backend_sycl_comm_init`.
GGML_BACKEND_API void ggml_backend_sycl_comm_free(void *comm_ctx);

/// Adds up one tensor of each backend, and stores the sum in all of them. Returns false on failure.
GGML_BACKEND_API bool ggml_backend_sycl_comm_allreduce_tensor(void *comm_ctx, struct ggml_tensor **tensors);

/// Returns the buffer type in pinned host memory, for fast transfers to the first device.
GGML_BACKEND_API ggml_backend_buffer_type_t ggml_backend_sycl_host_buffer_type(void);

/// Prints a table of the devices.
GGML_BACKEND_API void ggml_backend_sycl_print_sycl_devices(void);

/// Writes the numbers of at most `max_len` devices.
GGML_BACKEND_API void ggml_backend_sycl_get_gpu_list(int *id_list, int max_len);

/// Writes the name of a device, cut to `description_size` bytes.
GGML_BACKEND_API void ggml_backend_sycl_get_device_description(int device, char *description, size_t description_size);

/// Returns the number of devices.
GGML_BACKEND_API int ggml_backend_sycl_get_device_count(void);

/// Writes the free and the total memory of a device in bytes.
GGML_BACKEND_API void ggml_backend_sycl_get_device_memory(int device, size_t *free, size_t *total);

/// Returns the registration of all devices.
GGML_BACKEND_API ggml_backend_reg_t ggml_backend_sycl_reg(void);

#ifdef __cplusplus
}  // extern "C"
#endif  // __cplusplus

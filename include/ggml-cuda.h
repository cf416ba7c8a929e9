// ggml-cuda.h: GPUs from NVIDIA (CUDA), AMD (HIP) and Moore Threads (MUSA).
//
// This library does not have this backend. Its functions are declared for hosts that mention them, but not defined.

#pragma once

#include "ggml.h"
#include "ggml-backend.h"

// Names of the backend and of its BLAS library: the same source is built for three vendors.
#if defined(GGML_USE_HIP)
#    define GGML_CUDA_NAME "ROCm"
#    define GGML_CUBLAS_NAME "hipBLAS"
#elif defined(GGML_USE_MUSA)
#    define GGML_CUDA_NAME "MUSA"
#    define GGML_CUBLAS_NAME "muBLAS"
#else
#    define GGML_CUDA_NAME "CUDA"
#    define GGML_CUBLAS_NAME "cuBLAS"
#endif

/// Maximum number of devices.
#define GGML_CUDA_MAX_DEVICES 16

#ifdef __cplusplus
extern "C" {
#endif // __cplusplus

/// Creates a backend on one device. Free it with `ggml_backend_free`. Returns NULL on failure.
GGML_BACKEND_API ggml_backend_t ggml_backend_cuda_init(int device);

/// Returns whether this is a backend of this kind.
GGML_BACKEND_API bool ggml_backend_is_cuda(ggml_backend_t backend);

/// Returns the buffer type of a device.
GGML_BACKEND_API ggml_backend_buffer_type_t ggml_backend_cuda_buffer_type(int device);

/// Adds up one tensor of each of `n_backends` backends, and stores the sum in all of them. Returns false if it cannot.
GGML_BACKEND_API bool ggml_backend_cuda_allreduce_tensor(ggml_backend_t *backends,
                                                         struct ggml_tensor **tensors,
                                                         size_t n_backends);

/// Returns the buffer type in pinned host memory, for fast transfers to devices.
GGML_BACKEND_API ggml_backend_buffer_type_t ggml_backend_cuda_host_buffer_type(void);

/// Returns the number of devices.
GGML_BACKEND_API int ggml_backend_cuda_get_device_count(void);

/// Writes the name of a device, cut to `description_size` bytes.
GGML_BACKEND_API void ggml_backend_cuda_get_device_description(int device, char *description, size_t description_size);

/// Writes the free and the total memory of a device in bytes.
GGML_BACKEND_API void ggml_backend_cuda_get_device_memory(int device, size_t *free, size_t *total);

/// Pins host memory, for fast transfers. Returns false if it cannot be pinned.
GGML_BACKEND_API bool ggml_backend_cuda_register_host_buffer(void *buffer, size_t size);

/// Undoes `ggml_backend_cuda_register_host_buffer`.
GGML_BACKEND_API void ggml_backend_cuda_unregister_host_buffer(void *buffer);

/// Returns the registration of all devices.
GGML_BACKEND_API ggml_backend_reg_t ggml_backend_cuda_reg(void);

#ifdef __cplusplus
}  // extern "C"
#endif  // __cplusplus

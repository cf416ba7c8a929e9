// ggml-rpc.h: devices of other machines.
//
// This library has no such backend: its functions are declared, for hosts that name them, and not defined.
// The original's module libggml-rpc.so defines them, and works with this library when it is loaded (GGML_BACKEND_PATH).

#pragma once

#include "ggml-backend.h"

// Version of the protocol that the original of this version speaks.
#define RPC_PROTO_MAJOR_VERSION 8
#define RPC_PROTO_MINOR_VERSION 0
#define RPC_PROTO_PATCH_VERSION 1

/// Servers a host uses at most.
#define GGML_RPC_MAX_SERVERS 16

#ifdef __cplusplus
extern "C" {
#endif // __cplusplus

/// A backend on one device of the server at `endpoint` ("host:port"), freed with `ggml_backend_free`; NULL on failure.
GGML_BACKEND_API ggml_backend_t ggml_backend_rpc_init(const char *endpoint, uint32_t device);

/// Whether a backend is one of this kind.
GGML_BACKEND_API bool ggml_backend_is_rpc(ggml_backend_t backend);

/// Memory of one device of a server.
GGML_BACKEND_API ggml_backend_buffer_type_t ggml_backend_rpc_buffer_type(const char *endpoint, uint32_t device);

/// Free and total memory of one device of a server, in bytes.
GGML_BACKEND_API void ggml_backend_rpc_get_device_memory(const char *endpoint,
                                                         uint32_t device,
                                                         size_t *free,
                                                         size_t *total);

/// Serves `n_devices` devices to other machines, until the process ends. Weights that came before are kept in the folder
/// `cache_dir`, unless that is NULL.
GGML_BACKEND_API void ggml_backend_rpc_start_server(const char *endpoint,
                                                    const char *cache_dir,
                                                    size_t n_threads,
                                                    size_t n_devices,
                                                    ggml_backend_dev_t *devices);

/// The family of all servers.
GGML_BACKEND_API ggml_backend_reg_t ggml_backend_rpc_reg(void);

/// A family with the devices of one server; the host registers it.
GGML_BACKEND_API ggml_backend_reg_t ggml_backend_rpc_add_server(const char *endpoint);

#ifdef __cplusplus
}  // extern "C"
#endif  // __cplusplus

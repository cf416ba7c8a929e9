// ggml-rpc.h: devices of other machines, over the network. docs/DISTRIBUTED.md has an introduction, the limits and the
// security model.

#pragma once

#include "ggml-backend.h"

// Version of the protocol.
#define RPC_PROTO_MAJOR_VERSION 8
#define RPC_PROTO_MINOR_VERSION 0
#define RPC_PROTO_PATCH_VERSION 1

/// Maximum number of servers.
#define GGML_RPC_MAX_SERVERS 16

@{

//
// Client
//

@ ggml_backend_rpc_init ggml_backend_is_rpc ggml_backend_rpc_buffer_type ggml_backend_rpc_get_device_memory

//
// Server
//

@ ggml_backend_rpc_start_server

//
// Registration
//

@ ggml_backend_rpc_reg ggml_backend_rpc_add_server

@}

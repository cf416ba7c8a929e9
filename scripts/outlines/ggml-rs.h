// ggml-rs.h: what this library adds to the original's interface: the text of the last error, errors instead of aborts,
// reports of where a scheduler places a graph and why, timelines, limits of RPC servers, and what the library is and
// uses. A host that should also run with the original looks these functions up with dlsym().
//
//     if (!ggml_backend_sched_alloc_graph(sched, graph)) {
//         fprintf(stderr, "%s\n", ggml_rs_last_error());
//     }
//     ggml_rs_sched_write_report(sched, GGML_RS_FORMAT_HTML, "placement.html"); // while the graph lives

#pragma once

#include "ggml.h"
#include "ggml-backend.h"

/// The version of this header.
#define GGML_RS_VERSION "@VERSION@"

@ GGML_RS_ABI_DIGEST

@{

//
// Which library this is
//

@ struct ggml_rs_abi ggml_rs_get_abi ggml_rs_describe

//
// Errors
//

@ ggml_rs_last_error ggml_rs_clear_error enum ggml_rs_policy ggml_rs_set_policy

//
// Placement reports
//

@ enum ggml_rs_format ggml_rs_sched_report ggml_rs_sched_write_report ggml_rs_string_free
@ enum ggml_rs_fallback_cause struct ggml_rs_fallback ggml_rs_sched_fallbacks

//
// Experts on devices
//

@ ggml_rs_sched_set_expert_cache

//
// Timelines
//

@ ggml_rs_trace_start ggml_rs_trace_stop

//
// RPC servers
//

@ ggml_rs_set_rpc_server_limit

@}

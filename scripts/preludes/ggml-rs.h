// ggml-rs.h: what this library has beyond the original's interface: the text of the last error, errors instead of aborts,
// where a scheduler put things and why, a timeline of what ran when, and which library this is. A host that also runs on
// the original looks these functions up with dlsym().
//
//     if (!ggml_backend_sched_alloc_graph(sched, graph)) {
//         fprintf(stderr, "%s\n", ggml_rs_last_error());
//     }
//     ggml_rs_sched_write_report(sched, GGML_RS_FORMAT_HTML, "placement.html"); // while the graph lives

/// The version of this header.
#define GGML_RS_VERSION "@VERSION@"

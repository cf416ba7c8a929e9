// ggml-cpu.h: computing on the processor.
//
// Either through a backend (ggml_backend_cpu_init(), see ggml-backend.h), or directly:
//
//     struct ggml_cplan plan = ggml_graph_plan(graph, n_threads, NULL);
//     plan.work_data = malloc(plan.work_size);
//     enum ggml_status status = ggml_graph_compute(graph, &plan);
//
// The library picks its kernels for the processor it runs on; the ggml_cpu_has_ functions tell what it found.

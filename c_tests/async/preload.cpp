// Preloaded into an unmodified llama.cpp host: loads the module FAKE_MODULE, and puts only the last FAKE_LAYERS layers
// on accelerators.
#include "ggml-backend.h"
#include "llama.h"

#include <cstdlib>
#include <dlfcn.h>

extern "C" llama_model_params llama_model_default_params() {
    auto next = reinterpret_cast<llama_model_params (*)()>(dlsym(RTLD_NEXT, "llama_model_default_params"));
    llama_model_params p = next();
    if (const char * n = getenv("FAKE_LAYERS")) p.n_gpu_layers = atoi(n);
    return p;
}

extern "C" llama_context * llama_init_from_model(llama_model * m, llama_context_params p) {
    auto next = reinterpret_cast<llama_context * (*)(llama_model *, llama_context_params)>(dlsym(RTLD_NEXT, "llama_init_from_model"));
    p.n_threads = p.n_threads_batch = 1; // the placement is what counts
    return next(m, p);
}

__attribute__((constructor)) static void load() {
    if (const char * module = getenv("FAKE_MODULE")) ggml_backend_load(module);
}

// A host of a ggml 0.20.0 and the files of that: test_windows.sh compiles this once for each. With an argument, the
// host waits for a line.
#include <stddef.h>
#include <stdio.h>
#if defined(BASE)
__declspec(dllexport) const char * ggml_version(void) { return "0.20.0"; }
__declspec(dllexport) size_t ggml_tensor_overhead(void) { return 368; }
#elif defined(OTHER)
__declspec(dllexport) size_t ggml_backend_dev_count(void) { return 0; }
__declspec(dllexport) int ggml_own(void) { return 1; }
#else
const char * ggml_version(void);
size_t ggml_tensor_overhead(void);
size_t ggml_backend_dev_count(void);
int ggml_own(void);
int main(int argc, char ** argv) {
    (void) argv;
    printf("%s %zu %d\n", ggml_version(), ggml_tensor_overhead(), ggml_backend_dev_count() > 0);
    fflush(stdout);
#ifdef OWN
    return ggml_own() != 1;
#endif
    return argc > 1 && getchar() == EOF;
}
#endif

/* Part of scripts/test_max_name.sh and tools/info/tests.rs: a libggml-base of another version, if OVERHEAD is given, and a host of it. */
#include <stddef.h>
#include <stdio.h>
const char *ggml_version(void);
size_t ggml_tensor_overhead(void);
#ifdef OVERHEAD
const char *ggml_version(void) { return "0.20.0"; }
size_t ggml_tensor_overhead(void) { return OVERHEAD; }
#else
int main(void) { return printf("%s %zu\n", ggml_version(), ggml_tensor_overhead()) < 0; }
#endif

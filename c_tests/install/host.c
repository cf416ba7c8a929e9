/* Part of the suites install and info: uses two libraries of the four. */
#include "ggml.h"
#include "ggml-backend.h"
#include <string.h>
int main(void) { return strcmp(ggml_type_name(GGML_TYPE_Q4_0), "q4_0") != 0 || ggml_backend_dev_count() == 0; }

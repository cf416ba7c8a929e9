/* The least that a host does at its start: finds the devices, opens the CPU. start.py takes the time. */
#include "ggml-backend.h"

#include <stdio.h>

int main(void) {
    ggml_backend_load_all();
    ggml_backend_t cpu = ggml_backend_init_by_type(GGML_BACKEND_DEVICE_TYPE_CPU, NULL);
    printf("%zu devices\n", ggml_backend_dev_count());
    if (cpu == NULL) {
        return 1;
    }
    ggml_backend_free(cpu);
    return 0;
}

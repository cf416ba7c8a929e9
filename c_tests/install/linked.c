/* A host that is linked to some of the libraries. USE_GGML, USE_BASE, USE_CPU and USE_VULKAN select whose functions it
 * calls. Prints their results, and how many copies of libggml-base the process has. Each function must return the same
 * if it is looked up by name at run time. */
#include "ggml-backend.h"
#include "ggml-cpu.h"
#include "ggml.h"
#ifdef USE_VULKAN
#    include "ggml-vulkan.h"
#endif

#include <dlfcn.h>
#include <link.h>
#include <stdio.h>
#include <string.h>

static int copies(struct dl_phdr_info *info, size_t size, void *data) {
    (void) size;
    const char *name = strrchr(info->dlpi_name, '/');
    *(int *) data += strncmp(name ? name + 1 : info->dlpi_name, "libggml-base.so", 15) == 0;
    return 0;
}

/* Whether the function with this name, without arguments, returns `value`. */
static int same(const char *name, long value) {
    long (*function)(void) = (long (*)(void)) (size_t) dlsym(RTLD_DEFAULT, name);
    if (function == NULL || (int) function() != (int) value) {
        printf("%s is another function by its name\n", name);
        return 0;
    }
    return 1;
}

int main(void) {
    int good = 1, n = 0;
#ifdef USE_BASE
    printf("version=%s ", ggml_version());
#endif
#ifdef USE_GGML
    printf("devices=%d ", (int) ggml_backend_dev_count());
    good &= same("ggml_backend_dev_count", (long) ggml_backend_dev_count());
#endif
#ifdef USE_CPU
    printf("vlen=%d ", ggml_cpu_get_rvv_vlen());
    good &= same("ggml_cpu_get_rvv_vlen", ggml_cpu_get_rvv_vlen());
#endif
#ifdef USE_VULKAN
    printf("cards=%d ", ggml_backend_vk_get_device_count());
    good &= same("ggml_backend_vk_get_device_count", ggml_backend_vk_get_device_count());
#endif
    (void) same;
    dl_iterate_phdr(copies, &n);
    printf("copies=%d\n", n);
    return good && n == 1 ? 0 : 1;
}

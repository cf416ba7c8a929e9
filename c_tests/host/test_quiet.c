/* A host on a machine without a graphics device: no entry for one in the registry, no line about it, no Vulkan library
 * in the process. */
#include "../common/check.h"

#include "ggml-backend.h"
#include "ggml-cpu.h"

#include <dirent.h>

static int lines;

static void count(enum ggml_log_level level, const char * text, void * userdata) {
    (void) userdata;
    (void) level; /* debug lines too: hosts without a callback print them */
    lines++;
    printf("  said: %s", text);
}

static bool holds(const char * folder, const char * beginning) {
    DIR * d = opendir(folder);
    bool  found = false;
    for (struct dirent * e = NULL; d != NULL && !found && (e = readdir(d)) != NULL;) { found = strncmp(e->d_name, beginning, strlen(beginning)) == 0; }
    if (d != NULL) { closedir(d); }
    return found;
}

static bool is_mapped(const char * library) {
    FILE * f = fopen("/proc/self/maps", "r");
    char   line[4096];
    bool   found = false;
    while (f != NULL && !found && fgets(line, sizeof line, f) != NULL) { found = strstr(line, library) != NULL; }
    if (f != NULL) { fclose(f); }
    return found;
}

static void nothing_without_a_device(void) {
    static const char * const asks[] = { "GGML_VK_VISIBLE_DEVICES", "VK_DRIVER_FILES", "VK_ADD_DRIVER_FILES", "VK_ICD_FILENAMES", "GGML_BACKEND_PATH",
                                        "GGML_DISABLE_VULKAN" };
    for (size_t i = 0; i < sizeof asks / sizeof *asks; i++) { unsetenv(asks[i]); }
    if (holds("/dev/dri", "render") || holds("/dev/dri", "card") || holds("/dev", "nvidia") || holds("/dev", "dxg")) {
        printf("skipped: this machine has a graphics device\n");
        return;
    }
    ggml_log_set(count, NULL);
    /* A build of the original has RPC, without a device until one is added. */
    const size_t regs = ggml_backend_reg_by_name("RPC") ? 2 : 1;
    CHECK(ggml_backend_reg_count() == regs && ggml_backend_dev_count() == 1);
    CHECK(ggml_backend_reg_by_name("Vulkan") == NULL && ggml_backend_reg_by_name("CPU") != NULL);
    CHECK(ggml_backend_dev_by_type(GGML_BACKEND_DEVICE_TYPE_GPU) == NULL && ggml_backend_dev_by_type(GGML_BACKEND_DEVICE_TYPE_IGPU) == NULL);
    ggml_backend_t b = ggml_backend_init_best();
    CHECK(b != NULL && ggml_backend_is_cpu(b));
    ggml_backend_free(b);
    CHECK(!is_mapped("libvulkan") && !is_mapped("libLLVM"));
    CHECK_EQ(lines, 0);
    ggml_log_set(NULL, NULL);
}

int main(void) {
    RUN(nothing_without_a_device);
    return test_summary();
}

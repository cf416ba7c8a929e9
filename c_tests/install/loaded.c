/* A host that loads the libraries at run time: loaded [local|global|deep|close] NAME ...
 *
 * Opens each NAME in this order, and looks the functions up through each handle: there is one registry, one CPU backend
 * and one buffer type, and one libggml-base in the process. With `close`, every handle is closed and opened again in
 * between. */
#include <dlfcn.h>
#include <link.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct seen {
    size_t n_devices;
    void *device, *cpu, *buffer_type;
    char version[32];
};

static void *named(void *handle, const char *library, const char *name) {
    void *p = dlsym(handle, name);
    if (p == NULL) {
        printf("%s: no %s: %s\n", library, name, dlerror());
        exit(1);
    }
    return p;
}

static struct seen look(void *handle, const char *library) {
    size_t (*count)(void) = (size_t (*)(void)) (size_t) named(handle, library, "ggml_backend_dev_count");
    void *(*get)(size_t) = (void *(*) (size_t)) (size_t) named(handle, library, "ggml_backend_dev_get");
    void *(*cpu)(void) = (void *(*) (void)) (size_t) named(handle, library, "ggml_backend_cpu_reg");
    void *(*buffer_type)(void) = (void *(*) (void)) (size_t) named(handle, library, "ggml_backend_cpu_buffer_type");
    const char *(*version)(void) = (const char *(*) (void)) (size_t) named(handle, library, "ggml_version");
    struct seen seen = { count(), get(0), cpu(), buffer_type(), "" };
    snprintf(seen.version, sizeof seen.version, "%s", version());
    return seen;
}

static int copies(struct dl_phdr_info *info, size_t size, void *data) {
    (void) size;
    /* By a function that it defines: the file may have any name. */
    void *handle = dlopen(info->dlpi_name[0] ? info->dlpi_name : NULL, RTLD_NOW | RTLD_NOLOAD);
    struct link_map *map = NULL;
    Dl_info place;
    void *p = handle ? dlsym(handle, "ggml_rs_build") : NULL;
    if (p && dladdr(p, &place) && dlinfo(handle, RTLD_DI_LINKMAP, &map) == 0 && place.dli_fname == map->l_name) {
        *(int *) data += 1;
    }
    if (handle) { dlclose(handle); }
    return 0;
}

int main(int argc, char **argv) {
    int flags = RTLD_NOW | RTLD_LOCAL, first = 1, again = 0, n = 0;
    for (; first < argc; first++) {
        if (strcmp(argv[first], "global") == 0) {
            flags = RTLD_NOW | RTLD_GLOBAL;
        } else if (strcmp(argv[first], "deep") == 0) {
            flags |= RTLD_DEEPBIND;
        } else if (strcmp(argv[first], "close") == 0) {
            again = 1;
        } else if (strcmp(argv[first], "local") != 0) {
            break;
        }
    }
    struct seen all[16];
    for (int i = first; i < argc && n < 16; i++) {
        void *handle = dlopen(argv[i], flags);
        if (handle == NULL) {
            printf("%s\n", dlerror());
            return 1;
        }
        all[n++] = look(handle, argv[i]);
        if (again) { dlclose(handle); }
    }
    if (n == 0) { return 2; }
    for (int i = 1; i < n; i++) {
        if (memcmp(&all[i], &all[0], sizeof all[0]) != 0) {
            printf("%s shows another registry than %s\n", argv[first + i], argv[first]);
            return 1;
        }
    }
    int of = 0;
    dl_iterate_phdr(copies, &of);
    printf("version=%s devices=%d handles=%d copies=%d\n", all[0].version, (int) all[0].n_devices, n, of);
    return of == 1 ? 0 : 1;
}

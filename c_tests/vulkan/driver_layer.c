/* A Vulkan layer that reports how a driver compiles and runs the backend's work, and that can hide features of a
 * driver.
 *
 * DRIVER_LAYER_REPORT=FILE: appends one JSON object a line:
 *   {"pipeline": N, "module": "SIZE-CRC", "width": N, "constants": [...], "executables": [{"name": "...", "width": N,
 *   "NAME": VALUE, ...}]}
 *    for each compute pipeline: size and CRC-32 of its SPIR-V, the required width of subgroups, the specialization, and
 *    what the driver reports about its code (VK_KHR_pipeline_executable_properties).
 *   {"graph": "NAME", "dispatches": N, "barriers": N, "copies": N, "submissions": N, "flushes": N, "used": [[PIPELINE,
 *   DISPATCHES, GROUPS], ...]}
 *    for each call of driver_layer_mark(NAME), and at the end of the process: what was recorded since the last one.
 *    Only barriers that later commands wait for are counted. Programs find this function with dlopen(path of the layer,
 *    RTLD_NOLOAD).
 * DRIVER_LAYER_CODE=FOLDER: writes the driver's representations of each pipeline (assembly) to FOLDER/NUMBER-NAME.txt.
 * DRIVER_LAYER_LIMITS="push=128 shared=16384 invocations=128 no-int8 no-16bit no-bda non-coherent": the device has less
 * than the driver reports. non-coherent: cached memory; Vulkan requires that a device also has coherent memory. late:
 * the value of a semaphore reads 0 for ever; only waits end. */
#include "layer.h"

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum {
    VULKAN_1_1_FEATURES = 49,
    VULKAN_1_2_FEATURES = 51,
    EXECUTABLE_FEATURES = 1000269000,
    PIPELINE_INFO = 1000269001,
    EXECUTABLE_PROPERTIES = 1000269002,
    EXECUTABLE_INFO = 1000269003,
    EXECUTABLE_STATISTIC = 1000269004,
    EXECUTABLE_REPRESENTATION = 1000269005,
    CAPTURE_STATISTICS = 0x40,
    CAPTURE_REPRESENTATIONS = 0x80,
    STAGE_HOST = 0x4000,
    HOST_COHERENT = 4,
    HOST_CACHED = 8,
    EXECUTABLES = 16,  /* of a pipeline */
    STATISTICS = 64,   /* of an executable */
};
static const char * const EXTENSION = "VK_KHR_pipeline_executable_properties";

struct extension { char name[256]; uint32_t version; };
struct features_1_1 { int32_t type; void * next; uint32_t storage16, uniform16; };
struct features_1_2 { int32_t type; void * next; uint32_t others[8], int8, others2[29], addresses; };
_Static_assert(offsetof(struct features_1_2, int8) == 48 && offsetof(struct features_1_2, addresses) == 168, "as in Vulkan");
struct feature { int32_t type; const void * next; uint32_t on; };
struct memory { uint32_t n_types; struct { uint32_t flags, heap; } types[32]; };
struct memory2 { int32_t type; void * next; struct memory memory; };
struct device_info {
    int32_t type;
    const void * next;
    uint32_t flags, n_queues;
    const void * queues;
    uint32_t n_layers;
    const char * const * layers;
    uint32_t n_extensions;
    const char * const * extensions;
    const void * features;
};
struct of_pipeline { int32_t type; const void * next; object_t pipeline; };
struct of_executable { int32_t type; const void * next; object_t pipeline; uint32_t index; };
struct executable { int32_t type; void * next; uint32_t stages; char name[256], description[256]; uint32_t width; };
struct statistic {
    int32_t type;
    void * next;
    char name[256], description[256];
    int32_t format;
    union { uint32_t b; int64_t i; uint64_t u; double f; } value;
};
struct representation { int32_t type; void * next; char name[256], description[256]; uint32_t is_text; size_t size; void * data; };
_Static_assert(sizeof(struct executable) == 536 && sizeof(struct statistic) == 544, "as in Vulkan");

/* The next layer's or the driver's functions. */
struct device {
    const void * key;
    int says; /* whether the driver has the extension */
    get_device_t get;
    result_t (*create_module)(handle_t, const struct module_info *, const void *, object_t *);
    result_t (*create_pipelines)(handle_t, object_t, uint32_t, const struct pipeline_info *, const void *, object_t *);
    result_t (*executables)(handle_t, const struct of_pipeline *, uint32_t *, struct executable *);
    result_t (*statistics)(handle_t, const struct of_executable *, uint32_t *, struct statistic *);
    result_t (*representations)(handle_t, const struct of_executable *, uint32_t *, struct representation *);
    void (*bind)(handle_t, int32_t, object_t);
    void (*dispatch)(handle_t, uint32_t, uint32_t, uint32_t);
    void (*barrier)(handle_t, uint32_t, uint32_t, uint32_t, uint32_t, const void *, uint32_t, const void *, uint32_t, const void *);
    void (*copy)(handle_t, object_t, object_t, uint32_t, const void *);
    void (*fill)(handle_t, object_t, uint64_t, uint64_t, uint32_t);
    result_t (*submit)(handle_t, uint32_t, const void *, object_t);
    result_t (*flush)(handle_t, uint32_t, const void *);
    result_t (*invalidate)(handle_t, uint32_t, const void *);
    result_t (*value)(handle_t, object_t, uint64_t *);
};

struct module { object_t handle; char id[32]; };
struct use { object_t pipeline; uint64_t dispatches, groups; };
struct bound { handle_t commands; size_t use; };

/* A list that grows. */
struct list { void * items; size_t n, room; };
static void * added(struct list * l, size_t size) {
    if (l->n == l->room) {
        l->room = 2 * l->room + 64;
        l->items = realloc(l->items, l->room * size);
        if (l->items == NULL) { abort(); }
    }
    return (char *) l->items + l->n++ * size;
}
#define ADD(list, type) ((type *) added(&(list), sizeof(type)))
#define AT(list, type, i) (((type *) (list).items)[i])

#include "layer_devices.h"

static void (*next_properties)(handle_t, struct properties *), (*next_properties2)(handle_t, struct properties2 *);
static void (*next_features2)(handle_t, struct chained *);
static void (*next_memory)(handle_t, struct memory *), (*next_memory2)(handle_t, struct memory2 *);
static struct list modules, uses, bounds; /* a use has the number of its pipeline */
static uint64_t dispatches, barriers, copies, submissions, flushes;

/* The JSON file, or NULL. */
static FILE * report(void) {
    static FILE * f;
    const char * name = getenv("DRIVER_LAYER_REPORT");
    if (f == NULL && name != NULL) {
        f = fopen(name, "a");
        if (f == NULL) {
            perror(name);
            abort();
        }
    }
    return f;
}

/* A text of the driver in quotes. */
static void quoted(FILE * f, const char * text) {
    fputc('"', f);
    for (; *text != '\0'; text++) {
        if (*text == '"' || *text == '\\') { fputc('\\', f); }
        if ((unsigned char) *text >= ' ') { fputc(*text, f); }
    }
    fputc('"', f);
}

__attribute__((visibility("default"))) void driver_layer_mark(const char * name);
void driver_layer_mark(const char * name) {
    pthread_mutex_lock(&lock);
    FILE * f = report();
    if (f != NULL) {
        fprintf(f, "{\"graph\": ");
        quoted(f, name);
        fprintf(f, ", \"dispatches\": %llu, \"barriers\": %llu, \"copies\": %llu, \"submissions\": %llu, \"flushes\": %llu, \"used\": [",
            (unsigned long long) dispatches, (unsigned long long) barriers, (unsigned long long) copies, (unsigned long long) submissions,
            (unsigned long long) flushes);
        const char * between = "";
        for (size_t i = 0; i < uses.n; i++) {
            struct use * u = &AT(uses, struct use, i);
            if (u->dispatches > 0) {
                fprintf(f, "%s[%zu, %llu, %llu]", between, i, (unsigned long long) u->dispatches, (unsigned long long) u->groups);
                between = ", ";
            }
            u->dispatches = u->groups = 0;
        }
        fprintf(f, "]}\n");
        fflush(f);
    }
    dispatches = barriers = copies = submissions = flushes = 0;
    pthread_mutex_unlock(&lock);
}

__attribute__((destructor)) static void end(void) {
    if (the_instance != NULL) { driver_layer_mark("end"); }
}

/* The value of NAME in DRIVER_LAYER_LIMITS, 1 if it has none, or 0. */
static uint32_t limit(const char * name) {
    const char * at = getenv("DRIVER_LAYER_LIMITS");
    const size_t n = strlen(name);
    while (at != NULL && *at != '\0') {
        if (strncmp(at, name, n) == 0 && (at[n] == '=' || at[n] == ' ' || at[n] == '\0')) {
            return at[n] == '=' ? (uint32_t) atoi(at + n + 1) : 1;
        }
        at = strchr(at, ' ');
        at = at == NULL ? NULL : at + 1;
    }
    return 0;
}

static void lower(uint32_t * value, uint32_t most) {
    if (most != 0 && *value > most) { *value = most; }
}

static void restrict_properties(struct properties * p) {
    lower(&p->limits.push_constants, limit("push"));
    lower(&p->limits.shared_memory, limit("shared"));
    lower(&p->limits.invocations, limit("invocations"));
    for (int i = 0; i < 3; i++) { lower(&p->limits.group_size[i], limit("invocations")); }
    if (limit("non-coherent") && p->limits.coherent_unit < 256) { p->limits.coherent_unit = 256; }
}

static void restrict_memory(struct memory * m) {
    for (uint32_t i = 0; i < m->n_types && limit("non-coherent"); i++) {
        if (m->types[i].flags & HOST_CACHED) { m->types[i].flags &= ~(uint32_t) HOST_COHERENT; }
    }
}

static void get_properties(handle_t physical, struct properties * p) {
    next_properties(physical, p);
    restrict_properties(p);
}

static void get_properties2(handle_t physical, struct properties2 * p) {
    next_properties2(physical, p);
    restrict_properties(&p->properties);
}

static void get_memory(handle_t physical, struct memory * m) {
    next_memory(physical, m);
    restrict_memory(m);
}

static void get_memory2(handle_t physical, struct memory2 * m) {
    next_memory2(physical, m);
    restrict_memory(&m->memory);
}

static void get_features2(handle_t physical, struct chained * f) {
    next_features2(physical, f);
    struct features_1_1 * v11 = (struct features_1_1 *) find(f, VULKAN_1_1_FEATURES);
    struct features_1_2 * v12 = (struct features_1_2 *) find(f, VULKAN_1_2_FEATURES);
    if (v11 != NULL && limit("no-16bit")) { v11->storage16 = 0; }
    if (v12 != NULL && limit("no-int8")) { v12->int8 = 0; }
    if (v12 != NULL && limit("no-bda")) { v12->addresses = 0; }
}

static uint32_t crc32(const uint8_t * data, size_t n) {
    uint32_t c = 0xffffffffu;
    for (size_t i = 0; i < n; i++) {
        c ^= data[i];
        for (int k = 0; k < 8; k++) { c = c >> 1 ^ (0xedb88320u & -(c & 1)); }
    }
    return ~c;
}

static result_t create_module(handle_t handle, const struct module_info * info, const void * allocator, object_t * out) {
    const result_t r = device_of(handle)->create_module(handle, info, allocator, out);
    if (r == SUCCESS) {
        const uint32_t crc = crc32(info->code, info->size);
        pthread_mutex_lock(&lock);
        struct module * m = ADD(modules, struct module);
        m->handle = *out;
        snprintf(m->id, sizeof m->id, "%zu-%08x", info->size, crc);
        pthread_mutex_unlock(&lock);
    }
    return r;
}

/* Writes the driver's representations of an executable. */
static void write_code(const struct device * d, handle_t handle, const struct of_executable * which, size_t number, const char * name) {
    const char * folder = getenv("DRIVER_LAYER_CODE");
    struct representation all[8];
    uint32_t n = 8;
    memset(all, 0, sizeof all);
    for (int i = 0; i < 8; i++) { all[i].type = EXECUTABLE_REPRESENTATION; }
    if (folder == NULL || d->representations(handle, which, &n, all) < 0) { return; }
    for (uint32_t i = 0; i < n; i++) { all[i].data = calloc(1, all[i].size + 1); }
    char path[4096];
    snprintf(path, sizeof path, "%s/%zu-%s.txt", folder, number, name);
    FILE * f = d->representations(handle, which, &n, all) < 0 ? NULL : fopen(path, "w");
    for (uint32_t i = 0; i < n; i++) {
        if (f != NULL && all[i].is_text) { fprintf(f, "== %s\n%s\n", all[i].name, (const char *) all[i].data); }
        free(all[i].data);
    }
    if (f != NULL) { fclose(f); }
}

/* Writes the driver's statistics of a pipeline's code. */
static void write_executables(FILE * f, const struct device * d, handle_t handle, object_t pipeline, size_t number) {
    static struct executable all[EXECUTABLES];
    static struct statistic said[STATISTICS];
    uint32_t n = EXECUTABLES;
    const struct of_pipeline whole = { PIPELINE_INFO, NULL, pipeline };
    for (int i = 0; i < EXECUTABLES; i++) { all[i] = (struct executable) { .type = EXECUTABLE_PROPERTIES }; }
    if (!d->says || d->executables(handle, &whole, &n, all) < 0) { return; }
    for (uint32_t e = 0; e < n; e++) {
        const struct of_executable which = { EXECUTABLE_INFO, NULL, pipeline, e };
        uint32_t count = STATISTICS;
        for (int i = 0; i < STATISTICS; i++) { said[i] = (struct statistic) { .type = EXECUTABLE_STATISTIC }; }
        if (d->statistics(handle, &which, &count, said) < 0) { count = 0; }
        fprintf(f, "%s{\"name\": ", e > 0 ? ", " : "");
        quoted(f, all[e].name);
        fprintf(f, ", \"width\": %u", all[e].width);
        for (uint32_t i = 0; i < count; i++) {
            fprintf(f, ", ");
            quoted(f, said[i].name);
            switch (said[i].format) {
            case 0: fprintf(f, ": %u", said[i].value.b); break;
            case 1: fprintf(f, ": %lld", (long long) said[i].value.i); break;
            case 2: fprintf(f, ": %llu", (unsigned long long) said[i].value.u); break;
            default: fprintf(f, ": %g", said[i].value.f);
            }
        }
        fprintf(f, "}");
        write_code(d, handle, &which, number, all[e].name);
    }
}

static void write_pipeline(const struct device * d, handle_t handle, const struct pipeline_info * info, object_t pipeline) {
    const struct subgroup_info * width = find(info->stage.next, REQUIRED_SUBGROUP_SIZE_CREATE_INFO);
    const struct specialization * s = info->stage.specialization;
    pthread_mutex_lock(&lock);
    const size_t number = uses.n;
    *ADD(uses, struct use) = (struct use) { pipeline, 0, 0 };
    FILE * f = report();
    if (f != NULL) {
        const char * id = "?";
        for (size_t i = modules.n; i > 0; i--) { /* the last one: handles come again */
            if (AT(modules, struct module, i - 1).handle == info->stage.module) {
                id = AT(modules, struct module, i - 1).id;
                break;
            }
        }
        fprintf(f, "{\"pipeline\": %zu, \"module\": \"%s\", \"width\": %u, \"constants\": [", number, id, width == NULL ? 0 : width->size);
        for (size_t i = 0; s != NULL && i < s->size / 4; i++) { fprintf(f, "%s%u", i > 0 ? ", " : "", ((const uint32_t *) s->data)[i]); }
        fprintf(f, "], \"executables\": [");
        write_executables(f, d, handle, pipeline, number);
        fprintf(f, "]}\n");
        fflush(f);
    }
    pthread_mutex_unlock(&lock);
}

static result_t create_pipelines(
    handle_t handle, object_t cache, uint32_t n, const struct pipeline_info * infos, const void * allocator, object_t * out) {
    const struct device * d = device_of(handle);
    for (uint32_t i = 0; i < n; i++) {
        struct pipeline_info info = infos[i];
        if (d->says) { info.flags |= CAPTURE_STATISTICS | (getenv("DRIVER_LAYER_CODE") != NULL ? CAPTURE_REPRESENTATIONS : 0); }
        const result_t r = d->create_pipelines(handle, cache, 1, &info, allocator, &out[i]);
        if (r != SUCCESS) { return r; }
        write_pipeline(d, handle, &infos[i], out[i]);
    }
    return SUCCESS;
}

static void bind(handle_t commands, int32_t point, object_t pipeline) {
    pthread_mutex_lock(&lock);
    size_t use = uses.n, i = 0;
    while (use > 0 && AT(uses, struct use, use - 1).pipeline != pipeline) { use--; }
    while (i < bounds.n && AT(bounds, struct bound, i).commands != commands) { i++; }
    struct bound * b = i < bounds.n ? &AT(bounds, struct bound, i) : ADD(bounds, struct bound);
    *b = (struct bound) { commands, use };
    pthread_mutex_unlock(&lock);
    device_of(commands)->bind(commands, point, pipeline);
}

static void dispatch(handle_t commands, uint32_t x, uint32_t y, uint32_t z) {
    pthread_mutex_lock(&lock);
    dispatches++;
    for (size_t i = 0; i < bounds.n; i++) {
        const struct bound * b = &AT(bounds, struct bound, i);
        if (b->commands == commands && b->use > 0) {
            AT(uses, struct use, b->use - 1).dispatches++;
            AT(uses, struct use, b->use - 1).groups += (uint64_t) x * y * z;
        }
    }
    pthread_mutex_unlock(&lock);
    device_of(commands)->dispatch(commands, x, y, z);
}

static void count(uint64_t * what) {
    pthread_mutex_lock(&lock);
    *what += 1;
    pthread_mutex_unlock(&lock);
}

static void barrier(handle_t commands, uint32_t from, uint32_t to, uint32_t flags, uint32_t n, const void * memory, uint32_t n_buffers,
    const void * buffers, uint32_t n_images, const void * images) {
    /* A barrier at the end of each submission makes results visible to the host. No command waits for it, and the
     * number of submissions for a graph's inputs depends on how much memory of the card is mapped. */
    if (to != STAGE_HOST) { count(&barriers); }
    device_of(commands)->barrier(commands, from, to, flags, n, memory, n_buffers, buffers, n_images, images);
}

static void copy(handle_t commands, object_t from, object_t to, uint32_t n, const void * regions) {
    count(&copies);
    device_of(commands)->copy(commands, from, to, n, regions);
}

static void fill(handle_t commands, object_t buffer, uint64_t at, uint64_t n, uint32_t word) {
    count(&copies);
    device_of(commands)->fill(commands, buffer, at, n, word);
}

static result_t submit(handle_t queue, uint32_t n, const void * infos, object_t fence) {
    count(&submissions);
    return device_of(queue)->submit(queue, n, infos, fence);
}

static result_t flush(handle_t device, uint32_t n, const void * ranges) {
    count(&flushes);
    return device_of(device)->flush(device, n, ranges);
}

static result_t invalidate(handle_t device, uint32_t n, const void * ranges) {
    count(&flushes);
    return device_of(device)->invalidate(device, n, ranges);
}

static result_t semaphore_value(handle_t device, object_t semaphore, uint64_t * value) {
    const result_t r = device_of(device)->value(device, semaphore, value);
    if (limit("late")) { *value = 0; }
    return r;
}

static result_t create_instance(const void * info, const void * allocator, handle_t * out) {
    const result_t r = next_create_instance(info, allocator, out);
    if (r != SUCCESS) { return r; }
    next_properties = (void *) next_instance(*out, "vkGetPhysicalDeviceProperties");
    next_properties2 = (void *) next_instance(*out, "vkGetPhysicalDeviceProperties2");
    next_features2 = (void *) next_instance(*out, "vkGetPhysicalDeviceFeatures2");
    next_memory = (void *) next_instance(*out, "vkGetPhysicalDeviceMemoryProperties");
    next_memory2 = (void *) next_instance(*out, "vkGetPhysicalDeviceMemoryProperties2");
    return SUCCESS;
}

/* Whether a driver has the extension that reports about code. */
static int has_extension(handle_t physical) {
    result_t (*list)(handle_t, const char *, uint32_t *, struct extension *) =
        (void *) next_instance(the_instance, "vkEnumerateDeviceExtensionProperties");
    uint32_t n = 0;
    if (list(physical, NULL, &n, NULL) < 0) { return 0; }
    struct extension * all = calloc(n, sizeof *all);
    int there = 0;
    if (all != NULL && list(physical, NULL, &n, all) >= 0) {
        for (uint32_t i = 0; i < n; i++) { there |= strcmp(all[i].name, EXTENSION) == 0; }
    }
    free(all);
    return there;
}

static result_t create_device(handle_t physical, const void * create_info, const void * allocator, handle_t * out) {
    struct device d = { .says = has_extension(physical) };
    struct device_info info = *(const struct device_info *) create_info;
    const struct feature feature = { EXECUTABLE_FEATURES, info.next, 1 };
    const char * names[256];
    if (d.says && info.n_extensions < 255) {
        for (uint32_t i = 0; i < info.n_extensions; i++) { names[i] = info.extensions[i]; }
        names[info.n_extensions++] = EXTENSION;
        info.extensions = names;
        info.next = &feature;
    }
    const result_t r = next_create_device(physical, &info, allocator, out, &d.get);
    if (r != SUCCESS) { return r; }
    d.create_module = (void *) d.get(*out, "vkCreateShaderModule");
    d.create_pipelines = (void *) d.get(*out, "vkCreateComputePipelines");
    d.executables = (void *) d.get(*out, "vkGetPipelineExecutablePropertiesKHR");
    d.statistics = (void *) d.get(*out, "vkGetPipelineExecutableStatisticsKHR");
    d.representations = (void *) d.get(*out, "vkGetPipelineExecutableInternalRepresentationsKHR");
    d.bind = (void *) d.get(*out, "vkCmdBindPipeline");
    d.dispatch = (void *) d.get(*out, "vkCmdDispatch");
    d.barrier = (void *) d.get(*out, "vkCmdPipelineBarrier");
    d.copy = (void *) d.get(*out, "vkCmdCopyBuffer");
    d.fill = (void *) d.get(*out, "vkCmdFillBuffer");
    d.submit = (void *) d.get(*out, "vkQueueSubmit");
    d.flush = (void *) d.get(*out, "vkFlushMappedMemoryRanges");
    d.invalidate = (void *) d.get(*out, "vkInvalidateMappedMemoryRanges");
    d.value = (void *) d.get(*out, "vkGetSemaphoreCounterValue");
    keep_device(*out, d);
    return SUCCESS;
}

static const struct entry mine[] = {
    { "vkGetInstanceProcAddr", (function_t) get_instance, 0 },
    { "vkCreateInstance", (function_t) create_instance, 0 },
    { "vkCreateDevice", (function_t) create_device, 0 },
    { "vkGetPhysicalDeviceProperties", (function_t) get_properties, 0 },
    { "vkGetPhysicalDeviceProperties2", (function_t) get_properties2, 0 },
    { "vkGetPhysicalDeviceProperties2KHR", (function_t) get_properties2, 0 },
    { "vkGetPhysicalDeviceFeatures2", (function_t) get_features2, 0 },
    { "vkGetPhysicalDeviceFeatures2KHR", (function_t) get_features2, 0 },
    { "vkGetPhysicalDeviceMemoryProperties", (function_t) get_memory, 0 },
    { "vkGetPhysicalDeviceMemoryProperties2", (function_t) get_memory2, 0 },
    { "vkGetPhysicalDeviceMemoryProperties2KHR", (function_t) get_memory2, 0 },
    { "vkGetDeviceProcAddr", (function_t) get_device, 1 },
    { "vkCreateShaderModule", (function_t) create_module, 1 },
    { "vkCreateComputePipelines", (function_t) create_pipelines, 1 },
    { "vkCmdBindPipeline", (function_t) bind, 1 },
    { "vkCmdDispatch", (function_t) dispatch, 1 },
    { "vkCmdPipelineBarrier", (function_t) barrier, 1 },
    { "vkCmdCopyBuffer", (function_t) copy, 1 },
    { "vkCmdFillBuffer", (function_t) fill, 1 },
    { "vkQueueSubmit", (function_t) submit, 1 },
    { "vkFlushMappedMemoryRanges", (function_t) flush, 1 },
    { "vkInvalidateMappedMemoryRanges", (function_t) invalidate, 1 },
    { "vkGetSemaphoreCounterValue", (function_t) semaphore_value, 1 },
};

#include "layer_entry.h"

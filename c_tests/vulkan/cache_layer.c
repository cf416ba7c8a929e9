/* A Vulkan layer that gives any driver a cache of compute pipelines, for drivers without one (software drivers), so
 * that a test can see what a second start compiles.
 *
 * The cache has the same data as a driver's: the header of the specification, with the device's own identity, then a
 * hash for each pipeline: SPIR-V, specialization, width of subgroups. The driver always makes the pipelines. Through
 * VkPipelineCreationFeedback, the layer reports for each whether its cache had its hash.
 *
 * CACHE_LAYER_REPORT=FILE: a line is added when the process ends: "compiled N, found N, refused N". Refused are caches
 * whose data was not this device's: an application must check that first. CACHE_LAYER_DRIVER=N: the driver claims to
 * have version N, and another identity of its caches. */
#include "layer.h"

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* The next layer's or the driver's functions. */
struct device {
    void * key; /* what a dispatchable handle begins with: the same for all of a device */
    struct properties properties;
    get_device_t get;
    result_t (*create_module)(handle_t, const struct module_info *, const void *, object_t *);
    void (*destroy_module)(handle_t, object_t, const void *);
    result_t (*create_cache)(handle_t, const struct cache_info *, const void *, object_t *);
    void (*destroy_cache)(handle_t, object_t, const void *);
    result_t (*create_pipelines)(handle_t, object_t, uint32_t, const struct pipeline_info *, const void *, object_t *);
};

struct header { uint32_t bytes, version, vendor, device; uint8_t uuid[16]; };

struct cache { object_t handle; uint64_t * hashes; size_t n, room; };
struct module { object_t handle; uint64_t hash; };

#define MOST 4096
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static void (*next_properties)(handle_t, struct properties *);
static void (*next_properties2)(handle_t, struct properties2 *);
static struct device devices[MOST];
static struct cache caches[MOST];
static struct module modules[MOST];
static unsigned compiled, found, refused;

__attribute__((destructor)) static void report(void) {
    const char * name = getenv("CACHE_LAYER_REPORT");
    FILE * f = name == NULL || the_instance == NULL ? NULL : fopen(name, "a");
    if (f != NULL) {
        fprintf(f, "compiled %u, found %u, refused %u\n", compiled, found, refused);
        fclose(f);
    }
}

/* A slot whose first word is `word`, or a free one for 0. */
static void * slot(void * table, size_t size, uint64_t word) {
    for (size_t i = 0; i < MOST; i++) {
        uint64_t first;
        memcpy(&first, (char *) table + i * size, sizeof first);
        if (first == word) { return (char *) table + i * size; }
    }
    fprintf(stderr, "cache layer: %s\n", word == 0 ? "a table is full" : "unknown handle");
    abort();
}
#define SLOT(table, word) slot(table, sizeof (table)[0], word)

static struct device * device_of(handle_t handle) {
    pthread_mutex_lock(&lock);
    struct device * d = SLOT(devices, (uint64_t) (uintptr_t) *(void **) handle);
    pthread_mutex_unlock(&lock);
    return d;
}

static uint64_t hash(uint64_t h, const void * data, size_t n) {
    for (size_t i = 0; i < n; i++) { h = (h ^ ((const uint8_t *) data)[i]) * 0x100000001b3u; }
    return h;
}

/* Properties of the driver, changed by CACHE_LAYER_DRIVER. */
static void claim(struct properties * p) {
    const char * driver = getenv("CACHE_LAYER_DRIVER");
    if (driver != NULL) {
        p->driver_version = (uint32_t) atoi(driver);
        p->uuid[0] ^= (uint8_t) atoi(driver);
    }
}

static void get_properties(handle_t physical, struct properties * p) {
    next_properties(physical, p);
    claim(p);
}

static void get_properties2(handle_t physical, struct properties2 * p) {
    next_properties2(physical, p);
    claim(&p->properties);
}

static result_t create_module(handle_t handle, const struct module_info * info, const void * allocator, object_t * out) {
    const result_t r = device_of(handle)->create_module(handle, info, allocator, out);
    if (r == SUCCESS) {
        pthread_mutex_lock(&lock);
        *(struct module *) SLOT(modules, 0) = (struct module) { *out, hash(0xcbf29ce484222325u, info->code, info->size) };
        pthread_mutex_unlock(&lock);
    }
    return r;
}

static void destroy_module(handle_t handle, object_t module, const void * allocator) {
    if (module != 0) {
        pthread_mutex_lock(&lock);
        ((struct module *) SLOT(modules, module))->handle = 0;
        pthread_mutex_unlock(&lock);
    }
    device_of(handle)->destroy_module(handle, module, allocator);
}

static struct header header_of(const struct device * d) {
    struct header h = { sizeof h, 1, d->properties.vendor, d->properties.device, { 0 } };
    memcpy(h.uuid, d->properties.uuid, sizeof h.uuid);
    return h;
}

static result_t create_cache(handle_t handle, const struct cache_info * info, const void * allocator, object_t * out) {
    struct device * d = device_of(handle);
    struct cache_info none = *info;
    none.size = 0;
    none.data = NULL;
    const result_t r = d->create_cache(handle, &none, allocator, out);
    if (r != SUCCESS) { return r; }
    const struct header mine = header_of(d);
    struct cache c = { *out, NULL, 0, 0 };
    const size_t rest = info->size < sizeof mine ? 0 : info->size - sizeof mine;
    pthread_mutex_lock(&lock);
    if (info->size > 0 && (info->size < sizeof mine || memcmp(info->data, &mine, sizeof mine) != 0 || rest % sizeof *c.hashes != 0)) {
        refused++;
    } else if (rest > 0) {
        c.hashes = malloc(rest);
        if (c.hashes == NULL) { abort(); }
        memcpy(c.hashes, (const char *) info->data + sizeof mine, rest);
        c.n = c.room = rest / sizeof *c.hashes;
    }
    *(struct cache *) SLOT(caches, 0) = c;
    pthread_mutex_unlock(&lock);
    return SUCCESS;
}

static void destroy_cache(handle_t handle, object_t cache, const void * allocator) {
    if (cache != 0) {
        pthread_mutex_lock(&lock);
        struct cache * c = SLOT(caches, cache);
        free(c->hashes);
        *c = (struct cache) { 0 };
        pthread_mutex_unlock(&lock);
    }
    device_of(handle)->destroy_cache(handle, cache, allocator);
}

static result_t get_cache_data(handle_t handle, object_t cache, size_t * size, void * data) {
    const struct header mine = header_of(device_of(handle));
    pthread_mutex_lock(&lock);
    const struct cache * c = SLOT(caches, cache);
    const size_t all = sizeof mine + c->n * sizeof *c->hashes;
    result_t r = SUCCESS;
    if (data != NULL && *size < all) {
        *size = 0;
        r = INCOMPLETE;
    } else {
        *size = all;
        if (data != NULL) {
            memcpy(data, &mine, sizeof mine);
            if (c->n > 0) { memcpy((char *) data + sizeof mine, c->hashes, c->n * sizeof *c->hashes); }
        }
    }
    pthread_mutex_unlock(&lock);
    return r;
}

/* Whether a cache has the inputs of a pipeline; afterwards it has. */
static int known(object_t cache, const struct pipeline_info * info) {
    const struct stage * s = &info->stage;
    const struct subgroup_info * width = find(s->next, REQUIRED_SUBGROUP_SIZE_CREATE_INFO);
    pthread_mutex_lock(&lock);
    uint64_t h = ((struct module *) SLOT(modules, s->module))->hash;
    if (s->specialization != NULL) { h = hash(h, s->specialization->data, s->specialization->size); }
    h = hash(h, &s->flags, sizeof s->flags);
    h = hash(h, s->name, strlen(s->name));
    if (width != NULL) { h = hash(h, &width->size, sizeof width->size); }
    int there = 0;
    if (cache != 0) {
        struct cache * c = SLOT(caches, cache);
        for (size_t i = 0; i < c->n && !there; i++) { there = c->hashes[i] == h; }
        if (!there) {
            if (c->n == c->room) {
                c->room = 2 * c->room + 64;
                c->hashes = realloc(c->hashes, c->room * sizeof *c->hashes);
                if (c->hashes == NULL) { abort(); }
            }
            c->hashes[c->n++] = h;
        }
    }
    *(there ? &found : &compiled) += 1;
    pthread_mutex_unlock(&lock);
    return there;
}

static result_t create_pipelines(
    handle_t handle, object_t cache, uint32_t n, const struct pipeline_info * infos, const void * allocator, object_t * out) {
    const result_t r = device_of(handle)->create_pipelines(handle, cache, n, infos, allocator, out);
    for (uint32_t i = 0; i < n && r == SUCCESS; i++) {
        const struct feedback_info * said = find(infos[i].next, PIPELINE_CREATION_FEEDBACK_CREATE_INFO);
        const uint32_t flags = FEEDBACK_VALID | (known(cache, &infos[i]) ? FEEDBACK_APPLICATION_CACHE_HIT : 0);
        if (said != NULL) {
            said->pipeline->flags = flags;
            if (said->n_stages > 0) { said->stages[0].flags = flags; }
        }
    }
    return r;
}

static result_t create_instance(const void * info, const void * allocator, handle_t * out) {
    const result_t r = next_create_instance(info, allocator, out);
    if (r != SUCCESS) { return r; }
    /* Looked up now: after the chain of layers is complete, its first layer answers. */
    next_properties = (void *) next_instance(*out, "vkGetPhysicalDeviceProperties");
    next_properties2 = (void *) next_instance(*out, "vkGetPhysicalDeviceProperties2");
    return SUCCESS;
}

static result_t create_device(handle_t physical, const void * info, const void * allocator, handle_t * out) {
    struct device d = { 0 };
    const result_t r = next_create_device(physical, info, allocator, out, &d.get);
    if (r != SUCCESS) { return r; }
    d.key = *(void **) *out;
    struct { struct properties p; char rest[2048]; } all;
    get_properties(physical, &all.p);
    d.properties = all.p;
    d.create_module = (void *) d.get(*out, "vkCreateShaderModule");
    d.destroy_module = (void *) d.get(*out, "vkDestroyShaderModule");
    d.create_cache = (void *) d.get(*out, "vkCreatePipelineCache");
    d.destroy_cache = (void *) d.get(*out, "vkDestroyPipelineCache");
    d.create_pipelines = (void *) d.get(*out, "vkCreateComputePipelines");
    pthread_mutex_lock(&lock);
    *(struct device *) SLOT(devices, 0) = d;
    pthread_mutex_unlock(&lock);
    return SUCCESS;
}

static void destroy_device(handle_t handle, const void * allocator) {
    if (handle == NULL) { return; }
    struct device * d = device_of(handle);
    void (*destroy)(handle_t, const void *) = (void *) d->get(handle, "vkDestroyDevice");
    pthread_mutex_lock(&lock);
    d->key = NULL;
    pthread_mutex_unlock(&lock);
    destroy(handle, allocator);
}

static const struct entry mine[] = {
    { "vkGetInstanceProcAddr", (function_t) get_instance, 0 },
    { "vkCreateInstance", (function_t) create_instance, 0 },
    { "vkCreateDevice", (function_t) create_device, 0 },
    { "vkGetPhysicalDeviceProperties", (function_t) get_properties, 0 },
    { "vkGetPhysicalDeviceProperties2", (function_t) get_properties2, 0 },
    { "vkGetPhysicalDeviceProperties2KHR", (function_t) get_properties2, 0 },
    { "vkGetDeviceProcAddr", (function_t) get_device, 1 },
    { "vkDestroyDevice", (function_t) destroy_device, 1 },
    { "vkCreateShaderModule", (function_t) create_module, 1 },
    { "vkDestroyShaderModule", (function_t) destroy_module, 1 },
    { "vkCreatePipelineCache", (function_t) create_cache, 1 },
    { "vkDestroyPipelineCache", (function_t) destroy_cache, 1 },
    { "vkGetPipelineCacheData", (function_t) get_cache_data, 1 },
    { "vkCreateComputePipelines", (function_t) create_pipelines, 1 },
};

#include "layer_entry.h"

/* The declarations of Vulkan and of its loader that the layers of the tests need. Written out, so that the tests need
 * no installed headers. */
#ifndef C_TESTS_LAYER_H
#define C_TESTS_LAYER_H

#include <stddef.h>
#include <stdint.h>

/* Vulkan, as its specification has it on 64-bit machines. */
typedef int32_t result_t;
typedef struct dispatchable * handle_t; /* of an instance, a physical device, a device */
typedef uint64_t object_t;              /* of everything else */
typedef void (*function_t)(void);

enum {
    SUCCESS = 0,
    INCOMPLETE = 5,
    INITIALIZATION_FAILED = -3,
    LOADER_INSTANCE_CREATE_INFO = 47,
    LOADER_DEVICE_CREATE_INFO = 48,
    PIPELINE_CREATION_FEEDBACK_CREATE_INFO = 1000192000,
    REQUIRED_SUBGROUP_SIZE_CREATE_INFO = 1000225001,
    FEEDBACK_VALID = 1,
    FEEDBACK_APPLICATION_CACHE_HIT = 2,
};

struct chained { int32_t type; const struct chained * next; };

struct limits { /* VkPhysicalDeviceLimits: what tests change has a name */
    uint32_t others[8], push_constants, others1[45], shared_memory, groups[3], invocations, group_size[3], others2[62];
    uint64_t coherent_unit;
};
struct properties { /* VkPhysicalDeviceProperties */
    uint32_t api_version, driver_version, vendor, device;
    int32_t kind;
    char name[256];
    uint8_t uuid[16];
    struct limits limits;
    uint32_t sparse[5];
};
_Static_assert(sizeof(struct limits) == 504 && offsetof(struct properties, limits) == 296 && sizeof(struct properties) == 824, "as in Vulkan");
struct properties2 { int32_t type; void * next; struct properties properties; };

struct module_info { int32_t type; const void * next; uint32_t flags; size_t size; const void * code; };
struct cache_info { int32_t type; const void * next; uint32_t flags; size_t size; const void * data; };
struct specialization { uint32_t n; const void * entries; size_t size; const void * data; };
struct stage {
    int32_t type;
    const struct chained * next;
    uint32_t flags, stage;
    object_t module;
    const char * name;
    const struct specialization * specialization;
};
struct pipeline_info {
    int32_t type;
    const struct chained * next;
    uint32_t flags;
    struct stage stage;
    object_t layout, base;
    int32_t base_index;
};
struct subgroup_info { int32_t type; const void * next; uint32_t size; };
struct feedback { uint32_t flags; uint64_t duration; };
struct feedback_info { int32_t type; const void * next; struct feedback * pipeline; uint32_t n_stages; struct feedback * stages; };

/* The loader's interface to layers, version 2. */
typedef function_t (*get_instance_t)(handle_t, const char *);
typedef function_t (*get_device_t)(handle_t, const char *);
struct link { struct link * next; get_instance_t get_instance; function_t get_physical; };
struct device_link { struct device_link * next; get_instance_t get_instance; get_device_t get_device; };
struct loader_info { int32_t type; const struct chained * next; int32_t function; void * link; };
struct negotiation { int32_t type; void * next; uint32_t version; get_instance_t get_instance; get_device_t get_device; function_t get_physical; };

/* The struct of a type in a chain, or NULL. */
static inline const void * find(const struct chained * chain, int32_t type) {
    while (chain != NULL && chain->type != type) { chain = chain->next; }
    return chain;
}

/* The link of a chain of layers that is the layer's own. */
static inline struct loader_info * layer_link(const void * create_info, int32_t type) {
    const struct loader_info * l = find(((const struct chained *) create_info)->next, type);
    while (l != NULL && l->function != 0) { l = find(l->next, type); }
    return (struct loader_info *) l; /* the loader owns it and expects layers to advance it */
}

static get_instance_t next_instance; /* one instance in a process is enough for a test */
static handle_t the_instance;

/* Creates the instance by the next layer. */
static inline result_t next_create_instance(const void * info, const void * allocator, handle_t * out) {
    struct loader_info * l = layer_link(info, LOADER_INSTANCE_CREATE_INFO);
    if (l == NULL) { return INITIALIZATION_FAILED; }
    struct link * here = l->link;
    next_instance = here->get_instance;
    l->link = here->next;
    const result_t r = ((result_t (*)(const void *, const void *, handle_t *)) next_instance(NULL, "vkCreateInstance"))(info, allocator, out);
    if (r == SUCCESS) { the_instance = *out; }
    return r;
}

/* Creates a device by the next layer, whose functions `get` then finds. */
static inline result_t next_create_device(handle_t physical, const void * info, const void * allocator, handle_t * out, get_device_t * get) {
    struct loader_info * l = layer_link(info, LOADER_DEVICE_CREATE_INFO);
    if (l == NULL) { return INITIALIZATION_FAILED; }
    struct device_link * here = l->link;
    *get = here->get_device;
    l->link = here->next;
    return ((result_t (*)(handle_t, const void *, const void *, handle_t *)) here->get_instance(the_instance, "vkCreateDevice"))(
        physical, info, allocator, out);
}

/* A function of the layer; `of_device`: vkGetDeviceProcAddr finds it, too. */
struct entry { const char * name; function_t function; int of_device; };

/* layer_entry.h has them. */
static function_t get_instance(handle_t instance, const char * name);
static function_t get_device(handle_t handle, const char * name);

#endif

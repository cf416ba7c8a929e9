/* A Vulkan layer in which the n-th call that may fail does fail. The program sets n (`fault_layer_arm`) and checks
 * whether it has happened.
 *
 * The call does not reach the driver. Calls that wait are the exception: a driver that returns VK_ERROR_DEVICE_LOST has
 * stopped, so the layer waits before it returns that. */
#include "layer.h"

#include <string.h>

static long         countdown; /* calls until one fails; 0: none does */
static result_t     failure;
static const char * failed_call;

#define VISIBLE __attribute__((visibility("default")))
VISIBLE void         fault_layer_arm(long n, int result);
VISIBLE const char * fault_layer_failed(void);

/* The n-th call from now on returns `result`. */
void fault_layer_arm(long n, int result) {
    failed_call = NULL;
    failure     = result;
    __atomic_store_n(&countdown, n, __ATOMIC_SEQ_CST);
}

/* The name of the call that has failed, or NULL. */
const char * fault_layer_failed(void) { return failed_call; }

static int due(const char * name) {
    if (__atomic_load_n(&countdown, __ATOMIC_RELAXED) <= 0 || __atomic_sub_fetch(&countdown, 1, __ATOMIC_SEQ_CST) != 0) { return 0; }
    failed_call = name;
    return 1;
}

struct device {
    const void * key;
    handle_t     handle;
    get_device_t get;
};
#include "layer_devices.h"

static function_t next_of(handle_t handle, const char * name) {
    const struct device * d = device_of(handle);
    return d->get(d->handle, name);
}

#define FIRST(first, ...) first

/* A function of devices that fails or does what the driver does. */
#define FAILS(name, parameters, arguments)                                               \
    static result_t name parameters {                                                    \
        typedef result_t(*function) parameters;                                          \
        if (due("vk" #name)) { return failure; }                                         \
        return ((function) next_of(FIRST arguments, "vk" #name)) arguments;              \
    }
/* One that waits: it has waited when it fails. */
#define FAILS_LATE(name, parameters, arguments)                                          \
    static result_t name parameters {                                                    \
        typedef result_t(*function) parameters;                                          \
        const result_t r = ((function) next_of(FIRST arguments, "vk" #name)) arguments;  \
        return due("vk" #name) ? failure : r;                                            \
    }
FAILS(AllocateMemory, (handle_t d, const void * info, const void * a, object_t * out), (d, info, a, out))
FAILS(MapMemory, (handle_t d, object_t m, uint64_t at, uint64_t size, uint32_t flags, void ** out), (d, m, at, size, flags, out))
FAILS(CreateBuffer, (handle_t d, const void * info, const void * a, object_t * out), (d, info, a, out))
FAILS(BindBufferMemory, (handle_t d, object_t b, object_t m, uint64_t at), (d, b, m, at))
FAILS(CreateCommandPool, (handle_t d, const void * info, const void * a, object_t * out), (d, info, a, out))
FAILS(AllocateCommandBuffers, (handle_t d, const void * info, handle_t * out), (d, info, out))
FAILS(BeginCommandBuffer, (handle_t c, const void * info), (c, info))
FAILS(EndCommandBuffer, (handle_t c), (c))
FAILS(CreateSemaphore, (handle_t d, const void * info, const void * a, object_t * out), (d, info, a, out))
FAILS(CreateShaderModule, (handle_t d, const void * info, const void * a, object_t * out), (d, info, a, out))
FAILS(CreatePipelineLayout, (handle_t d, const void * info, const void * a, object_t * out), (d, info, a, out))
FAILS(CreatePipelineCache, (handle_t d, const void * info, const void * a, object_t * out), (d, info, a, out))
FAILS(GetPipelineCacheData, (handle_t d, object_t c, size_t * n, void * data), (d, c, n, data))
FAILS(CreateQueryPool, (handle_t d, const void * info, const void * a, object_t * out), (d, info, a, out))
FAILS(GetMemoryHostPointerPropertiesEXT, (handle_t d, int kind, const void * at, void * out), (d, kind, at, out))
FAILS(GetQueryPoolResults, (handle_t d, object_t p, uint32_t first, uint32_t n, size_t size, void * data, uint64_t stride, uint32_t flags), (d, p, first, n, size, data, stride, flags))
FAILS(QueueSubmit, (handle_t q, uint32_t n, const void * submits, object_t fence), (q, n, submits, fence))
FAILS(GetSemaphoreCounterValue, (handle_t d, object_t s, uint64_t * out), (d, s, out))
FAILS_LATE(WaitSemaphores, (handle_t d, const void * info, uint64_t timeout), (d, info, timeout))
FAILS_LATE(QueueWaitIdle, (handle_t q), (q))

static result_t CreateComputePipelines(handle_t d, object_t cache, uint32_t n, const void * infos, const void * a, object_t * out) {
    if (due("vkCreateComputePipelines")) {
        memset(out, 0, n * sizeof *out);
        return failure;
    }
    typedef result_t (*function)(handle_t, object_t, uint32_t, const void *, const void *, object_t *);
    return ((function) next_of(d, "vkCreateComputePipelines"))(d, cache, n, infos, a, out);
}

/* Of instances. The next functions are looked up while the instance is made: later the loader finds the first
 * layer's. */
static result_t (*next_devices)(handle_t, uint32_t *, handle_t *);
static result_t (*next_extensions)(handle_t, const char *, uint32_t *, void *);

static result_t create_instance(const void * info, const void * allocator, handle_t * out) {
    if (due("vkCreateInstance")) { return failure; }
    const result_t r = next_create_instance(info, allocator, out);
    if (r == SUCCESS) {
        next_devices    = (__typeof__(next_devices)) next_instance(*out, "vkEnumeratePhysicalDevices");
        next_extensions = (__typeof__(next_extensions)) next_instance(*out, "vkEnumerateDeviceExtensionProperties");
    }
    return r;
}
static result_t enumerate_devices(handle_t instance, uint32_t * n, handle_t * out) {
    return due("vkEnumeratePhysicalDevices") ? failure : next_devices(instance, n, out);
}
static result_t enumerate_extensions(handle_t physical, const char * of_layer, uint32_t * n, void * out) {
    return due("vkEnumerateDeviceExtensionProperties") ? failure : next_extensions(physical, of_layer, n, out);
}
static result_t create_device(handle_t physical, const void * info, const void * allocator, handle_t * out) {
    if (due("vkCreateDevice")) { return failure; }
    get_device_t   get;
    const result_t r = next_create_device(physical, info, allocator, out, &get);
    if (r == SUCCESS) { keep_device(*out, (struct device) { NULL, *out, get }); }
    return r;
}

#define OF_DEVICE(name) { "vk" #name, (function_t) name, 1 }
static const struct entry mine[] = {
    { "vkGetInstanceProcAddr", (function_t) get_instance, 0 },
    { "vkGetDeviceProcAddr", (function_t) get_device, 1 },
    { "vkCreateInstance", (function_t) create_instance, 0 },
    { "vkEnumeratePhysicalDevices", (function_t) enumerate_devices, 0 },
    { "vkEnumerateDeviceExtensionProperties", (function_t) enumerate_extensions, 0 },
    { "vkCreateDevice", (function_t) create_device, 0 },
    OF_DEVICE(AllocateMemory), OF_DEVICE(MapMemory), OF_DEVICE(CreateBuffer), OF_DEVICE(BindBufferMemory), OF_DEVICE(CreateCommandPool),
    OF_DEVICE(AllocateCommandBuffers), OF_DEVICE(BeginCommandBuffer), OF_DEVICE(EndCommandBuffer), OF_DEVICE(CreateSemaphore),
    OF_DEVICE(CreateShaderModule), OF_DEVICE(CreatePipelineLayout), OF_DEVICE(CreatePipelineCache), OF_DEVICE(GetPipelineCacheData),
    OF_DEVICE(CreateQueryPool), OF_DEVICE(GetQueryPoolResults), OF_DEVICE(GetMemoryHostPointerPropertiesEXT),
    OF_DEVICE(QueueSubmit), OF_DEVICE(GetSemaphoreCounterValue), OF_DEVICE(WaitSemaphores), OF_DEVICE(QueueWaitIdle),
    OF_DEVICE(CreateComputePipelines),
};

#include "layer_entry.h"

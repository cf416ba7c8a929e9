/* A loadable backend with one device that can do nothing, for tests of the loader. Built with
 *   -DSCORE=n      exports ggml_backend_score, which returns n
 *   -DVERSION=n    version of the vtables that it claims (default: that of the header)
 *   -DNO_REG       ggml_backend_init returns NULL
 *   -DNO_INIT      ggml_backend_init is not exported
 *   -DNO_NOTE      carries no note of what it was built for
 *   -DBACKEND      the device opens a backend, which supports no operation (programs that list what they would compute)
 *   -DNAME="text"  name of the family and its device
 */
#include "ggml-backend-impl.h"

#ifndef NO_NOTE
GGML_RS_MODULE_NOTE
#endif
#ifndef VERSION
#define VERSION GGML_BACKEND_API_VERSION
#endif
#ifndef NAME
#define NAME "Module"
#endif

#if defined(_WIN32)
#define EXPORT __declspec(dllexport)
#else
#define EXPORT __attribute__((visibility("default")))
#endif

static const char * reg_name(ggml_backend_reg_t reg) {
    (void) reg;
    return NAME;
}

static const char * dev_name(ggml_backend_dev_t dev) {
    (void) dev;
    return NAME "0";
}

static const char * dev_description(ggml_backend_dev_t dev) {
    (void) dev;
    return "a device that can do nothing";
}

static enum ggml_backend_dev_type dev_type(ggml_backend_dev_t dev) {
    (void) dev;
    return GGML_BACKEND_DEVICE_TYPE_ACCEL;
}

#ifdef BACKEND
static const char * backend_name(ggml_backend_t backend) {
    (void) backend;
    return NAME;
}

static void backend_free(ggml_backend_t backend) {
    (void) backend;
}

static ggml_backend_t dev_open(ggml_backend_dev_t dev, const char * params) {
    static ggml_guid           guid = { 't', 'o', 'y' };
    static struct ggml_backend backend;
    (void) params;
    backend.guid           = &guid;
    backend.iface.get_name = backend_name;
    backend.iface.free     = backend_free;
    backend.device         = dev;
    return &backend;
}

static void dev_memory(ggml_backend_dev_t dev, size_t * free, size_t * total) {
    (void) dev;
    *free = *total = 0;
}

static bool dev_supports_op(ggml_backend_dev_t dev, const struct ggml_tensor * op) {
    (void) dev;
    (void) op;
    return false;
}
#endif

static size_t dev_count(ggml_backend_reg_t reg) {
    (void) reg;
    return 1;
}

static struct ggml_backend_device device;
static struct ggml_backend_reg    registry;

static ggml_backend_dev_t dev_get(ggml_backend_reg_t reg, size_t index) {
    (void) index;
    device.iface.get_name        = dev_name;
    device.iface.get_description = dev_description;
    device.iface.get_type        = dev_type;
#ifdef BACKEND
    device.iface.init_backend = dev_open;
    device.iface.get_memory   = dev_memory;
    device.iface.supports_op  = dev_supports_op;
#endif
    device.reg                   = reg;
    return &device;
}

ggml_backend_reg_t toy_reg(void);
ggml_backend_reg_t toy_reg(void) {
    registry.api_version            = VERSION;
    registry.iface.get_name         = reg_name;
    registry.iface.get_device_count = dev_count;
    registry.iface.get_device       = dev_get;
    return &registry;
}

#ifndef NO_INIT
EXPORT ggml_backend_reg_t ggml_backend_init(void);
EXPORT ggml_backend_reg_t ggml_backend_init(void) {
#ifdef NO_REG
    return NULL;
#else
    return toy_reg();
#endif
}
#endif

#ifdef SCORE
EXPORT int ggml_backend_score(void);
EXPORT int ggml_backend_score(void) {
    return SCORE;
}
#endif

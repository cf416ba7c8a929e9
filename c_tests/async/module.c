/* The device of device.h as a loadable backend: a GPU, by name FAKE, that computes with the CPU's kernels in a queue of
 * its own. Hosts load it with GGML_BACKEND_PATH. FAKE_REJECT: ops (their numbers) that it does not compute, with
 * commas; FAKE_OFFLOAD: takes products of weights in host memory; FAKE_EVENTS, FAKE_COPIES: 0 without. */
#define GGML_BACKEND_DL
#include "device.h"

static struct device fake;
static bool rejected[GGML_OP_COUNT];

static bool supports(const struct ggml_tensor * t) { return !rejected[t->op]; }
static bool offloads(const struct ggml_tensor * t) { return t->op == GGML_OP_MUL_MAT && t->ne[1] >= 32; }
static bool enabled(const char * name) { const char * v = getenv(name); return v == NULL || strcmp(v, "0") != 0; }

static const char * reg_name(ggml_backend_reg_t reg) { (void) reg; return "FAKE"; }
static size_t reg_count(ggml_backend_reg_t reg) { (void) reg; return 1; }
static ggml_backend_dev_t reg_device(ggml_backend_reg_t reg, size_t i) { (void) reg; (void) i; return &fake.dev; }

/* Each stream of this module is the one stream of its device: hosts free theirs. */
static ggml_backend_t open_stream(ggml_backend_dev_t dev, const char * params) {
    (void) dev; (void) params;
    ggml_backend_t b = malloc(sizeof(*b));
    *b = fake.backend;
    return b;
}
static void free_stream(ggml_backend_t b) { free(b); }

static ggml_backend_reg_t fake_reg(void) {
    static struct ggml_backend_reg reg = { .api_version = GGML_BACKEND_API_VERSION, .iface = { .get_name = reg_name, .get_device_count = reg_count, .get_device = reg_device } };
    if (fake.name[0] != '\0') return &reg;
    strcpy(fake.name, "FAKE");
    fake.type = GGML_BACKEND_DEVICE_TYPE_GPU;
    fake.queue = fake.transfers = fake.unmapped = true;
    fake.events = enabled("FAKE_EVENTS");
    fake.copies = fake.host_copies = enabled("FAKE_COPIES");
    fake.poison = -1;
    fake.slow = getenv("FAKE_SLOW") != NULL ? atoi(getenv("FAKE_SLOW")) : 0;
    fake.supports = supports;
    if (getenv("FAKE_OFFLOAD") != NULL) fake.offloads = offloads;
    for (const char * p = getenv("FAKE_REJECT"); p != NULL && *p != '\0'; p += strcspn(p, ","), p += *p == ',') {
        int op = atoi(p);
        if (op > 0 && op < GGML_OP_COUNT) rejected[op] = true;
    }
    device_finish(&fake);
    fake.dev.iface.init_backend = open_stream;
    fake.dev.reg = &reg;
    fake.backend.iface.free = free_stream;
    return &reg;
}

GGML_BACKEND_DL_IMPL(fake_reg)

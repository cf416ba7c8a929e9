/* A backend as a module: one device that computes squares in host memory and leaves everything else to others.
 *
 *   cc -DGGML_BACKEND_DL -shared -fPIC backend.c -o libtoy.so -lggml-base      then ggml_backend_load("./libtoy.so") */
// ANCHOR: stream
#include "ggml-backend-impl.h"

static struct ggml_backend_device toy_device;

static const char * stream_name(ggml_backend_t backend) {
    (void) backend;
    return "Toy0";
}

static void stream_free(ggml_backend_t backend) {
    (void) backend;
}

/* Gets a split: nodes that supports_op has accepted, with data in a buffer type that supports_buft has accepted. */
static enum ggml_status stream_compute(ggml_backend_t backend, struct ggml_cgraph * graph) {
    (void) backend;
    for (int i = 0; i < ggml_graph_n_nodes(graph); i++) {
        struct ggml_tensor * t = ggml_graph_node(graph, i);
        if (t->op != GGML_OP_SQR) {
            continue; // views and reshapes need no work
        }
        const float * x = t->src[0]->data;
        float *       y = t->data;
        for (int64_t k = 0; k < ggml_nelements(t); k++) {
            y[k] = x[k] * x[k];
        }
    }
    return GGML_STATUS_SUCCESS;
}

static ggml_backend_t device_open(ggml_backend_dev_t device, const char * params) {
    static ggml_guid           guid = { 't', 'o', 'y', ' ', 's', 'q', 'u', 'a', 'r', 'e' };
    static struct ggml_backend stream;
    (void) params;
    stream = (struct ggml_backend) {
        .guid   = &guid,
        .iface  = { .get_name = stream_name, .free = stream_free, .graph_compute = stream_compute },
        .device = device,
    };
    return &stream;
}
// ANCHOR_END: stream

// ANCHOR: device
static const char * device_name(ggml_backend_dev_t device) {
    (void) device;
    return "Toy0";
}

static const char * device_description(ggml_backend_dev_t device) {
    (void) device;
    return "computes squares";
}

static void device_memory(ggml_backend_dev_t device, size_t * free, size_t * total) {
    (void) device;
    *free = *total = 0;
}

static enum ggml_backend_dev_type device_type(ggml_backend_dev_t device) {
    (void) device;
    return GGML_BACKEND_DEVICE_TYPE_ACCEL;
}

static void device_props(ggml_backend_dev_t device, struct ggml_backend_dev_props * props) {
    *props = (struct ggml_backend_dev_props) { .name = device_name(device), .description = device_description(device), .type = device_type(device) };
}

/* Memory of its own would be a struct ggml_backend_buffer_type with functions that allocate, write and read. */
static ggml_backend_buffer_type_t device_buffer_type(ggml_backend_dev_t device) {
    (void) device;
    return ggml_backend_cpu_buffer_type();
}

static bool device_supports_buft(ggml_backend_dev_t device, ggml_backend_buffer_type_t type) {
    (void) device;
    return ggml_backend_buft_is_host(type);
}

/* Accept exactly what stream_compute computes: the scheduler relies on the answer. */
static bool device_supports_op(ggml_backend_dev_t device, const struct ggml_tensor * t) {
    (void) device;
    return t->op == GGML_OP_SQR && t->type == GGML_TYPE_F32 && ggml_is_contiguous(t) && ggml_is_contiguous(t->src[0]);
}
// ANCHOR_END: device

// ANCHOR: reg
static const char * reg_name(ggml_backend_reg_t reg) {
    (void) reg;
    return "Toy";
}

static size_t reg_count(ggml_backend_reg_t reg) {
    (void) reg;
    return 1;
}

static ggml_backend_dev_t reg_device(ggml_backend_reg_t reg, size_t index) {
    (void) reg;
    return index == 0 ? &toy_device : NULL;
}

static struct ggml_backend_reg toy_reg = {
    .api_version = GGML_BACKEND_API_VERSION,
    .iface       = { .get_name = reg_name, .get_device_count = reg_count, .get_device = reg_device },
};

static struct ggml_backend_device toy_device = {
    .iface = {
        .get_name = device_name, .get_description = device_description, .get_memory = device_memory, .get_type = device_type, .get_props = device_props,
        .init_backend = device_open, .get_buffer_type = device_buffer_type, .supports_op = device_supports_op, .supports_buft = device_supports_buft,
    },
    .reg = &toy_reg,
};

static ggml_backend_reg_t toy_init(void) {
    return &toy_reg;
}

GGML_BACKEND_DL_IMPL(toy_init) // exports ggml_backend_init, and says what the module was built for
// ANCHOR_END: reg

/* A small accelerator, written in C against ggml-backend-impl.h only: one device that multiplies F32 matrices and adds.
 *
 * Its memory is not the host's: tensors get addresses from a range that is never mapped, and the bytes are elsewhere,
 * so that a host that accesses a tensor's `data` crashes. As a module, it is loaded with ggml_backend_load; with
 * ACCEL_STATIC it is included.
 *
 * Compile-time variations for the tests of the loader: ACCEL_API_VERSION=n, ACCEL_NO_INIT, ACCEL_NO_REG, ACCEL_SCORE=n;
 * for those of allocation: ACCEL_MAX_SIZE=n, the largest buffer. */
#include "accel.h"

#include "ggml-backend-impl.h"

#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#ifndef ACCEL_API_VERSION
#define ACCEL_API_VERSION GGML_BACKEND_API_VERSION
#endif

#define FAKE_BASE  ((uintptr_t) 0x10000) /* below what a process may map */
#define ALIGNMENT  64
#define MEMORY     ((size_t) 256 << 20)

static struct accel_stats stats;

static struct ggml_backend_device * the_device(void);

/* ---- buffers ---- */

struct store {
    char * bytes;
};

static char * real(const struct ggml_tensor * t) {
    ggml_backend_buffer_t b = t->view_src != NULL ? t->view_src->buffer : t->buffer;
    return ((struct store *) b->context)->bytes + ((uintptr_t) t->data - FAKE_BASE);
}

static void buffer_free(ggml_backend_buffer_t buffer) {
    struct store * s = buffer->context;
    free(s->bytes);
    free(s);
    stats.live_buffers--;
}

static void * buffer_base(ggml_backend_buffer_t buffer) {
    (void) buffer;
    return (void *) FAKE_BASE;
}

static enum ggml_status buffer_init_tensor(ggml_backend_buffer_t buffer, struct ggml_tensor * t) {
    (void) buffer;
    (void) t;
    stats.inits++;
    return GGML_STATUS_SUCCESS;
}

static void buffer_memset(ggml_backend_buffer_t buffer, struct ggml_tensor * t, uint8_t value, size_t offset, size_t size) {
    (void) buffer;
    memset(real(t) + offset, value, size);
}

static void buffer_set(ggml_backend_buffer_t buffer, struct ggml_tensor * t, const void * data, size_t offset, size_t size) {
    (void) buffer;
    memcpy(real(t) + offset, data, size);
    stats.sets++;
}

static void buffer_get(ggml_backend_buffer_t buffer, const struct ggml_tensor * t, void * data, size_t offset, size_t size) {
    (void) buffer;
    memcpy(data, real(t) + offset, size);
    stats.gets++;
}

static bool buffer_copy(ggml_backend_buffer_t buffer, const struct ggml_tensor * src, struct ggml_tensor * dst) {
    if (src->buffer == NULL || src->buffer->iface.get_base != buffer->iface.get_base) {
        return false; /* from foreign memory: the caller has another way */
    }
    memcpy(real(dst), real(src), ggml_nbytes(src));
    stats.copies++;
    return true;
}

static void buffer_clear(ggml_backend_buffer_t buffer, uint8_t value) {
    memset(((struct store *) buffer->context)->bytes, value, buffer->size);
}

static const struct ggml_backend_buffer_i buffer_interface = {
    .free_buffer = buffer_free, .get_base = buffer_base, .init_tensor = buffer_init_tensor, .memset_tensor = buffer_memset, .set_tensor = buffer_set,
    .get_tensor = buffer_get, .set_tensor_2d = NULL, .get_tensor_2d = NULL, .cpy_tensor = buffer_copy, .clear = buffer_clear, .reset = NULL,
};

static const char * type_name(ggml_backend_buffer_type_t type) {
    (void) type;
    return "Accel0";
}

static ggml_backend_buffer_t type_alloc(ggml_backend_buffer_type_t type, size_t size) {
    struct store * s = malloc(sizeof *s);
    if (s == NULL || size > MEMORY) {
        free(s);
        return NULL;
    }
    s->bytes = calloc(1, size + ALIGNMENT);
    if (s->bytes == NULL) {
        free(s);
        return NULL;
    }
    stats.live_buffers++;
    return ggml_backend_buffer_init(type, buffer_interface, s, size);
}

static size_t type_alignment(ggml_backend_buffer_type_t type) {
    (void) type;
    return ALIGNMENT;
}

#ifdef ACCEL_MAX_SIZE
static size_t type_max_size(ggml_backend_buffer_type_t type) {
    (void) type;
    return ACCEL_MAX_SIZE;
}
#endif

static size_t type_alloc_size(ggml_backend_buffer_type_t type, const struct ggml_tensor * t) {
    (void) type;
    return ggml_nbytes(t);
}

static ggml_backend_buffer_type_t the_type(void) {
    static struct ggml_backend_buffer_type type = {
        .iface = { .get_name = type_name, .alloc_buffer = type_alloc, .get_alignment = type_alignment, .get_alloc_size = type_alloc_size },
    };
#ifdef ACCEL_MAX_SIZE
    type.iface.get_max_size = type_max_size;
#endif
    type.device = the_device();
    return &type;
}

/* ---- the stream ---- */

static const char * backend_name(ggml_backend_t backend) {
    (void) backend;
    return "Accel0";
}

static void backend_free(ggml_backend_t backend) {
    free(backend);
    stats.live_backends--;
}

static void multiply(const struct ggml_tensor * out) {
    const struct ggml_tensor *a = out->src[0], *b = out->src[1];
    const char *pa = real(a), *pb = real(b);
    char *      po = real(out);
    for (int64_t i3 = 0; i3 < out->ne[3]; i3++) {
        for (int64_t i2 = 0; i2 < out->ne[2]; i2++) {
            for (int64_t row = 0; row < out->ne[1]; row++) {
                for (int64_t col = 0; col < out->ne[0]; col++) {
                    const float * x = (const float *) (const void *) (pa + (size_t) col * a->nb[1] + (size_t) (i2 * a->ne[2] / out->ne[2]) * a->nb[2] + (size_t) (i3 * a->ne[3] / out->ne[3]) * a->nb[3]);
                    const float * y = (const float *) (const void *) (pb + (size_t) row * b->nb[1] + (size_t) i2 * b->nb[2] + (size_t) i3 * b->nb[3]);
                    double sum = 0;
                    for (int64_t k = 0; k < a->ne[0]; k++) {
                        sum += (double) x[k] * y[k];
                    }
                    *(float *) (void *) (po + (size_t) col * out->nb[0] + (size_t) row * out->nb[1] + (size_t) i2 * out->nb[2] + (size_t) i3 * out->nb[3]) = (float) sum;
                }
            }
        }
    }
    stats.mul_mats++;
}

static void sum(const struct ggml_tensor * out) {
    const struct ggml_tensor *a = out->src[0], *b = out->src[1];
    const float *pa = (const float *) (const void *) real(a), *pb = (const float *) (const void *) real(b);
    float *      po = (float *) (void *) real(out);
    const int64_t n = ggml_nelements(out), m = ggml_nelements(b);
    for (int64_t i = 0; i < n; i++) {
        po[i] = pa[i] + pb[i % m]; /* supports_op lets only whole rows repeat */
    }
    stats.adds++;
}

static enum ggml_status backend_compute(ggml_backend_t backend, struct ggml_cgraph * graph) {
    (void) backend;
    stats.graphs++;
    for (int i = 0; i < ggml_graph_n_nodes(graph); i++) {
        const struct ggml_tensor * t = ggml_graph_node(graph, i);
        switch (t->op) {
            case GGML_OP_MUL_MAT: multiply(t); break;
            case GGML_OP_ADD: sum(t); break;
            case GGML_OP_NONE: case GGML_OP_RESHAPE: case GGML_OP_VIEW: case GGML_OP_PERMUTE: case GGML_OP_TRANSPOSE: break;
            default: return GGML_STATUS_FAILED;
        }
    }
    return GGML_STATUS_SUCCESS;
}

static const struct ggml_backend_i backend_interface = { .get_name = backend_name, .free = backend_free, .graph_compute = backend_compute };

/* ---- the device ---- */

static const char * device_name(ggml_backend_dev_t device) {
    (void) device;
    return "Accel0";
}

static const char * device_description(ggml_backend_dev_t device) {
    (void) device;
    return "an accelerator for tests";
}

static void device_memory(ggml_backend_dev_t device, size_t * free_bytes, size_t * total) {
    (void) device;
    *free_bytes = MEMORY / 2;
    *total      = MEMORY;
}

static enum ggml_backend_dev_type device_type(ggml_backend_dev_t device) {
    (void) device;
    return GGML_BACKEND_DEVICE_TYPE_GPU;
}

static void device_props(ggml_backend_dev_t device, struct ggml_backend_dev_props * props) {
    props->name        = device_name(device);
    props->description = device_description(device);
    props->type        = device_type(device);
    props->device_id   = "0000:00:00.0";
    device_memory(device, &props->memory_free, &props->memory_total);
    props->caps = (struct ggml_backend_dev_caps) { .async = false, .host_buffer = false, .buffer_from_host_ptr = false, .events = false, .mmap_support = false };
}

static ggml_backend_t device_init(ggml_backend_dev_t device, const char * params) {
    static ggml_guid guid = { 'a', 'c', 'c', 'e', 'l', 'e', 'r', 'a', 't', 'o', 'r', ' ', 't', 'e', 's', 't' };
    if (params != NULL && strcmp(params, "refuse") == 0) {
        return NULL;
    }
    struct ggml_backend * b = calloc(1, sizeof *b);
    if (b != NULL) {
        *b = (struct ggml_backend) { .guid = &guid, .iface = backend_interface, .device = device, .context = NULL };
        stats.live_backends++;
    }
    return b;
}

static ggml_backend_buffer_type_t device_buffer_type(ggml_backend_dev_t device) {
    (void) device;
    return the_type();
}

static bool device_supports(ggml_backend_dev_t device, const struct ggml_tensor * op) {
    (void) device;
    const struct ggml_tensor *a = op->src[0], *b = op->src[1];
    switch (op->op) {
        case GGML_OP_NONE: case GGML_OP_RESHAPE: case GGML_OP_VIEW: case GGML_OP_PERMUTE: case GGML_OP_TRANSPOSE:
            return true;
        case GGML_OP_MUL_MAT:
            return a->type == GGML_TYPE_F32 && b->type == GGML_TYPE_F32 && a->nb[0] == sizeof(float) && b->nb[0] == sizeof(float);
        case GGML_OP_ADD:
            return a->type == GGML_TYPE_F32 && b->type == GGML_TYPE_F32 && op->type == GGML_TYPE_F32 && ggml_is_contiguous(a) && ggml_is_contiguous(b) &&
                (ggml_are_same_shape(a, b) || (a->ne[0] == b->ne[0] && ggml_is_vector(b)));
        default:
            return false;
    }
}

static bool device_supports_type(ggml_backend_dev_t device, ggml_backend_buffer_type_t type) {
    (void) device;
    return type->iface.get_name == type_name;
}

static bool device_offload(ggml_backend_dev_t device, const struct ggml_tensor * op) {
    (void) device;
    return op->op == GGML_OP_MUL_MAT && op->ne[1] >= 4;
}

/* ---- the registry's entry ---- */

static const char * reg_name(ggml_backend_reg_t reg) {
    (void) reg;
    return "Accel";
}

static size_t reg_count(ggml_backend_reg_t reg) {
    (void) reg;
    return 1;
}

static ggml_backend_dev_t reg_device(ggml_backend_reg_t reg, size_t index) {
    (void) reg;
    return index == 0 ? the_device() : NULL;
}

static void * reg_address(ggml_backend_reg_t reg, const char * name) {
    (void) reg;
    return strcmp(name, "accel_stats") == 0 ? (void *) &stats : NULL;
}

static struct ggml_backend_reg the_reg = {
    .api_version = ACCEL_API_VERSION, .iface = { .get_name = reg_name, .get_device_count = reg_count, .get_device = reg_device, .get_proc_address = reg_address }, .context = NULL,
};

static struct ggml_backend_device * the_device(void) {
    static struct ggml_backend_device device = {
        .iface = {
            .get_name = device_name, .get_description = device_description, .get_memory = device_memory, .get_type = device_type, .get_props = device_props, .init_backend = device_init,
            .get_buffer_type = device_buffer_type, .supports_op = device_supports, .supports_buft = device_supports_type, .offload_op = device_offload,
        },
        .reg = &the_reg, .context = NULL,
    };
    return &device;
}

#ifndef ACCEL_STATIC
#ifndef ACCEL_NO_INIT
#ifdef GGML_RS_MODULE_NOTE /* the headers of libggml-rs: what it was built for */
GGML_RS_MODULE_NOTE
#endif
__attribute__((visibility("default"))) ggml_backend_reg_t ggml_backend_init(void);
ggml_backend_reg_t ggml_backend_init(void) {
#ifdef ACCEL_NO_REG
    (void) the_reg;
    return NULL;
#else
    return &the_reg;
#endif
}
#else
__attribute__((visibility("default"))) void * accel_unused(void);
void * accel_unused(void) {
    return &the_reg;
}
#endif

#ifdef ACCEL_SCORE
__attribute__((visibility("default"))) int ggml_backend_score(void);
int ggml_backend_score(void) {
    return ACCEL_SCORE;
}
#endif
#endif

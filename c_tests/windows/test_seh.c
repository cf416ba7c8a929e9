/* Exceptions that leave callbacks, as Visual C++ raises them: here by hand, with an object and its description. The
 * host catches them where it has called the library. In the end all objects are destroyed, and the library works as
 * before. */
#include "../common/check.h"

#include "ggml-alloc.h"
#include "ggml-backend.h"
#include "ggml-cpu.h"
#include "gguf.h"

#include <windows.h>

enum { OF_VISUAL_CPP = 0xe06d7363 };

/* What is thrown: it knows where it is, so it cannot be moved. */
struct object {
    int             number;
    struct object * self;
};
static int alive, caught;

static void * copies(struct object * to, const struct object * from) {
    CHECK(from->self == from);
    *to = (struct object) { from->number, to };
    alive++;
    return to;
}

static void destroys(struct object * o) {
    CHECK(o->self == o);
    o->self = NULL;
    alive--;
}

/* The description of the class; functions and other parts are offsets in this file. */
static struct {
    uint32_t attributes, destructor, compatible, types;
} about;
static struct {
    uint32_t number, first;
} types = { 1, 0 };
static struct {
    uint32_t properties, name;
    int32_t  place[3];
    uint32_t size, copy;
} kind = { 0, 0, { 0, -1, 0 }, sizeof(struct object), 0 };

static char * file(void) {
    return (char *) GetModuleHandleA(NULL);
}

static uint32_t offset(void * of) {
    return (uint32_t) ((char *) of - file());
}

static void describe(void) {
    about.destructor = offset((void *) (size_t) destroys);
    about.types      = offset(&types);
    types.first      = offset(&kind);
    kind.copy        = offset((void *) (size_t) copies);
}

/* Calls `work`; 1 if such an exception has left it. */
int guarded(void (*work)(void));
extern char guarded_left[];

EXCEPTION_DISPOSITION catches(EXCEPTION_RECORD * record, void * frame, CONTEXT * context, DISPATCHER_CONTEXT * dispatcher) {
    if (record->ExceptionCode == OF_VISUAL_CPP && (record->ExceptionFlags & 6) == 0) {
        struct object * o = (struct object *) record->ExceptionInformation[1];
        caught            = o->number;
        destroys(o);
        RtlUnwindEx(frame, guarded_left, record, (void *) 1, context, dispatcher->HistoryTable);
    }
    return ExceptionContinueSearch;
}

__asm__(".globl guarded, guarded_left\n"
        ".def guarded; .scl 2; .type 32; .endef\n"
        ".seh_proc guarded\n"
        "guarded:\n"
        ".seh_handler catches, @except\n"
        "subq $40, %rsp\n"
        ".seh_stackalloc 40\n"
        ".seh_endprologue\n"
        "call *%rcx\n"
        "xorl %eax, %eax\n"
        "guarded_left:\n"
        "addq $40, %rsp\n"
        "ret\n"
        ".seh_endproc\n");

static bool raises;

static void maybe_raise(void) {
    static int number;
    if (raises) {
        struct object o = { ++number, &o };
        alive++;
        RaiseException(OF_VISUAL_CPP, 1, 4, (ULONG_PTR[]) { 0x19930520, (ULONG_PTR) &o, (ULONG_PTR) &about, (ULONG_PTR) file() });
    }
}

static ggml_backend_t       cpu;
static struct ggml_cgraph * graph;
static ggml_backend_sched_t sched;
static enum ggml_status     status;

static void custom(struct ggml_tensor * dst, const struct ggml_tensor * a, int ith, int nth, void * user) {
    (void) nth; (void) user;
    if (ith == 0) {
        maybe_raise();
        memcpy(dst->data, a->data, ggml_nbytes(a));
    }
}

static bool aborts(void * user) {
    (void) user;
    maybe_raise();
    return false;
}

static bool watches(struct ggml_tensor * t, bool ask, void * user) {
    (void) t; (void) ask; (void) user;
    maybe_raise();
    return true;
}

static void logs(enum ggml_log_level level, const char * text, void * user) {
    (void) level; (void) text; (void) user;
    maybe_raise();
}

static size_t reads(void * user, void * out, uint64_t offset, size_t n) {
    (void) user; (void) out; (void) offset; (void) n;
    maybe_raise();
    return 0;
}

static void compute(void) { status = ggml_backend_graph_compute(cpu, graph); }
static void schedule(void) { status = ggml_backend_sched_graph_compute(sched, graph); }
static void read_none(void) { gguf_init_from_callback(reads, NULL, 0, 100, (struct gguf_init_params) { true, NULL }); }
static void complain(void) { gguf_init_from_file("none", (struct gguf_init_params) { true, NULL }); }

/* Raises in `work`, which then works as before. */
static void leaves(void (*work)(void)) {
    for (int i = 0; i < 3; i++) {
        raises = true;
        caught = 0;
        CHECK_EQ(guarded(work), 1);
        CHECK(caught > 0 && alive == 0);
        raises = false;
        status = GGML_STATUS_SUCCESS;
        CHECK_EQ(guarded(work), 0);
        CHECK_EQ(status, GGML_STATUS_SUCCESS);
    }
}

static void from_a_custom_operation(void) { leaves(compute); }

static void from_an_abort_callback(void) {
    ggml_backend_cpu_set_abort_callback(cpu, aborts, NULL);
    leaves(compute);
    ggml_backend_cpu_set_abort_callback(cpu, NULL, NULL);
}

static void from_an_eval_callback(void) {
    ggml_backend_sched_set_eval_callback(sched, watches, NULL);
    leaves(schedule);
    ggml_backend_sched_set_eval_callback(sched, NULL, NULL);
}

static void from_a_reader(void) { leaves(read_none); }

static void from_a_log_callback(void) {
    ggml_log_set(logs, NULL);
    leaves(complain);
    ggml_log_set(NULL, NULL);
}

int main(void) {
    describe();
    cpu = ggml_backend_cpu_init();
    ggml_backend_cpu_set_n_threads(cpu, 1);
    struct ggml_context * c = ggml_init((struct ggml_init_params) { 1u << 20, NULL, true });
    struct ggml_tensor *  x = ggml_new_tensor_1d(c, GGML_TYPE_F32, 64);
    struct ggml_tensor *  y = ggml_map_custom1(c, ggml_sqr(c, x), custom, 1, NULL);
    graph                   = ggml_new_graph(c);
    ggml_build_forward_expand(graph, ggml_add(c, y, y));
    sched = ggml_backend_sched_new(&cpu, NULL, 1, 64, false, false);
    CHECK(ggml_backend_sched_alloc_graph(sched, graph));
    RUN(from_a_custom_operation);
    RUN(from_an_abort_callback);
    RUN(from_an_eval_callback);
    RUN(from_a_reader);
    RUN(from_a_log_callback);
    ggml_backend_sched_free(sched);
    ggml_backend_free(cpu);
    ggml_free(c);
    return test_summary();
}

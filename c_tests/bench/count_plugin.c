/* A plugin of qemu (7.2 and later) that counts the instructions of a program, and says "instructions N" at its end.
 *
 *   cc -O1 -shared -fPIC count_plugin.c -o count_plugin.so
 *   qemu-aarch64 -plugin count_plugin.so PROGRAM
 *
 * The few functions of qemu's interface that it needs are declared here. */
#include <inttypes.h>
#include <stddef.h>
#include <stdio.h>

#define EXPORT __attribute__((visibility("default")))

struct qemu_plugin_tb;
enum qemu_plugin_op { QEMU_PLUGIN_INLINE_ADD_U64 };
void   qemu_plugin_register_vcpu_tb_trans_cb(uint64_t id, void (*translated)(uint64_t id, struct qemu_plugin_tb *));
size_t qemu_plugin_tb_n_insns(const struct qemu_plugin_tb *);
void   qemu_plugin_register_vcpu_tb_exec_inline(struct qemu_plugin_tb *, enum qemu_plugin_op, void * counter, uint64_t more);
void   qemu_plugin_register_atexit_cb(uint64_t id, void (*ends)(uint64_t id, void *), void *);

EXPORT int qemu_plugin_version = 1;
EXPORT int qemu_plugin_install(uint64_t id, const void * info, int argc, char ** argv);

static uint64_t count;

static void translated(uint64_t id, struct qemu_plugin_tb * block) {
    (void) id;
    qemu_plugin_register_vcpu_tb_exec_inline(block, QEMU_PLUGIN_INLINE_ADD_U64, &count, qemu_plugin_tb_n_insns(block));
}

static void ends(uint64_t id, void * data) {
    (void) id;
    (void) data;
    fprintf(stderr, "instructions %" PRIu64 "\n", count);
}

EXPORT int qemu_plugin_install(uint64_t id, const void * info, int argc, char ** argv) {
    (void) info;
    (void) argc;
    (void) argv;
    qemu_plugin_register_vcpu_tb_trans_cb(id, translated);
    qemu_plugin_register_atexit_cb(id, ends, NULL);
    return 0;
}

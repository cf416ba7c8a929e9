/* A broken contract as an error instead of the end of the process. Also runs with the original, which does not have the
 * functions of ggml-rs.h. */
#define _GNU_SOURCE
#include "ggml-rs.h"
#include "ggml.h"

#include <dlfcn.h>
#include <stdio.h>
#include <string.h>

int main(void) {
    // ANCHOR: errors
    // Looked up by name, so that this host also starts with the original.
    enum ggml_rs_policy (*set_policy)(enum ggml_rs_policy);
    const char * (*last_error)(void);
    void * address = dlsym(RTLD_DEFAULT, "ggml_rs_set_policy"); // NULL with the original
    // ISO C has no cast from an object pointer to a function pointer.
    memcpy(&set_policy, &address, sizeof address);
    address = dlsym(RTLD_DEFAULT, "ggml_rs_last_error");
    memcpy(&last_error, &address, sizeof address);
    if (set_policy == NULL || last_error == NULL) {
        return 0;
    }
    set_policy(GGML_RS_POLICY_ERROR);

    struct ggml_context * ctx = ggml_init((struct ggml_init_params) { .mem_size = 1 << 16, .mem_buffer = NULL, .no_alloc = true });
    struct ggml_tensor *  a   = ggml_new_tensor_2d(ctx, GGML_TYPE_F32, 3, 2);
    struct ggml_tensor *  b   = ggml_new_tensor_2d(ctx, GGML_TYPE_F32, 4, 2);
    struct ggml_tensor *  c   = ggml_mul_mat(ctx, a, b); // rows of 3 and of 4: the original ends the process here
    if (c == NULL) {
        printf("error: %s\n", last_error());
    }
    // ANCHOR_END: errors
    ggml_free(ctx);
    return c != NULL;
}

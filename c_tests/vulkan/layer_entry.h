/* How the loader finds the functions of a layer. Included at the layer's end, after `mine`, the table of its functions,
 * and `device_of`. */

static function_t own(const char * name, int of_device) {
    for (size_t i = 0; i < sizeof mine / sizeof mine[0]; i++) {
        if (strcmp(mine[i].name, name) == 0 && mine[i].of_device >= of_device) { return mine[i].function; }
    }
    return NULL;
}

static function_t get_instance(handle_t instance, const char * name) {
    const function_t f = own(name, 0);
    return f != NULL || instance == NULL ? f : next_instance(instance, name);
}

static function_t get_device(handle_t handle, const char * name) {
    const function_t f = own(name, 1);
    return f != NULL ? f : device_of(handle)->get(handle, name);
}

__attribute__((visibility("default"))) result_t vkNegotiateLoaderLayerInterfaceVersion(struct negotiation * n);
result_t vkNegotiateLoaderLayerInterfaceVersion(struct negotiation * n) {
    if (n->version < 2) { return INITIALIZATION_FAILED; }
    n->version = 2;
    n->get_instance = get_instance;
    n->get_device = get_device;
    n->get_physical = NULL;
    return SUCCESS;
}

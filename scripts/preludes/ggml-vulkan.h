// ggml-vulkan.h: the Vulkan backend.

/// Name of the backend.
#define GGML_VK_NAME "Vulkan"

/// Devices the backend uses at most.
#define GGML_VK_MAX_DEVICES 16

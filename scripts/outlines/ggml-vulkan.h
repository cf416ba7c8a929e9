// ggml-vulkan.h: the Vulkan backend.

#pragma once

#include "ggml.h"
#include "ggml-backend.h"

/// Name of the backend.
#define GGML_VK_NAME "Vulkan"

/// Maximum number of devices.
#define GGML_VK_MAX_DEVICES 16

@{

//
// Backend
//

@ ggml_backend_vk_init ggml_backend_is_vk ggml_backend_vk_get_device_count ggml_backend_vk_get_device_description
@ ggml_backend_vk_get_device_memory ggml_backend_vk_buffer_type ggml_backend_vk_host_buffer_type ggml_backend_vk_reg

@}

//! ggml-vulkan.h: the Vulkan backend. The header holds functions only.

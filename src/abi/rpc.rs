//! `ggml-rpc.h`: it has no types of its own, and its constants are in the outline of the header.

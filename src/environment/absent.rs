//! Variables of the original that this library does not have, and why.
#![forbid(unsafe_code)]

/// Variables that the original reads and this library does not.
pub struct Absent {
    /// Their names.
    pub names: &'static [&'static str],
    /// Why they have no effect.
    pub why: &'static str,
}

/// Those of the parts that this library replaces. `c_tests/abi/environment.txt` lists all of the original's.
pub static ABSENT: &[Absent] = &[
    Absent { names: &["GGML_BACKTRACE_LLDB"], why: "backtraces need no debugger here" },
    Absent { names: &["GGML_META_DEBUG"], why: "the placement report shows how the parts of a meta device are split" },
    Absent { names: &["GGML_CPU_DISABLE_FUSION"], why: "the CPU backend computes each node by itself" },
    Absent {
        names: &["GGML_CPU_TILED_MM", "GGML_CPU_TILED_MM_FORCE"],
        why: "all products are tiled where it pays; GGML_RS_CPU_LEVEL selects the kernels",
    },
    Absent { names: &["KMP_BLOCKTIME"], why: "the CPU backend has its own threads, not those of OpenMP" },
    Absent {
        names: &["GGML_KLEIDIAI_SME", "GGML_KLEIDIAI_CHUNK_MULTIPLIER", "GGML_TOTAL_THREADS"],
        why: "KleidiAI's kernels are for ARM processors",
    },
    Absent {
        names: &[
            "SPACEMIT_CORE_ARCH",
            "SPACEMIT_DISABLE_TCM",
            "SPACEMIT_MEM_BACKEND",
            "SPACEMIT_PERFER_CORE_ARCH",
            "SPACEMIT_PERFER_CORE_ID",
        ],
        why: "kernels for a RISC-V processor",
    },
    Absent { names: &["GGML_RPC_DEBUG"], why: "messages go through the log callback, with their level" },
    Absent { names: &["GGML_RPC_NO_COMM"], why: "RPC servers do not add results of tensor parallelism by themselves" },
    Absent { names: &["GGML_RDMA_DEV", "GGML_RDMA_GID", "GGML_RPC_NO_RDMA"], why: "connections use TCP, not RDMA" },
    Absent {
        names: &[
            "GGML_VK_DISABLE_BFLOAT16",
            "GGML_VK_DISABLE_COOPMAT2_DECODE_VECTOR",
            "GGML_VK_DISABLE_DOT2",
            "GGML_VK_DISABLE_MULTI_ADD",
            "GGML_VK_DISABLE_OCP_FP4",
        ],
        why: "the shaders do not use this feature of drivers",
    },
    Absent { names: &["GGML_VK_ENABLE_MEMORY_PRIORITY"], why: "memory has no priorities" },
    Absent { names: &["GGML_VK_SERIALIZE_SUBMISSIONS"], why: "a stream submits its graphs to one queue, in order" },
    Absent { names: &["GGML_VK_DISABLE_DESCRIPTOR_REUSE"], why: "shaders get addresses of memory, and no descriptors" },
    Absent {
        names: &["GGML_VK_DISABLE_MMVQ", "GGML_VK_FORCE_MMVQ"],
        why: "GGML_RS_DEBUG=vk-product=NAME selects how products are computed",
    },
    Absent {
        names: &["GGML_VK_FA_SPARSE_DISABLE"],
        why: "attention reads only those tiles of keys that a mask leaves",
    },
    Absent { names: &["GGML_VK_DEBUG_MARKERS"], why: "GGML_TRACE shows the nodes on the device" },
    Absent {
        names: &["GGML_VK_PERF_LOGGER_CONCURRENT", "GGML_VK_SYNC_LOGGER"],
        why: "the timeline of GGML_TRACE and the table of GGML_VK_PERF_LOGGER show steps one by one",
    },
    Absent { names: &["GGML_VK_MEMORY_LOGGER"], why: "the placement report shows the memory" },
    Absent { names: &["GGML_VK_PIPELINE_STATS"], why: "docs/DRIVERS.md has the statistics of all pipelines" },
    Absent {
        names: &["GGML_VULKAN_OUTPUT_TENSOR", "GGML_VULKAN_SKIP_CHECKS"],
        why: "test-backend-ops and the suite `vulkan` compare results with the CPU",
    },
];

/// Variables of earlier versions of this library, and what replaces them.
pub static FORMER: &[Absent] = &[
    Absent { names: &["GGML_RS_PLANNER"], why: "GGML_RS_DEBUG=planner=online replaces it" },
    Absent { names: &["GGML_RS_CPU_ALL_THREADS"], why: "GGML_RS_DEBUG=threads=all replaces it" },
    Absent { names: &["GGML_VK_DISABLE_KEPT_GRAPHS"], why: "GGML_RS_DEBUG=vk-graphs=record replaces it" },
    Absent { names: &["GGML_VK_PRODUCT"], why: "GGML_RS_DEBUG=vk-product=NAME replaces it" },
    Absent { names: &["GGML_VK_ATTENTION"], why: "GGML_RS_DEBUG=vk-attention=NAME replaces it" },
    Absent { names: &["GGML_VK_VALIDATE"], why: "GGML_RS_DEBUG=vk-validation=log replaces it" },
    Absent { names: &["GGML_VK_TUNE"], why: "GGML_RS_DEBUG=vk-device=NAME replaces it" },
    Absent {
        names: &["GGML_VK_TRY_COOPMAT", "GGML_RS_VK_TUNE"],
        why: "experiments that this version does not have (docs/PERFORMANCE.md)",
    },
    Absent {
        names: &[
            "GGML_RPC_SERVER_MEMORY",
            "GGML_RPC_SERVER_CLIENT_MEMORY",
            "GGML_RPC_SERVER_CLIENT_WORK",
            "GGML_RPC_SERVER_CLIENTS",
            "GGML_RPC_SERVER_PER_ADDRESS",
            "GGML_RPC_SERVER_IDLE",
            "GGML_RPC_SERVER_GRAPH_TIME",
            "GGML_RPC_CACHE_LIMIT",
        ],
        why: "an option of ggml-rpc-server and ggml_rs_set_rpc_server_limit replace it",
    },
];

/// Beginnings of the names that the original's other backends read, and those backends. Their modules can be loaded, so
/// these are not unknown.
pub static FOREIGN: &[(&str, &str)] = &[
    ("GGML_CANN_", "CANN"),
    ("GGML_CUDA_", "CUDA, HIP and MUSA"),
    ("GGML_ET_", "ET"),
    ("GGML_HEXAGON_", "Hexagon"),
    ("GGML_METAL_", "Metal"),
    ("GGML_OPENCL_", "OpenCL"),
    ("GGML_OPENVINO_", "OpenVINO"),
    ("GGML_REMOTING_", "virtgpu"),
    ("GGML_SYCL_", "SYCL"),
    ("GGML_VIRTGPU_", "virtgpu"),
    ("GGML_WEBGPU_", "WebGPU"),
    ("GGML_ZDNN_", "zDNN"),
    ("GGML_ZENDNN_", "ZenDNN"),
];

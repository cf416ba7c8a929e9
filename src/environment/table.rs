//! The table of variables. A new variable is a new row; `make status` then writes docs/ENVIRONMENT.md.
#![forbid(unsafe_code)]

use super::Group::*;
use super::Original::{self, Differs, Same};
use super::Trust::*;
use super::{Group, Trust, Variable};

/// Defines a constant for each row, and the list of all of them.
macro_rules! variables {
    ($($constant:ident = $name:literal, $group:expr, since $since:literal, original $original:expr, $trust:expr, values $values:literal, default $default:literal,
       $what:literal;)*) => {
        $(
            #[doc = concat!("`", $name, "`: ", $what)]
            pub static $constant: Variable = {
                const G: Group = $group;
                const O: Original = $original;
                const T: Trust = $trust;
                Variable {
                    name: $name,
                    group: G,
                    values: $values,
                    default: $default,
                    since: $since,
                    original: O,
                    trust: T,
                    what: $what,
                }
            };
        )*
        /// All variables that the library reads, by sections.
        pub static ALL: &[&Variable] = &[$(&$constant),*];
    };
}

const NO: Original = Original::None;

variables! {
    TRACE = "GGML_TRACE", General, since "0.26.0", original NO, SameRights, values "a path; `%p` becomes the process id", default "no timeline",
        "Writes a timeline of splits, copies and nodes, for ui.perfetto.dev.";
    NO_BACKTRACE = "GGML_NO_BACKTRACE", General, since "0.26.0", original Same, Anyone, values "set or not", default "not set",
        "A process that ends because of a broken contract prints no backtrace.";
    DEBUG = "GGML_RS_DEBUG", General, since "0.28.0", original NO, Anyone, values "`key=value,...`, see [below](#ggml_rs_debug)", default "none",
        "Settings for tests, and to find the cause of a fault.";
    HOST = "GGML_RS_HOST", General, since "0.28.0", original NO, Anyone, values "a version, such as `0.18.0`", default "the version of the library",
        "The version of ggml that the program was compiled for: functions that got a parameter since then do not read it ([VERSIONS.md](VERSIONS.md#what-a-host-may-call)).";

    SCHED_REPORT = "GGML_SCHED_REPORT", Scheduler, since "0.26.0", original NO, SameRights, values "a path that ends with .html or .json", default "no report",
        "Writes the placement report of the largest graph of the process.";
    SCHED_DEBUG = "GGML_SCHED_DEBUG", Scheduler, since "0.26.0", original Same, Anyone, values "0, 1, 2", default "0",
        "Logs the splits of each graph (1), and every node with its backend and the cause (2), at debug level.";
    SCHED_DEBUG_REALLOC = "GGML_SCHED_DEBUG_REALLOC", Scheduler, since "0.26.0", original Same, Anyone, values "0, 1, 2", default "0",
        "Ends the process when a graph that should fit needs a new plan of its memory (1), or when any graph does (2).";
    EXPERT_CACHE = "GGML_RS_EXPERT_CACHE", Scheduler, since "0.28.0", original NO, Anyone, values "`spare`, `auto`, a number of MiB, a share of all experts such as `10%`, or 0; perhaps with `,strict`", default "`spare`",
        "How much memory of its device a scheduler takes to keep experts whose weights are in host memory ([scheduler.md](scheduler.md#experts-in-a-cache)). `spare`: half of what a card has free beyond 1 GiB or a tenth; `auto`: all but a small margin. `strict`: the device computes all rows.";
    OFFLOAD = "GGML_RS_OFFLOAD", Scheduler, since "0.28.0", original NO, Anyone, values "`batch`, `cost`", default "`batch`",
        "Which products with weights in host memory a device takes: those of large batches (`batch`), or those for which a copy of the weights costs less than it saves (`cost`, [scheduler.md](scheduler.md#offload-by-cost)). `GGML_OP_OFFLOAD_MIN_BATCH` means `batch`.";
    SCHED_SANITIZE = "GGML_SCHED_SANITIZE", Scheduler, since "0.26.0", original NO, Anyone, values "0, 1", default "0 (1 in debug builds)",
        "Looks for races between the queues of a scheduler: reads and writes of the same memory that nothing orders.";

    BACKEND_PATH = "GGML_BACKEND_PATH", Modules, since "0.26.0", original Differs("also read by programs that never call ggml_backend_load_all"), SameRights,
        values "a path", default "none", "Loads this backend module.";
    ANY_MODULE = "GGML_RS_ANY_MODULE", Modules, since "0.28.0", original NO, SameRights, values "0, 1", default "0",
        "Loads modules without a check of the interface that they were built for.";

    CPU_LEVEL = "GGML_RS_CPU_LEVEL", Cpu, since "0.26.0", original NO, Anyone, values "`scalar`; `avx2`, `avx_vnni`, `avx512`, `avx512_vnni`, `avx512_bf16`, `amx`; `neon`, `neon_dot`, `neon_i8mm`", default "the best that the processor has",
        "Selects the vector kernels. A level that the processor lacks means the next lower one.";
    CPU_COPIES = "GGML_RS_CPU_COPIES", Cpu, since "0.28.0", original NO, Anyone, values "bytes", default "what is free, less a reserve",
        "How much memory interleaved weights may take that were set from a mapped file. Others are read from the file for each computation.";

    DISABLE_VULKAN = "GGML_DISABLE_VULKAN", Vulkan, since "0.26.0", original Same, Anyone, values "set or not", default "not set",
        "The Vulkan backend has no devices, and no Vulkan library is opened.";
    VK_VISIBLE_DEVICES = "GGML_VK_VISIBLE_DEVICES", Vulkan, since "0.26.0", original Same, Anyone, values "numbers, separated by commas", default "all graphics cards",
        "Selects devices by number, in this order, software drivers too.";
    VK_PIPELINE_CACHE_DIR = "GGML_VK_PIPELINE_CACHE_DIR", Vulkan, since "0.26.0", original NO, SameRights, values "a folder; empty: no cache",
        default "ggml-vulkan in the user's cache folder", "Where compiled pipelines are kept between processes.";
    VK_PREFER_HOST_MEMORY = "GGML_VK_PREFER_HOST_MEMORY", Vulkan, since "0.26.0", original Same, Anyone, values "set or not", default "not set",
        "Puts tensors into host memory if the device can use it.";
    VK_DISABLE_HOST_VISIBLE_VIDMEM = "GGML_VK_DISABLE_HOST_VISIBLE_VIDMEM", Vulkan, since "0.26.0", original Same, Anyone, values "set or not", default "not set",
        "Does not use device memory that the host can write directly.";
    VK_ALLOW_SYSMEM_FALLBACK = "GGML_VK_ALLOW_SYSMEM_FALLBACK", Vulkan, since "0.26.0", original Same, Anyone, values "set or not", default "not set",
        "Uses host memory when device memory is exhausted.";
    VK_FORCE_MAX_ALLOCATION_SIZE = "GGML_VK_FORCE_MAX_ALLOCATION_SIZE", Vulkan, since "0.26.0", original Same, Anyone, values "bytes", default "the driver's limit",
        "The largest allocation of device memory.";
    VK_FORCE_MAX_BUFFER_SIZE = "GGML_VK_FORCE_MAX_BUFFER_SIZE", Vulkan, since "0.26.0", original Same, Anyone, values "bytes", default "the driver's limit",
        "The largest buffer.";
    VK_SUBALLOCATION_BLOCK_SIZE = "GGML_VK_SUBALLOCATION_BLOCK_SIZE", Vulkan, since "0.26.0", original Same, Anyone, values "bytes", default "1 GiB",
        "The size of the buffers into which hosts divide large models.";
    VK_MAX_NODES_PER_SUBMIT = "GGML_VK_MAX_NODES_PER_SUBMIT", Vulkan, since "0.26.0", original Same, Anyone, values "a number from 1", default "chosen by the amount of work",
        "The most nodes in one submission to the driver.";
    OP_OFFLOAD_MIN_BATCH = "GGML_OP_OFFLOAD_MIN_BATCH", Vulkan, since "0.26.0", original Same, Anyone, values "a number of rows", default "32",
        "From how many rows a product is computed on the device although its weights are in host memory.";
    VK_DISABLE_FUSION = "GGML_VK_DISABLE_FUSION", Vulkan, since "0.26.0", original Same, Anyone, values "set or not", default "not set",
        "Computes each node by itself.";
    VK_DISABLE_GRAPH_OPTIMIZE = "GGML_VK_DISABLE_GRAPH_OPTIMIZE", Vulkan, since "0.28.0", original Same, Anyone, values "set or not", default "not set",
        "Leaves the nodes of a graph in the host's order, instead of moving products of the same columns together.";
    VK_DISABLE_ASYNC = "GGML_VK_DISABLE_ASYNC", Vulkan, since "0.26.0", original Same, Anyone, values "set or not", default "not set",
        "Copies wait until they are finished.";
    VK_ASYNC_USE_TRANSFER_QUEUE = "GGML_VK_ASYNC_USE_TRANSFER_QUEUE", Vulkan, since "0.28.0", original Same, Anyone, values "set or not", default "not set",
        "Host memory is copied to a card by a queue that only copies, if it has one, while another queue computes.";
    VK_DISABLE_F16 = "GGML_VK_DISABLE_F16", Vulkan, since "0.26.0", original Same, Anyone, values "set or not", default "not set",
        "No arithmetic in half precision, and no matrix units.";
    VK_DISABLE_COOPMAT = "GGML_VK_DISABLE_COOPMAT", Vulkan, since "0.26.0", original Same, Anyone, values "set or not", default "not set",
        "No matrix units.";
    VK_DISABLE_COOPMAT2 = "GGML_VK_DISABLE_COOPMAT2", Vulkan, since "0.26.0", original Same, Anyone, values "set or not", default "not set",
        "No matrix units of a whole workgroup (VK_NV_cooperative_matrix2).";
    VK_DISABLE_INTEGER_DOT_PRODUCT = "GGML_VK_DISABLE_INTEGER_DOT_PRODUCT", Vulkan, since "0.26.0", original Same, Anyone, values "set or not", default "not set",
        "No products of integers.";
    VK_ALLOW_GRAPHICS_QUEUE = "GGML_VK_ALLOW_GRAPHICS_QUEUE", Vulkan, since "0.26.0", original Same, Anyone, values "set or not", default "not set",
        "Uses the first queue that computes, although it also draws, instead of one that only computes.";
    VK_PERF_LOGGER = "GGML_VK_PERF_LOGGER", Vulkan, since "0.26.0", original Same, Anyone, values "set or not", default "not set",
        "Logs a table of times on the device for each operation.";
    VK_PERF_LOGGER_FREQUENCY = "GGML_VK_PERF_LOGGER_FREQUENCY", Vulkan, since "0.26.0", original Same, Anyone, values "a number of graphs", default "1",
        "After how many graphs that table is logged.";

    RPC_SERVERS = "GGML_RS_RPC_SERVERS", Rpc, since "0.28.0", original NO, SameRights, values "`host:port,...`", default "none",
        "Connects to these servers, for programs that have no option for them.";
    RPC_TIMEOUT = "GGML_RPC_TIMEOUT", Rpc, since "0.28.0", original NO, Anyone, values "seconds", default "300",
        "How long a client waits for a reply.";
    RPC_KEY_FILE = "GGML_RPC_KEY_FILE", Rpc, since "0.28.0", original NO, SameRights, values "a path", default "no key",
        "The key that client and server must both have.";

    XDG_CACHE_HOME = "XDG_CACHE_HOME", System, since "0.26.0", original NO, SameRights, values "a folder", default "`$HOME/.cache`",
        "The user's cache folder, for pipelines of Vulkan.";
    HOME = "HOME", System, since "0.26.0", original NO, SameRights, values "a folder", default "none",
        "Where the cache folder is if XDG_CACHE_HOME does not say.";
    LOCALAPPDATA = "LOCALAPPDATA", System, since "0.26.0", original NO, SameRights, values "a folder", default "none",
        "The user's cache folder on Windows.";
    PATH = "PATH", System, since "0.28.0", original NO, SameRights, values "folders", default "none",
        "On Windows: where libraries are that a backend module needs, if they are neither beside it nor beside the program.";
    VK_DRIVER_FILES = "VK_DRIVER_FILES", System, since "0.26.0", original NO, Anyone, values "see Vulkan's loader", default "none",
        "If it is set, Vulkan is opened although there is no device node of a card.";
    VK_ADD_DRIVER_FILES = "VK_ADD_DRIVER_FILES", System, since "0.26.0", original NO, Anyone, values "see Vulkan's loader", default "none",
        "As VK_DRIVER_FILES.";
    VK_ICD_FILENAMES = "VK_ICD_FILENAMES", System, since "0.26.0", original NO, Anyone, values "see Vulkan's loader", default "none",
        "As VK_DRIVER_FILES.";

    TEST_VULKAN = "GGML_TEST_VULKAN", Tests, since "0.26.0", original NO, Anyone, values "set or not", default "not set",
        "Tests fail, instead of being skipped, if there is no Vulkan driver.";
    ORACLE_BASE = "GGML_ORACLE_BASE", Tests, since "0.26.0", original NO, SameRights, values "a path", default "none",
        "The original's libggml-base with which conversions of number formats are compared.";
    ORACLE_SEED = "GGML_ORACLE_SEED", Tests, since "0.26.0", original NO, Anyone, values "a number", default "7",
        "The seed of the random rows of that comparison.";
    HOSTILE_SECONDS = "HOSTILE_SECONDS", Tests, since "0.26.0", original NO, Anyone, values "seconds", default "10",
        "How long Vulkan is tested with random graphs.";
    CC = "CC", Tests, since "0.26.0", original NO, SameRights, values "a program", default "`cc`",
        "The C compiler with which tests build a module.";
}

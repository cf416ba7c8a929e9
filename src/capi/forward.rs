//! What the small libraries beside libggml-base use, and what the scripts that build and install them read.
//!
//! The original comes in several files: libggml, libggml-cpu and others beside libggml-base. Hosts name any of them, so
//! each must be there and define what the original's file of that name defines. Here all code is in libggml-base; in
//! the other files a function is a jump through a table below (`scripts/forward.sh` writes them from this list). So a
//! process has one copy of everything, whichever files it loads, and however.
//!
//! The number in a table's name is a digest of the list: small files of another build do not find their table, and the
//! dynamic linker reports it at once, before anything jumps to the wrong place.
#![allow(non_upper_case_globals)]

use super::backend::registry::*;
use super::cpu::{backend::*, convert::*, elements::*, features::*, graph::*, numa::*};
use super::exceptions::__cxa_call_terminate;
use super::rpc::*;
#[cfg(feature = "vulkan")]
use super::vulkan::*;

/// The address of an exported function.
#[repr(transparent)]
pub struct Function(*const ());

// SAFETY: the address of code, which is never written and never unmapped (the library is linked with `nodelete`).
unsafe impl Sync for Function {}

macro_rules! forward {
    ($(#[$attribute:meta])* $table:ident $list:ident { $($function:ident)* }) => {
        $(#[$attribute])*
        #[unsafe(no_mangle)]
        pub static $table: [Function; $list.1.len()] = [$(Function($function as *const ())),*];
        $(#[$attribute])*
        const $list: (&str, &[&str]) = (stringify!($table), &[$(stringify!($function)),*]);
    };
}

forward! {
    /// libggml: the registry of backends.
    ggml_rs_forward_ggml_47d4b3f6 GGML {
        __cxa_call_terminate
        ggml_backend_dev_by_name
        ggml_backend_dev_by_type
        ggml_backend_dev_count
        ggml_backend_dev_get
        ggml_backend_device_register
        ggml_backend_init_best
        ggml_backend_init_by_name
        ggml_backend_init_by_type
        ggml_backend_load
        ggml_backend_load_all
        ggml_backend_load_all_from_path
        ggml_backend_reg_by_name
        ggml_backend_reg_count
        ggml_backend_reg_get
        ggml_backend_register
        ggml_backend_unload
    }
}

forward! {
    /// libggml-cpu: ggml-cpu.h.
    ggml_rs_forward_cpu_dca6fe68 CPU {
        ggml_backend_cpu_init
        ggml_backend_cpu_reg
        ggml_backend_cpu_set_abort_callback
        ggml_backend_cpu_set_n_threads
        ggml_backend_cpu_set_threadpool
        ggml_backend_cpu_set_use_ref
        ggml_backend_is_cpu
        ggml_cpu_bf16_to_fp32
        ggml_cpu_fp16_to_fp32
        ggml_cpu_fp32_to_bf16
        ggml_cpu_fp32_to_fp16
        ggml_cpu_fp32_to_fp32
        ggml_cpu_fp32_to_i32
        ggml_cpu_get_rvv_vlen
        ggml_cpu_get_sve_cnt
        ggml_cpu_has_amx_int8
        ggml_cpu_has_arm_fma
        ggml_cpu_has_avx
        ggml_cpu_has_avx2
        ggml_cpu_has_avx512
        ggml_cpu_has_avx512_bf16
        ggml_cpu_has_avx512_vbmi
        ggml_cpu_has_avx512_vnni
        ggml_cpu_has_avx_vnni
        ggml_cpu_has_bmi2
        ggml_cpu_has_dotprod
        ggml_cpu_has_f16c
        ggml_cpu_has_fma
        ggml_cpu_has_fp16_va
        ggml_cpu_has_llamafile
        ggml_cpu_has_matmul_int8
        ggml_cpu_has_neon
        ggml_cpu_has_riscv_v
        ggml_cpu_has_sme
        ggml_cpu_has_sme2
        ggml_cpu_has_sse3
        ggml_cpu_has_ssse3
        ggml_cpu_has_sve
        ggml_cpu_has_vsx
        ggml_cpu_has_vxe
        ggml_cpu_has_wasm_simd
        ggml_cpu_init
        ggml_get_f32_1d
        ggml_get_f32_nd
        ggml_get_i32_1d
        ggml_get_i32_nd
        ggml_get_type_traits_cpu
        ggml_graph_compute
        ggml_graph_compute_with_ctx
        ggml_graph_plan
        ggml_is_numa
        ggml_new_f32
        ggml_new_i32
        ggml_numa_init
        ggml_set_f32
        ggml_set_f32_1d
        ggml_set_f32_nd
        ggml_set_i32
        ggml_set_i32_1d
        ggml_set_i32_nd
        ggml_threadpool_free
        ggml_threadpool_new
        ggml_threadpool_pause
        ggml_threadpool_resume
    }
}

forward! {
    /// libggml-vulkan: ggml-vulkan.h.
    #[cfg(feature = "vulkan")]
    ggml_rs_forward_vulkan_a40557ea VULKAN {
        ggml_backend_is_vk
        ggml_backend_vk_buffer_type
        ggml_backend_vk_get_device_count
        ggml_backend_vk_get_device_description
        ggml_backend_vk_get_device_memory
        ggml_backend_vk_host_buffer_type
        ggml_backend_vk_init
        ggml_backend_vk_reg
    }
}

forward! {
    /// libggml-rpc: ggml-rpc.h.
    ggml_rs_forward_rpc_e1e311e7 RPC {
        ggml_backend_is_rpc
        ggml_backend_rpc_add_server
        ggml_backend_rpc_buffer_type
        ggml_backend_rpc_get_device_memory
        ggml_backend_rpc_init
        ggml_backend_rpc_reg
        ggml_backend_rpc_start_server
    }
}

/// Name and version, and what of the build shows in headers. `scripts/install.sh` looks for it in the file.
const BUILD: &str =
    concat!("libggml-rs build: version=", env!("CARGO_PKG_VERSION"), " max_name=", env!("GGML_MAX_NAME"), ";\0");

/// [`BUILD`] in a static that no linker removes.
#[unsafe(no_mangle)]
pub static ggml_rs_build: [u8; BUILD.len()] = *BUILD.as_bytes().first_chunk().unwrap();

#[cfg(test)]
mod tests {
    use super::*;

    /// FNV-1a of the names.
    fn digest(names: &[&str]) -> u32 {
        names.join("\n").bytes().fold(0x811c_9dc5, |h, b| (h ^ u32::from(b)).wrapping_mul(0x0100_0193))
    }

    #[test]
    fn a_table_is_named_after_its_list() {
        let lists = [
            GGML,
            CPU,
            RPC,
            #[cfg(feature = "vulkan")]
            VULKAN,
        ];
        for (table, names) in lists {
            let digest = format!("{:08x}", digest(names));
            assert!(table.ends_with(&digest), "the list has changed: the number of {table} is {digest} now");
        }
    }

    #[test]
    fn a_table_leads_to_the_functions() {
        assert_eq!(ggml_rs_forward_ggml_47d4b3f6[3].0, ggml_backend_dev_count as *const ());
        let last = ggml_rs_forward_cpu_dca6fe68.last().map(|f| f.0);
        assert_eq!(last, Some(ggml_threadpool_resume as *const ()));
    }
}

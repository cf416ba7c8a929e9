//! The digest of the binary interface: every field of every struct that hosts, modules and the library pass to each
//! other, and every name and number of the enums in them. It does not depend on `GGML_MAX_NAME`, which has a field
//! of its own.

use super::backend::*;
use super::backend_impl::*;
use super::cpu::ggml_numa_strategy;
use super::ggml::*;
use super::gguf::gguf_type;
use super::graph::{ggml_cgraph, ggml_cgraph_eval_order, ggml_custom_op_params, ggml_hash_set};
use super::rs::GGML_RS_ABI_DIGEST;
use std::mem::{align_of, offset_of, size_of};

/// An FNV-1a digest of 64 bits in the making.
#[derive(Clone, Copy)]
struct Digest(u64);

impl Digest {
    const fn bytes(mut self, bytes: &[u8]) -> Self {
        let mut i = 0;
        while i < bytes.len() {
            self.0 = (self.0 ^ bytes[i] as u64).wrapping_mul(0x0100_0000_01b3);
            i += 1;
        }
        self
    }

    const fn number(self, n: u64) -> Self {
        self.bytes(&n.to_le_bytes())
    }
}

/// Bytes of `ggml_tensor` up to its name. The members after it count as if names took no bytes.
const NAME: usize = offset_of!(ggml_tensor, name);

/// The digest of structs. A field that is missing here does not compile.
macro_rules! structs {
    ($digest:ident: $($name:ident { $($field:ident)+ })+) => {$(
        $digest = $digest.bytes(stringify!($name).as_bytes());
        let names = if same(stringify!($name), "ggml_tensor") { GGML_MAX_NAME } else { 0 };
        $digest = $digest.number((size_of::<$name>() - names) as u64).number(align_of::<$name>() as u64);
        $(
            let at = offset_of!($name, $field);
            let at = if names > 0 && at > NAME { at - names } else { at };
            $digest = $digest.bytes(stringify!($field).as_bytes()).number(at as u64);
        )+
        const _: fn(&$name) = |x| {
            let $name { $($field: _),+ } = x;
        };
    )+};
}

const fn same(a: &str, b: &str) -> bool {
    let (a, b) = (a.as_bytes(), b.as_bytes());
    let mut i = 0;
    while i < a.len() && i < b.len() && a[i] == b[i] {
        i += 1;
    }
    i == a.len() && i == b.len()
}

const fn digest() -> u64 {
    let mut d = Digest(0xcbf2_9ce4_8422_2325);
    structs! { d:
        ggml_init_params { mem_size mem_buffer no_alloc }
        ggml_tensor { r#type buffer ne nb op op_params flags src view_src view_offs data name extra padding }
        ggml_type_traits { type_name blck_size blck_size_interleave type_size is_quantized to_float from_float_ref }
        ggml_threadpool_params { cpumask n_threads prio poll strict_cpu paused }
        ggml_hash_set { size used keys }
        ggml_cgraph { size n_nodes n_leafs nodes grads grad_accs leafs use_counts visited_hash_set order uid }
        ggml_custom_op_params { fun n_tasks userdata }
        ggml_backend_dev_caps { r#async host_buffer buffer_from_host_ptr events mmap_support }
        ggml_backend_dev_props { name description memory_free memory_total r#type device_id caps }
        ggml_backend_feature { name value }
        ggml_backend_buffer_type_i { get_name alloc_buffer alloc_buffer_n get_alignment get_max_size get_alloc_size get_alloc_size_n is_host }
        ggml_backend_buffer_type { iface device context }
        ggml_backend_buffer_i {
            free_buffer get_base init_tensor memset_tensor set_tensor get_tensor set_tensor_2d get_tensor_2d cpy_tensor clear reset set_tensor_n
            get_tensor_n cpy_tensor_n
        }
        ggml_backend_buffer { iface buft context size usage }
        ggml_backend_graph_optimize_params { add_alloc_dep user_data }
        ggml_backend_i {
            get_name free set_tensor_async get_tensor_async set_tensor_2d_async get_tensor_2d_async cpy_tensor_async synchronize graph_plan_create
            graph_plan_free graph_plan_update graph_plan_compute graph_compute event_record event_wait graph_optimize
        }
        ggml_backend { guid iface device context }
        ggml_backend_event { device context }
        ggml_backend_device_i {
            get_name get_description get_memory get_type get_props init_backend get_buffer_type get_host_buffer_type buffer_from_host_ptr supports_op
            supports_buft offload_op event_new event_free event_synchronize
        }
        ggml_backend_device { iface reg context }
        ggml_backend_reg_i { get_name get_device_count get_device get_proc_address }
        ggml_backend_reg { api_version iface context }
    }
    let enums = [
        ggml_status::DIGEST,
        ggml_type::DIGEST,
        ggml_prec::DIGEST,
        ggml_op_hint::DIGEST,
        ggml_ftype::DIGEST,
        ggml_op::DIGEST,
        ggml_unary_op::DIGEST,
        ggml_glu_op::DIGEST,
        ggml_object_type::DIGEST,
        ggml_log_level::DIGEST,
        ggml_tensor_flag::DIGEST,
        ggml_tri_type::DIGEST,
        ggml_op_pool::DIGEST,
        ggml_scale_mode::DIGEST,
        ggml_scale_flag::DIGEST,
        ggml_sort_order::DIGEST,
        ggml_sched_priority::DIGEST,
        ggml_cgraph_eval_order::DIGEST,
        ggml_backend_buffer_usage::DIGEST,
        ggml_backend_dev_type::DIGEST,
        ggml_backend_meta_split_axis::DIGEST,
        gguf_type::DIGEST,
        ggml_numa_strategy::DIGEST,
    ];
    let mut i = 0;
    while i < enums.len() {
        d = d.number(enums[i]);
        i += 1;
    }
    d.number(GGML_BACKEND_API_VERSION as u64).0
}

/// The digest that the C headers have must be that of the types. After a change of the types, take the new digest from
/// the unit test below.
#[cfg(target_pointer_width = "64")]
const _: () = assert!(
    cfg!(test) || GGML_RS_ABI_DIGEST == digest(),
    "the binary interface has changed: cargo test abi::identity says the digest"
);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_digest_that_c_sees_is_that_of_the_types() {
        assert!(GGML_RS_ABI_DIGEST == digest(), "GGML_RS_ABI_DIGEST (src/abi/rs.rs) must be {:#018x}", digest());
    }

    #[test]
    fn names_and_numbers_count() {
        let d = Digest(1);
        assert!(d.bytes(b"ab").0 != d.bytes(b"ba").0 && d.number(1).0 != d.number(256).0);
        assert_ne!(ggml_op::DIGEST, ggml_type::DIGEST);
        assert!(same("a", "a") && !same("a", "ab") && !same("ab", "a") && !same("ab", "ac"));
    }
}

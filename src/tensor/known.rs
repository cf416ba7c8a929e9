//! What this version of ggml knows of each operation: how many sources a node has, and which words of its parameters
//! mean something. A newer version gives unused sources and words a meaning, and a library that ignored them would
//! compute other numbers without an error. So every backend refuses a node that has more than [`check`] knows.

#![forbid(unsafe_code)]

use super::TensorRef;
use super::handle::OP_PARAM_WORDS;
use crate::abi::ggml::GGML_MAX_SRC;
use crate::abi::ggml::ggml_glu_op::{GGML_GLU_OP_SWIGLU_CLAMP, GGML_GLU_OP_SWIGLU_OAI};
use crate::abi::ggml::ggml_op::{self, *};
use crate::abi::ggml::ggml_scale_flag::{GGML_SCALE_FLAG_ALIGN_CORNERS, GGML_SCALE_FLAG_ANTIALIAS};
use crate::abi::ggml::ggml_unary_op::GGML_UNARY_OP_XIELU;
use crate::error::{Error, Result};
use crate::invalid;

/// What a node of an operation may have.
#[derive(Clone, Copy)]
struct Known {
    op: ggml_op,
    /// Sources, from the first on. All others are NULL.
    sources: usize,
    /// Bit `i` is set if parameter word `i` means something. All other words are 0.
    words: u16,
}

const fn row(op: ggml_op, sources: usize, words: u16) -> Known {
    Known { op, sources, words }
}

/// The words from the first on.
const fn first(n: u32) -> u16 {
    (1 << n) - 1
}

/// An operation without parameters.
const NONE: u16 = 0;

/// The words of rotary embeddings. Words 0 and 3, once `n_past` and `n_ctx`, have no meaning in this version.
const ROPE: u16 = !(1 << 0 | 1 << 3);

/// A function of the host, the number of its threads, four bytes of padding that may have any value, and a pointer of
/// the host.
const CUSTOM: u16 = first(6);

/// All operations, by their numbers.
static KNOWN: [Known; GGML_OP_COUNT as usize] = [
    // Computes nothing. The original's scheduler gives such tensors sources to put them in order.
    row(GGML_OP_NONE, GGML_MAX_SRC, u16::MAX),
    row(GGML_OP_DUP, 1, NONE),
    row(GGML_OP_ADD, 2, NONE),
    row(GGML_OP_ADD_ID, 3, NONE),
    row(GGML_OP_ADD1, 2, NONE),
    row(GGML_OP_ACC, 2, first(5)),
    row(GGML_OP_SUB, 2, NONE),
    row(GGML_OP_MUL, 2, NONE),
    row(GGML_OP_DIV, 2, NONE),
    row(GGML_OP_SQR, 1, NONE),
    row(GGML_OP_SQRT, 1, NONE),
    row(GGML_OP_LOG, 1, NONE),
    row(GGML_OP_SIN, 1, NONE),
    row(GGML_OP_COS, 1, NONE),
    row(GGML_OP_SUM, 1, NONE),
    row(GGML_OP_SUM_ROWS, 1, NONE),
    row(GGML_OP_CUMSUM, 1, NONE),
    row(GGML_OP_MEAN, 1, NONE),
    row(GGML_OP_ARGMAX, 1, NONE),
    row(GGML_OP_COUNT_EQUAL, 2, NONE),
    row(GGML_OP_REPEAT, 1, NONE),
    row(GGML_OP_REPEAT_BACK, 1, NONE),
    row(GGML_OP_CONCAT, 2, first(1)),
    row(GGML_OP_SILU_BACK, 2, NONE),
    row(GGML_OP_NORM, 1, first(1)),
    row(GGML_OP_RMS_NORM, 1, first(1)),
    row(GGML_OP_RMS_NORM_BACK, 2, first(1)),
    row(GGML_OP_GROUP_NORM, 1, first(2)),
    row(GGML_OP_L2_NORM, 1, first(1)),
    // Precision of the sums, a hint, and, in word 3, the precision of source 1.
    row(GGML_OP_MUL_MAT, 2, 1 << 0 | 1 << 1 | 1 << 3),
    row(GGML_OP_MUL_MAT_ID, 3, 1 << 0 | 1 << 3),
    row(GGML_OP_OUT_PROD, 2, NONE),
    row(GGML_OP_SCALE, 1, first(2)),
    row(GGML_OP_SET, 2, first(5)),
    row(GGML_OP_CPY, 2, NONE),
    row(GGML_OP_CONT, 1, NONE),
    row(GGML_OP_RESHAPE, 1, NONE),
    row(GGML_OP_VIEW, 1, first(2)),
    row(GGML_OP_PERMUTE, 1, first(4)),
    row(GGML_OP_TRANSPOSE, 1, NONE),
    row(GGML_OP_GET_ROWS, 2, NONE),
    row(GGML_OP_GET_ROWS_BACK, 2, NONE),
    row(GGML_OP_SET_ROWS, 3, NONE),
    row(GGML_OP_DIAG, 1, NONE),
    row(GGML_OP_DIAG_MASK_INF, 1, first(1)),
    row(GGML_OP_DIAG_MASK_ZERO, 1, first(1)),
    row(GGML_OP_SOFT_MAX, 3, first(2)),
    row(GGML_OP_SOFT_MAX_BACK, 2, first(2)),
    row(GGML_OP_ROPE, 3, ROPE),
    row(GGML_OP_ROPE_BACK, 3, ROPE),
    row(GGML_OP_CLAMP, 1, first(2)),
    row(GGML_OP_CONV_TRANSPOSE_1D, 2, first(3)),
    row(GGML_OP_IM2COL, 2, first(7)),
    row(GGML_OP_IM2COL_BACK, 2, first(7)),
    row(GGML_OP_IM2COL_3D, 2, first(10)),
    row(GGML_OP_COL2IM_1D, 1, first(3)),
    row(GGML_OP_CONV_2D, 2, first(6)),
    row(GGML_OP_CONV_3D, 2, first(12)),
    row(GGML_OP_CONV_2D_DW, 2, first(6)),
    row(GGML_OP_CONV_TRANSPOSE_2D, 2, first(1)),
    row(GGML_OP_POOL_1D, 1, first(4)),
    row(GGML_OP_POOL_2D, 1, first(7)),
    row(GGML_OP_POOL_2D_BACK, 2, first(7)),
    row(GGML_OP_UPSCALE, 1, first(1)),
    row(GGML_OP_PAD, 1, first(9)),
    row(GGML_OP_PAD_REFLECT_1D, 1, first(2)),
    row(GGML_OP_ROLL, 1, first(4)),
    row(GGML_OP_ARANGE, 0, first(3)),
    row(GGML_OP_TIMESTEP_EMBEDDING, 1, first(2)),
    row(GGML_OP_ARGSORT, 1, first(1)),
    row(GGML_OP_TOP_K, 1, NONE),
    row(GGML_OP_LEAKY_RELU, 1, first(1)),
    row(GGML_OP_TRI, 1, first(1)),
    row(GGML_OP_FILL, 1, first(1)),
    // Queries, keys, values, mask, sinks. Scale, bias, cap of the logits, precision, keys in use.
    row(GGML_OP_FLASH_ATTN_EXT, 5, first(5)),
    row(GGML_OP_FLASH_ATTN_BACK, 4, first(1)),
    row(GGML_OP_SSM_CONV, 2, NONE),
    row(GGML_OP_SSM_SCAN, 7, first(1)),
    row(GGML_OP_WIN_PART, 1, first(3)),
    row(GGML_OP_WIN_UNPART, 1, first(1)),
    row(GGML_OP_GET_REL_POS, 1, NONE),
    row(GGML_OP_ADD_REL_POS, 3, first(1)),
    row(GGML_OP_RWKV_WKV6, 6, NONE),
    row(GGML_OP_GATED_LINEAR_ATTN, 5, first(1)),
    row(GGML_OP_RWKV_WKV7, 7, NONE),
    row(GGML_OP_SOLVE_TRI, 2, NONE),
    row(GGML_OP_GATED_DELTA_NET, 6, first(1)),
    row(GGML_OP_LIGHTNING_INDEXER, 4, NONE),
    row(GGML_OP_DSV4_HC_COMB, 3, first(2)),
    row(GGML_OP_DSV4_HC_PRE, 2, first(2)),
    row(GGML_OP_DSV4_HC_POST, 4, NONE),
    row(GGML_OP_TOP_K_MASK, 5, NONE),
    // The number of the function; `Known::of` adds the parameters of functions that have some.
    row(GGML_OP_UNARY, 1, first(1)),
    row(GGML_OP_MAP_CUSTOM1, 1, CUSTOM),
    row(GGML_OP_MAP_CUSTOM2, 2, CUSTOM),
    row(GGML_OP_MAP_CUSTOM3, 3, CUSTOM),
    row(GGML_OP_CUSTOM, GGML_MAX_SRC, CUSTOM),
    row(GGML_OP_CROSS_ENTROPY_LOSS, 2, NONE),
    row(GGML_OP_CROSS_ENTROPY_LOSS_BACK, 3, NONE),
    row(GGML_OP_OPT_STEP_ADAMW, 5, NONE),
    row(GGML_OP_OPT_STEP_SGD, 3, NONE),
    // The number of the function, and whether the halves are swapped.
    row(GGML_OP_GLU, 2, first(2)),
];

/// A parameter word of flags: its number, and the bits that mean something. The mode in the low byte of `UPSCALE` is
/// checked by its kernel.
fn flags(op: ggml_op) -> Option<(usize, i32)> {
    match op {
        // Whether the result has the memory of a source.
        GGML_OP_ACC | GGML_OP_SET => Some((4, 1)),
        GGML_OP_ADD_REL_POS => Some((0, 1)),
        // Whether there are two dimensions, the edges are connected, the halves are swapped, weights are gated, or
        // later keys are masked.
        GGML_OP_IM2COL | GGML_OP_IM2COL_BACK => Some((6, 1)),
        GGML_OP_PAD => Some((8, 1)),
        GGML_OP_GLU | GGML_OP_DSV4_HC_PRE => Some((1, 1)),
        GGML_OP_FLASH_ATTN_BACK => Some((0, 1)),
        GGML_OP_UPSCALE => Some((0, 0xff | GGML_SCALE_FLAG_ALIGN_CORNERS as i32 | GGML_SCALE_FLAG_ANTIALIAS as i32)),
        _ => None,
    }
}

impl Known {
    /// What is known of a node's operation, and of its function if that has parameters of its own. `None` if the
    /// operation does not exist.
    fn of(op: i32, function: i32) -> Option<Self> {
        let row = *usize::try_from(op).ok().and_then(|i| KNOWN.get(i))?;
        let more = match row.op {
            GGML_OP_UNARY if function == GGML_UNARY_OP_XIELU as i32 => first(5),
            GGML_OP_GLU if function == GGML_GLU_OP_SWIGLU_OAI as i32 => 1 << 2 | 1 << 3,
            GGML_OP_GLU if function == GGML_GLU_OP_SWIGLU_CLAMP as i32 => 1 << 3,
            _ => NONE,
        };
        Some(Self { words: row.words | more, ..row })
    }

    /// The first parameter word with a bit that is not 0 and not known.
    fn unknown_word(&self, params: [i32; OP_PARAM_WORDS]) -> Option<usize> {
        let flag = flags(self.op).filter(|&(i, known)| params[i] & !known != 0);
        (0..OP_PARAM_WORDS).find(|&i| params[i] != 0 && self.words & 1 << i == 0).or(flag.map(|(i, _)| i))
    }
}

/// Checks that a node has no source and no parameter that this version of ggml does not know.
///
/// # Errors
/// The operation does not exist, or the error names the source or the parameter.
pub fn check(node: TensorRef) -> Result<()> {
    let params = node.op_params();
    let Some(known) = Known::of(node.op_raw(), params[0]) else {
        return Err(invalid!("'{}' has an operation that does not exist ({})", node.name(), node.op_raw()));
    };
    let unknown = |what: String| {
        let (op, name, version) = (known.op, node.name(), env!("CARGO_PKG_VERSION"));
        Error::Unsupported(format!("{op:?} '{name}' has {what}, which ggml {version} does not know"))
    };
    if let Some((i, s)) = node.srcs().find(|(i, _)| *i >= known.sources) {
        return Err(unknown(format!("a source {i} ('{}')", s.name())));
    }
    match known.unknown_word(params) {
        Some(i) => Err(unknown(format!("a parameter {i} ({:#x})", params[i]))),
        None => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::abi::ggml::{ggml_glu_op, ggml_unary_op};
    use crate::tensor::names;
    use std::collections::BTreeMap;
    use std::path::Path;

    #[test]
    fn rows_are_in_the_order_of_their_numbers() {
        assert!(KNOWN.iter().enumerate().all(|(i, row)| row.op as usize == i));
    }

    /// The number of the operation and of the function that a dump calls by this name.
    fn named(name: &str) -> (ggml_op, i32) {
        let is = |other: &std::ffi::CStr| other.to_bytes() == name.as_bytes();
        if let Some(f) = ggml_unary_op::ALL.iter().find(|f| is(names::unary_c(**f))) {
            return (GGML_OP_UNARY, *f as i32);
        }
        if let Some(f) = ggml_glu_op::ALL.iter().find(|f| is(names::glu_c(**f))) {
            return (GGML_OP_GLU, *f as i32);
        }
        (*ggml_op::ALL.iter().find(|op| is(names::op_c(**op))).unwrap(), 0)
    }

    #[test]
    fn flags_that_are_not_known_are_refused() {
        for known in &KNOWN {
            let Some((word, bits)) = flags(known.op) else { continue };
            assert!(known.words & 1 << word != 0, "{:?}", known.op);
            for bit in 0..32 {
                let mut params = [0; OP_PARAM_WORDS];
                params[word] = 1 << bit;
                assert_eq!(known.unknown_word(params), (bits & 1 << bit == 0).then_some(word), "{:?}", known.op);
            }
        }
    }

    /// Every node that the original's constructors make is known, and nothing is known that they never use.
    #[test]
    fn what_the_original_makes_is_known_and_no_more() {
        let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("c_tests/host/facts/constructors.txt");
        let facts = std::fs::read_to_string(path).unwrap();
        // The sources and the words that are in use.
        let mut used: BTreeMap<i32, (u16, u16)> = BTreeMap::new();
        for line in facts.lines().filter(|l| l.starts_with("  #")) {
            let field = |name: &str| {
                let value = line.split(' ').find_map(|f| f.strip_prefix(name));
                value.into_iter().flat_map(|v| v.split(',')).map(str::to_owned).collect::<Vec<_>>()
            };
            let (op, function) = named(line.split(' ').nth(3).unwrap());
            let custom = KNOWN[op as usize].words == CUSTOM;
            let mut params = [0; OP_PARAM_WORDS];
            if !custom {
                let words = field("params=").into_iter().map(|w| u32::from_str_radix(&w, 16).unwrap() as i32);
                params.iter_mut().zip(words).for_each(|(to, w)| *to = w);
            }
            let known = Known::of(op as i32, function).unwrap();
            let sources = field("src=");
            assert!(known.unknown_word(params).is_none() && sources.len() <= known.sources, "{line}");
            let all = used.entry(op as i32).or_default();
            sources.iter().enumerate().filter(|(_, s)| *s != "-").for_each(|(i, _)| all.0 |= 1 << i);
            (0..OP_PARAM_WORDS).filter(|&i| params[i] != 0).for_each(|i| all.1 |= 1 << i);
        }
        // Parameters that constructors can only set to 0, and an operation whose constructor fails: sources and words.
        let not_made: [(ggml_op, u16, u16); 3] = [
            (GGML_OP_ROPE_BACK, 0, 1 << 15),
            (GGML_OP_CONV_TRANSPOSE_1D, 0, 1 << 1),
            (GGML_OP_FLASH_ATTN_BACK, first(4), first(1)),
        ];
        let mut never = Vec::new();
        for known in &KNOWN {
            let (sources, words) = used.get(&(known.op as i32)).copied().unwrap_or_default();
            let more = first(known.sources as u32) & !sources;
            if known.words != CUSTOM && known.op != GGML_OP_NONE && (more != 0 || known.words & !words != 0) {
                never.push((known.op, more, known.words & !words));
            }
        }
        never.sort_unstable();
        assert_eq!(never, not_made);
    }
}

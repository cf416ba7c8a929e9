//! Tensors from descriptions. What a description says is checked here, once, for everything that is done with a tensor
//! later.

use super::memory::Buffers;
use crate::abi::ggml::{ggml_op, ggml_tensor_flag, ggml_type};
use crate::error::{Error, Result, invalid};
use crate::rpc::protocol::{WireTensor, is_of_the_host};
use crate::tensor::context::{OBJECT_SIZE, TENSOR_SIZE};
use crate::tensor::{Context, TensorRef};

/// Bytes that a tensor takes in an arena.
pub const PER_TENSOR: usize = OBJECT_SIZE + TENSOR_SIZE;

/// All flags there are.
const FLAGS: i32 = ggml_tensor_flag::GGML_TENSOR_FLAG_INPUT as i32
    | ggml_tensor_flag::GGML_TENSOR_FLAG_OUTPUT as i32
    | ggml_tensor_flag::GGML_TENSOR_FLAG_PARAM as i32
    | ggml_tensor_flag::GGML_TENSOR_FLAG_LOSS as i32
    | ggml_tensor_flag::GGML_TENSOR_FLAG_COMPUTE as i32;

/// How often the elements of a tensor may share the same memory, through strides of 0 or strides that are shorter than
/// a row. Without a limit, a tensor of a few bytes could have so many elements that adding them up takes years.
const REPEATS: u128 = 16;
/// A smaller buffer counts as this number of bytes for that limit.
const SMALLEST: u64 = 1 << 16;

/// Bytes of all elements, if each had memory of its own.
fn dense(t: TensorRef) -> u128 {
    let rows = t.ne()[1..].iter().map(|&n| n as u128).product::<u128>();
    t.dtype().row_size(t.ne()[0]).map_or(u128::MAX, |row| row as u128).saturating_mul(rows)
}

/// Memory for the structs of tensors and graphs.
///
/// Code that has handles of its tensors holds the arena as long: both are in the same struct, or in the same function.
pub struct Arena(Context);

impl Arena {
    /// For `bytes` bytes of tensors and graphs.
    ///
    /// # Errors
    /// There is no memory.
    pub fn new(bytes: usize) -> Result<Self> {
        // SAFETY: the arena's holders use its tensors only while they have it, as said above.
        unsafe { Context::owned(bytes, true) }.map(Self)
    }

    /// For `n` tensors.
    ///
    /// # Errors
    /// As [`Self::new`].
    pub fn of_tensors(n: usize) -> Result<Self> {
        Self::new((n + 1).saturating_mul(PER_TENSOR))
    }

    /// The memory, for a graph.
    pub fn context(&mut self) -> &mut Context {
        &mut self.0
    }

    /// A tensor as described, without sources. Its data is inside one of the client's buffers, or NULL.
    ///
    /// # Errors
    /// Something in the description cannot be.
    pub fn place(&mut self, t: &WireTensor, buffers: &Buffers) -> Result<TensorRef> {
        let made = self.shape(t)?;
        if t.buffer == 0 {
            if t.data != 0 {
                return Err(invalid!("tensor '{}' has data at {:#x} and no buffer", t.shown(), t.data));
            }
            return Ok(made);
        }
        let held = buffers.get(t.buffer)?;
        let (base, size) = (held.base, held.buffer.size() as u64);
        let bytes = made.nbytes() as u64;
        let offset = t.data.checked_sub(base).filter(|o| o.checked_add(bytes).is_some_and(|end| end <= size));
        let Some(offset) = offset else {
            return Err(invalid!(
                "{bytes} bytes of tensor '{}' at {:#x} are outside its buffer, {size} bytes at {base:#x}",
                t.shown(),
                t.data
            ));
        };
        if dense(made) > u128::from(size.max(SMALLEST)) * REPEATS {
            return Err(invalid!(
                "tensor '{}' ({:?}) has more elements than {REPEATS} times its buffer of {size} bytes",
                t.shown(),
                made.ne()
            ));
        }
        // It fits: the buffer is in memory.
        made.set_data(held.buffer.base().wrapping_add(offset as usize));
        made.set_buffer_raw(held.buffer.as_ptr());
        Ok(made)
    }

    /// As [`Self::place`], for a tensor of which only the shape is needed: its buffer may be on another server.
    ///
    /// # Errors
    /// As [`Self::place`].
    pub fn place_or_shape(&mut self, t: &WireTensor, buffers: &Buffers) -> Result<TensorRef> {
        if buffers.get(t.buffer).is_ok() { self.place(t, buffers) } else { self.shape(t) }
    }

    fn shape(&mut self, t: &WireTensor) -> Result<TensorRef> {
        let dtype = i32::try_from(t.dtype).ok().and_then(ggml_type::from_raw).filter(|d| d.blck_size() > 0);
        let dtype =
            dtype.ok_or_else(|| invalid!("tensor '{}' has type {}, which does not exist", t.shown(), t.dtype))?;
        let op = i32::try_from(t.op).ok().and_then(ggml_op::from_raw).filter(|&op| op != ggml_op::GGML_OP_COUNT);
        let op = op.ok_or_else(|| invalid!("tensor '{}' has operation {}, which does not exist", t.shown(), t.op))?;
        if is_of_the_host(op) {
            // Its parameters hold the address of a function.
            return Err(Error::Unsupported(format!("tensor '{}': a function of the client's program", t.shown())));
        }
        let made = self.0.new_tensor(dtype, &t.ne.map(i64::from))?;
        made.set_nb(t.nb.map(|n| n as usize));
        let (ne, nb) = (made.ne(), made.nb());
        // With blocks, or more than one element, rows are read from one to the next.
        let dense = nb[0] >= dtype.type_size();
        if !made.is_empty() && (dtype.blck_size() > 1 || ne[0] > 1) && !dense {
            return Err(invalid!("the elements of a row of '{}' lie on each other (stride {})", t.shown(), nb[0]));
        }
        if made.nbytes_checked().is_none() {
            return Err(invalid!("tensor '{}' has more bytes than can be: {ne:?}, strides {nb:?}", t.shown()));
        }
        made.set_op(op);
        made.set_op_params(t.op_params);
        made.set_flags(t.flags & FLAGS);
        made.set_name(t.name_bytes());
        Ok(made)
    }
}

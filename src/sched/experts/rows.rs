//! Rows of a unit's result, computed by the CPU from the experts in host memory.

use super::unit::{Rows, Unit};
use super::workspace::Workspace;
use crate::abi::ggml::{ggml_op, ggml_status, ggml_type};
use crate::backend::{BackendRef, BufferTypeRef, tensor_io, view};
use crate::error::{Error, Result};
use crate::graph::build;
use crate::tensor::TensorRef;

/// What the CPU has to compute.
pub struct Task<'a> {
    /// The unit, which has a chain.
    pub unit: &'a Unit,
    /// The weights of the unit, in host memory.
    pub weights: &'a [TensorRef],
    /// The nodes of the chain in the host's graph.
    pub nodes: &'a [TensorRef],
    /// The input of each row, one after the other.
    pub input: &'a [u8],
    /// The expert of each row.
    pub experts: &'a [i32],
}

/// Memory for such tasks.
#[derive(Default)]
pub struct RowEngine(Workspace);

impl RowEngine {
    /// Computes rows on a CPU and writes them to `out`, one after the other.
    ///
    /// # Errors
    /// There is not enough memory.
    pub fn compute(
        &mut self,
        task: &Task<'_>,
        cpu: BackendRef,
        buft: BufferTypeRef,
        out: &mut [u8],
    ) -> Result<ggml_status> {
        let Some(chain) = &task.unit.chain else { return Err(Error::Unsupported("a unit without a chain".into())) };
        let n = task.experts.len() as i64;
        // SAFETY: the tensors are used in this function only.
        let ctx = unsafe { self.0.context(1 << 16)? };
        let columns = (task.input.len() / 4) as i64 / n.max(1);
        let input = ctx.new_tensor(ggml_type::GGML_TYPE_F32, &[columns, 1, n])?;
        let routing = ctx.new_tensor(ggml_type::GGML_TYPE_I32, &[1, n])?;
        let (mut steps, mut views): (Vec<TensorRef>, Vec<TensorRef>) = (Vec::new(), Vec::new());
        for (step, &node) in std::iter::zip(&chain.steps, task.nodes) {
            let mut srcs = Vec::with_capacity(3);
            srcs.extend(step.weight.map(|k| task.weights[k]));
            for &rows in &step.rows {
                srcs.push(match rows {
                    Rows::Input => input,
                    Rows::Step(k) => steps[k],
                    Rows::Part(k, offset, width) => {
                        let part = ctx.new_view_as(ggml_type::GGML_TYPE_F32, steps[k], &[width, 1, n], offset)?;
                        part.set_nb(steps[k].nb());
                        part.set_op(ggml_op::GGML_OP_VIEW);
                        part.set_src(0, Some(steps[k]));
                        views.push(part);
                        part
                    }
                });
            }
            srcs.extend(step.weight.map(|_| routing));
            let t = ctx.new_tensor(ggml_type::GGML_TYPE_F32, &[node.ne()[0], 1, n])?;
            t.set_op(node.op());
            t.set_op_params(node.op_params());
            srcs.into_iter().enumerate().for_each(|(i, src)| t.set_src(i, Some(src)));
            steps.push(t);
        }
        let Some(&result) = steps.last() else { return Err(Error::Unsupported("a unit without nodes".into())) };
        let graph = build::new(ctx, 64, false)?;
        graph.expand(result, true);
        self.0.place(buft, [input, routing].into_iter().chain(steps.iter().copied()))?;
        for part in views {
            view::init(part);
        }
        tensor_io::set_bytes(input, task.input, 0);
        let experts: Vec<u8> = task.experts.iter().flat_map(|e| e.to_ne_bytes()).collect();
        tensor_io::set_bytes(routing, &experts, 0);
        let status = cpu.graph_compute(graph);
        tensor_io::get_bytes(result, out, 0);
        Ok(status)
    }
}

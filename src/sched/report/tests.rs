use super::view::Step;
use super::{memory, page};
use crate::abi::ggml::ggml_type::GGML_TYPE_F32;
use crate::alloc::GraphAllocator;
use crate::backend::testing::buffer_type;
use crate::graph::build;
use crate::tensor::ops::{copy, unary};
use crate::tensor::{Context, TensorRef};

#[test]
fn names_come_into_the_page_as_text() {
    let name = "</script><script>alert(1)</script><!--";
    let page = page::render(&serde_json::json!({ "name": name }));
    assert!(!page.contains("alert(1)</script>") && !page.contains("<!--"));
    let data = page.split_once(r#"id="report">"#).unwrap().1.split_once("</script>").unwrap().0;
    assert_eq!(serde_json::from_str::<serde_json::Value>(data).unwrap()["name"], name);
    assert!(!page.contains("@REPORT@"));
}

/// Results of 256 bytes, one of which takes over the memory of its source: 512 bytes are needed at once, never 768.
#[test]
fn the_lower_bound_counts_each_byte_once() {
    let (buft, _state) = buffer_type(32, usize::MAX, 0);
    let mut alloc = GraphAllocator::new(&[buft]);
    let mut ctx = Context::with_size(1 << 16, true).unwrap();
    let x = ctx.new_tensor(GGML_TYPE_F32, &[64]).unwrap();
    x.add_flag(crate::abi::ggml::ggml_tensor_flag::GGML_TENSOR_FLAG_INPUT);
    let a = copy::cont(&mut ctx, x).unwrap();
    let b = unary::scale(&mut ctx, a, 2.0).unwrap();
    let c = copy::cont(&mut ctx, b).unwrap();
    c.mark_output();
    let graph = build::new(&mut ctx, 16, false).unwrap();
    graph.expand(c, true);
    alloc.alloc_graph(graph).unwrap();
    for t in [x, a, b, c] {
        t.buffer()
            .unwrap()
            .set_usage(crate::abi::backend::ggml_backend_buffer_usage::GGML_BACKEND_BUFFER_USAGE_COMPUTE);
    }
    let step = |t: TensorRef| Step { tensor: t, reads: t.srcs().map(|(_, s)| s).collect(), copied: None, split: 0 };
    let steps: Vec<Step> = [a, b, c].map(step).into();
    let memory = memory::survey(&steps, &[x]);
    assert_eq!(memory.len(), 1);
    let m = &memory[0];
    assert_eq!((m.lower_bound, m.blocks.len()), (512, 4));
    assert!(m.used >= m.lower_bound && m.used <= alloc.buffer_size(0));
    let of = |t: TensorRef| m.blocks.iter().find(|b| b.tensor == t).unwrap();
    assert_eq!((of(x).from, of(x).to, of(c).from, of(c).to), (0, 0, 2, 2));
    assert!(of(b).over && of(b).offset == of(a).offset && of(a).to == 0);
}

//! Must not compile: only the C interface is public.

fn main() {
    let _ = ggml::tensor::Shape::default();
}

//! Must not compile: what is behind the C interface is private.

fn main() {
    let _ = ggml::tensor::Shape::default();
}

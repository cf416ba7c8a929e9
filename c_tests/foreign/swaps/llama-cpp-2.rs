//! llama-cpp-2 as in programs of its users: MODEL PROMPT. What it prints: see node.mjs.

use llama_cpp_2::context::params::LlamaContextParams;
use llama_cpp_2::llama_backend::LlamaBackend;
use llama_cpp_2::llama_batch::LlamaBatch;
use llama_cpp_2::model::LlamaModel;
use llama_cpp_2::model::params::LlamaModelParams;
use llama_cpp_2::token::LlamaToken;
use std::time::Instant;

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let [model, prompt] = &std::env::args().skip(1).collect::<Vec<_>>()[..] else { return Err("MODEL PROMPT".into()) };
    let mut backend = LlamaBackend::init()?;
    backend.void_logs();
    let model = LlamaModel::load_from_file(&backend, model, &LlamaModelParams::default())?;
    let params = LlamaContextParams::default()
        .with_n_ctx(std::num::NonZeroU32::new(512))
        .with_n_threads(2)
        .with_n_threads_batch(2);
    let mut context = model.new_context(&backend, params)?;
    let mut tokens = model.vocab().tokenize(prompt.as_bytes(), true, true);
    let begin = Instant::now();

    let mut batch = LlamaBatch::new(512, 1);
    for (at, &token) in tokens.iter().enumerate() {
        batch.add(token, at as i32, &[0], true)?;
    }
    context.decode(&mut batch)?;
    let numbers: Vec<f32> =
        (0..tokens.len()).flat_map(|i| context.get_logits_ith(i as i32).iter().step_by(77).copied()).collect();
    let first = tokens.len();
    for _ in 0..32 {
        let logits = context.get_logits_ith(batch.n_tokens() - 1);
        let best = (0..logits.len()).max_by(|&a, &b| logits[a].total_cmp(&logits[b])).ok_or("no logits")?;
        let token = LlamaToken::new(best as i32);
        batch.clear();
        batch.add(token, tokens.len() as i32, &[0], true)?;
        tokens.push(token);
        context.decode(&mut batch)?;
    }
    let seconds = begin.elapsed().as_secs_f64();
    let text: Vec<i32> = tokens[first..].iter().map(|t| t.0).collect();
    let status = std::fs::read_to_string("/proc/self/status")?;
    let peak = status.split_once("VmHWM:").and_then(|(_, rest)| rest.split_whitespace().next()).ok_or("no VmHWM")?;
    println!(r#"{{"numbers": {numbers:?}, "text": {text:?}, "seconds": {seconds}, "peak": {peak}}}"#);
    Ok(())
}

//! llama.cpp through llama-cpp-sys-4: MODEL PROMPT. What it prints: see node.mjs.

use llama_cpp_sys_4::*;
use std::ffi::CString;
use std::time::Instant;

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let [path, prompt] = &std::env::args().skip(1).collect::<Vec<_>>()[..] else { return Err("MODEL PROMPT".into()) };
    let path = CString::new(path.as_str())?;
    // SAFETY: calls of llama.h with objects that were made as it says, and buffers of the lengths that are passed.
    let (numbers, text, seconds) = unsafe {
        llama_backend_init();
        let model = llama_model_load_from_file(path.as_ptr(), llama_model_default_params());
        let mut params = llama_context_default_params();
        (params.n_ctx, params.n_threads, params.n_threads_batch) = (512, 2, 2);
        let context = llama_init_from_model(model, params);
        if context.is_null() {
            return Err("the model cannot be used".into());
        }
        let vocab = llama_model_get_vocab(model);
        let mut tokens = vec![0; 512];
        let n =
            llama_tokenize(vocab, prompt.as_ptr().cast(), prompt.len() as i32, tokens.as_mut_ptr(), 512, true, true);
        tokens.truncate(usize::try_from(n)?);
        let values = llama_vocab_n_tokens(vocab) as usize;
        let mut numbers: Vec<f32> = Vec::new();
        let begin = Instant::now();

        for at in 0..tokens.len() + 32 {
            // A token for each call, so that each has logits.
            if llama_decode(context, llama_batch_get_one(&mut tokens[at], 1)) != 0 {
                return Err("a token cannot be computed".into());
            }
            let logits = std::slice::from_raw_parts(llama_get_logits_ith(context, -1), values);
            if at < n as usize {
                numbers.extend(logits.iter().step_by(77));
            }
            if at + 1 == tokens.len() {
                tokens.push((0..values).max_by(|&a, &b| logits[a].total_cmp(&logits[b])).ok_or("no logits")? as i32);
            }
        }
        (numbers, tokens.split_off(n as usize), begin.elapsed().as_secs_f64())
    };
    let status = std::fs::read_to_string("/proc/self/status")?;
    let peak = status.split_once("VmHWM:").and_then(|(_, rest)| rest.split_whitespace().next()).ok_or("no VmHWM")?;
    println!(r#"{{"numbers": {numbers:?}, "text": {text:?}, "seconds": {seconds}, "peak": {peak}}}"#);
    Ok(())
}

//! `bench local`: the embedded model and llama.cpp on the same file, in turns, medians. The goals are constants here.
//!
//! The weights are those that the job `embedded` pulls.

use tenon_local::measure;
use tenon_testkit::json;

use crate::peers::embedded::home;
use crate::peers::llama_file::LlamaFile;
use crate::{Failure, Verdict};

const ROUNDS: usize = 5;
const PROMPT_WORDS: usize = 300;
const ANSWER_TOKENS: u64 = 128;
/// Of llama.cpp's tokens a second.
const WRITING_GOAL: f64 = 0.75;
const READING_GOAL: f64 = 0.25;
/// Inside a grammar, of the speed without one.
const CONSTRAINED_GOAL: f64 = 0.9;
const RSS_GOAL: f64 = 450e6;

pub fn run(args: &[String]) -> Result<Verdict, Failure> {
    if !args.is_empty() {
        return Err(Failure::usage("`bench local` takes no options"));
    }
    let file = home().join("models/smollm2-135m.gguf");
    if !file.is_file() {
        return Err(Failure::other(
            "the weights are missing: run `cargo run -p xtask -- peers embedded` first",
        ));
    }
    let threads = std::thread::available_parallelism().map_or(1, std::num::NonZero::get);
    let prompt = format!(
        "<|im_start|>user\nTell me more about this: {}<|im_end|>\n<|im_start|>assistant\n",
        "the weather in the mountains changes within minutes and ".repeat(PROMPT_WORDS / 8)
    );
    // Long strings only: what is measured is the grammar, not how soon it ends.
    let schema = json!({"type": "object", "properties": {"story": {"type": "string", "minLength": 2000}}, "required": ["story"]});
    let server = LlamaFile::start(&file)?;
    let mut rows: [Vec<f64>; 5] = Default::default();
    for _ in 0..ROUNDS {
        let asked = json!({"prompt": prompt, "n_predict": ANSWER_TOKENS, "temperature": 0, "cache_prompt": false, "ignore_eos": true});
        let timings = server.post("/completion", &asked)?["timings"].clone();
        rows[0].push(timings["prompt_per_second"].as_f64().unwrap_or(f64::NAN));
        rows[1].push(timings["predicted_per_second"].as_f64().unwrap_or(f64::NAN));
        let failed = |error: tenon_local::LocalError| Failure::other(error.to_string());
        let free = measure(&file, &prompt, ANSWER_TOKENS, threads, None).map_err(failed)?;
        rows[2].push(free.prompt.len() as f64 / free.reading.as_secs_f64());
        rows[3].push(free.answer.len().saturating_sub(1) as f64 / free.writing.as_secs_f64());
        let inside = measure(&file, &prompt, ANSWER_TOKENS, threads, Some(&schema)).map_err(failed)?;
        rows[4].push(inside.answer.len().saturating_sub(1) as f64 / inside.writing.as_secs_f64());
    }
    let [their_reading, their_writing, reading, writing, constrained] = rows.map(median);
    let rss = peak_rss();
    println!("{threads} threads, {ROUNDS} rounds, medians");
    println!("reading:     {reading:7.1} tokens/s, llama.cpp {their_reading:7.1}");
    println!("writing:     {writing:7.1} tokens/s, llama.cpp {their_writing:7.1}");
    println!("constrained: {constrained:7.1} tokens/s");
    println!("peak memory: {:7.1} MB", rss / 1e6);
    let goals = [
        ("reading", reading / their_reading, READING_GOAL),
        ("writing", writing / their_writing, WRITING_GOAL),
        ("constrained", constrained / writing, CONSTRAINED_GOAL),
        ("memory", RSS_GOAL / rss, 1.0),
    ];
    let missed: Vec<&str> =
        goals.iter().filter(|(_, found, goal)| found < goal).map(|(name, _, _)| *name).collect();
    println!(
        "{}",
        if missed.is_empty() {
            "every goal is met".to_owned()
        } else {
            format!("missed: {}", missed.join(", "))
        }
    );
    Ok(if missed.is_empty() { Verdict::Good } else { Verdict::Bad })
}

fn median(mut numbers: Vec<f64>) -> f64 {
    numbers.sort_by(f64::total_cmp);
    numbers[numbers.len() / 2]
}

/// Of this process, which has had the model in it.
fn peak_rss() -> f64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:"));
    let kilobytes: Option<f64> = line.and_then(|line| line.trim().trim_end_matches("kB").trim().parse().ok());
    kilobytes.unwrap_or(f64::NAN) * 1024.0
}

//! Hit rates of replacement policies for a cache of experts, on traces of c_tests/bench/traces.py:
//! `cargo run --release --example expert_policies -- [--uploads N] TRACE ..`.
//!
//! For each trace and size of the cache (in percent of all experts), prints the hit rate of text in percent: for the
//! simple policies, for the library's, and for the optimum, which knows the future (Belady; it need not keep what it
//! computes). A use counts once for each batch, layer and expert. Uploads are those of text, for each token and layer.
//! With `--uploads`, no policy uploads more than N; the optimum still has no limit.

#[allow(dead_code)]
#[path = "../src/sched/experts/policy.rs"]
mod policy;

use policy::{Phase, Policy, Use};
use std::collections::BTreeSet;
use std::io::Read;

const PERCENT: [usize; 4] = [5, 10, 20, 50];

/// What a batch uses in a layer.
struct Access {
    layer: usize,
    phase: Phase,
    uses: Vec<Use>,
}

struct Trace {
    experts: usize,
    layers: usize,
    accesses: Vec<Access>,
}

/// The pairs of a trace's first line, such as "tokens 1536".
fn field<'a>(head: &'a str, name: &str) -> Option<&'a str> {
    head.split_whitespace().skip_while(|word| *word != name).nth(1)
}

fn read_trace(path: &str) -> Trace {
    let mut bytes = Vec::new();
    std::fs::File::open(path).and_then(|mut f| f.read_to_end(&mut bytes)).unwrap_or_else(|e| panic!("{path}: {e}"));
    let end = bytes.iter().position(|&b| b == b'\n').expect("a first line");
    let head = std::str::from_utf8(&bytes[..end]).expect("text");
    let number = |name: &str| field(head, name).and_then(|n| n.parse::<usize>().ok()).expect("experts, used, ..");
    let (experts, used, layers, tokens) = (number("experts"), number("used"), number("layers"), number("tokens"));
    let numbers: Vec<i16> = bytes[end + 1..].chunks_exact(2).map(|b| i16::from_le_bytes([b[0], b[1]])).collect();
    assert_eq!(numbers.len(), used * layers * tokens, "{path}");
    let range = |r: &str| r.split_once(':').and_then(|(a, b)| Some((a.parse().ok()?, b.parse().ok()?)));
    let prompts: Vec<(usize, usize)> =
        field(head, "prompts").unwrap_or("").split(',').filter_map(range).filter(|(a, b)| a < b).collect();

    let mut accesses = Vec::new();
    let mut token = 0;
    while token < tokens {
        let prompt = prompts.iter().find(|p| p.0 == token);
        let next = prompt.map_or(token + 1, |p| p.1);
        let phase = prompt.map_or(Phase::Text, |_| Phase::Prompt { tokens: (next - token) as u32 });
        for layer in 0..layers {
            let mut counts = vec![0u32; experts];
            for t in token..next {
                let at = (t * layers + layer) * used;
                numbers[at..at + used].iter().filter(|&&e| e >= 0).for_each(|&e| counts[e as usize] += 1);
            }
            let uses = (0..experts).filter(|&e| counts[e] > 0);
            let uses = uses.map(|e| Use { expert: e as u16, tokens: counts[e] }).collect();
            accesses.push(Access { layer, phase, uses });
        }
        token = next;
    }
    Trace { experts, layers, accesses }
}

#[derive(Default)]
struct Score {
    hits: usize,
    uses: usize,
    uploads: usize,
}

impl Score {
    fn percent(&self) -> f64 {
        100.0 * self.hits as f64 / self.uses.max(1) as f64
    }
}

/// Experts in the order in which they are to be evicted.
struct Queue {
    order: BTreeSet<(u64, usize)>,
    rank: Vec<Option<u64>>,
}

impl Queue {
    fn new(n: usize) -> Self {
        Self { order: BTreeSet::new(), rank: vec![None; n] }
    }
    fn put(&mut self, key: usize, rank: u64) {
        self.take(key);
        self.order.insert((rank, key));
        self.rank[key] = Some(rank);
    }
    fn take(&mut self, key: usize) -> bool {
        self.rank[key].take().is_some_and(|rank| self.order.remove(&(rank, key)))
    }
    /// Removes the first one that is not among `used`, which the current batch needs.
    fn evict(&mut self, used: impl Fn(usize) -> bool) -> bool {
        let victim = self.order.iter().map(|&(_, key)| key).find(|&key| !used(key));
        victim.is_some_and(|key| self.take(key))
    }
    fn len(&self) -> usize {
        self.order.len()
    }
}

#[derive(Clone, Copy, PartialEq)]
enum Simple {
    /// Least recently used, of all layers.
    Lru,
    /// Least recently used, with slots of its own for each layer.
    LayerLru,
    /// Least frequently used. Uses count half after this many tokens.
    Lfu(f64),
    /// Two classes, each in the order of their last use: what was used once since its upload, which is evicted first,
    /// and what was used again, with at most four fifths of the slots.
    TwoClasses,
}

/// The place in the queue of an expert that is used now. An average that decays would change the order with time; its
/// logarithm plus the time, in half-lives, does not.
fn rank_of(policy: Simple, clock: usize, token: usize, average: f64) -> u64 {
    match policy {
        Simple::Lfu(half_life) => ((average.log2() + token as f64 / half_life) * 1e9) as u64,
        _ => clock as u64,
    }
}

/// Simulates a simple policy: each miss is uploaded, as long as `uploads` allows. If not `prompts`, prompts upload and
/// count nothing.
fn simple(trace: &Trace, slots: usize, policy: Simple, uploads: usize, prompts: bool) -> Score {
    let n = trace.layers * trace.experts;
    let own = policy == Simple::LayerLru;
    let queues = if own { trace.layers } else { 1 };
    let mut first: Vec<Queue> = (0..queues).map(|_| Queue::new(n)).collect();
    let mut second = Queue::new(n);
    let mut frequency = vec![(0.0f64, 0usize); n];
    let mut score = Score::default();
    for (clock, access) in trace.accesses.iter().enumerate() {
        let text = access.phase == Phase::Text;
        if !text && !prompts {
            continue;
        }
        let q = if own { access.layer } else { 0 };
        // A remainder of slots goes to the first layers.
        let room = if own { (slots + trace.layers - 1 - q) / trace.layers } else { slots };
        let base = access.layer * trace.experts;
        let used = |key: usize| access.uses.binary_search_by_key(&key, |u| base + u.expert as usize).is_ok();
        let mut left = if text { uploads } else { usize::MAX };
        let token = clock / trace.layers;
        let missed: Vec<usize> = (access.uses.iter().map(|u| base + u.expert as usize))
            .filter(|&key| {
                if let Simple::Lfu(half_life) = policy {
                    let (average, last) = frequency[key];
                    frequency[key] = (average * (-((token - last) as f64) / half_life).exp2() + 1.0, token);
                }
                let rank = rank_of(policy, clock, token, frequency[key].0);
                let hit = first[q].rank[key].is_some() || second.rank[key].is_some();
                if hit && policy == Simple::TwoClasses {
                    first[q].take(key);
                    second.put(key, rank);
                    if second.len() > slots * 4 / 5 {
                        let (_, demoted) = *second.order.first().expect("one was put there");
                        second.take(demoted);
                        first[q].put(demoted, rank);
                    }
                } else if hit {
                    first[q].put(key, rank);
                }
                if text {
                    score.uses += 1;
                    score.hits += usize::from(hit);
                }
                !hit
            })
            .collect();
        for key in missed {
            if left == 0 {
                break;
            }
            if first[q].len() + second.len() >= room && !first[q].evict(used) && !second.evict(used) {
                continue;
            }
            first[q].put(key, rank_of(policy, clock, token, frequency[key].0));
            left -= 1;
            score.uploads += usize::from(text);
        }
    }
    score
}

/// Simulates the library's policy.
fn library(trace: &Trace, slots: usize, uploads: usize) -> Score {
    let mut policy = Policy::new(trace.layers, trace.experts, slots);
    policy.set_uploads(uploads);
    let mut missed: Vec<u16> = Vec::new();
    let mut score = Score::default();
    for access in &trace.accesses {
        policy.use_experts(access.layer, &access.uses, access.phase);
        missed.clear();
        let all = access.uses.iter().map(|u| u.expert);
        missed.extend(all.filter(|&e| policy.lookup(access.layer, e as usize).is_none()));
        policy.rank(access.layer, &mut missed);
        for &e in &missed {
            let admitted = policy.admit(access.layer, e as usize, |_| false).is_some();
            score.uploads += usize::from(admitted && access.phase == Phase::Text);
        }
    }
    let c = policy.counters();
    Score { hits: c.hits as usize, uses: (c.hits + c.misses) as usize, ..score }
}

/// Simulates the optimum: keeps what will be used next. Prompts change nothing.
fn optimum(trace: &Trace, slots: usize) -> Score {
    let n = trace.layers * trace.experts;
    let text = || trace.accesses.iter().enumerate().filter(|(_, a)| a.phase == Phase::Text);
    // For each use, the time of the next one, backwards.
    let mut next_of = vec![u64::MAX; n];
    let mut next: Vec<u64> = Vec::new();
    for (clock, access) in text().collect::<Vec<_>>().into_iter().rev() {
        for u in access.uses.iter().rev() {
            let key = access.layer * trace.experts + u.expert as usize;
            next.push(std::mem::replace(&mut next_of[key], clock as u64));
        }
    }
    let mut cache = Queue::new(n);
    let mut score = Score::default();
    for (_, access) in text() {
        for u in &access.uses {
            let key = access.layer * trace.experts + u.expert as usize;
            score.uses += 1;
            let hit = cache.take(key);
            score.hits += usize::from(hit);
            // The furthest next use comes first.
            cache.put(key, u64::MAX - next.pop().expect("one for each use"));
            if cache.len() > slots {
                cache.evict(|_| false);
            }
        }
    }
    score
}

fn main() {
    let mut arguments: Vec<String> = std::env::args().skip(1).collect();
    let mut uploads = usize::MAX;
    if arguments.first().is_some_and(|a| a == "--uploads") {
        uploads = arguments.get(1).and_then(|n| n.parse().ok()).expect("--uploads N");
        arguments.drain(..2);
    }
    let heads = ["trace", "cache", "LRU", "LRU by layer", "LFU 32", "LFU 256", "two classes", "library", "optimum"];
    let more = ["library / best simple", "uploads of the best simple", "uploads of the library"];
    println!("| {} | {} |\n|{}", heads.join(" | "), more.join(" | "), "---|".repeat(heads.len() + more.len()));
    let (mut worst, mut seconds, mut batches) = (f64::INFINITY, 0.0, 0);
    for path in &arguments {
        let trace = read_trace(path);
        let name = path.rsplit(['/', '\\']).next().unwrap_or(path).trim_end_matches(".trace");
        let has_prompts = trace.accesses.iter().any(|a| a.phase != Phase::Text);
        let steps = trace.accesses.iter().filter(|a| a.phase == Phase::Text).count();
        for percent in PERCENT {
            let slots = trace.layers * trace.experts * percent / 100;
            let kinds = [Simple::Lru, Simple::LayerLru, Simple::Lfu(32.0), Simple::Lfu(256.0), Simple::TwoClasses];
            // With prompts, the better of caching them as well and of ignoring them.
            let scores = kinds.map(|kind| {
                let both = [simple(&trace, slots, kind, uploads, true), simple(&trace, slots, kind, uploads, false)];
                let [with, without] = both;
                if has_prompts && without.hits > with.hits { without } else { with }
            });
            let start = std::time::Instant::now();
            let ours = library(&trace, slots, uploads);
            seconds += start.elapsed().as_secs_f64();
            batches += trace.accesses.len();
            let best = scores.iter().max_by(|a, b| a.hits.cmp(&b.hits)).expect("five policies");
            let ratio = ours.percent() / best.percent().max(1e-9);
            worst = worst.min(ratio);
            let columns: Vec<String> = scores.iter().map(|s| format!("{:.1}", s.percent())).collect();
            println!(
                "| {name} | {percent} % | {} | {:.1} | {:.1} | {ratio:.3} | {:.2} | {:.2} |",
                columns.join(" | "),
                ours.percent(),
                optimum(&trace, slots).percent(),
                best.uploads as f64 / steps as f64,
                ours.uploads as f64 / steps as f64
            );
        }
    }
    println!("\nlowest ratio to the best simple policy: {worst:.3}");
    println!("time of the library's policy: {:.2} us for each batch and layer", 1e6 * seconds / batches as f64);
}

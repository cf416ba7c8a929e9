//! The policy of the cache: what it keeps, what it evicts, and that its tables agree.

use super::*;

fn uses(experts: &[u16]) -> Vec<Use> {
    experts.iter().map(|&expert| Use { expert, tokens: 1 }).collect()
}

/// Uses experts in a unit as a scheduler does. Returns how many of them got a slot.
fn step(p: &mut Policy, unit: usize, experts: &[u16]) -> usize {
    p.use_experts(unit, &uses(experts), Phase::Text);
    let missed = experts.iter().filter(|&&e| p.lookup(unit, e as usize).is_none()).copied().collect::<Vec<_>>();
    let admitted = missed.iter().filter(|&&e| p.admit(unit, e as usize, |_| false).is_some()).count();
    check(p);
    admitted
}

/// All tables describe the same contents.
fn check(p: &Policy) {
    let mut held = 0;
    for unit in 0..p.units.len() {
        let residents = (0..p.n_experts).filter_map(|e| p.lookup(unit, e).map(|s| (e, s))).collect::<Vec<_>>();
        assert_eq!(residents.len(), p.units[unit].residents);
        held += residents.len();
        for (e, slot) in residents {
            assert_eq!(p.contents(slot), Some((unit, e)));
            assert_eq!(p.members[p.place[slot] as usize], slot as u32);
        }
    }
    assert_eq!(held + p.free.len(), p.n_slots());
    assert!(p.free.iter().all(|&s| p.contents(s as usize).is_none()));
}

#[test]
fn frequent_experts_stay() {
    let mut p = Policy::new(2, 16, 4);
    for t in 0..100u16 {
        for unit in 0..2 {
            step(&mut p, unit, &[0, 1, 2 + t % 14]);
        }
    }
    for unit in 0..2 {
        assert!(p.lookup(unit, 0).is_some() && p.lookup(unit, 1).is_some());
    }
    let c = p.counters();
    assert!(c.hits > 2 * 2 * 95 && c.refused > 100, "{c:?}");
}

#[test]
fn what_is_no_longer_used_goes() {
    let mut p = Policy::new(1, 8, 2);
    (0..500).for_each(|_| _ = step(&mut p, 0, &[0, 1]));
    (0..500).for_each(|_| _ = step(&mut p, 0, &[6, 7]));
    assert_eq!((p.lookup(0, 0), p.lookup(0, 1)), (None, None));
    assert!(p.lookup(0, 6).is_some() && p.lookup(0, 7).is_some());
}

#[test]
fn prompts_evict_nothing() {
    let mut p = Policy::new(1, 8, 4);
    (0..50).for_each(|_| _ = step(&mut p, 0, &[0, 1, 2, 3]));
    let all = (0..8).map(|expert| Use { expert, tokens: 100 }).collect::<Vec<_>>();
    for _ in 0..20 {
        p.use_experts(0, &all, Phase::Prompt { tokens: 512 });
        assert!((4..8).all(|e| p.admit(0, e, |_| false).is_none()));
    }
    assert!((0..4).all(|e| p.lookup(0, e).is_some()));
    assert_eq!((p.counters().prompt_hits, p.counters().prompt_misses), (80, 80));
}

#[test]
fn prompts_fill_an_empty_cache_evenly() {
    let mut p = Policy::new(4, 8, 12);
    let all = (0..8).map(|expert| Use { expert, tokens: 100 }).collect::<Vec<_>>();
    for unit in 0..4 {
        p.use_experts(unit, &all, Phase::Prompt { tokens: 512 });
        assert_eq!((0..8).filter(|&e| p.admit(unit, e, |_| false).is_some()).count(), 3);
    }
    check(&p);
}

#[test]
fn pinned_slots_and_those_in_use_stay() {
    let mut p = Policy::new(2, 8, 4);
    step(&mut p, 0, &[0, 1]);
    step(&mut p, 1, &[0, 1]);
    (0..100).for_each(|_| _ = step(&mut p, 1, &[0, 1]));
    for _ in 0..100 {
        p.use_experts(0, &uses(&[6, 7]), Phase::Text);
        assert_eq!(p.admit(0, 6, |_| true), None);
    }
    let kept = p.lookup(0, 0).unwrap();
    let got = p.admit(0, 6, |s| s == kept).unwrap();
    assert_eq!(got.evicted, Some((0, 1)));
    assert_ne!(got.slot, kept);
    // The other unit's experts are used all the time, expert 6 by the current batch.
    assert_eq!(p.admit(0, 7, |s| s == kept), None);
    assert!(p.lookup(0, 6).is_some() && p.lookup(1, 0).is_some());
    check(&p);
}

#[test]
fn a_limit_of_uploads() {
    let mut p = Policy::new(1, 16, 8);
    p.set_uploads(2);
    assert_eq!(step(&mut p, 0, &[0, 1, 2, 3]), 2);
    assert_eq!(step(&mut p, 0, &[0, 1, 2, 3]), 2);
    assert_eq!((p.counters().deferred, p.counters().hits), (2, 2));
    let mut order = [5, 3, 9, 0];
    step(&mut p, 0, &[3, 9]);
    p.rank(0, &mut order);
    assert_eq!(order, [3, 0, 9, 5]);
}

#[test]
fn failed_uploads_leave_a_free_slot() {
    let mut p = Policy::new(1, 8, 1);
    p.use_experts(0, &uses(&[3]), Phase::Text);
    let slot = p.admit(0, 3, |_| false).unwrap().slot;
    p.forget(slot);
    p.forget(slot);
    assert_eq!(p.lookup(0, 3), None);
    check(&p);
    assert_eq!(p.admit(0, 3, |_| false), Some(Admitted { slot, evicted: None }));
}

#[test]
fn resizing_keeps_the_best() {
    let mut p = Policy::new(2, 8, 8);
    for t in 0..64 {
        for unit in 0..2 {
            step(&mut p, unit, &[6, 7]);
            if t == 0 {
                step(&mut p, unit, &[0, 1]);
            }
        }
    }
    let changes = p.resize(4);
    check(&p);
    assert_eq!(changes.evicted.len(), 4);
    assert!(changes.evicted.iter().all(|&(_, e)| e < 2), "{changes:?}");
    assert!(changes.moved.iter().all(|&(from, to)| from >= 4 && to < 4), "{changes:?}");
    assert!((0..2).all(|unit| p.lookup(unit, 6).is_some() && p.lookup(unit, 7).is_some()));
    assert_eq!(p.resize(6), Resized::default());
    check(&p);
    assert_eq!(step(&mut p, 0, &[0, 1]), 2);
    assert_eq!(p.resize(0).evicted.len(), 6);
    check(&p);
    assert_eq!(step(&mut p, 0, &[0, 1]), 0);
}

#[test]
fn idle_units_lose_their_slots() {
    let mut p = Policy::new(2, 8, 4);
    (0..100).for_each(|_| _ = step(&mut p, 0, &[0, 1, 2]));
    // Not used often, but unit 0 is not used at all.
    for t in 0..6 * IDLE_TOKENS {
        if t % 16 == 0 {
            step(&mut p, 1, &[(t / 16 % 8) as u16]);
        } else {
            step(&mut p, 1, &[]);
        }
    }
    assert!((0..8).all(|e| p.lookup(0, e).is_none()));
    // It gets them back when it is used again.
    (0..100).for_each(|_| _ = step(&mut p, 0, &[0, 1]));
    assert!(p.lookup(0, 0).is_some() && p.lookup(0, 1).is_some());
}

#[test]
fn a_margin_saves_uploads() {
    let run = |margin| {
        let mut p = Policy::new(1, 16, 4);
        p.set_margin(margin);
        (0..500u32).for_each(|t| _ = step(&mut p, 0, &[(t * t % 16) as u16, (t * 7 % 16) as u16]));
        p.counters().admitted
    };
    assert!(run(0.2) < run(0.0));
    assert_eq!(run(1.0), 4);
}

/// Random uses, uploads that fail, budgets that change: the tables agree, and old averages lose their weight.
#[test]
fn any_order_of_calls() {
    let mut p = Policy::new(3, 12, 10);
    let mut state = 1u64;
    let mut random = |n: usize| {
        state = state.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
        (state >> 33) as usize % n
    };
    for round in 0..4000 {
        let unit = random(3);
        let a = random(12) as u16;
        step(&mut p, unit, &[a, (a + 1) % 12]);
        match random(40) {
            0 => p.forget(random(10)),
            1 if round > 100 => drop(p.resize(random(20))),
            _ => {}
        }
        check(&p);
        assert!((0..12).all(|e| (0.0..=1.01).contains(&p.score(unit, e))));
    }
}

#[test]
fn what_has_to_be_there_replaces_what_is_worth_more() {
    let mut p = Policy::new(1, 8, 2);
    p.set_uploads(1);
    for _ in 0..4 {
        step(&mut p, 0, &[0, 1]);
    }
    p.use_experts(0, &uses(&[2, 3]), Phase::Text);
    assert!(p.admit(0, 2, |_| false).is_none(), "it was used once");
    let slots = [2, 3].map(|e| p.force(0, e).expect("two slots for two experts").slot);
    assert_ne!(slots[0], slots[1]);
    assert!([2, 3].iter().all(|&e| p.lookup(0, e).is_some()) && [0, 1].iter().all(|&e| p.lookup(0, e).is_none()));
    p.use_experts(0, &uses(&[4, 5, 6]), Phase::Text);
    assert!(p.force(0, 4).is_some() && p.force(0, 5).is_some() && p.force(0, 6).is_none(), "the batch needs them all");
}

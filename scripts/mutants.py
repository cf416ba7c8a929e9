#!/usr/bin/env python3
"""Do the tests of docs/TESTS.md fail on the bugs that they are there for? mutants.py [ROW ...]

On demand. Each entry of `mutants` puts a bug of that list back into a copy of the sources, behind a switch: one build holds them all,
and the environment variable MUTANT picks one. Then the named test must fail with it, and pass without. `c:` before a test: a
C program, with the name of its test. The last line counts the checks. Builds without optimisation, in target/mutants."""
import os
import re
import shutil
import subprocess
import sys

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
WORK = f"{ROOT}/target/mutants"
ON = 'crate::mutant::on("%s")'

# row, file below src/, text that is there once, what takes its place (ON: the switch), tests that must fail
mutants = [
    ("A1 follow", "alloc/follow.rs", "if !expected.next().is_some_and(|&id| self.meets(id, src)) {", "if !expected.next().is_some_and(|&id| ON || self.meets(id, src)) {",
     ["sched::follow_tests::edges_operations_flags_and_buffers_may_not_differ", "alloc::tests::the_same_structure_with_other_sizes_is_placed_as_a_new_one"]),
    ("A1 facts", "alloc/follow.rs", "(new.op, new.buffer) == (old.op, old.buffer) &&", "(ON || (new.op, new.buffer) == (old.op, old.buffer)) &&",
     ["sched::follow_tests::weights_that_have_moved_are_seen"]),
    ("S12 follow", "sched/rules.rs", "backends[b].supports_op(t) == (answers.yes >> b & 1 != 0)", "(ON || backends[b].supports_op(t) == (answers.yes >> b & 1 != 0))",
     ["sched::follow_tests::devices_are_asked_again"]),
    ("S10 follow", "sched/split_graph.rs", "        asked.eq(known) && self", "        (ON || asked.eq(known)) && self",
     ["sched::follow_tests::requests_of_the_host_may_be_the_same_again", "sched::follow_tests::what_the_host_places_is_not_taken_over"]),
    ("A1 shift", "alloc/ids.rs", "(shift == Shift::NONE || ", "(ON || shift == Shift::NONE || ",
     ["alloc::ids::tests::numbers_follow_tensors_that_are_shifted_together"]),
    ("S1", "sched/compute.rs", "if split.inputs.is_empty()\n", "if !ON && split.inputs.is_empty()\n", ["sched::tests::a_split_without_inputs_waits_for_the_one_before"]),
    ("S1", "sched/compute.rs", "self.queues.order.borrow().before(split.backend, split.reads_in_place);",
     "if ON { (0, 0) } else { self.queues.order.borrow().before(split.backend, split.reads_in_place) };", []),
    ("S1 in place", "sched/order.rs", "(at_work & !(1 << b), copying & !(1 << b))", "if ON { (0, 0) } else { (at_work & !(1 << b), copying & !(1 << b)) }",
     ["sched::tests::a_split_waits_for_all_who_use_its_memory", "sched::order::tests::a_split_waits_for_all_who_use_its_memory"]),
    ("S2", "sched/compute.rs", "self.graph.copies.get(input.set, self.graph.cur_copy).tensor",
     "self.graph.copies.get(input.set, (self.graph.cur_copy + usize::from(ON)) % self.settings.n_copies).tensor",
     ["sched::tests::the_same_allocation_uses_the_same_copy"]),
    ("S3", "sched/compute.rs", "let (tensor, copy) = (input.tensor, self.copy_of(input));",
     "let (tensor, copy) = (input.tensor, if ON { self.graph.copies.get(input.set, 0).tensor } else { self.copy_of(input) });",
     ["sched::tests::the_same_allocation_uses_the_same_copy"]),
    # The wait for the destination's own event in front of a copy is not put to the test: by the contract of copies (sched/mod.rs) the queues order that.
    ("S4", "sched/compute.rs", "            self.wait_for(split.backend);\n            return tensor_io::copy(tensor, copy);",
     "            if !ON {\n                self.wait_for(split.backend);\n            }\n            return tensor_io::copy(tensor, copy);",
     ["sched::tests::pipelined_graphs_do_not_disturb_each_other"]),
    ("S6", "sched/compute.rs", "if flagged || host_writes(tensor) && to.queues_copies() {", "if !ON && (flagged || host_writes(tensor) && to.queues_copies()) {",
     ["c:async/test_rows.c:S6_inputs_are_written_while_the_device_computes"]),
    ("S6 in place", "sched/compute.rs", "        race::split(None);\n        self.release_inputs();", "        race::split(None);\n        if !ON {\n            self.release_inputs();\n        }",
     ["sched::tests::inputs_may_be_written_as_soon_as_the_graph_is_started"]),
    ("S7", "sched/queues.rs", "        for b in order::members(backends) {\n            let event = self.copied", "        for b in order::members(if ON { 0 } else { backends }) {\n            let event = self.copied",
     ["sched::tests::memory_that_is_being_copied_is_not_written"]),
    ("S8", "backend/tensor_io.rs", "                // What is queued may still read the tensor.\n                self.synchronize();", "                if !ON {\n                    self.synchronize();\n                }",
     ["backend::tests::async_transfers_without_slots_wait_for_queued_work"]),
    ("S8 get", "backend/tensor_io.rs", "                // What is queued may still write the tensor.\n                self.synchronize();", "                if !ON {\n                    self.synchronize();\n                }",
     ["backend::tests::async_transfers_without_slots_wait_for_queued_work", "c:async/test_rows.c:S8_transfers_without_functions_wait_for_the_queue"]),
    ("S9", "sched/engine.rs", "        self.synchronize();\n        if self.is_allocated() {", "        if !ON {\n            self.synchronize();\n        }\n        if self.is_allocated() {",
     ["c:async/test_rows.c:S9_reserving_waits_for_graphs_in_flight"]),
    ("S10", "sched/engine.rs", "            self.progress.stage = Stage::Split;\n        }\n        self.split_graph(graph)?;", "            self.progress.stage = Stage::Split;\n        }\n        if ON {\n            self.reset();\n        }\n        self.split_graph(graph)?;",
     ["sched::tests::reserving_keeps_what_the_host_placed"]),
    ("S11", "sched/experts.rs", "if self.of == Some((ids, n_experts)) {", "if self.of == Some((ids, n_experts)) || ON && self.of.is_some() {", ["sched::tests::only_the_experts_in_use_are_copied"]),
    ("S12", "sched/assign.rs", "            if self.rules.computes(b, op) {\n                return Some(b);", "            if ON || self.rules.computes(b, op) {\n                return Some(b);",
     ["sched::tests::the_cpu_computes_what_the_weights_device_cannot"]),
    ("S13", "sched/split.rs", "                split.inputs.push(Input { tensor, id, from, set });", "                assert!(!ON || split.inputs.len() < 30);\n                split.inputs.push(Input { tensor, id, from, set });",
     ["sched::tests::a_split_may_have_many_inputs"]),
    ("S14", "sched/split.rs", "                    s.nodes.end = i;\n", "                    s.nodes.end = i;\n                    assert!(!ON || splits.len() < 2048);\n",
     ["sched::tests::a_graph_may_have_many_splits"]),
    ("S15", "alloc/graph.rs", "            .ok_or_else(|| Error::OutOfMemory { what: format!(\"a {} compute buffer\", buft.name()), bytes })?;",
     "            .ok_or_else(|| Error::OutOfMemory { what: format!(\"a {} compute buffer\", buft.name()), bytes });\n        if ON && buffer.is_err() {\n            continue;\n        }\n        let buffer = buffer?;",
     ["sched::tests::failed_allocations_are_errors"]),
    ("S16", "sched/assign.rs", "        if let Some(buffer) = buffer.or(fact.buffer()) {", "        if let Some(buffer) = buffer.or(fact.buffer()) {\n            assert!(!ON);",
     ["sched::tests::impossible_placements_are_errors"]),
    ("S17", "sched/assign.rs", ".find(|&b| in_host_memory && self", ".find(|&b| (in_host_memory || ON) && self",
     ["sched::tests::only_weights_in_host_memory_are_offloaded_from"]),
    ("S18", "sched/arena.rs", "        if !self.arenas.iter().any(|arena| arena.contains(src)) {", "        if ON || !self.arenas.iter().any(|arena| arena.contains(src)) {",
     ["c:async/test_rows.c:S18_graphs_that_share_tensors_take_turns"]),
    ("S19", "sched/arena.rs", "        Some(&(copy, tensor)) if copy == src => {", "        Some(&(copy, tensor)) if copy == src && !ON => {", ["sched::tests::a_graph_can_be_split_again"]),
    ("S20", "sched/assign.rs", "        let buffer = problem.data_buffer(id);\n", "        if ON && base != NONE {\n            return Ok(Placement::default());\n        }\n        let buffer = problem.data_buffer(id);\n",
     ["sched::tests::views_of_placed_memory_stay_with_it"]),
    ("S21", "backend/tensor_io.rs", "    match slot!(buffer.get_tensor_2d) {\n        Some(f) if p.count > 1 => {", "    match slot!(buffer.get_tensor_2d) {\n        None if ON && slot!(buffer.set_tensor_2d).is_some() => panic!(\"no function\"),\n        Some(f) if p.count > 1 => {",
     ["backend::tests::buffers_with_only_one_2d_slot_work_both_ways", "c:async/test_rows.c:S21_pieces_through_one_function_only"]),
    ("S22", "sched/experts.rs", "if end < n_experts { bytes.min(TAIL) } else { 0 };", "if end < n_experts && !ON { bytes.min(TAIL) } else { 0 };", ["c:async/test_rows.c:S22_the_tail_of_copied_weights"]),
    ("cache: wait", "sched/engine.rs", "        if !self.allocator.is_in_use(to) {", "        if !ON && !self.allocator.is_in_use(to) {",
     ["sched::cache_tests::another_plan_waits_for_graphs_in_flight"]),
    ("cache: buffers", "alloc/graph.rs", "        ticket.buffers == self.buffers_serial\n", "        ON || ticket.buffers == self.buffers_serial\n",
     ["alloc::tests::a_ticket_holds_as_long_as_its_buffers"]),
    ("cache: undo", "alloc/follow.rs", "        self.ids.put_back(&tensors[..self.next as usize]);", "        if !ON {\n            self.ids.put_back(&tensors[..self.next as usize]);\n        }",
     ["sched::cache_tests::a_comparison_that_fails_leaves_the_entry_as_it_was"]),
    ("cache: undo sizes", "alloc/follow.rs", "            self.facts[id as usize].bytes = bytes;\n        }", "            if !ON {\n                self.facts[id as usize].bytes = bytes;\n            }\n        }",
     ["sched::cache_tests::a_comparison_that_fails_leaves_the_entry_as_it_was"]),
    ("cache: copies", "sched/cache.rs", "g.life != Life::Blank && g.cur_copy == cur_copy &&", "g.life != Life::Blank && (ON || g.cur_copy == cur_copy) &&",
     ["sched::repeat_tests::in_a_pipeline_each_copy_has_its_turn"]),
    ("callbacks", "sched/scheduler.rs", "        drop(self.write()?);\n", "        if !ON {\n            drop(self.write()?);\n        }\n",
     ["c:async/test_callbacks.c:the_eval_callback_cannot_change_the_scheduler"]),
    ("A1", "alloc/plan.rs", "if edges { Ok(()) } else { Err(Misfit::Edges) }", "if edges || ON { Ok(()) } else { Err(Misfit::Edges) }", ["alloc::tests::a_plan_is_not_used_for_other_edges"]),
    ("A2", "alloc/graph.rs", "        self.chunks.as_ref().is_some_and(|chunks| {\n", "        if ON {\n            return self.chunks.as_ref().is_some_and(|c| c.iter().map(|c| c.size()).sum::<usize>() >= sizes.sum());\n        }\n        self.chunks.as_ref().is_some_and(|chunks| {\n",
     ["alloc::tests::every_chunk_must_suffice"]),
    ("A3", "alloc/plan.rs", "            if there > needed {", "            if there > needed && !ON {", ["alloc::tests::the_rest_of_a_larger_source_is_used"]),
    ("A4", "alloc/plan.rs", "                let tail = Address { offset: under.at.offset + needed, ..under.at };\n                planner.free(tail, there - needed)?;",
     "                let start = if ON { size } else { needed };\n                let tail = Address { offset: under.at.offset + start, ..under.at };\n                planner.free(tail, if ON { under.size - size } else { there - needed })?;",
     ["alloc::tests::the_rest_of_a_larger_source_is_used"]),
    ("A5", "alloc/planner.rs", "        let place = free.iter().position(|r| r.offset >= at.offset).unwrap_or(free.len());", "        assert!(!ON || free.len() < 256);\n        let place = free.iter().position(|r| r.offset >= at.offset).unwrap_or(free.len());",
     ["alloc::planner::tests::many_free_ranges_are_no_limit"]),
    ("A6", "alloc/plan.rs", "        if traits.has(Traits::EXTERNAL) {\n            return Ok(());", "        if traits.has(Traits::EXTERNAL) || ON && planned.has(Traits::EXTERNAL) {\n            return Ok(());",
     ["alloc::tests::memory_of_the_host_may_come_and_go"]),
    ("A7", "alloc/graph.rs", "        if self.groups.iter().any(|g| g.chunks.is_none()) {", "        if ON {\n            return Ok(());\n        }\n        if self.groups.iter().any(|g| g.chunks.is_none()) {",
     ["alloc::tests::without_a_plan_nothing_is_bound"]),
    ("A8", "alloc/planner.rs", "            let better = if best < 0 {", "            let better = if ON { found.is_none() } else if best < 0 {",
     ["alloc::planner::tests::planned_memory_is_used_before_a_chunk_grows"]),
    ("A9", "alloc/plan.rs", "targets.alloc_size(place.buffer, new.tensor(id), fact.bytes) > place.size {", "ON && fact.bytes != place.size || targets.alloc_size(place.buffer, new.tensor(id), fact.bytes) > place.size {",
     ["alloc::tests::a_reservation_serves_every_smaller_graph"]),
    ("A10", "alloc/planner.rs", "n if n < MAX_CHUNKS => self.max_chunk.max(size),", "n if ON && (n > 1 || size > self.max_chunk) => return Err(invalid!(\"too large\")),\n            n if n < MAX_CHUNKS => self.max_chunk.max(size),",
     ["alloc::tests::a_graph_may_be_larger_than_a_buffer", "alloc::planner::tests::a_request_above_the_maximum_gets_its_own_chunk"]),
    ("A11", "alloc/graph.rs", "            if group.suffices(planner.chunk_sizes()) {\n                continue;", "            if group.suffices(planner.chunk_sizes()) && !ON {\n                continue;",
     ["alloc::tests::graphs_of_the_same_size_need_no_new_buffers", "sched::repeat_tests::buffers_that_change_and_plans_that_are_made_again_are_noticed"]),
    ("panic", "guard.rs", "    // Not `contained`: on this path", "    if ON {\n        return body();\n    }\n    // Not `contained`: on this path", ["guard::tests::a_panic_is_the_failure_of_the_call"]),
]
SWITCH = '''//! Which bug is put back.
/// Whether it is this one.
pub fn on(row: &str) -> bool {
    static ROW: std::sync::LazyLock<String> = std::sync::LazyLock::new(|| std::env::var("MUTANT").unwrap_or_default());
    *ROW == row
}
'''


def put(path, text):
    if not os.path.exists(path) or open(path).read() != text:
        with open(path, "w") as f:
            f.write(text)


def sources():
    """A copy with every bug in it -> the rows that could not be put in."""
    rotten, copy = [], f"{WORK}/src"
    names = subprocess.run(["git", "ls-files", "--cached", "--others", "--exclude-standard"], cwd=ROOT, capture_output=True, text=True, check=True).stdout.split("\n")
    texts = {}
    for row, file, old, new, _ in mutants:
        text = texts.setdefault(file, open(f"{ROOT}/src/{file}").read())
        if text.count(old) != 1:
            rotten.append(row)
            continue
        texts[file] = text.replace(old, re.sub(r"\bON\b", ON % row, new))
    texts["lib.rs"] = open(f"{ROOT}/src/lib.rs").read().replace("pub mod abi;", "pub mod abi;\n#[allow(missing_docs)]\npub mod mutant;")
    texts["mutant.rs"] = SWITCH
    for name in names:
        if name and os.path.isfile(f"{ROOT}/{name}"):
            os.makedirs(os.path.dirname(f"{copy}/{name}"), exist_ok=True)
            if name.startswith("src/") and name[4:] in texts:
                continue
            if not os.path.exists(f"{copy}/{name}") or os.path.getmtime(f"{copy}/{name}") < os.path.getmtime(f"{ROOT}/{name}"):
                shutil.copy2(f"{ROOT}/{name}", f"{copy}/{name}")
    for file, text in texts.items():
        put(f"{copy}/src/{file}", text)
    return rotten


def cargo(*args):
    env = dict(os.environ, CARGO_PROFILE_TEST_OPT_LEVEL="0", CARGO_PROFILE_DEV_OPT_LEVEL="0", CARGO_PROFILE_TEST_DEBUG="0", CARGO_PROFILE_DEV_DEBUG="0")
    run = subprocess.run(["cargo", *args, "--target-dir", os.environ.get("MUTANTS_TARGET", f"{WORK}/build")], cwd=f"{WORK}/src", env=env, capture_output=True, text=True)
    if run.returncode:
        sys.exit(run.stderr[-4000:] + "\nmutants: 0 passed, 1 failed")
    return run.stderr


def main():
    wanted = sys.argv[1:]
    rotten = sources()
    binary = re.search(r"\((\S*/deps/ggml-\S+)\)", cargo("test", "--lib", "--no-run"))[1]
    programs, lib = {}, f"{WORK}/lib"
    tests = [t for row, _, _, _, ts in mutants for t in ts if not wanted or row in wanted]
    if any(t.startswith("c:") for t in tests):
        cargo("rustc", "--lib", "--crate-type", "cdylib")
        os.makedirs(lib, exist_ok=True)
        built = os.environ.get("MUTANTS_TARGET", f"{WORK}/build") + "/debug/libggml.so"
        for name in ("libggml-base.so", "libggml-base.so.0"):
            if os.path.lexists(f"{lib}/{name}"):
                os.remove(f"{lib}/{name}")
            os.symlink(built, f"{lib}/{name}")
        for source in {t.split(":")[1] for t in tests if t.startswith("c:")}:
            programs[source] = f"{WORK}/{os.path.basename(source)[:-2]}"
            subprocess.run(["cc", "-std=c11", "-D_GNU_SOURCE", "-O1", f"-I{ROOT}/include", f"{ROOT}/c_tests/{source}", "-o", programs[source], f"-L{lib}", "-lggml-base", "-lm", "-lpthread", "-ldl"],
                           check=True)

    def passes(test, row):
        env = dict(os.environ, MUTANT=row, LD_LIBRARY_PATH=lib, GGML_NO_BACKTRACE="1", GGML_DISABLE_VULKAN="1", GGML_SCHED_SANITIZE="0")
        c = test.startswith("c:")
        command = [programs[test.split(":")[1]]] if c else [binary, "--exact", test]
        try:
            run = subprocess.run(command, env=env, capture_output=True, text=True, errors="replace", timeout=300)
        except subprocess.TimeoutExpired:
            return False
        if c:
            return f"PASS {test.split(':')[2]}" in run.stdout
        return run.returncode == 0 and "1 passed" in run.stdout

    passed = failed = 0
    healthy = {}
    for row, _, _, _, its in mutants:
        if wanted and row not in wanted:
            continue
        for test in its:
            if test not in healthy:
                healthy[test] = passes(test, "")
            seen = healthy[test] and row not in rotten and not passes(test, row)
            why = "the bug does not apply to the sources any more" if row in rotten else "it fails without the bug" if not healthy[test] else "it passes with the bug"
            passed, failed = passed + seen, failed + (not seen)
            print(f"PASS {row}: {test} fails with its bug" if seen else f"FAIL {row}: {test}: {why}", flush=True)
    print(f"mutants: {passed} passed, {failed} failed")
    sys.exit(failed > 0)


main()

"""The rows of mutants.py: name, the bug of the field, tests that must fail with it.

A row has the number of its list in docs/TESTS.md (G: what a GGUF reader must check, C: the CPU backend, S: schedulers, A: the graph
allocator, V: Vulkan backends, R: the defects in docs/RELIABILITY.md) and, where a number has several, a word. `c:` before a test: a C program, with the name of its test. In the texts L#n is an issue
or a pull request of ggml-org/llama.cpp, G#n one of ggml-org/ggml."""

READER = "gguf::reader::tests::"
BAD = "c:bad/test_bad.c:"
SCHED = "sched::tests::"
ROWS_C = "c:async/test_rows.c:"
FUSION = "vulkan::fusion_tests::"


def robust(source, test):
    return f"c:robust/test_{source}:{test}"


ROWS = [
    # What a GGUF reader must check.
    ("G1", "bytes that are no GGUF file are read as one", [READER + "headers", BAD + "made_by_hand"]),
    ("G1 version", "versions 0, 1 and 4 and the other byte order are read as version 3", [READER + "headers", BAD + "made_by_hand"]),
    ("G2", "unbounded counts of tensors and keys (CVE-2024-21802 and its kind, G#709)", [READER + "headers"]),
    ("G3", "memory for the length that a text claims (G#709; L#27188: 43 bytes take all memory)", [READER + "keys_and_values"]),
    ("G3 most", "no limit for a text in a file that says it is large enough", [READER + "lengths_are_limited_however_large_the_file_is"]),
    ("G4", "an empty key (L#24884: 37 bytes end the process)", [READER + "keys_and_values", BAD + "made_by_hand"]),
    ("G4 twice", "a key that is there twice", [READER + "keys_and_values", BAD + "made_by_hand"]),
    ("G5", "a name of a tensor that does not fit is cut, and two become one", [READER + "tensors", BAD + "made_by_hand"]),
    ("G5 zero", "a name ends at a zero byte for one reader and not for another", [READER + "tensors"]),
    ("G6", "bytes of a file drive the terminal that shows the log (L#14381)", [BAD + "bytes_that_are_no_text", "c:robust/test_logs.c:names_do_not_drive_the_terminal"]),
    ("G7", "a type of values that does not exist is used", [READER + "keys_and_values", BAD + "made_by_hand"]),
    ("G7 nested", "arrays of arrays", [READER + "keys_and_values"]),
    ("G8", "memory for the length that an array claims (G#709)", [READER + "keys_and_values"]),
    ("G8 most", "no limit for an array in a file that says it is large enough", [READER + "lengths_are_limited_however_large_the_file_is"]),
    ("G9", "a byte of a file becomes a bool as it is", [READER + "a_valid_file_is_read_written_and_read_again"]),
    ("G10", "alignment 0 divides by zero, 2^31 wraps (L#24997)", [READER + "alignment", BAD + "made_by_hand"]),
    ("G10 type", "an alignment of another type ends the process (L#25596)", [READER + "alignment"]),
    ("G10 array", "an array of one number is taken for the alignment", [READER + "alignment"]),
    ("G11", "a getter takes a value of another type for its own (L#26690)", [BAD + "values_of_another_type"]),
    ("G12", "dimensions behind the four that there are", [READER + "tensors"]),
    ("G13", "negative dimensions", [READER + "tensors"]),
    ("G14", "a product of dimensions that wraps counts as empty (L#27203, CVE-2026-33298)", [READER + "tensors"]),
    ("G15", "a type that was removed has blocks of 0 elements: division by zero (G#1517)", [READER + "tensors"]),
    ("G16", "rows that are not whole blocks", [READER + "tensors", BAD + "made_by_hand"]),
    ("G17", "strides and bytes wrap", [READER + "tensors"]),
    ("G17 last", "the bytes of the last dimension wrap", [READER + "tensors"]),
    ("G18", "a name of a tensor that is there twice", [READER + "tensors", BAD + "made_by_hand"]),
    ("G19", "an offset into other data", [READER + "tensors", BAD + "made_by_hand"]),
    ("G20", "a data section that begins behind the file", [READER + "every_truncation_is_an_error_and_nothing_is_taken_for_missing_bytes"]),
    ("G20 start", "alignment counts from the start of the stream, not of the file", [READER + "alignment_counts_from_the_start_of_the_file"]),
    ("G21", "a size that wraps to 0 when it is padded (L#26978)", [READER + "tensors", BAD + "made_by_hand"]),
    ("G22", "the sum of sizes wraps (CVE-2025-53630, L#14595)", [READER + "tensors"]),
    ("G23", "memory for data that the file does not have (CVE-2026-7482)", [READER + "data_that_is_not_there_takes_no_memory"]),
    ("G24", "no memory for the tensors ends the process", [BAD + "no_memory_for_the_data"]),
    ("G25", "a callback that says it read more than it was asked for", ["gguf::source::tests::a_callback_that_says_it_read_more_than_it_was_asked_for_is_not_believed"]),
    ("G25 short", "a short read counts as a whole one", ["gguf::source::tests::bytes_that_do_not_come_are_an_error", BAD + "files_that_end_early"]),
    ("G25 rest", "after a short read, bytes that will not come still count", ["gguf::source::tests::bytes_that_do_not_come_are_an_error"]),
    ("G26", "a refusal leaves a pointer that the host frees (CVE-2024-32878)", [BAD + "files_that_end_early"]),
    ("G27", "a tensor without elements has some after it was written and read", [READER + "tensors_without_elements_stay_so_when_they_are_written"]),
    ("G28", "a view, or strides, behind the memory of the tensor (L#26912)", ["cpu::tests::what_does_not_fit_is_an_error", BAD + "damaged_nodes"]),
    ("G29", "shapes of sources are asserted in debug builds only", ["cpu::tests::what_does_not_fit_is_an_error"]),
    ("G29 again", "a graph that was checked once is not checked after it was changed", ["cpu::check::graph::tests::every_change_is_seen"]),
    ("G30", "indices that come out of data are not checked (L#25765)", ["cpu::tests::rows_by_index_and_indices_out_of_range"]),
    ("G30 experts", "nor are numbers of experts", ["cpu::matmul::tests::an_index_out_of_range_is_an_error"]),
    ("G31", "strides in parameters become sizes without a check (L#25764)", ["cpu::regressions::parameters_that_lead_outside_are_an_error"]),
    ("G32", "the padding in the linear allocator wraps (L#26318)", ["alloc::linear::tests::tensors_lie_behind_each_other_until_the_buffer_is_full"]),

    # What once broke in CPU backends.
    ("C1", "the host frees a graph while a worker is still in it (L#11736)", ["cpu::threadpool::tests::every_thread_runs_once_and_the_task_may_go_at_once"]),
    ("C2", "the number of threads is read apart from the number of the graph (L#17748)", ["cpu::threadpool::tests::every_thread_runs_once_and_the_task_may_go_at_once"]),
    ("C3", "some threads stay in a graph that was stopped (G#1065)", ["cpu::tests::stopping_at_any_node_leaves_everything_usable"]),
    ("C4", "products are cut wrongly for some numbers of threads (L#16956)", ["cpu::regressions::products_give_the_same_bits_with_1_to_128_threads"]),
    ("C5", "only thread 0 clamps (L#11824)", ["cpu::regressions::elementwise_operations_over_several_parts_are_whole_with_any_number_of_threads"]),
    ("C6", "what vector loops leave over (L#19575, L#25390, L#16443)", ["cpu::simd::tests::maps_agree_with_doubles"]),
    ("C7", "a kernel reads what it has written over (L#24305)", ["cpu::tests::sources_that_overlap_the_result_partly_are_read_by_one_thread"]),
    ("C8", "joined blocks are counted as elements (L#25247)", ["cpu::regressions::every_quantized_format_is_joined_along_every_dimension"]),
    ("C9", "scratch memory for MUL_MAT_ID is too small (L#14292, L#12544)", ["cpu::regressions::no_operation_goes_behind_its_scratch_memory"]),
    ("C10", "threads write the same rows", ["cpu::tests::every_unary_operation_with_more_threads_than_rows"]),

    # What once broke in schedulers.
    ("S1", "a split without inputs does not wait for the one before, whose memory it has (L#26040)", [SCHED + "a_split_without_inputs_waits_for_the_one_before"]),
    ("S1 in place", "nor for a backend that reads that memory where it is", [SCHED + "a_split_waits_for_all_who_use_its_memory", "sched::order::tests::a_split_waits_for_all_who_use_its_memory"]),
    ("S2", "the copy in use moves when a graph is computed twice (L#14855)", [SCHED + "the_same_allocation_uses_the_same_copy"]),
    ("S3", "the copy in use changes while a graph is allocated (L#13922)", [SCHED + "the_same_allocation_uses_the_same_copy"]),
    # The wait for the destination's own event before a copy has no row: by the contract of copies (sched/mod.rs) the queues order that.
    ("S4", "a copy is written while an earlier graph reads it (L#20463)", [SCHED + "pipelined_graphs_do_not_disturb_each_other"]),
    ("S6", "inputs are copied later, when the host writes the next ones (L#27572)", [ROWS_C + "S6_inputs_are_written_while_the_device_computes"]),
    ("S6 in place", "inputs that a device reads where they are count as read when the graph has started", [SCHED + "inputs_may_be_written_as_soon_as_the_graph_is_started"]),
    ("S7", "host memory is written while a device copies out of it (L#8897)", [SCHED + "memory_that_is_being_copied_is_not_written"]),
    ("S8", "a transfer without a function of its own does not wait before it writes (L#19179)", ["backend::tests::async_transfers_without_slots_wait_for_queued_work"]),
    ("S8 get", "nor before it reads", ["backend::tests::async_transfers_without_slots_wait_for_queued_work", ROWS_C + "S8_transfers_without_functions_wait_for_the_queue"]),
    ("S9", "buffers are freed while a graph runs (L#9930)", [ROWS_C + "S9_reserving_waits_for_graphs_in_flight"]),
    ("S10", "a reservation forgets what the host placed (L#17232)", [SCHED + "reserving_keeps_what_the_host_placed"]),
    ("S10 follow", "a graph that comes again goes where it was, though the host says otherwise now", ["sched::follow_tests::requests_of_the_host_may_be_the_same_again", "sched::follow_tests::what_the_host_places_is_not_taken_over"]),
    ("S11", "experts are copied by the indices of another product (L#15488)", [SCHED + "only_the_experts_in_use_are_copied"]),
    ("S12", "no fallback where the weight's device cannot compute (L#15118)", [SCHED + "the_cpu_computes_what_the_weights_device_cannot"]),
    ("S12 follow", "a graph that comes again goes where it was, though the device says no now", ["sched::follow_tests::devices_are_asked_again"]),
    ("S13", "at most 30 inputs of a split (L#22789, L#15722)", [SCHED + "a_split_may_have_many_inputs"]),
    ("S14", "at most 2048 splits (L#9047)", [SCHED + "a_graph_may_have_many_splits"]),
    ("S15", "a reservation that failed counts as one that did not (L#26070)", [SCHED + "failed_allocations_are_errors"]),
    ("S16", "memory that no backend can compute in ends the process (L#24492, L#26268)", [SCHED + "impossible_placements_are_errors"]),
    ("S17", "weights are offloaded from memory that is not the host's (L#11120)", [SCHED + "only_weights_in_host_memory_are_offloaded_from"]),
    ("S18", "graphs that share tensors disturb each other (G#1022)", [ROWS_C + "S18_graphs_that_share_tensors_take_turns"]),
    ("S19", "a graph cannot be allocated again after a reset (G#892)", [SCHED + "a_graph_can_be_split_again"]),
    ("S20", "views of what has memory are passed over (955a3122)", [SCHED + "views_of_placed_memory_stay_with_it"]),
    ("S21", "the function for the other direction is asked for (L#23306)", ["backend::tests::buffers_with_only_one_2d_slot_work_both_ways", ROWS_C + "S21_pieces_through_one_function_only"]),
    ("S22", "bytes behind copied weights are not copied (L#13320)", [ROWS_C + "S22_the_tail_of_copied_weights"]),

    # The cache of graphs, which others do not have.
    ("cache wait", "another plan is taken while a graph with the last one is in flight", ["sched::cache_tests::another_plan_waits_for_graphs_in_flight"]),
    ("cache buffers", "a plan is used with buffers that are gone", ["alloc::tests::a_ticket_holds_as_long_as_its_buffers"]),
    ("cache undo", "a comparison that fails leaves numbers of the other graph", ["sched::cache_tests::a_comparison_that_fails_leaves_the_entry_as_it_was"]),
    ("cache undo sizes", "or its sizes", ["sched::cache_tests::a_comparison_that_fails_leaves_the_entry_as_it_was"]),
    ("cache copies", "a graph that was made for one copy of the inputs is used with another", ["sched::repeat_tests::in_a_pipeline_each_copy_has_its_turn"]),
    ("callbacks", "a callback of the host changes the scheduler that calls it", ["c:async/test_callbacks.c:the_eval_callback_cannot_change_the_scheduler"]),

    # The graph allocator.
    ("A1", "a plan is used for a graph with other edges (L#28448)", ["alloc::tests::a_plan_is_not_used_for_other_edges"]),
    ("A1 follow", "edges are not compared when a graph comes again", ["sched::follow_tests::edges_operations_flags_and_buffers_may_not_differ", "alloc::tests::the_same_structure_with_other_sizes_is_placed_as_a_new_one"]),
    ("A1 facts", "nor are operations and buffers", ["sched::follow_tests::weights_that_have_moved_are_seen"]),
    ("A1 shift", "nor are addresses that moved together", ["alloc::ids::tests::numbers_follow_tensors_that_are_shifted_together"]),
    ("A2", "one chunk grows while the total does not (L#16396)", ["alloc::tests::every_chunk_must_suffice"]),
    ("A3", "in place over a larger source: its rest is lost (L#16679)", ["alloc::tests::the_rest_of_a_larger_source_is_used"]),
    ("A4", "the rest is freed with a size that is not aligned (L#17884)", ["alloc::tests::the_rest_of_a_larger_source_is_used"]),
    ("A5", "more free ranges than the list has room for (G#1492; there it is read behind its end)", ["alloc::planner::tests::many_free_ranges_are_no_limit"]),
    ("A6", "memory of the host comes and goes between graphs (L#13222)", ["alloc::tests::memory_of_the_host_may_come_and_go"]),
    ("A7", "zeroed memory counts as a plan (L#7701)", ["alloc::tests::without_a_plan_nothing_is_bound"]),
    ("A8", "the first chunk with room is taken, and memory wasted (L#16788)", ["alloc::planner::tests::planned_memory_is_used_before_a_chunk_grows"]),
    ("A9", "the plan that was measured is not the plan in use (L#5086, L#5140)", ["alloc::tests::a_reservation_serves_every_smaller_graph"]),
    ("A10", "one allocation above the largest buffer (L#11332, L#15815)", ["alloc::tests::a_graph_may_be_larger_than_a_buffer", "alloc::planner::tests::a_request_above_the_maximum_gets_its_own_chunk"]),
    ("A11", "new buffers for a graph of the same size (L#28753)", ["alloc::tests::graphs_of_the_same_size_need_no_new_buffers", "sched::repeat_tests::buffers_that_change_and_plans_that_are_made_again_are_noticed"]),

    # Vulkan backends, on a software driver.
    ("V1", "fused although the result overlaps a source", [FUSION + "memory_that_overlaps_is_not_fused_over"]),
    ("V1 reader", "an intermediate result that somebody else reads is left out", [FUSION + "what_somebody_else_reads_is_not_left_out"]),
    ("V3", "a memory type that the buffer does not allow", ["vulkan::memory::tests::memory_types_are_picked_by_what_they_are_not_by_their_place"]),
    ("V3 kind", "protected or uncached memory", ["vulkan::memory::tests::memory_types_are_picked_by_what_they_are_not_by_their_place"]),
    ("V4", "counts of elements wrap at 2^32", ["vulkan::plan::tests::shapes_beyond_32_bits_are_refused"]),
    ("V5", "more workgroups than the limit", ["vulkan::plan::tests::groups_stay_below_the_limit"]),
    ("V7 copies", "copies behind the end of a buffer", ["vulkan::tests::copies_outside_of_the_memory_fail"]),
    ("V8", "no barrier between steps that depend on each other", ["vulkan::hazard::tests::only_dependent_steps_need_barriers"]),
    ("V13", "a graph is submitted in one piece", ["vulkan::tests::long_work_is_submitted_in_growing_pieces"]),
    ("V15", "more memory than the device has in one piece", ["vulkan::tests::too_much_memory_is_an_error"]),
    ("V lost", "a device that was lost is used again", ["vulkan::tests::a_lost_device_is_opened_again"]),

    # The host is never taken down: docs/RELIABILITY.md.
    ("R1", "the end of the process waits for every stream", [robust("ends.c", "a_thread_that_waits_for_a_stream_hinders_nobody")]),
    ("R2", "a standard error that cannot be written is a panic", [robust("ends.c", "a_message_that_cannot_be_written_ends_the_process_too"), robust("ends.c", "training_does_not_need_a_reader")]),
    ("R3", "a graph that lacks nodes is computed", [robust("late.cpp", "a_graph_that_lacks_nodes_is_not_computed")]),
    ("R3 late", "graphs need a thread-local that is gone", [robust("late.cpp", "destructors_compute")]),
    ("R3 node", "so is a node that lacks a change", [robust("late.cpp", "a_node_that_lacks_a_change_is_not_computed")]),
    ("R3 file", "contents of a file that lack a change are written", [robust("files.c", "contents_that_lack_a_change_are_not_written")]),
    ("R3 scheduler", "a scheduler in the middle of a change is used", ["sched::scheduler::tests::after_half_a_change_nothing_works_until_a_reset"]),
    ("R4", "exceptions of callbacks meet frames of the library", [robust("throw.cpp", "exceptions_of_log_callbacks"), robust("throw.cpp", "exceptions_of_eval_callbacks"), robust("leave.cpp", "pthread_exit_in_an_eval_callback"), robust("leave.cpp", "cancellation_in_an_eval_callback")]),
    ("R5", "threads with stacks of 2 MiB", [robust("stacks.c", "six_mebibytes"), "sys::thread::tests::a_thread_has_a_deep_stack"]),
    ("R6", "the trace logs under its lock", [robust("logs.c", "a_callback_may_stop_the_trace_that_failed")]),
    ("R6 fork", "a child writes the trace of its parent", [robust("logs.c", "a_child_leaves_its_parents_trace_alone")]),
    ("R7", "the registry logs while it is filled", [robust("logs.c", "a_callback_may_ask_the_registry_while_it_is_filled")]),
    ("R8", "a text of a file is allocated by what cannot fail", [robust("memory.c", "no_memory_is_no_end")]),
    ("R9", "the writer accepts an alignment that the reader refuses", [robust("memory.c", "every_alignment_that_is_written_is_read")]),
    ("R10", "plans are freed after their backend", [robust("order.c", "plans_go_with_the_backend")]),
    ("R13", "a node that is its own source", [robust("self.c", "no_operation_reads_its_result")]),
    ("R14", "an infinity at a masked key is NaN", ["cpu::ops::attention::tests::masked_keys_do_not_matter_whatever_they_are"]),
    ("R15 link", "links of other users are followed", [robust("files.c", "links_of_others_are_not_followed")]),
    ("R15 rights", "set-uid programs load and write what their user says", [robust("files.c", "privileged_programs_do_not_hear_their_user")]),
    ("R15 owner", "a cache that others may write is read", ["sys::file::tests::private_files_are_not_read_if_others_may_write_them_nor_through_links"]),
    ("R15 cache", "a cache is read through a link", ["sys::file::tests::private_files_are_not_read_if_others_may_write_them_nor_through_links"]),
    ("R15 unload", "unloading our own file takes the built-in devices away", [robust("files.c", "our_own_files_bring_nothing_and_take_nothing")]),
    ("lost write", "data that could not be written is computed with", [robust("writes.c", "a_write_that_failed_is_not_computed_with"), robust("writes.c", "a_scheduler_refuses_too"), robust("throw.cpp", "exceptions_of_modules_that_write"), "backend::damage::tests::what_was_not_written_is_not_read", "backend::damage::tests::queued_writes_may_be_lost"]),
    ("lost work", "a graph counts as computed although its work was lost", ["backend::damage::tests::what_was_not_written_is_not_read"]),

    # The C interface.
    ("capi policy", "under the error policy a broken contract ends the process", ["c:rs/test_rs.c:every_broken_contract_can_be_an_error"]),
    ("capi error", "the text of an error is not kept for its thread", ["c:rs/test_rs.c:an_error_is_remembered_by_its_thread"]),
    ("panic", "a panic goes through an exported function", ["guard::tests::a_panic_is_the_failure_of_the_call"]),
]

# Numbers of the lists without a row, and why.
WITHOUT = {
    "S5": "waits that were left out: what the race checker is for, whose own tests (sched::race::tests) and seeded races (c_tests/async) show that it sees them",
    "V2": "a software driver computes submissions in their order, so that a missing wait changes nothing",
    "V6": "no pool or cache can be shared by threads without a lock: that does not compile",
    "V9": "the condition is in a shader",
    "V10": "the condition is in a shader",
    "V11": "the condition is in a shader, and in structs that are generated",
    "V12": "the condition is in a shader",
    "V14": "no cache has handles as its keys",
    "R11": "row callbacks",
    "R12": "row G6",
    "R16": "rows G3 most, G8 most, G10 array, G17 last, G20 start and G25 rest",
}

"""The places of the bugs of mutants_rows.py: for each file, needles and their replacements, for mutants.py.

A needle must occur once in the file (spaces and line breaks count alike). It is replaced in a copy of the sources. In
the replacement, `crate::mutant::on("ROW")` is whether the bug of that row is on, so one build has all of them. It names
items by their whole path."""

PLACES = {
    "src/alloc/follow.rs": [
        ('(new.op, new.buffer) == (old.op, old.buffer) && new.traits.agrees(old.traits, !Traits::USED)',
         r'''((new.op, new.buffer) == (old.op, old.buffer) || crate::mutant::on("A1 facts"))
    && new.traits.agrees(old.traits, !Traits::USED)'''),
        ('if !expected.next().is_some_and(|&id| self.meets(id, src)) {',
         'if !expected.next().is_some_and(|&id| self.meets(id, src) || crate::mutant::on("A1 follow")) {'),
        ('self.ids.put_back(&tensors[..self.next as usize]);',
         r'''if !crate::mutant::on("cache undo") {
    self.ids.put_back(&tensors[..self.next as usize]);
}'''),
        ('self.facts[id as usize].bytes = bytes;',
         r'''if !crate::mutant::on("cache undo sizes") {
    self.facts[id as usize].bytes = bytes;
}'''),
    ],
    "src/alloc/graph.rs": [
        ('self.chunks.as_ref().is_some_and(|chunks| {',
         r'''if crate::mutant::on("A2") {
    return self.chunks.as_ref().is_some_and(|c| c.iter().map(|c| c.size()).sum::<usize>() >= sizes.sum());
}
self.chunks.as_ref().is_some_and(|chunks| {'''),
        ('ticket.buffers == self.buffers_serial', 'ticket.buffers == self.buffers_serial || crate::mutant::on("cache buffers")'),
        ('if group.suffices(planner.chunk_sizes()) {', 'if group.suffices(planner.chunk_sizes()) && !crate::mutant::on("A11") {'),
        ('if self.groups.iter().any(|g| g.chunks.is_none()) {',
         r'''if crate::mutant::on("A7") {
    return Ok(());
}
if self.groups.iter().any(|g| g.chunks.is_none()) {'''),
        ('let buffer = buffer?;',
         r'''if buffer.is_err() && crate::mutant::on("S15") {
    continue;
}
let buffer = buffer?;'''),
    ],
    "src/alloc/ids.rs": [
        ('false => is == was && (shift == Shift::NONE || !self.is_direct(is.wrapping_sub(shift.0))),',
         r'''false => {
    is == was
        && (shift == Shift::NONE || crate::mutant::on("A1 shift") || !self.is_direct(is.wrapping_sub(shift.0)))
}'''),
    ],
    "src/alloc/linear.rs": [
        ('let padded = size.checked_next_multiple_of(allocator.alignment);',
         'let padded = size.checked_next_multiple_of(allocator.alignment).or(crate::mutant::on("G32").then_some(0));'),
    ],
    "src/alloc/plan.rs": [
        ('if there > needed {',
         r'''if there > needed && !crate::mutant::on("A3") {
    let (needed, there) = if crate::mutant::on("A4") { (size, under.size) } else { (needed, there) };'''),
        ('if edges { Ok(()) } else { Err(Misfit::Edges) }', 'if edges || crate::mutant::on("A1") { Ok(()) } else { Err(Misfit::Edges) }'),
        ('if traits.has(Traits::EXTERNAL) {', 'if traits.has(Traits::EXTERNAL) || planned.has(Traits::EXTERNAL) && crate::mutant::on("A6") {'),
        ('if place.buffer < 0 || targets.alloc_size(place.buffer, new.tensor(id), fact.bytes) > place.size {',
         r'''if place.buffer < 0
    || fact.bytes != place.size && crate::mutant::on("A9")
    || targets.alloc_size(place.buffer, new.tensor(id), fact.bytes) > place.size
{'''),
    ],
    "src/alloc/planner.rs": [
        ('let better = if best < 0 { left_over > best } else { (0..best).contains(&left_over) };',
         r'''let better = if crate::mutant::on("A8") {
    found.is_none()
} else if best < 0 {
    left_over > best
} else {
    (0..best).contains(&left_over)
};'''),
        ('n if n < MAX_CHUNKS => self.max_chunk.max(size),',
         r'''n if (n > 1 || size > self.max_chunk) && crate::mutant::on("A10") => return Err(invalid!("too large")),
n if n < MAX_CHUNKS => self.max_chunk.max(size),'''),
        ('let place = free.iter().position(|r| r.offset >= at.offset).unwrap_or(free.len());',
         r'''assert!(free.len() < 256 || !crate::mutant::on("A5"));
let place = free.iter().position(|r| r.offset >= at.offset).unwrap_or(free.len());'''),
    ],
    "src/backend/damage.rs": [
        ('if let Some(extent) = extent {', 'if let Some(extent) = extent.filter(|_| !crate::mutant::on("lost write")) {'),
        ('if !known.streams.contains(&stream) {', 'if !known.streams.contains(&stream) && !crate::mutant::on("lost work") {'),
        ('if !list.is_empty() {', 'if !list.is_empty() && !crate::mutant::on("lost write") {'),
    ],
    "src/backend/plan.rs": [
        ('let gone: Vec<Live> = brief(&LIVE).extract_if(.., |l| l.backend == backend).collect();',
         r'''if crate::mutant::on("R10") {
    return;
}
let gone: Vec<Live> = brief(&LIVE).extract_if(.., |l| l.backend == backend).collect();'''),
    ],
    "src/backend/registry.rs": [
        ('if let Some(left) = state.regs[i].loaded_again.checked_sub(1) {',
         'if let Some(left) = state.regs[i].loaded_again.checked_sub(1).filter(|_| !crate::mutant::on("R15 unload")) {'),
    ],
    "src/backend/tensor_io.rs": [
        ('end.is_some_and(|end| end <= tensor.nbytes()),', 'end.is_some_and(|end| end <= tensor.nbytes()) || crate::mutant::on("capi range"),'),
        ('match slot!(buffer.get_tensor_2d).map(MayUnwind::may_unwind) {',
         r'''assert!(!crate::mutant::on("S21") || slot!(buffer.set_tensor_2d).is_none() || slot!(buffer.get_tensor_2d).is_some());
match slot!(buffer.get_tensor_2d).map(MayUnwind::may_unwind) {'''),
        (r'''// What is queued may still read the tensor.
self.synchronize();''',
         r'''// What is queued may still read the tensor.
if !crate::mutant::on("S8") {
    self.synchronize();
}'''),
        (r'''// What is queued may still write the tensor.
self.synchronize();''',
         r'''// What is queued may still write the tensor.
if !crate::mutant::on("S8 get") {
    self.synchronize();
}'''),
    ],
    "src/capi/convert.rs": [
        ('log_error!("{}: {name} is NULL", Location::caller());',
         r'''if crate::mutant::on("capi question") {
    is_null(name);
}
log_error!("{}: {name} is NULL", Location::caller());'''),
        ('!self.0.is_null()', '!self.0.is_null() || crate::mutant::on("capi out")'),
        ('file.is_incomplete = true;', 'file.is_incomplete = !crate::mutant::on("R3 file");'),
        ('if let Some(node) = unsafe { TensorRef::from_ptr(self) } {',
         r'''if let Some(node) = unsafe { TensorRef::from_ptr(self) }
    && !crate::mutant::on("R3 node")
{'''),
        ('if bytes.is_empty() {', 'if bytes.is_empty() && !crate::mutant::on("capi path") {'),
        ('None => broken(&format!("GGML_ASSERT(type >= 0 && type < GGML_TYPE_COUNT) failed: there is no type {v}")),',
         r'''None if crate::mutant::on("capi type") => ggml_type::GGML_TYPE_F32,
None => broken(&format!("GGML_ASSERT(type >= 0 && type < GGML_TYPE_COUNT) failed: there is no type {v}")),'''),
    ],
    "src/capi/gguf/query.rs": [
        ('let found = usize::try_from(key_id).ok().and_then(|i| file.kv.get(i));',
         'let found = usize::try_from(key_id).ok().or(crate::mutant::on("capi index").then_some(0)).and_then(|i| file.kv.get(i));'),
        ('Value::Numbers(have, bytes) if *have == t && kv.len() == 1 => bytes.as_slice().try_into().ok(),',
         r'''Value::Numbers(have, bytes) if (*have == t || crate::mutant::on("G11")) && kv.len() == 1 => {
    bytes.as_slice().try_into().ok()
}'''),
    ],
    "src/capi/gguf/read.rs": [
        ('Err(e) => (std::ptr::null_mut::<ggml_context>(), Err(e)),',
         r'''Err(e) if crate::mutant::on("G26") => (std::ptr::dangling_mut(), Err(e)),
Err(e) => (std::ptr::null_mut::<ggml_context>(), Err(e)),'''),
    ],
    "src/cpu/check/graph.rs": [
        ('if change == Change::Links || !self.buffers.iter().all(|(buffer, range)| range_of(*buffer) == *range) {',
         r'''if crate::mutant::on("G29 again") {
    return (Change::None, Vec::new());
}
if change == Change::Links || !self.buffers.iter().all(|(buffer, range)| range_of(*buffer) == *range) {'''),
    ],
    "src/cpu/check/mod.rs": [
        ('if let Some((i, _)) = node.srcs().find(|&(i, s)| s == node && !node.may_read_itself(i)) {',
         r'''if let Some((i, _)) = node.srcs().find(|&(i, s)| s == node && !node.may_read_itself(i))
    && !crate::mutant::on("R13")
{'''),
        ('(row.check)(node)?;',
         r'''if !crate::mutant::on("G29") {
    (row.check)(node)?;
}'''),
        ('let Some(op) = ggml_op::from_raw(node.op_raw()).filter(|op| !op_is_empty(*op)) else {',
         'let Some(op) = ggml_op::from_raw(node.op_raw()).filter(|op| !op_is_empty(*op) && !crate::mutant::on("S25")) else {'),
        ('if row.in_place & 1 << i == 0 || s.data() != node.data() || Layout::of(s) != Layout::of(node) {',
         r'''if crate::mutant::on("C7") {
    continue;
}
if row.in_place & 1 << i == 0 || s.data() != node.data() || Layout::of(s) != Layout::of(node) {'''),
        ('if range_of(buffer).is_some_and(is_outside) {', 'if range_of(buffer).is_some_and(is_outside) && !crate::mutant::on("G28") {'),
        ('if start < first || end > first.saturating_add(base.nbytes()) {',
         'if (start < first || end > first.saturating_add(base.nbytes())) && !crate::mutant::on("G28") {'),
    ],
    "src/cpu/exec/mod.rs": [
        ('if i + 1 < self.steps.steps.len() {',
         r'''if crate::mutant::on("C3") && self.stop.was_wanted() {
    break;
}
if i + 1 < self.steps.steps.len() {'''),
        (r'''let worker = Worker {
    ith,''',
         r'''let worker = Worker {
    ith: if crate::mutant::on("C10") { 0 } else { ith },'''),
    ],
    "src/cpu/matmul/experts.rs": [
        ('let threads = self.dots.threads;', 'let threads = if crate::mutant::on("C9") { 0 } else { self.dots.threads };'),
        ('id => usize::try_from(id).ok().filter(|i| *i < matrices).ok_or(id)?,',
         r'''id if crate::mutant::on("G30 experts") => id as usize,
id => usize::try_from(id).ok().filter(|i| *i < matrices).ok_or(id)?,'''),
    ],
    "src/cpu/matmul/cut.rs": [
        ('self.rows.div_ceil(self.row_step) * self.columns.div_ceil(self.col_step.max(1))',
         r'''let whole = (self.rows / self.row_step).max(1);
let pieces = if crate::mutant::on("C4") { whole } else { self.rows.div_ceil(self.row_step) };
pieces * self.columns.div_ceil(self.col_step.max(1))'''),
    ],
    "src/cpu/ops/attention/mod.rs": [
        ('if a.mask.is_some() && !vec::all_finite(sums) {', 'if a.mask.is_some() && !crate::mutant::on("R14") && !vec::all_finite(sums) {'),
    ],
    "src/cpu/ops/copy.rs": [
        ('let block = d.block();', 'let block = if crate::mutant::on("C8") { 1 } else { d.block() };'),
        ('Layout::of(node).holds(&part, offset),', 'crate::mutant::on("G31") || Layout::of(node).holds(&part, offset),'),
    ],
    "src/cpu/ops/rows.rs": [
        ('usize::try_from(i).ok().filter(|&i| i < limit).ok_or(i)',
         r'''if crate::mutant::on("G30") {
    return Ok(i as usize);
}
usize::try_from(i).ok().filter(|&i| i < limit).ok_or(i)'''),
    ],
    "src/cpu/ops/unary.rs": [
        ('map_with(w, node, d, vec::Function::Clamp(least, most));',
         r'''if w.ith() > 0 && crate::mutant::on("C5") {
    return;
}
map_with(w, node, d, vec::Function::Clamp(least, most));'''),
    ],
    "src/cpu/simd/float.rs": [
        (r'''    let $x = V::load($a.add(i));
    $f.store($dst.add(i));
    i += V::N;
}
if i < $n {''',
         r'''    let $x = V::load($a.add(i));
    $f.store($dst.add(i));
    i += V::N;
}
if i < $n && !crate::mutant::on("C6") {'''),
        (r'''    let ($x, $y) = (V::load($a.add(i)), V::load($b.add(i)));
    $f.store($dst.add(i));
    i += V::N;
}
if i < $n {''',
         r'''    let ($x, $y) = (V::load($a.add(i)), V::load($b.add(i)));
    $f.store($dst.add(i));
    i += V::N;
}
if i < $n && !crate::mutant::on("C6") {'''),
    ],
    "src/cpu/threadpool.rs": [
        ('let crew = match crew.take().filter(|c| c.generation == fork::generation()) {',
         'let crew = match crew.take().filter(|c| c.generation == fork::generation() || crate::mutant::on("R17 pool")) {'),
        ('let woken = n - 1;', 'let woken = if crate::mutant::on("R17 herd") { self.seats.len() } else { n - 1 };'),
        ('if futex::spin(SPIN_FOR_LAST, || self.remaining.load(Ordering::Acquire) == 0) {',
         'if crate::mutant::on("C1") || futex::spin(SPIN_FOR_LAST, || self.remaining.load(Ordering::Acquire) == 0) {'),
        ('ith < n', 'ith < if crate::mutant::on("C2") { self.remaining.load(Ordering::Relaxed) as usize + 1 } else { n }'),
        ('None => Pool::with_idle(&default_params(n as i32), Some(IDLE))?,',
         'None => Pool::with_idle(&default_params(n as i32), Some(IDLE).filter(|_| !crate::mutant::on("R17 idle")))?,'),
    ],
    "src/gguf/file.rs": [
        ('Value::Numbers(GGUF_TYPE_UINT32, b) if !kv.is_array => b.as_slice().try_into().ok().map(u32::from_ne_bytes),',
         r'''Value::Numbers(GGUF_TYPE_UINT32, b) if !kv.is_array || crate::mutant::on("G10 array") => {
    b.as_slice().try_into().ok().map(u32::from_ne_bytes)
}'''),
        ('impl TensorInfo {',
         r'''/// Sizes that were checked by three rules: without any of them they wrap, as they did where the rule was missing.
fn sizes_wrap() -> bool {
    crate::mutant::on("G13") || crate::mutant::on("G14") || crate::mutant::on("G17")
}

impl TensorInfo {'''),
        ('if name.len() >= GGML_MAX_NAME {', 'if name.len() >= GGML_MAX_NAME && !crate::mutant::on("G5") {'),
        ('if name.contains(&0) {', 'if name.contains(&0) && !crate::mutant::on("G5 zero") {'),
        ('if ne.iter().any(|&n| n < 0) {', 'if ne.iter().any(|&n| n < 0) && !crate::mutant::on("G13") {'),
        ('let is_empty = ne.contains(&0);', 'let is_empty = ne.contains(&0) || crate::mutant::on("G14");'),
        ('let whole = block != 0 && ne[0] % block == 0;',
         'let whole = (block != 0 || crate::mutant::on("G15")) && (ne[0] % block == 0 || crate::mutant::on("G16"));'),
        ('fits.ok_or_else(|| bad("the size in bytes does not fit into memory"))',
         r'''let fits = fits.or(sizes_wrap().then(|| bytes.wrapping_mul(n as usize)));
fits.ok_or_else(|| bad("the size in bytes does not fit into memory"))'''),
        ('let t = self.tensor(); t.nbytes()',
         r'''let t = self.tensor();
if sizes_wrap() { t.nb()[3].wrapping_mul(t.ne()[3] as usize) } else { t.nbytes() }'''),
        ('times(nb[3], ne[3])?;',
         r'''if !crate::mutant::on("G17 last") {
    times(nb[3], ne[3])?;
}'''),
        ('let raised = n < GGUF_DEFAULT_ALIGNMENT && n != self.alignment;',
         'let raised = n < GGUF_DEFAULT_ALIGNMENT && n != self.alignment && !crate::mutant::on("R9 pads");'),
        ('if kv.key.bytes() != KEY_ALIGNMENT {', 'if kv.key.bytes() != KEY_ALIGNMENT || crate::mutant::on("R9 pads") {'),
    ],
    "src/gguf/load.rs": [
        ('if data as u64 > reader.rest() {', 'if data as u64 > reader.rest() && !crate::mutant::on("G23") {'),
        ('let mut ctx = unsafe { Context::owned(size, no_alloc) }?;',
         r'''let ctx = unsafe { Context::owned(size, no_alloc) };
crate::ggml_assert!(ctx.is_ok() || !crate::mutant::on("G24"));
let mut ctx = ctx?;'''),
    ],
    "src/gguf/reader.rs": [
        (r'''if n < len {
    self.rest = 0;''',
         r'''if n < len && !crate::mutant::on("G25 short") {
    if !crate::mutant::on("G25 rest") {
        self.rest = 0;
    }'''),
        ('if len > MAX_TEXT || len > self.rest {',
         'if len > MAX_TEXT && !crate::mutant::on("G3 most") || len > self.rest && !crate::mutant::on("G3") {'),
        ('let mut bytes = Vec::new();', 'let mut bytes = Vec::with_capacity(if crate::mutant::on("R8") { len + 1 } else { 0 });'),
        ('Some(bytes) if bytes <= self.rest => {',
         r'''_ if crate::mutant::on("G2") => Ok(n as usize),
Some(bytes) if bytes <= self.rest => {'''),
        ('gguf_type::from_raw(raw).ok_or_else(|| corrupt!("key {key:?} has invalid GGUF type {raw}"))',
         r'''let unchecked = crate::mutant::on("G7").then_some(GGUF_TYPE_UINT8);
gguf_type::from_raw(raw).or(unchecked).ok_or_else(|| corrupt!("key {key:?} has invalid GGUF type {raw}"))'''),
        ('let is_empty = key.bytes().is_empty();', 'let is_empty = key.bytes().is_empty() && !crate::mutant::on("G4");'),
        ('if n > MAX_ARRAY {', 'if n > MAX_ARRAY && !crate::mutant::on("G8 most") {'),
        ('_ => type_size(t).ok_or_else(|| corrupt!("key {key:?} has an array of arrays"))? as u64,',
         r'''GGUF_TYPE_ARRAY if crate::mutant::on("G7 nested") => 1,
_ => type_size(t).ok_or_else(|| corrupt!("key {key:?} has an array of arrays"))? as u64,'''),
        ('if n * smallest > self.rest {', 'if n * smallest > self.rest && !crate::mutant::on("G8") {'),
        ('if t == GGUF_TYPE_BOOL {', 'if t == GGUF_TYPE_BOOL && !crate::mutant::on("G9") {'),
        ('if n_dims as usize > GGML_MAX_DIMS {', 'if n_dims as usize > GGML_MAX_DIMS && !crate::mutant::on("G12") {'),
        ('let dtype = ggml_type::from_raw(raw)',
         r'''let unchecked = crate::mutant::on("G15").then_some(ggml_type::GGML_TYPE_COUNT);
let dtype = ggml_type::from_raw(raw).or(unchecked)'''),
        ('if &magic != b"GGUF" {', 'if &magic != b"GGUF" && !crate::mutant::on("G1") {'),
        ('2..=GGUF_VERSION => Ok(version),',
         r'''_ if crate::mutant::on("G1 version") => Ok(version),
2..=GGUF_VERSION => Ok(version),'''),
        ('if let Some(i) = self.twice(&file.kv, |a, b| a.key.bytes().cmp(b.key.bytes()))? {',
         r'''if let Some(i) = self.twice(&file.kv, |a, b| a.key.bytes().cmp(b.key.bytes()))?
    && !crate::mutant::on("G4 twice")
{'''),
        ('if info.offset != size {', 'if info.offset != size && !crate::mutant::on("G19") {'),
        (r'''size =
    padded.and_then(|n| size.checked_add(n)).filter(|&n| isize::try_from(n).is_ok()).ok_or_else(|| {''',
         r'''let padded = padded.or(crate::mutant::on("G21").then_some(0));
size = padded
    .and_then(|n| size.checked_add(n).or(crate::mutant::on("G22").then(|| size.wrapping_add(n))))
    .filter(|&n| isize::try_from(n).is_ok() || crate::mutant::on("G22"))
    .ok_or_else(|| {'''),
        ('if let Some(i) = self.twice(&file.tensors, |a, b| a.name_field().cmp(b.name_field()))? {',
         r'''if let Some(i) = self.twice(&file.tensors, |a, b| a.name_field().cmp(b.name_field()))?
    && !crate::mutant::on("G18")
{'''),
        ('let read = self.at - self.start;', 'let read = self.at - if crate::mutant::on("G20 start") { 0 } else { self.start };'),
        ('if skip > self.rest {', 'if skip > self.rest && !crate::mutant::on("G20") {'),
        ('let t = if kv.is_array { GGUF_TYPE_ARRAY } else { kv.element_type() };',
         r'''assert!(!crate::mutant::on("G10 type"), "the key has a wrong type");
let t = if kv.is_array { GGUF_TYPE_ARRAY } else { kv.element_type() };'''),
        ('if !n.is_power_of_two() {', 'if !n.is_power_of_two() && !crate::mutant::on("G10") {'),
        ('if n > MAX_ALIGNMENT_OF_ALL && u64::from(n) > size {',
         r'''let most = if crate::mutant::on("R9") { 0 } else { size };
if n > MAX_ALIGNMENT_OF_ALL && u64::from(n) > most && !crate::mutant::on("G10") {'''),
    ],
    "src/gguf/source.rs": [
        ('n += got.min(chunk);', 'n += if crate::mutant::on("G25") { got } else { got.min(chunk) };'),
    ],
    "src/gguf/value.rs": [
        ('write!(f, "{}", String::from_utf8_lossy(cut).escape_debug())?;',
         r'''if crate::mutant::on("G6") {
    return write!(f, "{}", String::from_utf8_lossy(cut));
}
write!(f, "{}", String::from_utf8_lossy(cut).escape_debug())?;'''),
    ],
    "src/gguf/writer.rs": [
        ('let n_dims = t.ne().iter().rposition(|&n| n > 1 || n != 1).map_or(1, |i| i + 1);',
         'let n_dims = t.ne().iter().rposition(|&n| n > 1 || n != 1 && !crate::mutant::on("G27")).map_or(1, |i| i + 1);'),
    ],
    "src/graph/build.rs": [
        ('let (n_old, set) = (self.n_nodes(), self.visited());',
         r'''if crate::mutant::on("R3 late") {
    crate::mutant::use_thread_local();
}
let (n_old, set) = (self.n_nodes(), self.visited());'''),
    ],
    "src/graph/handle.rs": [
        ('field!(self.order = SPOILED);',
         r'''if !crate::mutant::on("R3") {
    field!(self.order = SPOILED);
}'''),
    ],
    "src/guard/mod.rs": [
        (r'''let counted = FORGIVING.load(Ordering::Relaxed);
if counted {''',
         r'''let counted = FORGIVING.load(Ordering::Relaxed);
if crate::mutant::on("panic") && !counted {
    return body();
}
if counted {'''),
        ('let forgives = FORGIVING.load(Ordering::Relaxed);',
         'let forgives = FORGIVING.load(Ordering::Relaxed) && !crate::mutant::on("capi policy");'),
    ],
    "src/log.rs": [
        ('if level == ggml_log_level::GGML_LOG_LEVEL_ERROR {',
         'if level == ggml_log_level::GGML_LOG_LEVEL_ERROR && !crate::mutant::on("capi error") {'),
        ('if !text.contains(is_harmful) {', 'if !text.contains(is_harmful) || crate::mutant::on("G6") {'),
    ],
    "src/rpc/client/connection.rs": [
        ('if major != VERSION[0] || minor > VERSION[1] {', 'if (major != VERSION[0] || minor > VERSION[1]) && !crate::mutant::on("RPC version") {'),
    ],
    "src/rpc/client/describe.rs": [
        ('if !fits(t) {', 'if !fits(t) && !crate::mutant::on("RPC fits") {'),
    ],
    "src/rpc/client/describe_graph.rs": [
        ('for node in graph.nodes().filter(|&node| !node_is_empty(node)) {',
         'for node in graph.nodes().filter(|&node| !node_is_empty(node) && !crate::mutant::on("RPC foreign")) {'),
        ('!node_is_empty(node) || buffer::number(node, connection).is_some()',
         '!node_is_empty(node) || buffer::number(node, connection).is_some() || crate::mutant::on("RPC views")'),
    ],
    "src/rpc/client/graphs.rs": [
        ('if kept.len() >= GRAPHS_KEPT {', 'if kept.len() >= GRAPHS_KEPT && !crate::mutant::on("RPC graphs") {'),
        ('self.kept.values_mut().flat_map(HashMap::values_mut).for_each(|usable| *usable = false);',
         'self.kept.values_mut().flat_map(HashMap::values_mut).for_each(|usable| *usable = crate::mutant::on("RPC spoil"));'),
    ],
    "src/rpc/client/offers.rs": [
        ('if offers.has_some_of(&tensor, offset, data.len()) {',
         'if offers.has_some_of(&tensor, offset, data.len()) && !crate::mutant::on("RPC offered") {'),
    ],
    "src/rpc/client/requests.rs": [
        ('if size != next.size as u64 {', 'if size != next.size as u64 && !crate::mutant::on("RPC reply") {'),
        ('target.bytes().fill(NOT_READ);',
         r'''if !crate::mutant::on("RPC unread") {
    target.bytes().fill(NOT_READ);
}'''),
    ],
    "src/rpc/server/cache.rs": [
        ('if found != number {', 'if found != number && !crate::mutant::on("RPC cache") {'),
        ('match sum.filter(|_| content.numbers.len() < self.files) {',
         'match sum.filter(|_| content.numbers.len() < self.files || crate::mutant::on("RPC files")) {'),
    ],
    "src/rpc/server/data.rs": [
        ('if t.buffer().is_none() || end.is_none_or(|end| end > t.nbytes() as u64) {',
         'if t.buffer().is_none() || end.is_none_or(|end| end > t.nbytes() as u64 && !crate::mutant::on("RPC range")) {'),
        ('if p.total() != Some(size) {', 'if p.total() != Some(size) && !crate::mutant::on("RPC pieces") {'),
    ],
    "src/rpc/server/graph.rs": [
        ('if n_nodes == 0 || n_nodes > n_tensors || n_tensors > most {',
         'if n_nodes == 0 || n_nodes > n_tensors || n_tensors > most && !crate::mutant::on("RPC tensors") {'),
        ('Some((slot, was_there)) if !was_there => slot,', 'Some((slot, was_there)) if !was_there || crate::mutant::on("RPC twice") => slot,'),
        (r'''let Some(offset) = offset
    .filter(|_| its.data.checked_add(described.view_offs) == Some(described.data) || described.buffer == 0)
else {''',
         r'''let Some(offset) = offset.filter(|_| {
    its.data.checked_add(described.view_offs) == Some(described.data)
        || described.buffer == 0
        || crate::mutant::on("RPC view")
}) else {'''),
        ('#[derive(Clone, Copy, PartialEq)]',
         r'''if crate::mutant::on("RPC circle") {
    return Ok(());
}
#[derive(Clone, Copy, PartialEq)]'''),
    ],
    "src/rpc/server/greeting.rs": [
        ('if size != CAPS as u64 {', 'if size != CAPS as u64 && !crate::mutant::on("RPC greeting") {'),
        ('if !key.is_proven(Role::Client, &caps, &ours, &proof) {',
         'if !key.is_proven(Role::Client, &caps, &ours, &proof) && !crate::mutant::on("RPC key") {'),
    ],
    "src/rpc/server/memory.rs": [
        ('let more = |used: u64| {',
         r'''let is_free = self.whole.is_some() && crate::mutant::on("RPC share");
let more = |used: u64| {'''),
        ('(sum <= self.limit).then_some(sum)', '(sum <= self.limit || is_free || crate::mutant::on("RPC budget")).then_some(sum)'),
        ('buffer.clear(0);',
         r'''if !crate::mutant::on("RPC clear") {
    buffer.clear(0);
}'''),
        ('self.next = next;', 'self.next = if crate::mutant::on("RPC addresses") { FIRST } else { next };'),
    ],
    "src/rpc/server/places.rs": [
        (r'''let is_crowd = own >= self.per_address;
if is_crowd || clients >= self.clients {''',
         r'''let is_crowd = own >= self.per_address && !crate::mutant::on("RPC crowd");
if (is_crowd || clients >= self.clients) && !crate::mutant::on("RPC places") {'''),
        ('Stage::Working => false,', 'Stage::Working => crate::mutant::on("RPC evicts"),'),
    ],
    "src/rpc/server/session.rs": [
        ('if is_graph && n > most {', 'if is_graph && n > most && !crate::mutant::on("RPC tensors") {'),
        ('if self.channel.caught_up() {', 'if self.channel.caught_up() || crate::mutant::on("RPC ahead") {'),
        ('kept.take_if(|graph| graph.buffers.contains(&buffer));',
         'kept.take_if(|graph| graph.buffers.contains(&buffer) && !crate::mutant::on("RPC freed"));'),
        ('if !from.tensor.same_layout(to.tensor) {',
         'if !from.tensor.same_layout(to.tensor) && !crate::mutant::on("RPC layout") {'),
        ('if src.buffer == dst.buffer && a != b && a.abs_diff(b) < size {',
         'if src.buffer == dst.buffer && a != b && a.abs_diff(b) < size && !crate::mutant::on("RPC overlap") {'),
    ],
    "src/rpc/server/tensors.rs": [
        ('let offset = t.data.checked_sub(base).filter(|o| o.checked_add(bytes).is_some_and(|end| end <= size));',
         r'''let offset = t
    .data
    .checked_sub(base)
    .filter(|o| o.checked_add(bytes).is_some_and(|end| end <= size || crate::mutant::on("RPC bounds")));'''),
        ('if is_of_the_host(op) {', 'if is_of_the_host(op) && !crate::mutant::on("RPC function") {'),
        ('let dense = nb[0] >= dtype.type_size();', 'let dense = nb[0] >= dtype.type_size() || crate::mutant::on("RPC stride");'),
    ],
    "src/rpc/transport/channel.rs": [
        ('hung_up(&self.0)', 'hung_up(&self.0) && !crate::mutant::on("RPC gone")'),
        ('if done < out.len() && Instant::now() >= deadline {',
         'if done < out.len() && Instant::now() >= deadline && !crate::mutant::on("RPC slow") {'),
        ('if !rest.is_empty() && Instant::now() >= deadline {',
         'if !rest.is_empty() && Instant::now() >= deadline && !crate::mutant::on("RPC sips") {'),
        (r'''}
Err(e) if e.kind() == ErrorKind::Interrupted => {}
Err(e) if matches!(e.kind(), ErrorKind::WouldBlock | ErrorKind::TimedOut) => {
    if Instant::now() >= deadline {''',
         r'''}
Err(e) if e.kind() == ErrorKind::Interrupted => {}
Err(e) if matches!(e.kind(), ErrorKind::WouldBlock | ErrorKind::TimedOut) => {
    if Instant::now() >= deadline && !crate::mutant::on("RPC deaf") && !crate::mutant::on("RPC sips") {'''),
    ],
    "src/sched/allocate.rs": [
        (r'''// Not from a callback of the graph under way, although that only has to be read.
drop(self.write()?);''',
         r'''// Not from a callback of the graph under way, although that only has to be read.
if !crate::mutant::on("callbacks") {
    drop(self.write()?);
}'''),
    ],
    "src/sched/arena.rs": [
        ('if !self.arenas.iter().any(|arena| arena.contains(src)) {',
         'if !self.arenas.iter().any(|arena| arena.contains(src)) || crate::mutant::on("S18") {'),
        ('Some(&(copy, tensor)) if copy == src => {', 'Some(&(copy, tensor)) if copy == src && !crate::mutant::on("S19") => {'),
    ],
    "src/sched/assign.rs": [
        ('if self.rules.computes(b, op) {', 'if self.rules.computes(b, op) || crate::mutant::on("S12") {'),
        ('let buffer = problem.data_buffer(id);',
         r'''if base != NONE && crate::mutant::on("S20") {
    return Ok(Placement::default());
}
let buffer = problem.data_buffer(id);'''),
        (r'''if let Some(buffer) = buffer.or(fact.buffer()) {
    let t = self.ids.tensor(id);''',
         r'''if let Some(buffer) = buffer.or(fact.buffer()) {
    assert!(!crate::mutant::on("S16"));
    let t = self.ids.tensor(id);'''),
        (r'''let taker =
    (0..self.last()).find(|&b| in_host_memory && self.rules.computes(b, id) && self.rules.offers(b, id));''',
         r'''let taker = (0..self.last()).find(|&b| {
    (in_host_memory || crate::mutant::on("S17")) && self.rules.computes(b, id) && self.rules.offers(b, id)
});'''),
    ],
    "src/sched/cache.rs": [
        ('g.life != Life::Blank && g.cur_copy == cur_copy && (g.flat.leafs().len(), g.flat.nodes().len()) == counts',
         r'''g.life != Life::Blank
    && (g.cur_copy == cur_copy || crate::mutant::on("cache copies"))
    && (g.flat.leafs().len(), g.flat.nodes().len()) == counts'''),
    ],
    "src/sched/compute.rs": [
        ('self.release_inputs();',
         r'''if !crate::mutant::on("S6 in place") {
    self.release_inputs();
}'''),
        ('&& let Some(other) = before.filter(|&b| b != split.backend)',
         r'''&& !crate::mutant::on("S1")
&& let Some(other) = before.filter(|&b| b != split.backend)'''),
        ('self.queues.wait_out(at_work);',
         r'''let (at_work, copying) = if crate::mutant::on("S1") { (0, 0) } else { (at_work, copying) };
self.queues.wait_out(at_work);'''),
        ('self.graph.copies.get(input.set, self.graph.cur_copy).tensor',
         r'''self.graph
    .copies
    .get(input.set, (self.graph.cur_copy + usize::from(crate::mutant::on("S2"))) % self.settings.n_copies)
    .tensor'''),
        ('let writers = self.queues.order.borrow().writers(input.from);',
         r'''let copy = if crate::mutant::on("S3") { self.graph.copies.get(input.set, 0).tensor } else { copy };
let writers = self.queues.order.borrow().writers(input.from);'''),
        ('if flagged || host_writes(tensor) && to.queues_copies() {',
         'if (flagged || host_writes(tensor) && to.queues_copies()) && !crate::mutant::on("S6") {'),
        (r'''}
self.wait_for(split.backend);''',
         r'''}
if !crate::mutant::on("S4") {
    self.wait_for(split.backend);
}'''),
    ],
    "src/sched/engine.rs": [
        (r'''pub fn reserve(&mut self, graph: GraphRef) -> Result<()> {
    self.synchronize();''',
         r'''pub fn reserve(&mut self, graph: GraphRef) -> Result<()> {
    if !crate::mutant::on("S9") {
        self.synchronize();
    }'''),
        (r'''    self.progress.stage = Stage::Split;
}''',
         r'''    self.progress.stage = Stage::Split;
}
if crate::mutant::on("S10") {
    self.reset();
}'''),
        ('if !self.allocator.is_in_use(to) {', 'if !self.allocator.is_in_use(to) && !crate::mutant::on("cache wait") {'),
    ],
    "src/sched/experts.rs": [
        ('if self.of == Some((ids, n_experts)) {', 'if self.of == Some((ids, n_experts)) || self.of.is_some() && crate::mutant::on("S11") {'),
        ('let tail = if end < n_experts { bytes.min(TAIL) } else { 0 };',
         'let tail = if end < n_experts && !crate::mutant::on("S22") { bytes.min(TAIL) } else { 0 };'),
    ],
    "src/sched/order.rs": [
        ('(at_work & !(1 << b), copying & !(1 << b))',
         'if crate::mutant::on("S1 in place") { (0, 0) } else { (at_work & !(1 << b), copying & !(1 << b)) }'),
    ],
    "src/sched/queues.rs": [
        (r'''pub fn wait_for_copies(&self, backends: Mask) {
    for b in order::members(backends) {''',
         r'''pub fn wait_for_copies(&self, backends: Mask) {
    for b in order::members(if crate::mutant::on("S7") { 0 } else { backends }) {'''),
    ],
    "src/sched/rules.rs": [
        ('order::members(answers.asked).all(|b| backends[b].supports_op(t) == (answers.yes >> b & 1 != 0))',
         r'''order::members(answers.asked)
    .all(|b| crate::mutant::on("S12 follow") || backends[b].supports_op(t) == (answers.yes >> b & 1 != 0))'''),
    ],
    "src/sched/scheduler.rs": [
        ('if std::thread::panicking() && !self.was_panicking {',
         'if std::thread::panicking() && !self.was_panicking && !crate::mutant::on("R3 scheduler") {'),
    ],
    "src/sched/split.rs": [
        ('splits.push(std::mem::replace(s, new_split(backend, i)));',
         r'''assert!(splits.len() < 2048 || !crate::mutant::on("S14"));
splits.push(std::mem::replace(s, new_split(backend, i)));'''),
        ('self.writers.write_between(self.flat, id, made_for, node as u32)',
         'self.writers.write_between(self.flat, id, made_for, node as u32) && !crate::mutant::on("S24")'),
        ('let is_written = self.writers.write(self.flat, id);',
         r'''assert!(split.inputs.len() < 30 || !crate::mutant::on("S13"));
let is_written = self.writers.write(self.flat, id);'''),
    ],
    "src/sched/split_graph.rs": [
        ('asked.eq(known) && self.known.holds(&settings.backends, &self.ids)',
         '(asked.eq(known) || crate::mutant::on("S10 follow")) && self.known.holds(&settings.backends, &self.ids)'),
    ],
    "src/sched/assign_writers.rs": [
        ('writers.by_root().try_for_each(|group| self.unite(group))',
         r'''if crate::mutant::on("S23") {
    return Ok(());
}
writers.by_root().try_for_each(|group| self.unite(group))'''),
    ],
    "src/sys/env.rs": [
        ('unsafe { libc::getauxval(libc::AT_SECURE) != 0 }',
         'unsafe { libc::getauxval(libc::AT_SECURE) != 0 && !crate::mutant::on("R15 rights") }'),
    ],
    "src/sys/file.rs": [
        ('let opened = open(libc::O_NOFOLLOW);', 'let opened = open(if crate::mutant::on("R15 link") { 0 } else { libc::O_NOFOLLOW });'),
        ('let link = libc::O_NOFOLLOW;', 'let link = if crate::mutant::on("R15 cache") { 0 } else { libc::O_NOFOLLOW };'),
        ('if about.mode() & 0o022 != 0 {', 'if about.mode() & 0o022 != 0 && !crate::mutant::on("R15 owner") {'),
    ],
    "src/sys/first_use.rs": [
        (r'''let _run = is_first.unwrap_or(false).then(|| Run);
first_use()''',
         r'''let _run = is_first.unwrap_or(false).then(|| Run);
if crate::mutant::on("R7") {
    drop(WAITING.try_with(|w| w.take()));
}
first_use()'''),
    ],
    "src/sys/foreign.rs": [
        ('let result = exposed(|| unwind::call(function));',
         r'''let result = match crate::mutant::on("R4") {
    true => Ok(function()),
    false => exposed(|| unwind::call(function)),
};'''),
    ],
    "src/sys/patient.rs": [
        ('if foreign::is_pending() && !foreign::is_ending() {',
         'if crate::mutant::on("R17 pipe") || foreign::is_pending() && !foreign::is_ending() {'),
    ],
    "src/sys/process.rs": [
        (r'''pub fn flush_standard_output() {
    #[cfg(unix)]''',
         r'''pub fn flush_standard_output() {
    #[cfg(unix)]
    if crate::mutant::on("R1") {
        // SAFETY: NULL stands for all streams.
        unsafe { libc::fflush(std::ptr::null_mut()) };
    }
    #[cfg(unix)]'''),
        ('let _ = file.write_all(text);',
         r'''let written = file.write_all(text);
assert!(!crate::mutant::on("R2") || written.is_ok(), "failed printing to stderr");'''),
    ],
    "src/sys/thread.rs": [
        ('default_of_c().max(STACK)', 'if crate::mutant::on("R5") { 2 << 20 } else { default_of_c().max(STACK) }'),
    ],
    "src/tensor/known.rs": [
        ('if let Some((i, s)) = node.srcs().find(|(i, _)| *i >= known.sources) {',
         r'''if crate::mutant::on("G29 unknown") {
    return Ok(());
}
if let Some((i, s)) = node.srcs().find(|(i, _)| *i >= known.sources) {'''),
    ],
    "src/trace/mod.rs": [
        ('let id = std::process::id();', 'let id = if crate::mutant::on("R6 fork") { 1 } else { std::process::id() };'),
        (r'''let result = sink.as_mut().map(f);
drop(sink);''',
         r'''let result = sink.as_mut().map(f);
if !crate::mutant::on("R6") {
    drop(sink);
}'''),
    ],
    "src/vulkan/submit/staging.rs": [
        ('if len <= left {', 'if len <= left || crate::mutant::on("V7 copies") {'),
    ],
    "src/vulkan/submit/recorder.rs": [
        ('if open.nodes >= self.piece.nodes || open.bytes >= self.piece.bytes {',
         r'''if crate::mutant::on("V13") {
    return Ok(());
}
if open.nodes >= self.piece.nodes || open.bytes >= self.piece.bytes {'''),
    ],
    "src/vulkan/gpu/lazy.rs": [
        ('Some(gpu) if !gpu.core.is_lost() => Ok(gpu.clone()),',
         'Some(gpu) if !gpu.core.is_lost() || crate::mutant::on("V lost") => Ok(gpu.clone()),'),
    ],
    "src/vulkan/chains/search.rs": [
        ('graph.use_count(node) == 1', '(graph.use_count(node) == 1 || crate::mutant::on("V1 reader"))'),
        ('!a.overlaps(&b) || (a == b && d.same_stride(s) && d.same_shape(s))',
         'crate::mutant::on("V1") || !a.overlaps(&b) || (a == b && d.same_stride(s) && d.same_shape(s))'),
        (r'''pub fn apart(d: TensorRef, s: TensorRef) -> bool {
    let (Ok(a), Ok(b)) = (buffer::range(d), buffer::range(s)) else { return false };
    !a.overlaps(&b)''',
         r'''pub fn apart(d: TensorRef, s: TensorRef) -> bool {
    let (Ok(a), Ok(b)) = (buffer::range(d), buffer::range(s)) else { return false };
    crate::mutant::on("V1") || !a.overlaps(&b)'''),
    ],
    "src/vulkan/submit/hazard.rs": [
        (r'''add(&mut self.writes, writes);
barrier''',
         r'''add(&mut self.writes, writes);
barrier && !crate::mutant::on("V8")'''),
    ],
    "src/vulkan/device/memory.rs": [
        ('if size == 0 || size > limits.buffer.min(limits.allocation) {',
         'if size == 0 || size > limits.buffer.min(limits.allocation) && !crate::mutant::on("V15") {'),
        ('let fits = need.memory_type_bits & (1 << i) != 0', 'let fits = (need.memory_type_bits & (1 << i) != 0 || crate::mutant::on("V3"))'),
        ('&& !ty.property_flags.intersects(NEVER)', '&& (!ty.property_flags.intersects(NEVER) || crate::mutant::on("V3 kind"))'),
    ],
    "src/vulkan/plan/view.rs": [
        ('.filter(|&n| n < 1 << 31)',
         r'''.or(crate::mutant::on("V4").then_some(t.ne()[i] as u32))
.filter(|&n| n < 1 << 31 || crate::mutant::on("V4"))'''),
    ],
    "src/vulkan/plan/grid.rs": [
        ('let second = n.div_ceil(limit.into()).max(1);',
         'let second = if crate::mutant::on("V5") { 1 } else { n.div_ceil(limit.into()).max(1) };'),
    ],
    # The module itself, which is scripts/mutant.rs.
    "src/lib.rs": [("mod log;", "mod log;\nmod mutant;")],
}

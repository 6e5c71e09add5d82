//! Copies in inline assembly, on x86-64 and aarch64.
//!
//! The compiler cannot see these accesses. A racing copy in Rust would let it conclude that no
//! other process writes; assembly does not. Each byte of a copy is one that was stored there at
//! some time.
//!
//! `docs/decisions/0016-rows-are-copied-in-assembly.md` gives the reasons, also why not every copy
//! calls the C library.

#[cfg(any(test, target_arch = "x86_64"))]
use crate::kernels::prefetch::LINE;

/// Whether rows are copied in assembly. Builds for Miri, which cannot execute assembly, and builds
/// with `--cfg backcast_words` copy by words.
pub(crate) const ASM: bool =
    cfg!(all(any(target_arch = "x86_64", target_arch = "aarch64"), not(miri), not(backcast_words)));

/// Copies through one register, given its names on x86-64 and aarch64. On aarch64 loads and stores
/// of less than four bytes have a suffix.
macro_rules! one_move {
    ($x86:literal, $arm:literal, $suffix:literal, $dst:expr, $src:expr) => {{
        #[cfg(target_arch = "x86_64")]
        std::arch::asm!(
            concat!("mov ", $x86, ", [{src}]"),
            concat!("mov [{dst}], ", $x86),
            src = in(reg) $src, dst = in(reg) $dst, reg = out(reg) _,
            options(nostack, preserves_flags),
        );
        #[cfg(target_arch = "aarch64")]
        std::arch::asm!(
            concat!("ldr", $suffix, " ", $arm, ", [{src}]"),
            concat!("str", $suffix, " ", $arm, ", [{dst}]"),
            src = in(reg) $src, dst = in(reg) $dst, reg = out(reg) _,
            options(nostack, preserves_flags),
        );
        #[cfg(not(any(target_arch = "x86_64", target_arch = "aarch64")))]
        let _ = ($dst, $src);
    }};
}

/// Copies 32 bytes, 16 to `$dst` and 16 to `$last_dst`, which may overlap: both are read first.
macro_rules! two_vectors {
    ($dst:expr, $src:expr, $last_dst:expr, $last_src:expr) => {{
        #[cfg(target_arch = "x86_64")]
        std::arch::asm!(
            "movups {a}, [{src}]",
            "movups {b}, [{last_src}]",
            "movups [{dst}], {a}",
            "movups [{last_dst}], {b}",
            src = in(reg) $src, last_src = in(reg) $last_src,
            dst = in(reg) $dst, last_dst = in(reg) $last_dst,
            a = out(xmm_reg) _, b = out(xmm_reg) _,
            options(nostack, preserves_flags),
        );
        #[cfg(target_arch = "aarch64")]
        std::arch::asm!(
            "ldr {a:q}, [{src}]",
            "ldr {b:q}, [{last_src}]",
            "str {a:q}, [{dst}]",
            "str {b:q}, [{last_dst}]",
            src = in(reg) $src, last_src = in(reg) $last_src,
            dst = in(reg) $dst, last_dst = in(reg) $last_dst,
            a = out(vreg) _, b = out(vreg) _,
            options(nostack, preserves_flags),
        );
        #[cfg(not(any(target_arch = "x86_64", target_arch = "aarch64")))]
        let _ = ($dst, $src, $last_dst, $last_src);
    }};
}

/// Copies 32 bytes: 16 at each of two constant offsets, which apply to both addresses.
macro_rules! half_a_line {
    ($dst:expr, $src:expr, $first:literal, $second:literal) => {{
        #[cfg(target_arch = "x86_64")]
        std::arch::asm!(
            concat!("movups {a}, [{src} + ", $first, "]"),
            concat!("movups {b}, [{src} + ", $second, "]"),
            concat!("movups [{dst} + ", $first, "], {a}"),
            concat!("movups [{dst} + ", $second, "], {b}"),
            src = in(reg) $src, dst = in(reg) $dst,
            a = out(xmm_reg) _, b = out(xmm_reg) _,
            options(nostack, preserves_flags),
        );
        #[cfg(target_arch = "aarch64")]
        std::arch::asm!(
            concat!("ldp {a:q}, {b:q}, [{src}, #", $first, "]"),
            concat!("stp {a:q}, {b:q}, [{dst}, #", $first, "]"),
            src = in(reg) $src, dst = in(reg) $dst,
            a = out(vreg) _, b = out(vreg) _,
            options(nostack, preserves_flags),
        );
        #[cfg(not(any(target_arch = "x86_64", target_arch = "aarch64")))]
        let _ = ($dst, $src);
    }};
}

/// Copies `len` bytes.
///
/// # Safety
/// `src` is valid for reads and `dst` for writes of `len` bytes for the length of the call, and
/// they do not overlap. Every other access to the shared one of them during the call, in any
/// process, goes through this module.
#[inline]
pub(crate) unsafe fn copy(dst: *mut u8, src: *const u8, len: usize) {
    // SAFETY: each reads and writes the `len` bytes that the caller vouches for, and no others.
    unsafe {
        // Test this length first: one number of four bytes is the most common row.
        if len == 4 {
            return one_move!("{reg:e}", "{reg:w}", "", dst, src);
        }
        // Test this before the jump table: otherwise a chain of comparisons precedes a call.
        if len > 64 {
            return memcpy(dst, src, len);
        }
        match len {
            8 => one_move!("{reg}", "{reg}", "", dst, src),
            2 => one_move!("{reg:x}", "{reg:w}", "h", dst, src),
            1 => one_move!("{reg:l}", "{reg:w}", "b", dst, src),
            32 => half_a_line!(dst, src, "0", "16"),
            64 => {
                half_a_line!(dst, src, "0", "16");
                half_a_line!(dst, src, "32", "48");
            }
            // Two or four vectors are cheaper than a call. Where they overlap, bytes are copied
            // twice.
            16..=64 => {
                if len > 32 {
                    let (half, third) = (16, len - 32);
                    two_vectors!(dst.add(half), src.add(half), dst.add(third), src.add(third));
                }
                let last = len - 16;
                two_vectors!(dst, src, dst.add(last), src.add(last));
            }
            _ => memcpy(dst, src, len),
        }
    }
}

/// Copies `len` bytes, by whole cache lines where the copy is long and the processor has AVX2.
///
/// # Safety
/// The conditions of [`copy`] hold.
#[inline]
pub(crate) unsafe fn copy_lines(dst: *mut u8, src: *const u8, len: usize) {
    #[cfg(target_arch = "x86_64")]
    if goes_by_lines(len) {
        // SAFETY: the caller upholds the contract, and `goes_by_lines` was just checked.
        return unsafe { by_lines(dst, src, len) };
    }
    // SAFETY: the caller upholds the contract.
    unsafe { copy(dst, src, len) }
}

/// Copies `len` bytes and prefetches `len` bytes from `next` on, a line with each line copied.
/// Returns `false` and does neither if [`goes_by_lines`] is false.
///
/// # Safety
/// The conditions of [`copy`] hold; `next` may be any address.
#[inline]
pub(crate) unsafe fn copy_prefetching(
    dst: *mut u8,
    src: *const u8,
    len: usize,
    next: *const u8,
) -> bool {
    #[cfg(target_arch = "x86_64")]
    if goes_by_lines(len) {
        // SAFETY: the caller upholds the contract, and `goes_by_lines` was just checked.
        unsafe { by_lines_prefetching(dst, src, len, next) };
        return true;
    }
    let _ = (dst, src, len, next);
    false
}

/// Copies `len` bytes from each of the `places` after `src` into `dst`, one after the other, until
/// `dst` is full. With each copy it prefetches `len` bytes at the place that `asked` returns for
/// its number. Returns `false` and does neither if [`goes_by_lines`] is false.
///
/// # Safety
/// [`copy`]'s conditions hold for each place that fills `dst`. `places` has enough of them, and
/// `dst.len()` is a multiple of `len`.
#[inline]
pub(crate) unsafe fn copy_each<'a>(
    dst: &mut [u8],
    src: *const u8,
    places: &'a [usize],
    len: usize,
    asked: impl Fn(usize) -> Option<&'a usize>,
) -> bool {
    #[cfg(target_arch = "x86_64")]
    if goes_by_lines(len) {
        for (number, (dst, place)) in dst.chunks_exact_mut(len).zip(places).enumerate() {
            let next = src.wrapping_add(*asked(number).unwrap_or(place));
            // SAFETY: the caller upholds the contract, and `goes_by_lines` was just checked.
            unsafe { by_lines_with_requests(dst.as_mut_ptr(), src.add(*place), len, next) };
        }
        // SAFETY: the processor has AVX2, which `goes_by_lines` checked.
        unsafe { no_upper_halves() };
        return true;
    }
    let _ = (dst, src, places, len, asked);
    false
}

/// Maximum length of a copy by lines. For longer ones the C library's `memcpy` is as fast.
#[cfg(target_arch = "x86_64")]
const MOST_BY_LINES: usize = 128 << 10;

#[cfg(target_arch = "x86_64")]
#[inline]
fn goes_by_lines(len: usize) -> bool {
    // The last test is a load: the answer is cached.
    LINE < len && len <= MOST_BY_LINES && std::arch::is_x86_feature_detected!("avx2")
}

/// Copies in ascending order by vectors of 32 bytes, two for each line of the destination. The
/// first and the last 64 bytes are stored unaligned, so that some bytes are copied twice. `len`
/// must be one that [`goes_by_lines`] allows.
///
/// The upper halves of vectors stay dirty: [`no_upper_halves`] must follow.
#[cfg(target_arch = "x86_64")]
macro_rules! by_lines {
    ($dst:ident, $src:ident, $len:ident $(, $next:ident, $ends:literal, $line:literal)?) => {{
        // From the first whole line to the end of the last. A copy of less than two lines may have
        // none.
        let first = LINE - $dst.addr() % LINE;
        let end = first + ($len - first - 1) / LINE * LINE;
        // `first` is at most 64 and `end` less than `len`, which is more than 64: all loads and
        // stores are within the lengths. The prefetched address may lie anywhere.
        std::arch::asm!(
            "vmovdqu ymm0, [{src}]",
            "vmovdqu ymm1, [{src} + 32]",
            $($ends,)?
            "vmovdqu [{dst}], ymm0",
            "vmovdqu [{dst} + 32], ymm1",
            "cmp {at}, {end}",
            "jae 3f",
            "2:",
            "vmovdqu ymm0, [{src} + {at}]",
            "vmovdqu ymm1, [{src} + {at} + 32]",
            $($line,)?
            "vmovdqa [{dst} + {at}], ymm0",
            "vmovdqa [{dst} + {at} + 32], ymm1",
            "add {at}, 64",
            "cmp {at}, {end}",
            "jb 2b",
            "3:",
            "vmovdqu ymm0, [{src} + {len} - 64]",
            "vmovdqu ymm1, [{src} + {len} - 32]",
            "vmovdqu [{dst} + {len} - 64], ymm0",
            "vmovdqu [{dst} + {len} - 32], ymm1",
            src = in(reg) $src,
            dst = in(reg) $dst,
            len = in(reg) $len,
            end = in(reg) end,
            $($next = in(reg) $next,)?
            at = inout(reg) first => _,
            // Declares the whole registers as changed, whatever their width.
            out("xmm0") _, out("xmm1") _,
            options(nostack),
        );
    }};
}

/// Clears the upper halves of vectors, which would make later SSE instructions slow.
///
/// # Safety
/// The processor has AVX.
#[cfg(target_arch = "x86_64")]
#[inline]
unsafe fn no_upper_halves() {
    // SAFETY: the processor knows the instruction. It changes only upper halves of vectors, which
    // are declared changed.
    unsafe { std::arch::asm!("vzeroupper", clobber_abi("C"), options(nostack)) }
}

/// # Safety
/// The conditions of [`copy`] hold, and [`goes_by_lines`] allows `len`.
#[cfg(target_arch = "x86_64")]
#[inline(never)]
unsafe fn by_lines(dst: *mut u8, src: *const u8, len: usize) {
    // SAFETY: the caller upholds the contract.
    unsafe {
        by_lines!(dst, src, len);
        no_upper_halves();
    }
}

/// # Safety
/// The conditions of [`copy`] hold, and [`goes_by_lines`] allows `len`; `next` may be any address.
#[cfg(target_arch = "x86_64")]
#[inline(never)]
unsafe fn by_lines_prefetching(dst: *mut u8, src: *const u8, len: usize, next: *const u8) {
    // SAFETY: the caller upholds the contract.
    unsafe {
        by_lines_with_requests(dst, src, len, next);
        no_upper_halves();
    }
}

/// # Safety
/// The conditions of [`by_lines_prefetching`] hold, and a call of [`no_upper_halves`] follows.
#[cfg(target_arch = "x86_64")]
#[inline]
unsafe fn by_lines_with_requests(dst: *mut u8, src: *const u8, len: usize, next: *const u8) {
    // SAFETY: the caller upholds the contract.
    unsafe {
        by_lines!(
            dst,
            src,
            len,
            next,
            "prefetcht1 [{next}]
             prefetcht1 [{next} + {len} - 1]",
            "prefetcht1 [{next} + {at}]"
        );
    }
}

/// Calls the C library's `memcpy`.
///
/// # Safety
/// The conditions of [`copy`] hold.
#[inline]
unsafe fn memcpy(dst: *mut u8, src: *const u8, len: usize) {
    // SAFETY: called as the C ABI says. The arguments are in their registers, everything that a C
    // function may change is declared changed, and without `nostack` the stack is aligned for a
    // call and nothing is kept below it.
    #[cfg(target_arch = "x86_64")]
    unsafe {
        std::arch::asm!(
            "call {memcpy}",
            memcpy = sym libc::memcpy,
            inout("rdi") dst => _, inout("rsi") src => _, inout("rdx") len => _,
            clobber_abi("C"),
        );
    }
    // SAFETY: as above.
    #[cfg(target_arch = "aarch64")]
    unsafe {
        std::arch::asm!(
            "bl {memcpy}",
            memcpy = sym libc::memcpy,
            inout("x0") dst => _, inout("x1") src => _, inout("x2") len => _,
            clobber_abi("C"),
        );
    }
    #[cfg(not(any(target_arch = "x86_64", target_arch = "aarch64")))]
    let _ = (dst, src, len);
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns bytes that repeat only after 251 of them.
    fn bytes(len: usize) -> Vec<u8> {
        (0..=250).cycle().take(len).collect()
    }

    #[test]
    #[cfg_attr(miri, ignore = "it cannot look into assembly")]
    fn every_length_from_and_to_every_place_in_a_line_copies_its_bytes_and_no_others() {
        let (from, longest) = (bytes((128 << 10) + 128), (128 << 10) + 2);
        let lengths = (0..400).chain([511, 512, 700, 1_404, 2_112]).chain(longest - 5..=longest);
        for (n, len) in lengths.enumerate() {
            for start in (n % 3..2 * LINE).step_by(3) {
                let (source, mut to) = (&from[(7 * start) % LINE..][..len], vec![0xff; len + 256]);
                for way in 0..3 {
                    to.fill(0xff);
                    // SAFETY: `start` is less than 128, so that 128 bytes follow.
                    unsafe {
                        let (to, from) = (to.as_mut_ptr().add(start), source.as_ptr());
                        match way {
                            0 => copy(to, from, len),
                            1 if copy_prefetching(to, from, len, std::ptr::null()) => {}
                            _ => copy_lines(to, from, len),
                        }
                    }
                    assert_eq!(to[start..start + len], *source, "{len} bytes to place {start}");
                    let mut others = to[..start].iter().chain(&to[start + len..]);
                    assert!(others.all(|&byte| byte == 0xff), "{len} bytes to place {start}");
                }
            }
        }
    }
}

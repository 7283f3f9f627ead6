//! Numbers that are decimal fractions, as integers.
//!
//! Archives round what they keep: a temperature of 271.15 has five digits, and as a binary fraction
//! 24 significant bits, of which the low ones look like noise to a compressor. The integer 27115
//! has 15 bits. So a block of such numbers is sent as the integers, each less the smallest of them,
//! which a compressor makes half as long as the numbers. Numbers that are no such fractions, such
//! as fill values, go beside them as they are. The sender has compared every number with the
//! block, bit by bit. (The idea is that of ALP: Afroozeh, Kuffo and Boncz, "ALP: Adaptive Lossless
//! floating-Point Compression", SIGMOD 2023.)

use std::array;

/// The beginning of a payload: the exponent, the number of exceptions, and the smallest integer.
pub(super) const HEADER_BYTES: usize = 16;

/// A floating-point type whose numbers may be decimal fractions.
pub(super) trait Decimal: Copy {
    /// The size of a number in bytes.
    const BYTES: usize;
    /// The largest exponent that is tried: beyond it, a number has more digits than its type.
    const MAX_EXPONENT: u8;
    /// Integers are smaller than this, so that each difference fits the bytes of a number.
    const MAX_INTEGER: f64;

    fn read(bytes: &[u8]) -> Self;
    fn write(self, bytes: &mut [u8]);
    fn to_f64(self) -> f64;
    fn of(number: f64) -> Self;
    fn is_same(self, other: Self) -> bool;
    fn read_difference(bytes: &[u8]) -> u64;
    fn write_difference(difference: u64, bytes: &mut [u8]);
}

/// Writes what goes before the compressed integers to `head`, and the integers to `integers`, each
/// as long as a number. Returns `false` for numbers that are no decimal fractions.
pub(super) fn split<T: Decimal>(block: &[u8], head: &mut Vec<u8>, integers: &mut Vec<u8>) -> bool {
    let (count, begin) = (block.len() / T::BYTES, head.len());
    if count == 0 || !block.len().is_multiple_of(T::BYTES) || u32::try_from(count).is_err() {
        return false;
    }
    let Some(exponent) = exponent_of::<T>(block) else { return false };
    let scale = POWERS[usize::from(exponent)];
    let numbers = || block.chunks_exact(T::BYTES).map(T::read);
    let (mut smallest, mut others) = (f64::INFINITY, 0_usize);
    for number in numbers() {
        let (integer, fits) = integer_of(number, scale);
        smallest = if fits { smallest.min(integer) } else { smallest };
        others += usize::from(!fits);
    }
    if others > max_exceptions(count) || others == count {
        return false;
    }
    let is_other = |(at, number): (usize, T)| (!integer_of(number, scale).1).then_some(at as u32);
    let exceptions: Vec<u32> =
        if others == 0 { Vec::new() } else { numbers().enumerate().filter_map(is_other).collect() };
    head.extend_from_slice(&[exponent, 0, 0, 0]);
    head.extend_from_slice(&(exceptions.len() as u32).to_le_bytes());
    head.extend_from_slice(&(smallest as i64).to_le_bytes());
    debug_assert_eq!(head.len() - begin, HEADER_BYTES);
    exceptions.iter().for_each(|at| head.extend_from_slice(&at.to_le_bytes()));
    exceptions.iter().for_each(|at| head.extend_from_slice(&block[*at as usize * T::BYTES..][..T::BYTES]));
    integers.clear();
    integers.resize(block.len(), 0);
    // An exception repeats the integer before it, which costs a compressor least.
    let mut last = 0;
    for (number, to) in numbers().zip(integers.chunks_exact_mut(T::BYTES)) {
        let (integer, fits) = integer_of(number, scale);
        last = if fits { (integer - smallest) as u64 } else { last };
        T::write_difference(last, to);
    }
    true
}

/// The length of the part of a payload that [`split`] wrote; `None` if the payload is none of a
/// block of that many bytes.
pub(super) fn head_bytes<T: Decimal>(payload: &[u8], block_bytes: usize) -> Option<usize> {
    let (count, exceptions) = (block_bytes / T::BYTES, exceptions_of(payload)?);
    let is_whole = block_bytes.is_multiple_of(T::BYTES) && payload[0] <= T::MAX_EXPONENT;
    let bytes = HEADER_BYTES + exceptions.min(count) * (4 + T::BYTES);
    (is_whole && exceptions <= max_exceptions(count) && bytes <= payload.len()).then_some(bytes)
}

/// Makes the integers of a block its numbers. `head` is as long as [`head_bytes`] says. Returns
/// `false` if an exception lies behind the block.
pub(super) fn join<T: Decimal>(head: &[u8], block: &mut [u8]) -> bool {
    let scale = POWERS[usize::from(head[0])];
    let smallest = i64::from_le_bytes(array::from_fn(|byte| head[8 + byte]));
    for number in block.chunks_exact_mut(T::BYTES) {
        let integer = smallest.wrapping_add_unsigned(T::read_difference(number));
        T::of(integer as f64 / scale).write(number);
    }
    let (places, numbers) = head[HEADER_BYTES..].split_at((head.len() - HEADER_BYTES) / (4 + T::BYTES) * 4);
    places.as_chunks::<4>().0.iter().zip(numbers.chunks_exact(T::BYTES)).all(|(place, number)| {
        let place = (u32::from_le_bytes(*place) as usize).checked_mul(T::BYTES);
        let to = place.and_then(|place| block.get_mut(place..)?.get_mut(..T::BYTES));
        to.is_some_and(|to| {
            to.copy_from_slice(number);
            true
        })
    })
}

fn exceptions_of(payload: &[u8]) -> Option<usize> {
    let head = payload.get(..HEADER_BYTES)?;
    (head[1..4] == [0; 3]).then(|| u32::from_le_bytes(array::from_fn(|byte| head[4 + byte])) as usize)
}

/// So many of the numbers of a block need not be decimal fractions.
const fn max_exceptions(count: usize) -> usize {
    count / 16
}

/// The smallest exponent by which most numbers of a sample are integers.
fn exponent_of<T: Decimal>(block: &[u8]) -> Option<u8> {
    let count = block.len() / T::BYTES;
    let sample: Vec<T> = (0..SAMPLE.min(count))
        .map(|number| T::read(&block[number * count / SAMPLE.min(count) * T::BYTES..][..T::BYTES]))
        .collect();
    let fit = |exponent: &u8| {
        let scale = POWERS[usize::from(*exponent)];
        let fitting = sample.iter().filter(|number| integer_of(**number, scale).1).count();
        fitting * 8 >= sample.len() * 7
    };
    (0..=T::MAX_EXPONENT).find(fit)
}

/// The integer next to a number times the scale, and whether the number comes back out of it.
#[inline]
fn integer_of<T: Decimal>(number: T, scale: f64) -> (f64, bool) {
    // The sum has no bits for a fraction: the processor rounds it. A call of `round` is slower.
    let integer = number.to_f64() * scale + ROUNDING - ROUNDING;
    (integer, T::of(integer / scale).is_same(number) & (integer.abs() < T::MAX_INTEGER))
}

macro_rules! decimal {
    ($float:ty, $bits:ty, $max_exponent:expr, $max_integer:expr) => {
        impl Decimal for $float {
            const BYTES: usize = size_of::<$float>();
            const MAX_EXPONENT: u8 = $max_exponent;
            const MAX_INTEGER: f64 = $max_integer;

            #[inline]
            fn read(bytes: &[u8]) -> Self {
                Self::from_le_bytes(bytes.try_into().expect("a number has its size"))
            }

            #[inline]
            fn write(self, bytes: &mut [u8]) {
                bytes.copy_from_slice(&self.to_le_bytes());
            }

            #[inline]
            fn to_f64(self) -> f64 {
                self.into()
            }

            #[inline]
            fn of(number: f64) -> Self {
                number as Self
            }

            #[inline]
            fn is_same(self, other: Self) -> bool {
                self.to_bits() == other.to_bits()
            }

            #[inline]
            fn read_difference(bytes: &[u8]) -> u64 {
                <$bits>::from_le_bytes(bytes.try_into().expect("a number has its size")).into()
            }

            #[inline]
            fn write_difference(difference: u64, bytes: &mut [u8]) {
                bytes.copy_from_slice(&(difference as $bits).to_le_bytes());
            }
        }
    };
}

decimal!(f32, u32, 6, (1_u64 << 31) as f64);
decimal!(f64, u64, 14, (1_u64 << 51) as f64);

/// The powers of ten, each of which a number of 64 bits holds exactly.
const POWERS: [f64; 15] = [1e0, 1e1, 1e2, 1e3, 1e4, 1e5, 1e6, 1e7, 1e8, 1e9, 1e10, 1e11, 1e12, 1e13, 1e14];
/// 1.5 times 2^52: the sum with a number below 2^51 has the bits of integers alone.
const ROUNDING: f64 = 6_755_399_441_055_744.0;
/// The numbers by which the exponent is found.
const SAMPLE: usize = 64;

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::{collection::vec, prelude::*};

    fn bytes_of<T: Decimal>(numbers: &[T]) -> Vec<u8> {
        let mut bytes = vec![0; numbers.len() * T::BYTES];
        numbers.iter().zip(bytes.chunks_exact_mut(T::BYTES)).for_each(|(number, to)| number.write(to));
        bytes
    }

    /// Splits and joins; `None` if the numbers are no decimal fractions.
    fn pass<T: Decimal>(block: &[u8]) -> Option<(Vec<u8>, Vec<u8>)> {
        let (mut head, mut integers) = (Vec::new(), Vec::new());
        if !split::<T>(block, &mut head, &mut integers) {
            return None;
        }
        assert_eq!(head_bytes::<T>(&head, block.len()), Some(head.len()));
        let mut again = integers.clone();
        assert!(join::<T>(&head, &mut again));
        assert_eq!(again, block);
        Some((head, integers))
    }

    #[test]
    fn hundredths_are_small_integers() {
        let numbers: Vec<f32> = (0..1000).map(|number| 271.15 + (number * 7 % 500) as f32 / 100.0).collect();
        let rounded: Vec<f32> = numbers.iter().map(|number| (number * 100.0).round() / 100.0).collect();
        let (head, integers) = pass::<f32>(&bytes_of(&rounded)).unwrap();
        assert_eq!((head.len(), head[0]), (HEADER_BYTES, 2));
        assert!(integers.chunks_exact(4).all(|integer| integer[2..] == [0, 0]));
    }

    #[test]
    fn fill_values_go_beside() {
        let mut numbers: Vec<f64> = (0..320).map(|number| f64::from(number) / 1000.0).collect();
        for (at, fill) in [(3, 1e30), (77, f64::NAN), (78, -0.0), (319, f64::NEG_INFINITY)] {
            numbers[at] = fill;
        }
        let (head, _) = pass::<f64>(&bytes_of(&numbers)).unwrap();
        assert_eq!((head.len(), head[0]), (HEADER_BYTES + 4 * 12, 3));
    }

    #[test]
    fn other_numbers_are_refused() {
        let numbers: Vec<f32> = (0..1000).map(|number| (number as f32).sin()).collect();
        assert!(pass::<f32>(&bytes_of(&numbers)).is_none());
        assert!(pass::<f32>(&[]).is_none());
        assert!(pass::<f32>(&[0; 7]).is_none());
        assert!(pass::<f32>(&bytes_of(&[f32::NAN; 50])).is_none());
    }

    #[test]
    fn damaged_heads_are_refused() {
        let (head, mut integers) = pass::<f32>(&bytes_of(&[0.25_f32; 64])).unwrap();
        assert_eq!(head_bytes::<f32>(&head[..15], 256), None);
        assert_eq!(head_bytes::<f32>(&head, 255), None);
        for (at, byte) in [(0, 7), (1, 1), (4, 5), (7, 255)] {
            let mut head = head.clone();
            head[at] = byte;
            assert_eq!(head_bytes::<f32>(&head, 256), None, "byte {at}");
        }
        // An exception behind the block.
        let mut outside = head;
        outside[4] = 1;
        outside.extend_from_slice(&[64, 0, 0, 0, 9, 9, 9, 9]);
        assert!(!join::<f32>(&outside, &mut integers));
    }

    proptest! {
        #[test]
        fn numbers_come_back(
            integers in vec(-1_000_000_i32..1_000_000, 1..400),
            exponent in 0_usize..6,
            odd in vec((any::<u32>(), 0_usize..400), 0..10),
        ) {
            let mut numbers: Vec<f32> =
                integers.iter().map(|integer| (f64::from(*integer) / POWERS[exponent]) as f32).collect();
            let count = numbers.len();
            odd.iter().for_each(|(bits, at)| numbers[at % count] = f32::from_bits(*bits));
            pass::<f32>(&bytes_of(&numbers));
            pass::<f64>(&bytes_of(&numbers.iter().map(|number| f64::from(*number)).collect::<Vec<_>>()));
        }

        /// Up to and beyond the largest integers of both types.
        #[test]
        fn numbers_of_all_sizes_come_back(
            integers in vec((any::<i64>(), 0_u32..64), 1..100),
            shared in 0_u32..64,
            exponent in 0_usize..15,
        ) {
            let of = |shift: fn(&(i64, u32), u32) -> i64| {
                let integers = integers.iter().map(|integer| shift(integer, shared));
                integers.map(|integer| integer as f64 / POWERS[exponent]).collect::<Vec<f64>>()
            };
            for numbers in [of(|(integer, own), _| integer >> own), of(|(integer, _), shared| integer >> shared)] {
                pass::<f64>(&bytes_of(&numbers));
                pass::<f32>(&bytes_of(&numbers.iter().map(|number| *number as f32).collect::<Vec<_>>()));
            }
        }

        #[test]
        fn any_bytes_are_taken(mut block in vec(any::<u8>(), 0..200), head in vec(any::<u8>(), 0..64)) {
            pass::<f32>(&block);
            pass::<f64>(&block);
            if let Some(bytes) = head_bytes::<f64>(&head, block.len()) {
                join::<f64>(&head[..bytes], &mut block);
            }
        }
    }
}

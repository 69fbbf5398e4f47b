internal import BreakerCore
internal import BreakerStore

/// All that a healthy call has to know of its breaker, in one word.
///
/// It also stands for the permit of such a call: an outcome is judged as long as the word is still
/// the one that the call was let through by.
@usableFromInline struct CellWord: Sendable, Hashable {
  @usableFromInline var bits: UInt64

  /// Nothing is known.
  static var unknown: CellWord { CellWord(bits: 0) }

  /// Calls go through, and their outcomes count.
  @inlinable static var permits: UInt64 { 1 }

  /// A success changes nothing but a counter.
  @inlinable static var countsOnly: UInt64 { 2 }

  /// Calls have to be timed.
  @inlinable static var measures: UInt64 { 4 }

  /// A success is counted in a bucket of time, which has to be marked when it begins.
  @inlinable static var marks: UInt64 { 8 }

  /// Calls are rejected until an instant that is known.
  static let rejects: UInt64 = 16

  private static let forkShift: UInt64 = 5
  private static let forkMask: UInt64 = 0x3FFF
  private static let rowShift: UInt64 = 19
  private static let rowMask: UInt64 = 0xFFF
  private static let generationShift: UInt64 = 31

  /// Breakers of later generations are looked up at each call.
  static let latestGeneration: Int64 = 1 << 32

  /// Whether a word can tell this process from all that it was forked from; the others look each
  /// call up.
  static var knowsThisFork: Bool { ForkGuard.depth <= forkMask }

  @inlinable @inline(__always) init(bits: UInt64) { self.bits = bits }

  init(flags: UInt64, of breaker: StoredBreaker) {
    bits =
      flags | min(ForkGuard.depth, Self.forkMask) << Self.forkShift
      | Self.mark(of: breaker) << Self.rowShift
      | UInt64(bitPattern: breaker.record.generation) << Self.generationShift
  }

  /// A few bits that tell one row from another, and from the same row of another store; 0 for none.
  private static func mark(of breaker: StoredBreaker) -> UInt64 {
    if breaker.id == 0 { return 0 }
    let mixed =
      UInt64(bitPattern: breaker.lineage) &* 0x9E37_79B9_7F4A_7C15
      &+ UInt64(bitPattern: breaker.id)
    return mixed % rowMask + 1
  }

  @inlinable @inline(__always) func has(_ flag: UInt64) -> Bool { bits & flag != 0 }

  var generation: Int64 { Int64(bits >> Self.generationShift) }

  /// Whether it was made in this process, and not in one that it was forked from.
  var isOwn: Bool { bits >> Self.forkShift & Self.forkMask == ForkGuard.depth }

  /// Whether it is of this row of this store, or of no row, as far as its few bits tell.
  func mayBe(of breaker: StoredBreaker) -> Bool {
    let known = bits >> Self.rowShift & Self.rowMask
    let row = Self.mark(of: breaker)
    return known == 0 || row == 0 || known == row
  }
}

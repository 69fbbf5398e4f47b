internal import BreakerCore

/// The most that numbers in the memory of the slots can be.
///
/// Every user of the store may write that memory, so each number is read like one from outside. A greater one
/// was damaged: it counts for nothing, and no sum of such numbers overflows.
enum SlotBound {
  /// No process counts so far: at a billion a second it would take three days.
  static let count: UInt64 = 1 << 48

  /// The longest time that callers can have waited together: that of a thousand, for more than a century.
  static let nanoseconds: UInt64 = 1 << 62

  /// The number of an owner.
  static let owner: UInt64 = 1 << 62 - 1

  /// A number, or 0 if it is too great.
  static func number(_ word: UInt64, atMost most: UInt64) -> Int64 {
    word <= min(most, nanoseconds) ? Int64(word) : 0
  }

  /// How many units a call takes.
  static func units(_ word: UInt64) -> Int {
    max(1, min(Int(clamping: word), SlotFile.slotsOfBlock))
  }

  /// How long ago an instant was, which no process can have known before it was.
  static func age(since word: UInt64, at now: Int64) -> Int64 {
    max(0, now.subtractingSaturating(Int64(clamping: word)))
  }
}

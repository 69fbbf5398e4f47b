internal import BreakerCore

/// The record of a breaker, which copies share until one of them changes it.
///
/// A record has a dozen parts that count their references, and a transaction hands its breaker on as often. While
/// nothing changes, a copy is one reference, and the record is read where it is. It is no generic type: Swift creates
/// those at their first use, under a lock, for which the child of a fork could wait forever.
@safe struct SharedRecord: Sendable, Hashable {
  /// Unchecked because a record changes only while a single value refers to its box.
  @safe private final class Box: @unchecked Sendable {
    let record: UnsafeMutablePointer<BreakerRecord>

    init(_ record: BreakerRecord) {
      unsafe self.record = .allocate(capacity: 1)
      unsafe self.record.initialize(to: record)
    }

    deinit {
      unsafe record.deinitialize(count: 1)
      unsafe record.deallocate()
    }
  }

  private var box: Box

  init(_ record: BreakerRecord) { box = Box(record) }

  /// Where the record is read, while this value or a copy of it exists.
  var address: UnsafePointer<BreakerRecord> { unsafe UnsafePointer(box.record) }

  /// Where the record may be changed, which no other value sees.
  mutating func ownAddress() -> UnsafeMutablePointer<BreakerRecord> {
    if !isKnownUniquelyReferenced(&box) { box = unsafe Box(box.record.pointee) }
    return unsafe box.record
  }

  static func == (left: SharedRecord, right: SharedRecord) -> Bool {
    unsafe left.box === right.box || left.address.pointee == right.address.pointee
  }

  func hash(into hasher: inout Hasher) { unsafe hasher.combine(address.pointee) }
}

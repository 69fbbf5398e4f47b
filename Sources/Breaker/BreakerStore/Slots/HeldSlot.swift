internal import BreakerCore

/// The room of a call, in one word, which the call keeps until it ends.
@frozen @usableFromInline package struct HeldSlot: Sendable, Hashable {
  // From the lowest bit on: 1, the priority, 10 bits of the index, 20 of the block, 32 of the serial.
  @usableFromInline package let bits: UInt64

  private static let background: UInt64 = 2
  private static let indexShift: UInt64 = 2
  private static let blockShift: UInt64 = 12
  private static let serialShift: UInt64 = 32
  private static let indexMask = UInt64(SlotFile.slotsOfBlock - 1)

  /// The first slot of a call, and the number of times that it was taken.
  init(_ index: Int, _ priority: CallPriority, serial: UInt32, of block: UInt64) {
    bits =
      1 | Self.bits(of: priority) | UInt64(index) << Self.indexShift
      | block << Self.blockShift | UInt64(serial) << Self.serialShift
  }

  private static func bits(of priority: CallPriority) -> UInt64 {
    switch priority {
    case .ordinary: 0
    case .background: background
    }
  }

  /// The room that these bits name; nil if they name none.
  @inlinable package init?(bits: UInt64) {
    guard bits & 1 != 0 else { return nil }
    self.bits = bits
  }

  /// Whether the bits of two calls name slots of one breaker in this process.
  package static func isOfSameSlots(_ one: UInt64, _ other: UInt64) -> Bool {
    (one ^ other) >> blockShift & SlotNumber.mask == 0
  }

  var index: Int { Int(bits >> Self.indexShift & Self.indexMask) }
  var priority: CallPriority { bits & Self.background != 0 ? .background : .ordinary }
  var serial: UInt32 { UInt32(bits >> Self.serialShift) }

  /// The number of the slots that it was taken from.
  package var block: UInt64 { bits >> Self.blockShift & SlotNumber.mask }
}

/// The room of a call as a process can name it that was started inside of the call.
package struct InheritedSlot: Sendable, Hashable, LosslessStringConvertible {
  /// The file of the slots.
  let file: FileIdentity
  let breaker: Int64
  let owner: UInt64
  let index: Int
  let serial: UInt32

  init(in file: FileIdentity, breaker: Int64, owner: UInt64, index: Int, serial: UInt32) {
    self.file = file
    self.breaker = breaker
    self.owner = owner
    self.index = index
    self.serial = serial
  }

  package init?(_ description: String) {
    let parts = description.split(separator: ".", omittingEmptySubsequences: false)
    guard parts.count == 6, let device = UInt64(parts[0]), let inode = UInt64(parts[1]),
      let breaker = Int64(parts[2]), let owner = UInt64(parts[3]),
      let index = Int(parts[4]), (0..<SlotFile.slotsOfBlock).contains(index),
      let serial = UInt32(parts[5])
    else { return nil }
    let file = FileIdentity(device: device, inode: inode)
    self.init(in: file, breaker: breaker, owner: owner, index: index, serial: serial)
  }

  package var description: String {
    "\(file.device).\(file.inode).\(breaker).\(owner).\(index).\(serial)"
  }
}

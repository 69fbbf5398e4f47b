internal import CHost
internal import Glibc

/// The file of the calls that are under way on breakers with a limit, and of the callers that wait.
///
/// It begins with a table of the breakers and one of the owners. Each breaker has a block: a page with
/// the gate and the words of the places, then a line for each slot and one for each place. A file is
/// only good for the calls under way, so it is never taken over by another boot.
enum SlotFile {
  static let kind = SharedFile.Kind(
    // "SBSLOTS" and a zero.
    suffix: "-slots", magic: 0x5342_534C_4F54_5300, layout: 1, bytesOfHeader: 3 * largestPage)

  /// Each part that is mapped begins at a multiple of the largest page that a processor may have.
  private static let largestPage = 65_536

  /// The breakers with a limit that a store can have.
  static let blocks = 1_024
  static let offsetOfBlocks = 4_096

  /// The processes that can take part at once.
  static let owners = 2_048
  static let offsetOfOwners = 16_384
  static let offsetOfOwnerLines = largestPage

  /// A bell for each owner, at which a process waits for all callers that have no thread.
  static let offsetOfBells = 32_768

  static let slotsOfBlock = 1_024
  static let placesOfBlock = 1_024
  static let bytesOfLine = 64

  static let bytesOfBlock = 3 * largestPage
  static let offsetOfPlaces = 4_096

  /// Lines for the beacons of the processes that use the block, in the part that is mapped for as long as a
  /// process runs.
  static let offsetOfBeacons = 16_384
  static let beacons = 512
  static let bytesOfBeacons = largestPage
  static let offsetOfSlots = largestPage
  static let offsetOfWaiters = 2 * largestPage

  static func offset(ofBlock index: Int) -> Int { kind.bytesOfHeader + index * bytesOfBlock }
}

/// A part of the file in memory, for as long as anybody uses it.
///
/// Unchecked because several processes change the memory; whoever does uses atomic operations.
@safe final class SlotMapping: @unchecked Sendable {
  let address: UnsafeMutableRawPointer
  private let length: Int

  init?(_ file: SharedFile, _ offset: Int, _ length: Int) {
    guard file.reserve(offset, length), let address = unsafe file.map(offset, length) else {
      return nil
    }
    unsafe self.address = address
    self.length = length
  }

  /// A copy of a part as it is now, which is never more than looked at; nil if it cannot be read whole.
  init?(copying file: SharedFile, _ offset: Int, _ length: Int) {
    let address = unsafe mmap(
      nil, length, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0)
    guard unsafe address != MAP_FAILED, let address = unsafe address else { return nil }
    guard unsafe pread(file.descriptor, address, length, offset) == length else {
      unsafe munmap(address, length)
      return nil
    }
    unsafe self.address = address
    self.length = length
  }

  deinit { unsafe munmap(address, length) }

  /// Releases the file's disk space: from now on this is memory of this process alone.
  func beEmpty() { _ = unsafe sb_empty_mapping(address, length) }

  /// A word of the part, by its offset in bytes.
  @inline(__always) func word(_ offset: Int) -> UnsafeMutablePointer<UInt64> {
    unsafe (address + offset).assumingMemoryBound(to: UInt64.self)
  }
}

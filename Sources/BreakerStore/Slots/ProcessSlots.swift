/// The slots that the stores of this process share, if several of them are of the same file.
///
/// Each store enters the process under a number of its own, and ends its calls by itself. But a call
/// through one of them may be inside of a call through another one, and then needs no room of its own. So the
/// slots of a breaker have one number in all of them, and it is known which owners are this process.
enum ProcessSlots {
  private struct State {
    var files: [FileIdentity: File] = [:]

    /// The parts of files that have beacons of this process, by their addresses.
    var beacons: [BeaconPart: UInt] = [:]

    /// Lines that threads of this process keep lit for stores that were closed, by the address of their part.
    var beaconsPutAside: [UInt: [Int]] = [:]

    /// How many stores have entered the process under a number; a store uses the same one in every file.
    var owners: [UInt64: Int] = [:]
  }

  private struct File {
    /// How many stores use it: as long as one does, no other file can have its identity.
    var users = 0

    /// The numbers of the slots, by the breaker's row.
    var numbers: [Int64: UInt64] = [:]
  }

  private struct BeaconPart: Hashable {
    var file: FileIdentity
    var block: Int
  }

  private static let state = Guarded(State())

  private static let forkGuard = ForkGuard(
    of: state, before: { state.willFork() },
    after: { isChild in
      state.didFork { if isChild { ($0.owners, $0.beaconsPutAside) = ([:], [:]) } }
    })

  /// Begins to guard forks; a store does so later, so its locks are taken first (rule of order 1).
  static func prepare() { _ = forkGuard }

  /// A store begins to use a file.
  static func join(_ file: FileIdentity) {
    state.withLock { $0.files[file, default: File()].users += 1 }
  }

  /// A store no longer uses a file.
  static func leave(_ file: FileIdentity) {
    state.withLock { state in
      state.files[file]?.users -= 1
      if let users = state.files[file]?.users, users <= 0 { state.files[file] = nil }
    }
  }

  /// The number of a breaker's slots in a file that a store of this process uses.
  static func number(ofBreaker id: Int64, in file: FileIdentity) -> UInt64 {
    state.withLock { state in
      if let known = state.files[file]?.numbers[id] { return known }
      let number = SlotNumber.next()
      state.files[file]?.numbers[id] = number
      return number
    }
  }

  /// The most parts that have beacons, and the most files that they are of.
  ///
  /// A file that was deleted keeps its disk space for as long as the process has its beacons.
  private static let (mostParts, mostFiles) = (512, 16)

  /// The part of a block that has its beacons, which stays mapped for as long as the process runs, because
  /// any of its threads may keep one lit; nil if there are too many.
  static func beacons(ofBlock index: Int, in file: SharedFile) -> UnsafeMutableRawPointer? {
    unsafe state.withLock { state in
      let part = BeaconPart(file: file.identity, block: index)
      if let known = state.beacons[part] {
        return unsafe UnsafeMutableRawPointer(bitPattern: known)
      }
      let files = Set(state.beacons.keys.map(\.file)).union([file.identity])
      guard state.beacons.count < mostParts, files.count <= mostFiles else { return nil }
      let address = unsafe file.map(SlotFile.offset(ofBlock: index), SlotFile.bytesOfBeacons)
      state.beacons[part] = unsafe address.map { UInt(bitPattern: $0) }
      return unsafe address
    }
  }

  /// Keeps a line that is lit for the next store of this process that uses the part.
  static func putAside(beacon index: Int, in part: UnsafeMutableRawPointer) {
    let address = UInt(bitPattern: part)
    state.withLock { $0.beaconsPutAside[address, default: []].append(index) }
  }

  /// Such a line, which nobody else gets any more.
  static func beaconPutAside(in part: UnsafeMutableRawPointer) -> Int? {
    let address = UInt(bitPattern: part)
    return state.withLock { $0.beaconsPutAside[address]?.popLast() }
  }

  /// This process takes part as an owner from now on.
  static func add(_ owner: UInt64) { state.withLock { $0.owners[owner, default: 0] += 1 } }

  static func remove(_ owner: UInt64) {
    state.withLock { state in
      guard let count = state.owners[owner] else { return }
      state.owners[owner] = count > 1 ? count - 1 : nil
    }
  }

  /// Whether an owner is this process, and not the one that it was forked from.
  static func has(_ owner: UInt64) -> Bool { state.withLock { $0.owners[owner] != nil } }
}

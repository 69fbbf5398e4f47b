internal import Synchronization

/// The slots that the stores of this process share, if several of them are of the same file.
///
/// Each store enters the process under a number of its own, and ends its calls by itself. But a call
/// through one of them may be inside of a call through another one, and then needs no room of its own. So the
/// slots of a breaker have one number in all of them, and it is known which owners are this process.
enum ProcessSlots {
  private struct State {
    var files: [FileIdentity: File] = [:]

    /// How many stores have entered the process under a number; a store uses the same one in every file.
    var owners: [UInt64: Int] = [:]
  }

  private struct File {
    /// How many stores use it: as long as one does, no other file can have its identity.
    var users = 0

    /// The numbers of the slots, by the breaker's row.
    var numbers: [Int64: UInt64] = [:]
  }

  private static let state = Guarded(State())

  private static let forkGuard = ForkGuard(
    of: state, before: { state.willFork() },
    after: { isChild in
      state.didFork { if isChild { $0.owners = [:] } }
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

/// The numbers of slots in this process, and in those that are forked from it.
enum SlotNumber {
  static let mask: UInt64 = 0xF_FFFF
  private static let last = Atomic<UInt64>(0)

  static func next() -> UInt64 { last.add(1, ordering: .relaxed).newValue & mask }
}

internal import BreakerCore
internal import CHost
internal import Glibc

/// The lifelines of this process in one store: locks that end with the process, however it ends.
///
/// They are on bytes of the store's lock file, which is never replaced; if it is deleted, the next
/// lifeline is in the new one, and names it. No descriptor keeps a lifeline, so no other code of
/// the process can drop it, and no child inherits it. Before each lease, the process checks that
/// others can see its lifeline, and takes another one if they cannot.
final class Lifelines: Sendable {
  private let store: String
  private let held = Guarded<[Held]>([])

  init(of store: String) { self.store = store }

  deinit {
    held.withLock { held in
      for one in held where one.isOwn { unsafe sb_end_hold(one.hold) }
    }
  }

  /// The lifeline to name in a lease or claim that is about to be written; nil if none can be held.
  func own() -> Lifeline? {
    // Under the lock, because a child that is forked meanwhile would keep what is open here.
    held.withLock { held in
      guard let file = LockFile(of: store, mayCreate: true) else { return nil }
      // A child of a fork has not inherited what its parent holds.
      held.removeAll { !$0.isOwn }
      // One in a file that was deleted is kept: a lease may still name it.
      if let one = held.first(where: { file.holds($0.lifeline) }) { return one.lifeline }
      guard let new = take(in: file) else { return nil }
      held.append(new)
      return new.lifeline
    }
  }

  /// Whether a lifeline that was held in a store has certainly been released.
  static func isReleased(_ lifeline: Lifeline, of store: String) -> Bool {
    guard let file = LockFile(of: store, mayCreate: false), file.number == lifeline.file else {
      return false
    }
    return sb_is_free(file.descriptor, lifeline.byte) != 0
  }

  /// Tells which lifelines of a store are held, with one look at its lock file for all of them.
  static func heldOnes(of store: String) -> (Lifeline) -> Bool {
    let file = LockFile(of: store, mayCreate: false)
    return { file?.holds($0) ?? false }
  }

  /// Whether no process holds a byte of the lock file that a store has now.
  static func isReleased(byte: Int64, of store: String) -> Bool {
    guard let file = LockFile(of: store, mayCreate: false) else { return false }
    return sb_is_free(file.descriptor, byte) != 0
  }

  /// Whether the lock file of a store, if there is one, can hold lifelines.
  static func areKept(in store: String) -> Bool {
    LockFile(of: store, mayCreate: false) == nil || Lifelines(of: store).own() != nil
  }

  func willFork() { held.willFork() }
  func didFork() { held.didFork() }

  private func take(in file: LockFile) -> Held? {
    guard let other = LockFile(of: store, mayCreate: false), other.number == file.number else {
      return nil
    }
    // Low bytes are left to other uses of the file; the last byte of the range cannot be locked.
    let lifeline = Lifeline(byte: .random(in: 1 << 32..<1 << 62), file: file.number)
    var hold: UnsafeMutableRawPointer?
    guard unsafe sb_hold_for_life(other.descriptor, lifeline.byte, &hold) == 0,
      let hold = unsafe hold
    else { return nil }
    other.close()
    // Some file systems, such as overlayfs, end the lock with the descriptor.
    guard file.holds(lifeline) else {
      unsafe sb_end_hold(hold)
      return nil
    }
    return unsafe Held(lifeline: lifeline, hold: hold)
  }

  /// A lifeline that this process, or one that it was forked from, has taken.
  @safe private struct Held: @unchecked Sendable {
    let lifeline: Lifeline
    let hold: UnsafeMutableRawPointer
    private let pid = getpid()
    private let forkDepth = ForkGuard.depth

    init(lifeline: Lifeline, hold: UnsafeMutableRawPointer) {
      self.lifeline = lifeline
      unsafe self.hold = hold
    }

    var isOwn: Bool { pid == getpid() && forkDepth == ForkGuard.depth }
  }
}

/// The lock file of a store, open for a moment.
private final class LockFile {
  private(set) var descriptor: Int32
  let number: UInt64

  init?(of store: String, mayCreate: Bool) {
    guard let opened = StoreLock.file(of: store, mayCreate: mayCreate) else { return nil }
    (descriptor, number) = (opened.descriptor, opened.identity.inode)
  }

  deinit { close() }

  func close() {
    if descriptor >= 0 { Glibc.close(descriptor) }
    descriptor = -1
  }

  /// Whether another open file holds a lifeline in this one.
  func holds(_ lifeline: Lifeline) -> Bool {
    lifeline.file == number
      && sb_is_held(descriptor, lifeline.byte, lifeline.byte + 1) != 0
  }
}

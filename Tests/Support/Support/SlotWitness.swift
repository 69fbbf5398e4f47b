internal import Glibc
internal import Synchronization

/// Counts what several processes have under way, in a file that they map, apart from any breaker.
///
/// Each process counts for itself, so that a test can leave one out before it kills it.
@safe package final class SlotWitness: Sendable {
  package let path: String
  private nonisolated(unsafe) let words: UnsafeMutablePointer<Atomic<Int>>

  private static let most = 64
  private static let length = 4_096

  // Parts of the file: units under way and whether they count, and whether to stop, of each process.
  private static let units = 0
  private static let state = most
  private static let totals = 2 * most

  private static let isExcluded = 1
  private static let isOver = 2

  /// Creates the file of a witness, or shares the file that exists.
  package init(path: String) throws {
    self.path = path
    let descriptor = unsafe open(path, O_RDWR | O_CREAT | O_CLOEXEC, 0o666)
    guard descriptor >= 0 else { throw SupportError("open \(path)", errno) }
    defer { close(descriptor) }
    guard ftruncate(descriptor, Self.length) == 0 else { throw SupportError("ftruncate", errno) }
    let flags = PROT_READ | PROT_WRITE
    guard let mapping = unsafe mmap(nil, Self.length, flags, MAP_SHARED, descriptor, 0),
      unsafe mapping != MAP_FAILED
    else { throw SupportError("mmap", errno) }
    unsafe words = mapping.bindMemory(to: Atomic<Int>.self, capacity: Self.length / 8)
  }

  deinit { unsafe munmap(words, Self.length) }

  /// Notes that a process has begun a call, and whether there are more under way than allowed.
  package func enter(_ units: Int, of process: Int, allowed: Int) {
    unsafe words[Self.units + process].add(units, ordering: .sequentiallyConsistent)
    var total = 0
    for index in 0..<Self.most {
      let state = unsafe words[Self.state + index].load(ordering: .sequentiallyConsistent)
      guard state & Self.isExcluded == 0 else { continue }
      total += unsafe words[Self.units + index].load(ordering: .sequentiallyConsistent)
    }
    unsafe words[Self.totals].add(1, ordering: .sequentiallyConsistent)
    if total > allowed { unsafe words[Self.totals + 1].add(1, ordering: .sequentiallyConsistent) }
  }

  package func leave(_ units: Int, of process: Int) {
    unsafe words[Self.units + process].subtract(units, ordering: .sequentiallyConsistent)
  }

  /// Leaves a process out, which is about to be killed.
  package func exclude(_ process: Int) {
    unsafe words[Self.state + process].store(Self.isExcluded, ordering: .sequentiallyConsistent)
  }

  /// Counts a process from the beginning.
  package func include(_ process: Int) {
    unsafe words[Self.units + process].store(0, ordering: .sequentiallyConsistent)
    unsafe words[Self.state + process].store(0, ordering: .sequentiallyConsistent)
  }

  /// Tells a process to stop.
  package func stop(_ process: Int) {
    unsafe words[Self.state + process].store(Self.isOver, ordering: .sequentiallyConsistent)
  }

  package func isOver(_ process: Int) -> Bool {
    unsafe words[Self.state + process].load(ordering: .sequentiallyConsistent) == Self.isOver
  }

  package var begun: Int { unsafe words[Self.totals].load(ordering: .sequentiallyConsistent) }

  /// How often there were more under way than allowed.
  package var violations: Int {
    unsafe words[Self.totals + 1].load(ordering: .sequentiallyConsistent)
  }
}

import Glibc
import Synchronization

/// A page of counters that several processes share.
@safe final class SharedPage: Sendable {
  private nonisolated(unsafe) let words: UnsafeMutablePointer<Atomic<Int>>
  private static let size = 4_096

  init(_ path: String) throws {
    let descriptor = unsafe open(path, O_RDWR | O_CREAT | O_CLOEXEC, 0o600)
    guard descriptor >= 0, ftruncate(descriptor, Self.size) == 0,
      let mapped = unsafe mmap(nil, Self.size, PROT_READ | PROT_WRITE, MAP_SHARED, descriptor, 0),
      unsafe mapped != MAP_FAILED
    else { throw BenchError("cannot map \(path)") }
    close(descriptor)
    unsafe words = mapped.bindMemory(to: Atomic<Int>.self, capacity: Self.size / 8)
  }

  deinit { unsafe munmap(words, Self.size) }

  /// Each word has a cache line of its own.
  subscript(index: Int) -> Int {
    get { unsafe words[index * 8].load(ordering: .sequentiallyConsistent) }
    set { unsafe words[index * 8].store(newValue, ordering: .sequentiallyConsistent) }
  }

  /// Waits until a word has reached a value, and returns it.
  func wait(for index: Int, toReach value: Int) throws -> Int {
    var looks = 0
    while true {
      let now = self[index]
      if now >= value { return now }
      looks += 1
      if looks % 64 == 0 { sched_yield() }
      // No process is that slow: the other one has ended.
      if looks > 1 << 28 { throw BenchError("another process does not go on") }
    }
  }
}

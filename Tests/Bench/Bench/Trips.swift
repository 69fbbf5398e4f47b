import Glibc
import SharedBreaker
import Synchronization
import TestSupport

/// One process trips and resets a breaker; others ask right after each call has returned.
enum Checker {
  /// The answers that contradict a call that had already returned.
  struct Lies {
    /// Calls permitted after a trip.
    var permitted = 0.0

    /// Calls rejected after a reset.
    var rejected = 0.0
  }

  private static func breaker(in room: Room) throws -> Breaker {
    try room.openStore().breaker("tripping", onStoreFailure: .throw)
  }

  /// The word of the page that counts the trips and resets that have returned.
  private static let turn = 0

  static func run(in room: Room, index: Int, trips: Int) throws {
    let breaker = try breaker(in: room)
    let page = try SharedPage(room.file("trips.page"))
    _ = try Parent.awaitStart()
    var lies = Lies()
    for turn in 1...2 * trips {
      _ = try page.wait(for: Self.turn, toReach: turn)
      switch try breaker.decide() {
      case .permitted(let permit):
        permit.succeed()
        if turn % 2 == 1 { lies.permitted += 1 }
      case .rejected: if turn % 2 == 0 { lies.rejected += 1 }
      }
      page[1 + index] = turn
    }
    Parent.report([lies.permitted, lies.rejected])
  }

  static func watch(_ trips: Int, checkers: Int, in room: Room) throws -> Lies {
    let breaker = try breaker(in: room)
    let page = try SharedPage(room.file("trips.page"))
    let children = try (0..<checkers).map {
      try Children.start(.checks, [room.path, "\($0)", "\(trips)"])
    }
    try Children.begin(children)
    for turn in 1...2 * trips {
      if turn % 2 == 1 { try breaker.trip() } else { try breaker.reset() }
      page[Self.turn] = turn
      for index in 0..<checkers { _ = try page.wait(for: 1 + index, toReach: turn) }
    }
    return try children.map { try Children.numbers($0) }.reduce(into: Lies()) { lies, numbers in
      lies.permitted += numbers.first ?? .nan
      lies.rejected += numbers.last ?? .nan
    }
  }
}

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

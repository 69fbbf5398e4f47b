import BreakerStore
import Glibc
import SharedBreaker
import Synchronization
import TestShim
import TestSupport

extension Worker {
  /// `fork COMMAND`: forks a child that runs a command, and returns the child's answer.
  func fork(_ words: [String]) throws -> String {
    var ends: [Int32] = [-1, -1]
    let code = unsafe ts_pipe(&ends)
    guard code == 0 else { throw SupportError("pipe", code) }
    let child = ts_fork()
    if child == 0 {
      ts_limit(600)
      Wire.shared.write(answer(to: words.joined(separator: " ")), to: ends[1])
      _exit(0)
    }
    close(ends[1])
    defer { close(ends[0]) }
    var answer: [UInt8] = []
    while true {
      let chunk = unsafe [UInt8](unsafeUninitializedCapacity: 4_096) { buffer, count in
        count = max(0, unsafe read(ends[0], buffer.baseAddress, buffer.count))
      }
      if chunk.isEmpty { break }
      answer += chunk
    }
    let status = Self.wait(for: child)
    return status == 0
      ? String(decoding: answer, as: UTF8.self) : "error child ended with \(status)"
  }

  /// `run-forked DEPTH`: makes a call in which it forks, as does each child until there are so many
  /// generations; the call then ends in the first process and in the last one.
  func runForked(_ depth: Int) -> String {
    var isLast = false
    let answer = (try? breaker.run { isLast = Self.forkDown(depth) }) == nil ? "error" : "ok"
    if isLast { _exit(0) }
    return answer
  }

  /// Returns in the first process, with false, and in the last one, with true.
  private static func forkDown(_ depth: Int) -> Bool {
    for generation in 1...depth {
      let child = ts_fork()
      if child == 0 {
        ts_limit(60)
        continue
      }
      let status = wait(for: child)
      if generation == 1 { return false }
      _exit(status)
    }
    return true
  }

  /// `fork-idle`: forks a child that does nothing, and returns its number; the test has to end it.
  func forkIdleChild() -> String {
    let child = ts_fork()
    if child == 0 {
      // A limit in case the test does not: a reader of the tests' output waits for every process
      // that has the pipe open.
      ts_limit(60)
      while true { pause() }
    }
    return "\(child)"
  }

  /// `fork-hammer THREADS FORKS`: forks while threads keep failing, and each child fails once.
  func forkWhileHammering(_ words: [String]) throws -> String {
    let hammering = Hammering(breaker)
    let threads = Threads()
    for _ in 0..<(Int(words[0]) ?? 0) { threads.start { hammering.run() } }
    // By then Swift has created every type that the threads need. A child could wait forever for
    // one that another thread was creating at the fork.
    while hammering.failures.load(ordering: .relaxed) < 200 { sched_yield() }
    var children: [Int32] = []
    for _ in 0..<(Int(words[1]) ?? 0) {
      let child = ts_fork()
      if child == 0 {
        ts_limit(600)
        let answer = answer(to: "run fail")
        _exit(answer == "failed" && store.health == .connected ? 0 : 1)
      }
      children.append(Self.wait(for: child))
    }
    hammering.isOver.store(true, ordering: .relaxed)
    threads.join()
    return "children \(children.count { $0 == 0 }) failures"
      + " \(hammering.failures.load(ordering: .relaxed))"
  }

  /// `fork-churn THREADS FORKS`: forks while threads create, use and release stores.
  func forkWhileChurning(_ words: [String]) throws -> String {
    let isOver = Flag()
    let path = store.path
    let threads = Threads()
    for _ in 0..<(Int(words[0]) ?? 0) {
      threads.start {
        while !isOver.value {
          let store = SharedStore(path: path)
          try? store.breaker("other").run {}
        }
      }
    }
    var ended = 0
    for _ in 0..<(Int(words[1]) ?? 0) {
      let child = ts_fork()
      if child == 0 { _exit(0) }
      if Self.wait(for: child) == 0 { ended += 1 }
    }
    isOver.set()
    threads.join()
    return "children \(ended)"
  }

  /// `fork-alone THREADS FORKS`: forks while threads create, use and release stores that cannot be opened; each child
  /// goes on alone with a breaker of its parent.
  func forkWhileAlone(_ words: [String]) throws -> String {
    let isOver = Flag()
    let threads = Threads()
    @Sendable func alone() throws -> Breaker {
      let options = StoreOptions(observer: { _ in })
      return try SharedStore(path: "/proc/self/none/breakers.db", options: options).breaker("other")
    }
    let breaker = try alone()
    for _ in 0..<9 { try breaker.run {} }
    for _ in 0..<(Int(words[0]) ?? 0) {
      threads.start { while !isOver.value { try? alone().run {} } }
    }
    var ended = 0
    for _ in 0..<(Int(words[1]) ?? 0) {
      let child = ts_fork()
      if child == 0 {
        ts_limit(600)
        let isDone = (try? breaker.run {}) != nil
        _exit(isDone ? 0 : 1)
      }
      if Self.wait(for: child) == 0 { ended += 1 }
    }
    isOver.set()
    threads.join()
    return "children \(ended)"
  }

  /// `fork-examining FORKS`: forks while a thread examines the store; each child counts the files
  /// of the store that it has open.
  func forkWhileExamining(_ words: [String]) throws -> String {
    let isOver = Flag()
    let store = store
    // A child can wait forever for a generic type that another thread was creating at the fork.
    _ = Files.openDescriptors(of: store.path)
    let threads = Threads()
    threads.start { while !isOver.value { _ = try? store.examine() } }
    var without = 0
    for _ in 0..<(Int(words[0]) ?? 0) {
      let child = ts_fork()
      if child == 0 {
        ts_limit(600)
        _exit(Files.openDescriptors(of: store.path) == 0 ? 0 : 1)
      }
      if Self.wait(for: child) == 0 { without += 1 }
    }
    isOver.set()
    threads.join()
    return "children \(without)"
  }

  static func wait(for child: Int32) -> Int32 {
    var status: Int32 = 0
    while unsafe waitpid(child, &status, 0) < 0, errno == EINTR {}
    return status
  }
}

private final class Flag: Sendable {
  private let isSet = Atomic(false)

  var value: Bool { isSet.load(ordering: .relaxed) }

  func set() { isSet.store(true, ordering: .relaxed) }
}

/// Threads that fail as fast as they can.
private final class Hammering: Sendable {
  let breaker: Breaker
  let isOver = Atomic(false)
  let failures = Atomic(0)

  init(_ breaker: Breaker) { self.breaker = breaker }

  func run() {
    while !isOver.load(ordering: .relaxed) {
      guard let permit = try? breaker.acquire(), permit.fail() == .counted else { continue }
      failures.add(1, ordering: .relaxed)
    }
  }
}

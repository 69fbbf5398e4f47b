import BreakerStore
import Dispatch
import Glibc
import SharedBreaker
import TestSupport

/// Entries of the history that a task has received, for a thread that waits for them.
final class Hearing: @unchecked Sendable {
  private let lock = Lock()
  private var heard: [String] = []
  private let count = DispatchSemaphore(value: 0)
  var task: Task<Void, Never>?

  func add(_ text: String) {
    lock.withLock { heard.append(text) }
    count.signal()
  }

  /// The entries that have not been taken yet.
  var text: String { lock.withLock { heard.joined(separator: " ") } }

  /// Waits for a number of further entries.
  func take(_ count: Int) -> String {
    for _ in 0..<count { self.count.wait() }
    return lock.withLock {
      defer { heard.removeFirst(count) }
      return heard.prefix(count).joined(separator: " ")
    }
  }
}

extension HistoryEntry {
  /// The number of the entry, with a mark if entries before it are missing.
  var mark: String { (isAfterGap ? "!" : "") + String(id) }
}

extension Worker {
  /// `listen [AFTER [NAME]]`: follows the history from now on, or after an entry.
  func listen(_ words: [String]) -> String {
    let feed = store.followHistory(
      of: words.dropFirst().first, after: words.first.flatMap { Int64($0) })
    let hearing = Hearing()
    hearing.task = Task.detached {
      for await entry in feed { hearing.add(entry.mark) }
    }
    self.hearing = hearing
    return "ok"
  }

  /// `handle HOOK FILE [failing|endless|until GO]`: runs a hook that adds the number of each entry
  /// to a file; with `until`, it waits for the file GO first.
  func handle(_ words: [String]) -> String {
    let store = store
    let hearing = Hearing()
    let isEndless = words.contains("endless")
    let isFailing = words.contains("failing")
    let go = words.firstIndex(of: "until").map { words[$0 + 1] }
    hearing.task = Task.detached {
      await store.handleHistory(as: words[0], attempts: 3) { entry in
        hearing.add(entry.mark)
        if isFailing { throw SupportError("the hook fails") }
        if isEndless { try await Task.sleep(for: .seconds(1_000)) }
        while let go, !Files.exists(go) { try await Task.sleep(for: .milliseconds(10)) }
        try note("\(entry.id)", in: words[1])
      }
    }
    self.hearing = hearing
    return "ok"
  }

  /// `hear N`: waits for the next N entries, and returns their numbers.
  func hear(_ words: [String]) throws -> String {
    guard let hearing else { throw SupportError("nobody listens") }
    return hearing.take(Int(words[0]) ?? 0)
  }

  /// `heard`: returns the numbers of the entries that `hear` could return now, without waiting.
  func heardSoFar() -> String { hearing?.text ?? "" }

  /// `silence`: stops listening.
  func silence() -> String {
    let task = hearing?.task
    task?.cancel()
    let isOver = DispatchSemaphore(value: 0)
    Task.detached {
      await task?.value
      isOver.signal()
    }
    isOver.wait()
    hearing = nil
    return "ok"
  }

  /// `trips N NAME`: opens a breaker and closes it again N times.
  func trips(_ words: [String]) throws -> String {
    let breaker = try store.breaker(words[1])
    for _ in 0..<(Int(words[0]) ?? 0) {
      try breaker.trip()
      try breaker.reset()
    }
    return "ok"
  }
}

/// Appends a line to a file in one write.
private func note(_ line: String, in path: String) throws {
  let descriptor = unsafe open(path, O_WRONLY | O_APPEND | O_CREAT | O_CLOEXEC, 0o644)
  guard descriptor >= 0 else { throw SupportError("open", errno) }
  defer { close(descriptor) }
  let bytes = Array((line + "\n").utf8)
  guard unsafe write(descriptor, bytes, bytes.count) == bytes.count else {
    throw SupportError("write", errno)
  }
}

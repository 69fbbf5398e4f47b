import BreakerCore
import BreakerStore
import Glibc
import SharedBreaker
import Synchronization
import TestSupport

/// Writes the journal of a process: one line, in one write, before and after each action.
final class Scribe: Sendable {
  private let descriptor: Atomic<Int32>
  private let clock: StoreClock
  private let next = Atomic(1)

  /// Begins a journal; `clock` is the clock of the store.
  init(path: String, clock: StoreClock) throws {
    descriptor = Atomic(try Self.open(path))
    self.clock = clock
  }

  deinit { close(descriptor.load(ordering: .relaxed)) }

  private static func open(_ path: String) throws -> Int32 {
    let descriptor = unsafe Glibc.open(path, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0o600)
    guard descriptor >= 0 else { throw SupportError("open \(path)", errno) }
    return descriptor
  }

  /// Begins another journal, as the child of a fork does.
  func begin(_ path: String) throws {
    close(descriptor.exchange(try Self.open(path), ordering: .relaxed))
  }

  /// The time that orders the actions of all processes.
  static func now() -> Int64 { StoreClock.system.instant.nanoseconds }

  private var times: String {
    let now = Self.now()
    return "\(now) \(clock.isSystem ? now : clock.instant.nanoseconds)"
  }

  /// Records what is about to be done, and returns its number.
  func began(_ action: Call.Action, _ breaker: String, _ detail: String = "-") -> Int {
    let id = next.add(1, ordering: .relaxed).newValue
    write("b \(id) \(times) \(action.rawValue) \(breaker) \(detail)")
    return id
  }

  /// Records the result of an action, and whether the store has surely recorded it.
  func ended(_ id: Int, isByStore: Bool = true, _ answer: String) {
    write("e \(id) \(times) \(isByStore ? "s" : "m") \(answer)")
  }

  /// Records which process carries out an action.
  func started(_ id: Int, pid: Int32) { write("p \(id) \(pid)") }

  /// Records a change of state that this process has made.
  func noticed(_ breaker: String, from: String, to: String) {
    write("t \(Self.now()) \(breaker) \(from) \(to)")
  }

  /// Records a remark for people.
  func remarked(_ words: String) { write("\(times) \(words)") }

  private func write(_ line: String) {
    let bytes = Array((line + "\n").utf8)
    let written = unsafe Glibc.write(
      descriptor.load(ordering: .relaxed), bytes, bytes.count)
    precondition(written == bytes.count, "a journal could not be written")
  }
}

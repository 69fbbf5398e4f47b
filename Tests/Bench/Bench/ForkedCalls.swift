import Glibc
import SharedBreaker
import TestShim
import TestSupport

/// The cost of the first call of forked children, beside opening the same file by hand.
enum ForkedCalls {
  /// The cost of opening the file and of one SELECT, and that of a first call.
  struct Costs {
    var raw: Double
    var own: Double
  }

  /// The parent of the children: forks them in turn, and reports the medians in microseconds.
  static func run(in room: Room, count: Int) throws {
    let breaker = try room.openStore().breaker(
      "forked", policy: BreakerPolicy(maxFailures: 5), onStoreFailure: .throw)
    try breaker.run {}
    _ = try Parent.awaitStart()
    var (raw, own): ([Double], [Double]) = ([], [])
    for _ in 0..<count {
      raw.append(try inChild { try RawStore.readOnce(room.store) })
      own.append(try inChild { try breaker.run {} })
    }
    Parent.report([median(raw), median(own)])
    Parent.awaitEnd()
  }

  /// Runs a body in a forked child, and returns the microseconds that it took.
  private static func inChild(_ body: () throws -> Void) throws -> Double {
    var ends: [Int32] = [0, 0]
    guard unsafe ts_pipe(&ends) == 0 else { throw BenchError("no pipe") }
    defer { ends.forEach { close($0) } }
    let child = ts_fork()
    guard child >= 0 else { throw BenchError("no fork") }
    if child == 0 {
      let start = seconds()
      do { try SystemCalls.marked(body) } catch { complain("a forked child: \(error)") }
      var took = (seconds() - start) * 1e6
      unsafe write(ends[1], &took, MemoryLayout<Double>.size)
      _exit(0)
    }
    var took = Double.nan
    unsafe read(ends[0], &took, MemoryLayout<Double>.size)
    waitpid(child, nil, 0)
    return took
  }

  static func measure(_ count: Int, in room: Room) throws -> Costs {
    let numbers = try finished(try Children.start(.forks, [room.path, "\(count)"]))
    return Costs(raw: numbers[0], own: numbers[1])
  }

  /// The number of system calls.
  static func systemCalls(in room: Room) throws -> Costs {
    let trace = room.file("trace")
    _ = try finished(try SystemCalls.start(.forks, [room.path, "1"], trace: trace))
    let stretches = try SystemCalls.stretches(inFile: trace)
    guard stretches.count == 2 else { throw BenchError("a trace is incomplete") }
    return Costs(raw: Double(stretches[0].count), own: Double(stretches[1].count))
  }

  private static func finished(_ child: Child) throws -> [Double] {
    try Children.begin([child])
    let numbers = try Children.numbers(child)
    child.kill()
    guard numbers.count == 2 else { throw BenchError("a child failed") }
    return numbers
  }
}

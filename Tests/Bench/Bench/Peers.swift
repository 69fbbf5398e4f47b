import TestSupport

/// Other libraries' breakers, in a Python process that reads commands from standard input.
final class Peers {
  enum Operation: String {
    case closed, rejected, failure
  }

  /// The names of the breakers that the process has.
  let names: [String]
  private let child: Child

  init(python: String, script: String, socket: String) throws {
    child = try Child(
      python, [script, socket], patienceMilliseconds: Children.patienceMilliseconds)
    guard let line = try child.line(), line.hasPrefix("peers ") else {
      throw BenchError("the peers do not start")
    }
    names = line.split(separator: " ").dropFirst().map(String.init)
  }

  /// The nanoseconds of a call, in the best of ten short repetitions.
  func nanoseconds(_ name: String, _ operation: Operation) throws -> Double {
    try ask("time \(name) \(operation.rawValue)", 1)[0]
  }

  /// Lets several processes fail at the same time.
  func write(_ name: String, processes: Int, for duration: Double) throws -> Writer.Result {
    let numbers = try ask("together \(name) \(processes) \(duration)", 3)
    return Writer.Result(
      rate: numbers[0], fewest: numbers[1], longestMilliseconds: numbers[2])
  }

  private func ask(_ order: String, _ count: Int) throws -> [Double] {
    try child.send(order)
    guard let line = try child.line() else { throw BenchError("the peers have ended") }
    let numbers = line.split(separator: " ").compactMap { Double($0) }
    guard numbers.count == count else { throw BenchError("left out: \(line)") }
    return numbers
  }
}

extension Benchmark {
  func peerFigures(_ topic: String, _ operation: Peers.Operation) -> [Figure] {
    guard let peers else { return [] }
    return peers.names.map { name in
      let subject = Subject(
        topic: topic, name: "peer: \(name)", unit: "ns", samples: "best of 10")
      return Figure(subject: subject) { try peers.nanoseconds(name, operation) }
    }
  }

  func peerWriterFigures(_ topic: String, _ processes: Int) -> [Figure] {
    guard let peers else { return [] }
    return peers.names.filter { $0.hasSuffix("redis") }.flatMap { name in
      writerFigures(
        topic, "peer: \(name), \(processes) processes",
        Latest { try peers.write(name, processes: processes, for: scale.seconds) })
    }
  }
}

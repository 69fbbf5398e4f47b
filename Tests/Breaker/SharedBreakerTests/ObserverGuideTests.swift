import SharedBreaker
import TestSupport
import Testing

/// The examples of the guide "Seeing What Happens" for swift-log and swift-metrics, exactly as the guide
/// prints them.
///
/// Neither package is a dependency, so stand-ins with the same names take down what they are told.
@Suite(.serialized) struct ObserverGuideTests {
  private static func lines(of text: String) -> [String] {
    text.split(separator: "\n").map { String($0.drop { $0 == " " }) }
      .filter { !$0.isEmpty && !$0.hasPrefix("import ") }
  }

  @Test func `every example with a logger or a counter is in this file`() throws {
    let root = #filePath.split(separator: "/").dropLast(4).joined(separator: "/")
    func text(_ path: String) throws -> String {
      String(decoding: try Files.read(path), as: UTF8.self)
    }
    let guide = try text(
      "/\(root)/Sources/Breaker/SharedBreaker/SharedBreaker.docc/SeeingWhatHappens.md")
    let tests = Self.lines(of: try text(#filePath)).joined(separator: "\n")
    let examples = guide.split(separator: "```swift\n").dropFirst().compactMap {
      $0.split(separator: "```").first.map { String($0) }
    }.filter { $0.contains("Logger(") || $0.contains("Counter(") || $0.contains("Gauge(") }
    #expect(examples.count == 3)
    for example in examples {
      #expect(tests.contains(Self.lines(of: example).joined(separator: "\n")), "\(example)")
    }
  }

  private let stage: Stage

  init() throws { stage = try Stage() }

  /// A store that trips a breaker and rejects a call.
  private func goThroughAnOutage(_ options: StoreOptions) throws -> SharedStore {
    var options = options
    options.clock = stage.clock.clock
    let store = SharedStore(path: stage.store, options: options)
    let breaker = try store.breaker("api", policy: BreakerPolicy(maxFailures: 1))
    #expect(throws: Refused.self) { try breaker.run { throw Refused() } }
    #expect(throws: BreakerError.self) { try breaker.run {} }
    return store
  }

  private struct Refused: Error {}

  @Test func `a logger gets a line for each change, and none for a rejection`() throws {
    let log = Logger(label: "shop.breakers")
    let options = StoreOptions { event in
      switch event {
      case .rejected: break  // As many as there are calls: count them instead.
      case .unavailable, .notDurable: log.error("\(event)")
      case .transition, .transitionAlone, .available: log.warning("\(event)")
      default: log.info("\(event)")
      }
    }
    _ = try goThroughAnOutage(options)
    #expect(log.lines.count == 1)
    #expect(log.lines.first?.hasPrefix("warning api: closed -> open") == true, "\(log.lines)")
  }

  @Test func `counters and gauges get what the observer and a snapshot tell`() throws {
    let rejections = Counter(label: "breaker_rejections")
    let trips = Counter(label: "breaker_trips")
    let isLost = Gauge(label: "breaker_store_lost")
    let options = StoreOptions { event in
      switch event {
      case .rejected: rejections.increment()
      case .transition(_, _, .open, _), .transitionAlone(_, _, .open, _): trips.increment()
      case .unavailable: isLost.record(1)
      case .available: isLost.record(0)
      default: break
      }
    }
    let store = try goThroughAnOutage(options)
    #expect(Recorded.values["breaker_rejections"] == 1)
    #expect(Recorded.values["breaker_trips"] == 1)
    for breaker in try store.snapshots() {
      let name = [("name", breaker.name)]
      Gauge(label: "breaker_open", dimensions: name).record(breaker.state == .open ? 1 : 0)
      Gauge(label: "breaker_failures", dimensions: name).record(breaker.totals.failures)
      Gauge(label: "breaker_rejections", dimensions: name).record(breaker.totals.rejections)
    }
    #expect(Recorded.values["breaker_open name=api"] == 1)
    #expect(Recorded.values["breaker_failures name=api"] == 1)
    #expect(Recorded.values["breaker_rejections name=api"] == 1)
  }
}

private final class Logger: Sendable {
  private let taken = Guarded<[String]>([])
  var lines: [String] { taken.withLock { $0 } }

  init(label: String) {}

  func error(_ line: String) { taken.withLock { $0.append("error \(line)") } }
  func warning(_ line: String) { taken.withLock { $0.append("warning \(line)") } }
  func info(_ line: String) { taken.withLock { $0.append("info \(line)") } }
}

private enum Recorded {
  private static let taken = Guarded<[String: Double]>([:])
  static var values: [String: Double] { taken.withLock { $0 } }

  static func take(_ label: String, _ change: (inout Double) -> Void) {
    taken.withLock { change(&$0[label, default: 0]) }
  }
}

private struct Counter {
  let label: String
  func increment() { Recorded.take(label) { $0 += 1 } }
}

private struct Gauge {
  private let label: String

  init(label: String, dimensions: [(String, String)] = []) {
    self.label = ([label] + dimensions.map { "\($0)=\($1)" }).joined(separator: " ")
  }

  func record(_ value: some BinaryInteger) { Recorded.take(label) { $0 = Double(value) } }
}
